package format

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/parquet-go/parquet-go"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/footer"
	"parsimon/schema/names"
	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// A column is a meaning, with the headers that it may have.
type column struct {
	names    []string // headers of this meaning, normalized; the first is the documented one
	required bool
	// several allows a table to have several of the headers. The first of names then applies. Otherwise a
	// second one is a fault, because either could be intended.
	several bool
}

// A table has its rows as text, from CSV or Parquet. An empty cell means null.
type table struct {
	*draft
	file    string
	headers []string // normalized: lower case, with _ between words
	column  map[string]int
	rows    [][]string
	bytes   int      // of the rows of a Parquet file, which can have many in little space
	line    []int    // by row: the line of a text file, the row of a Parquet file
	fileOf  []string // by row, of a table of several files; nil: file
	used    map[string]bool
}

func tabular(file string) bool {
	return slices.Contains([]string{".csv", ".tsv", ".parquet"}, extension(file))
}

// openTable reads a table and checks that it has the required columns, and that no meaning has two columns.
// Rows with faults are reported and omitted. It returns nil if there is no such table.
func openTable(d *draft, file string, columns ...*column) *table {
	parse := map[string]func(*draft, string, []byte) *table{".csv": parseCSV, ".tsv": parseCSV,
		".parquet": parseParquet, ".json": parseRows}[extension(file)]
	if parse == nil {
		d.syntax(file, 0, "want .csv, .tsv, .json or .parquet")
		return nil
	}
	t := parse(d, file, d.content(file))
	if t == nil {
		return nil
	}
	complete := true
	for _, c := range columns {
		found := slices.DeleteFunc(
			slices.Clone(c.names),
			func(name string) bool { _, has := t.column[name]; return !has },
		)
		switch {
		case len(found) == 0 && c.required:
			d.syntax(file, 1, "has no column %s", columnList(c.names))
			complete = false
		case len(found) > 1 && !c.several:
			d.syntax(file, 1, "columns %s mean the same: keep one of them",
				strings.Join(found, " and "))
		}
	}
	if !complete {
		return nil
	}
	return t
}

// normalize gives "Device A", "device-a" and "device_a" the same spelling, and turns "Length (m)" into
// length_m.
func normalize(header string) string {
	header = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(header, "\ufeff")))
	return strings.NewReplacer(" ", "_", "-", "_", ".", "_", "(", "", ")", "").Replace(header)
}

// newTable names the columns. Two columns with the same name are a fault, because a value could come from
// either.
func newTable(d *draft, file string, header []string) *table {
	t := &table{draft: d, file: file, column: map[string]int{}, used: map[string]bool{}}
	for i, name := range header {
		name = normalize(name)
		t.headers = append(t.headers, name)
		if _, twice := t.column[name]; twice && name != "" {
			d.syntax(file, 1, "two columns are named %q", name)
		}
		t.column[name] = i
	}
	return t
}

// add appends a row, unless all of its cells are empty.
func (t *table) add(row []string, line int) {
	if slices.ContainsFunc(row, func(cell string) bool { return strings.TrimSpace(cell) != "" }) {
		t.rows = append(t.rows, row)
		t.line = append(t.line, line)
	}
}

// separator returns the character that separates the columns of a header line: comma, semicolon or tab.
func separator(data []byte) rune {
	var header []byte
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		header = line
		if len(bytes.TrimSpace(line)) > 0 && line[0] != '#' {
			break
		}
	}
	best := ','
	most := 0
	for _, r := range ",;\t" {
		n := bytes.Count(header, []byte(string(r)))
		if n > most {
			best = r
			most = n
		}
	}
	return best
}

// parseCSV reads a list in the forms that spreadsheets write. It accepts a byte order mark and any of three
// separators. Lines that begin with # are comments, but count as lines. Empty cells at the end of a row may
// be missing or surplus. Surplus content is a fault, because the cells of the row may have been shifted.
func parseCSV(d *draft, file string, data []byte) *table {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	d.count(
		bytes.Count(append([]byte("\n"), data...), []byte("\n#")),
		"line",
		"comments: %s that begin with #",
	)
	r := csv.NewReader(bytes.NewReader(data))
	r.Comma = separator(data)
	r.TrimLeadingSpace = r.Comma != '\t'
	r.Comment = '#'
	r.FieldsPerRecord = -1
	var t *table
	for {
		row, err := r.Read()
		var bad *csv.ParseError
		switch {
		case t == nil && errors.Is(err, io.EOF):
			d.syntax(file, 1, "is empty, want a header line")
			return nil
		case errors.Is(err, io.EOF):
			return t
		case errors.As(err, &bad):
			d.syntax(file, bad.Line, "%v (column %d)", bad.Err, bad.Column)
			if t == nil {
				return nil
			}
			continue
		case t == nil:
			t = newTable(d, file, row)
			continue
		}
		line, _ := r.FieldPos(0)
		n := len(t.headers)
		if len(row) != n {
			// Spreadsheets write or omit empty cells at the end of a row.
			extra := slices.ContainsFunc(
				row[min(len(row), n):],
				func(cell string) bool { return strings.TrimSpace(cell) != "" },
			)
			if extra || len(row) < 2 && n > 1 {
				d.syntax(file, line, "has %d columns, the header has %d", len(row), n)
				continue
			}
			row = append(row, make([]string, max(0, n-len(row)))...)[:n]
		}
		t.add(row, line)
	}
}

// parseRows reads a list of JSON objects as rows. The columns are the keys of all objects, in order of their
// first occurrence.
func parseRows(d *draft, file string, data []byte) *table {
	top := d.document(file, func(file string, _ []byte) (tree.Field, error) { return tree.JSON(file, data) })
	place := map[string]int{}
	var header []string
	rows := d.list(top)
	for _, row := range rows {
		for _, key := range row.Value.Keys {
			if _, known := place[key]; !known {
				place[key] = len(header)
				header = append(header, key)
			}
		}
	}
	t := newTable(d, file, header)
	for _, row := range rows {
		if !row.Is(tree.Object) {
			d.bad(row, "is %s, want an object", row.Value)
			continue
		}
		cells := make([]string, len(header))
		for i, key := range row.Value.Keys {
			cells[place[key]] = row.Value.Items[i].Scalar()
		}
		t.add(cells, row.Value.Line)
	}
	return t
}

// parseParquet reads all columns as text. Nested columns have dotted names.
func parseParquet(d *draft, file string, data []byte) (t *table) {
	bad := func(err any) *table {
		d.syntax(file, 0, "is not a valid Parquet file: %v", err)
		return nil
	}
	// The Parquet reader panics for some damaged files. The error then says that the file is damaged.
	defer func() {
		p := recover()
		if p != nil {
			t = bad(p)
		}
	}()
	if _, err := footer.Check(bytes.NewReader(data), int64(len(data))); err != nil {
		d.syntax(file, 0, "is %v", err)
		return nil
	}
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return bad(err)
	}
	t = newTable(
		d,
		file,
		names.Of(f.Schema().Columns(), func(path []string) string { return strings.Join(path, ".") }),
	)
	rows := parquet.MultiRowGroup(f.RowGroups()...).Rows()
	_, err = parquet.CopyRows(t, rows)
	if err = errors.Join(err, rows.Close()); err != nil {
		return bad(err)
	}
	return t
}

// WriteRows adds rows of a Parquet file.
func (t *table) WriteRows(rows []parquet.Row) (int, error) {
	for _, row := range rows {
		cells := make([]string, len(t.headers))
		for _, v := range row {
			if !v.IsNull() && v.Column() >= 0 && v.Column() < len(cells) {
				cells[v.Column()] = strings.ToValidUTF8(v.String(), "\ufffd")
				t.bytes += len(cells[v.Column()])
			}
		}
		t.bytes += len(cells) * 16
		if t.bytes > topology.MaxFileBytes {
			return 0, fmt.Errorf("more than %d MiB of rows", topology.MaxFileBytes>>20)
		}
		t.rows, t.line = append(t.rows, cells), append(t.line, len(t.rows)+1)
	}
	return len(rows), nil
}

func (t *table) place(row int) place {
	at := place{file: t.file, line: t.line[row]}
	if t.fileOf != nil {
		at.file = t.fileOf[row]
	}
	return at
}

// header returns the header of a column in this table, or "" if the table does not have the column.
func (t *table) header(c *column) string {
	for _, name := range c.names {
		if _, has := t.column[name]; has {
			t.used[name] = true
			return name
		}
	}
	return ""
}

// cell returns the text of a row in a column. It is empty if the table does not have the column.
func (t *table) cell(row int, c *column) string {
	name := t.header(c)
	if name == "" {
		return ""
	}
	return strings.TrimSpace(t.rows[row][t.column[name]])
}

// integer parses a whole number. It is not ok if the cell is empty, which is a fault if the column is
// required.
func (t *table) integer(row, bits int, c *column) (v int64, ok bool) {
	text := t.cell(row, c)
	v, err := strconv.ParseInt(text, 10, bits)
	switch {
	case text == "" && c.required:
		t.fault(t.place(row), topology.FaultFormat, "%s is empty", c.names[0])
	case text != "" && err != nil:
		t.fault(
			t.place(row),
			topology.FaultFormat,
			"%s is %q, want a whole number of %d bits",
			c.names[0],
			text,
			bits,
		)
	}
	return v, err == nil
}

// position parses the number of a pod or of a rack. It returns -1 if there is none.
func (t *table) position(row int, c *column) int32 {
	v, ok := t.integer(row, 32, c)
	if !ok {
		return -1
	}
	return int32(v)
}

func (t *table) noteUnused() {
	unused := slices.DeleteFunc(
		slices.Clone(t.headers),
		func(name string) bool { return t.used[name] || name == "" },
	)
	if len(unused) > 0 {
		t.note("columns not used: %s", strings.Join(unused, ", "))
	}
}

func columnList(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s (or %s)", names[0], strings.Join(names[1:], ", "))
}

// These are the columns of the two tables.
var (
	idColumn        = &column{names: []string{"node_id", "id"}, required: true}
	kindColumn      = &column{names: []string{"kind"}, required: true}
	nameColumn      = &column{names: []string{"name"}}
	podColumn       = &column{names: []string{"pod"}}
	rackColumn      = &column{names: []string{"rack"}}
	rackNameColumn  = &column{names: []string{"rack_name"}}
	linkColumn      = &column{names: []string{"link_id"}}
	srcColumn       = &column{names: []string{"src_node", "a"}, required: true}
	dstColumn       = &column{names: []string{"dst_node", "b"}, required: true}
	bandwidthColumn = &column{names: []string{"bandwidth_bps", "bandwidth"}, required: true}
	delayColumn     = &column{names: []string{"delay_ns", "delay"}, required: true}
	failedColumn    = &column{names: []string{"failed"}}
	srcPortColumn   = &column{names: []string{"src_port"}}
	dstPortColumn   = &column{names: []string{"dst_port"}}
)

// tableFiles returns the nodes and links files of a directory, or nil if it has neither.
func tableFiles(dir string) ([]string, error) {
	files, err := glob(dir, "nodes.csv", "nodes.parquet", "links.csv", "links.parquet")
	slices.Reverse(files) // nodes, then links
	name := func(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }
	if len(files) > 0 && (len(files) != 2 || name(files[0]) != "nodes" || name(files[1]) != "links") {
		err = fmt.Errorf(
			"topology %s: holds %s; want one table nodes and one table links, each .csv or .parquet",
			dir,
			strings.Join(files, ", "),
		)
	}
	return files, err
}

func (d *draft) readTables() {
	d.ofTables(
		openTable(d, d.files[0], idColumn, kindColumn, nameColumn, podColumn, rackColumn, rackNameColumn),
		openTable(
			d,
			d.files[1],
			srcColumn,
			dstColumn,
			bandwidthColumn,
			delayColumn,
			failedColumn,
			srcPortColumn,
			dstPortColumn,
		),
	)
}

// FromTables builds a network from tables nodes and links of a lake, including failed cables, ports and names
// of racks. It is the inverse of NodesRecord and LinksRecord.
func FromTables(nodes, links schema.Batches) (*topology.Network, error) {
	d := newDraft(&source{files: []string{"nodes", "links"}}, &Options{})
	nodeTable, err := d.ofBatches(schema.Nodes, nodes)
	if err != nil {
		return nil, err
	}
	linkTable, err := d.ofBatches(schema.Links, links)
	if err != nil {
		return nil, err
	}
	for i := range linkTable.rows {
		id := linkTable.cell(i, linkColumn)
		if id != strconv.Itoa(i) {
			return nil, fmt.Errorf("table links: link %s is out of order", id)
		}
		port := linkTable.cell(i, srcPortColumn)
		if strings.Contains(port, ",") {
			return nil, fmt.Errorf("table links: link %d has several ports (%s), must have one", i, port)
		}
	}
	d.ofTables(nodeTable, linkTable)
	n := d.finish()
	if n != nil {
		return n, nil
	}
	return nil, joinFaults(d.Faults)
}

// ofBatches returns a table of a lake as text. A null becomes an empty cell.
func (d *draft) ofBatches(of schema.Table, in schema.Batches) (*table, error) {
	header := names.Of(of.Columns, func(c schema.Column) string { return c.Name })
	t := newTable(d, of.Name, header)
	err := columns.ForEach(in, func(rec arrow.Record) error {
		for i := range int(rec.NumRows()) {
			cells := make([]string, len(header))
			for k, name := range header {
				column := columns.Named(rec, name)
				if column.IsValid(i) {
					cells[k] = strings.Clone(column.ValueStr(i))
				}
			}
			t.add(cells, len(t.rows)+1)
		}
		return nil
	})
	return t, err
}

// ofTables fills the draft from the two tables. A nil table has a fault.
func (d *draft) ofTables(nodes, links *table) {
	if nodes == nil || links == nil {
		return
	}
	for i := range nodes.rows {
		id, ok := nodes.integer(i, 32, idColumn)
		v := topology.Node{
			ID:   int32(id),
			Kind: strings.ToLower(nodes.cell(i, kindColumn)),
			Name: nodes.cell(i, nameColumn),
			Pod:  nodes.position(i, podColumn),
			Rack: nodes.position(i, rackColumn),
		}
		name := nodes.cell(i, rackNameColumn)
		if name != "" && v.Rack >= 0 {
			d.nameRack(v.Rack, name)
		}
		if ok {
			d.addNode(v, nodes.place(i))
		}
	}
	seen := &listedLinks{waiting: map[[2]int32][]int{}, known: map[string]bool{}}
	for i := range links.rows {
		links.cable(i, seen)
	}
}

func (d *draft) nameRack(rack int32, name string) {
	if d.racks[rack] == "" {
		d.racks[rack] = name
	}
}

// listedLinks has what is known from earlier rows of a table of links.
type listedLinks struct {
	waiting map[[2]int32][]int // by source and destination: cables of which only this direction is listed
	known   map[string]bool    // ids, or nodes and ports, of the links
}

// isNew reports whether a link has an id or two ports, and no earlier link has the same.
func (s *listedLinks) isNew(c topology.Cable, id string, p topology.Ports) bool {
	key := id
	if id == "" {
		key = fmt.Sprintf("%d,%d,%s,%s", c.A, c.B, p.A, p.B)
	}
	again := s.known[key]
	s.known[key] = true
	return !again && (id != "" || p.A != "" && p.B != "")
}

// cable adds the cable of a row, or all members of a LAG whose ports the row joins with commas.
func (t *table) cable(i int, seen *listedLinks) {
	a, okA := t.integer(i, 32, srcColumn)
	b, okB := t.integer(i, 32, dstColumn)
	bps, okBps := t.integer(i, 64, bandwidthColumn)
	delay, okDelay := t.integer(i, 64, delayColumn)
	text := t.cell(i, failedColumn)
	failed, err := strconv.ParseBool(text)
	if err != nil && text != "" {
		t.fault(t.place(i), topology.FaultFormat, "failed is %q, want true or false", text)
	}
	if !okA || !okB || !okBps || !okDelay {
		return
	}
	members := memberPorts(t.cell(i, srcPortColumn), t.cell(i, dstPortColumn))
	if len(members) > 1 {
		t.count(len(members), "link",
			"lag: %s of rows with several ports, each with its share of the bandwidth; a flow takes one")
		bps /= int64(len(members))
	}
	c := draftCable{failed: failed}
	c.Cable = topology.Cable{A: int32(a), B: int32(b), BandwidthBps: bps, DelayNS: delay}
	for k, ports := range members {
		c.Parallel = k > 0
		c.ports = ports
		if !t.otherDirection(i, c, seen) {
			t.firstDirection(i, c, seen)
		}
	}
}

// memberPorts splits ports that are joined by commas, as earlier versions wrote the members of a LAG. It does
// not split them if the two ends have different numbers of ports.
func memberPorts(src, dst string) []topology.Ports {
	a := strings.Split(src, ",")
	b := strings.Split(dst, ",")
	if len(a) != len(b) {
		return []topology.Ports{{A: src, B: dst}}
	}
	members := make([]topology.Ports, len(a))
	for k := range a {
		members[k] = topology.Ports{A: a[k], B: b[k]}
	}
	return members
}

// otherDirection reports whether a row is the other direction of a cable that an earlier row lists. If so, it
// checks that the two rows agree.
func (t *table) otherDirection(i int, c draftCable, seen *listedLinks) bool {
	back := [2]int32{c.B, c.A}
	waiting := seen.waiting[back]
	if len(waiting) == 0 {
		return false
	}
	seen.waiting[back] = waiting[1:]
	k := &t.cables[waiting[0]]
	if k.BandwidthBps != c.BandwidthBps || k.DelayNS != c.DelayNS {
		t.fault(t.place(i), topology.FaultContradictory,
			"the link %d → %d differs in bandwidth or delay from its other direction (line %d); "+
				"a cable has the same both ways",
			c.A, c.B, k.at.line)
	}
	k.failed = k.failed || c.failed
	return true
}

// firstDirection adds a cable. If links have ids or ports, cables between the same two nodes are a LAG.
// Otherwise, the checks report the cable as parallel.
func (t *table) firstDirection(i int, c draftCable, seen *listedLinks) {
	forth := [2]int32{c.A, c.B}
	seen.waiting[forth] = append(seen.waiting[forth], len(t.cables))
	c.Parallel = c.Parallel || seen.isNew(c.Cable, t.cell(i, linkColumn), c.ports)
	t.addCable(c.Cable, c.failed, t.place(i))
	t.cables[len(t.cables)-1].ports = c.ports
}
