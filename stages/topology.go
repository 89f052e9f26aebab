package stages

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// ReadTopology reads a network from files:
//
//   - FILE.json: pods, planes and cables as in the paper's public topologies, or plain "nodes" and
//     "links" lists
//   - a directory with nodes.csv (or .parquet) and links.csv (or .parquet), or the two files with a
//     comma between them, nodes first
//
// Columns of nodes: node_id, kind, and optionally name, pod, rack. Columns of links: src_node and
// dst_node (or a and b), bandwidth_bps, delay_ns, and optionally failed; a cable may stand there
// once or, as in table links of the lake, once for each direction. Other columns are left alone.
//
// Errors name the file, and the line or row where one is to blame.
func ReadTopology(path string) (*Network, error) {
	files, err := TopologyFiles(path)
	if err != nil {
		return nil, err
	}
	if len(files) == 1 {
		data, err := os.ReadFile(files[0])
		if err != nil {
			return nil, err
		}
		return parseTopologyJSON(files[0], data)
	}
	nodes, err := readGrid(files[0])
	if err != nil {
		return nil, err
	}
	links, err := readGrid(files[1])
	if err != nil {
		return nil, err
	}
	return gridNetwork(nodes, links)
}

// TopologyFiles are the files that ReadTopology reads for a path: one, or those of the nodes and
// of the links.
func TopologyFiles(path string) ([]string, error) {
	if nodes, links, pair := strings.Cut(path, ","); pair {
		if _, err := os.Stat(path); err != nil {
			return []string{nodes, links}, nil
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	if !info.IsDir() {
		if strings.EqualFold(filepath.Ext(path), ".json") {
			return []string{path}, nil
		}
		return nil, fmt.Errorf("topology %s: want a .json file, a directory with nodes and links, or NODES,LINKS as .csv or .parquet", path)
	}
	var files []string
	for _, table := range []string{"nodes", "links"} {
		found := ""
		for _, ext := range []string{".csv", ".parquet"} {
			name := filepath.Join(path, table+ext)
			if _, err := os.Stat(name); err != nil {
				continue
			}
			if found != "" {
				return nil, fmt.Errorf("topology %s: holds both %s and %s", path, filepath.Base(found), filepath.Base(name))
			}
			found = name
		}
		if found == "" {
			return nil, fmt.Errorf("topology %s: holds neither %s.csv nor %s.parquet", path, table, table)
		}
		files = append(files, found)
	}
	return files, nil
}

type jsonNode struct {
	ID   *int32 `json:"id"`
	Kind string `json:"kind"`
	Name string `json:"name"`
	Pod  *int32 `json:"pod"`
	Rack *int32 `json:"rack"`
}

type jsonCable struct {
	A         *int32 `json:"a"`
	B         *int32 `json:"b"`
	Bandwidth *int64 `json:"bandwidth"`
	Delay     *int64 `json:"delay"`
}

type jsonTopology struct {
	Planes [][]jsonNode `json:"planes"`
	Pods   []struct {
		Fabs  []jsonNode `json:"fabs"`
		Racks []struct {
			Tor      jsonNode    `json:"tor"`
			Hosts    []jsonNode  `json:"hosts"`
			Host2Tor []jsonCable `json:"host2tor"`
		} `json:"racks"`
		Tor2Fab []jsonCable `json:"tor2fab"`
	} `json:"pods"`
	Fab2Spine []jsonCable `json:"fab2spine"`

	Nodes []jsonNode  `json:"nodes"`
	Links []jsonCable `json:"links"`
}

// parseTopologyJSON reads a JSON topology; file only names it in errors.
func parseTopologyJSON(file string, data []byte) (*Network, error) {
	var t jsonTopology
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		at := dec.InputOffset()
		var syntax *json.SyntaxError
		var typ *json.UnmarshalTypeError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		} else if errors.As(err, &typ) {
			at = typ.Offset
			err = fmt.Errorf("%s is a %s, want %s", typ.Field, typ.Value, typ.Type)
		}
		at = min(max(at, 0), int64(len(data)))
		return nil, fmt.Errorf("topology %s: line %d: %w", file, 1+bytes.Count(data[:at], []byte("\n")), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("topology %s: something stands after the topology", file)
	}
	var b topologyBuilder
	rack := int32(0)
	for p, pod := range t.Pods {
		in := func(format string, args ...any) string {
			return fmt.Sprintf("pods[%d].", p) + fmt.Sprintf(format, args...)
		}
		for r, k := range pod.Racks {
			for h, v := range k.Hosts {
				b.node(v, in("racks[%d].hosts[%d]", r, h), KindHost, closHostName(p, r, h), int32(p), rack)
			}
			b.node(k.Tor, in("racks[%d].tor", r), KindTor, closTorName(p, r), int32(p), rack)
			b.cables(k.Host2Tor, in("racks[%d].host2tor", r))
			rack++
		}
		for f, v := range pod.Fabs {
			b.node(v, in("fabs[%d]", f), KindFabric, closFabricName(p, f), int32(p), -1)
		}
		b.cables(pod.Tor2Fab, in("tor2fab"))
	}
	for f, plane := range t.Planes {
		for s, v := range plane {
			b.node(v, fmt.Sprintf("planes[%d][%d]", f, s), KindSpine, closSpineName(f, s), -1, -1)
		}
	}
	b.cables(t.Fab2Spine, "fab2spine")
	for i, v := range t.Nodes {
		place := func(p *int32) int32 {
			if p == nil {
				return -1
			}
			return *p
		}
		b.node(v, fmt.Sprintf("nodes[%d]", i), "", v.Name, place(v.Pod), place(v.Rack))
	}
	b.cables(t.Links, "links")
	if b.err != nil {
		return nil, fmt.Errorf("topology %s: %w", file, b.err)
	}
	n, err := NewNetwork(b.nodes, b.cableList)
	return n, inTopology(err, file, b.nodeAt, file, b.cableAt)
}

// A topologyBuilder collects nodes and cables with the places they come from, and the first error.
type topologyBuilder struct {
	nodes     []Node
	nodeAt    []string
	cableList []Cable
	cableAt   []string
	err       error
}

func (b *topologyBuilder) fail(at, format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...))
	}
}

// node adds a node. kind is what its place in the file makes it, or empty to take the file's word.
func (b *topologyBuilder) node(v jsonNode, at, kind, name string, pod, rack int32) {
	if v.ID == nil {
		b.fail(at, "has no id")
		return
	}
	said := strings.ToLower(v.Kind)
	switch {
	case kind == "":
		kind = said
	case said != "" && said != kind && (said != KindSwitch || kind == KindHost):
		b.fail(at, "node %d stands where a %s belongs, and says it is a %q", *v.ID, kind, v.Kind)
	}
	b.nodes = append(b.nodes, Node{*v.ID, name, kind, pod, rack})
	b.nodeAt = append(b.nodeAt, at)
}

func (b *topologyBuilder) cables(list []jsonCable, at string) {
	for i, c := range list {
		here := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case c.A == nil || c.B == nil:
			b.fail(here, "needs both ends, a and b")
		case c.Bandwidth == nil:
			b.fail(here, "has no bandwidth (bps)")
		case c.Delay == nil:
			b.fail(here, "has no delay (ns)")
		default:
			b.cableList = append(b.cableList, Cable{*c.A, *c.B, *c.Bandwidth, *c.Delay})
			b.cableAt = append(b.cableAt, here)
		}
	}
}

// inTopology names the file and place of the node or cable that NewNetwork refused.
func inTopology(err error, nodeFile string, nodeAt []string, cableFile string, cableAt []string) error {
	var bad *TopologyError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad) && bad.Node >= 0:
		return fmt.Errorf("topology %s: %s: %w", nodeFile, nodeAt[bad.Node], err)
	case errors.As(err, &bad) && bad.Cable >= 0:
		return fmt.Errorf("topology %s: %s: %w", cableFile, cableAt[bad.Cable], err)
	}
	return fmt.Errorf("topology %s: %w", nodeFile, err)
}

// A grid is a small table as text, from CSV or Parquet. An empty cell is a null.
type grid struct {
	file   string
	column map[string]int
	rows   [][]string
	at     []string // where each row stands
}

func readGrid(path string) (*grid, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		return parseCSVGrid(path, data)
	case ".parquet":
		return parseParquetGrid(path, data)
	}
	return nil, fmt.Errorf("topology %s: want .csv or .parquet", path)
}

func newGrid(file string, header []string) (*grid, error) {
	g := &grid{file: file, column: map[string]int{}}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		if _, twice := g.column[name]; twice {
			return nil, fmt.Errorf("topology %s: two columns are named %q", file, name)
		}
		g.column[name] = i
	}
	return g, nil
}

func parseCSVGrid(file string, data []byte) (*grid, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.TrimLeadingSpace = true
	r.Comment = '#'
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("topology %s: is empty, want a header line", file)
	}
	if err != nil {
		return nil, fmt.Errorf("topology %s: %w", file, err)
	}
	g, err := newGrid(file, header)
	if err != nil {
		return nil, err
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return g, nil
		}
		if err != nil {
			return nil, fmt.Errorf("topology %s: %w", file, err) // names the line
		}
		line, _ := r.FieldPos(0)
		g.rows = append(g.rows, row)
		g.at = append(g.at, fmt.Sprintf("line %d", line))
	}
}

func parseParquetGrid(file string, data []byte) (g *grid, err error) {
	// The Parquet reader panics on some damaged files; to the user that is a damaged file.
	defer func() {
		if p := recover(); p != nil {
			g, err = nil, fmt.Errorf("topology %s: not a sound Parquet file: %v", file, p)
		}
	}()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("topology %s: not a sound Parquet file: %w", file, err)
	}
	var header []string
	for _, path := range f.Schema().Columns() {
		header = append(header, strings.Join(path, "."))
	}
	if g, err = newGrid(file, header); err != nil {
		return nil, err
	}
	buf := make([]parquet.Row, 256)
	for _, group := range f.RowGroups() {
		rows := group.Rows()
		for {
			n, err := rows.ReadRows(buf)
			for _, row := range buf[:n] {
				cells := make([]string, len(header))
				for _, v := range row {
					if v.IsNull() || v.Column() < 0 || v.Column() >= len(cells) {
						continue
					}
					cells[v.Column()] = v.String()
				}
				g.rows = append(g.rows, cells)
				g.at = append(g.at, fmt.Sprintf("row %d", len(g.rows)))
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				_ = rows.Close()
				return nil, fmt.Errorf("topology %s: %w", file, err)
			}
			if n == 0 {
				break
			}
		}
		if err := rows.Close(); err != nil {
			return nil, fmt.Errorf("topology %s: %w", file, err)
		}
	}
	return g, nil
}

// cell is the text in a row under the first of the names that the grid has as a column.
func (g *grid) cell(row int, names ...string) (text string, ok bool) {
	for _, name := range names {
		if i, has := g.column[name]; has {
			return strings.TrimSpace(g.rows[row][i]), true
		}
	}
	return "", false
}

func (g *grid) bad(row int, format string, args ...any) error {
	return fmt.Errorf("topology %s: %s: %s", g.file, g.at[row], fmt.Sprintf(format, args...))
}

// integer is a number that must stand there, unless missing says what to take instead.
func (g *grid) integer(row, bits int, missing *int64, names ...string) (int64, error) {
	text, ok := g.cell(row, names...)
	if !ok || text == "" {
		if missing != nil {
			return *missing, nil
		}
		if !ok {
			return 0, fmt.Errorf("topology %s: has no column %s", g.file, strings.Join(names, " or "))
		}
		return 0, g.bad(row, "%s is empty", names[0])
	}
	v, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, g.bad(row, "%s is %q, want a whole number", names[0], text)
	}
	return v, nil
}

// gridNetwork makes a network of the two tables.
func gridNetwork(nodes, links *grid) (*Network, error) {
	none := int64(-1)
	var b topologyBuilder
	for i := range nodes.rows {
		var v Node
		id, err := nodes.integer(i, 32, nil, "node_id", "id")
		if err != nil {
			return nil, err
		}
		pod, err := nodes.integer(i, 32, &none, "pod")
		if err != nil {
			return nil, err
		}
		rack, err := nodes.integer(i, 32, &none, "rack")
		if err != nil {
			return nil, err
		}
		kind, ok := nodes.cell(i, "kind")
		if !ok {
			return nil, fmt.Errorf("topology %s: has no column kind (host, tor, fabric, spine or switch)", nodes.file)
		}
		v.ID, v.Pod, v.Rack, v.Kind = int32(id), int32(pod), int32(rack), strings.ToLower(kind)
		v.Name, _ = nodes.cell(i, "name")
		b.nodes = append(b.nodes, v)
		b.nodeAt = append(b.nodeAt, nodes.at[i])
	}
	type seen struct {
		cable    int
		reversed bool
	}
	dirs := map[[2]int32]*seen{}
	var failed []int
	for i := range links.rows {
		var v [4]int64
		for k, names := range [][]string{{"src_node", "a"}, {"dst_node", "b"}, {"bandwidth_bps", "bandwidth"}, {"delay_ns", "delay"}} {
			bits := 64
			if k < 2 {
				bits = 32
			}
			x, err := links.integer(i, bits, nil, names...)
			if err != nil {
				return nil, err
			}
			v[k] = x
		}
		c := Cable{int32(v[0]), int32(v[1]), v[2], v[3]}
		down, _ := links.cell(i, "failed")
		isDown, err := strconv.ParseBool(down)
		if err != nil && down != "" {
			return nil, links.bad(i, "failed is %q, want true or false", down)
		}
		if first := dirs[[2]int32{c.B, c.A}]; first != nil && !first.reversed {
			first.reversed = true
			if d := b.cableList[first.cable]; d.BandwidthBps != c.BandwidthBps || d.DelayNS != c.DelayNS {
				return nil, links.bad(i, "the link %d → %d differs in bandwidth or delay from its other direction (%s); a cable has the same both ways", c.A, c.B, b.cableAt[first.cable])
			}
			if isDown {
				failed = append(failed, first.cable)
			}
			continue
		}
		dirs[[2]int32{c.A, c.B}] = &seen{cable: len(b.cableList)}
		if isDown {
			failed = append(failed, len(b.cableList))
		}
		b.cableList = append(b.cableList, c)
		b.cableAt = append(b.cableAt, links.at[i])
	}
	n, err := NewNetwork(b.nodes, b.cableList)
	if err != nil {
		return nil, inTopology(err, nodes.file, b.nodeAt, links.file, b.cableAt)
	}
	for _, c := range failed {
		n.Links[2*c].Failed, n.Links[2*c+1].Failed = true, true
	}
	return n, nil
}
