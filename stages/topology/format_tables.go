package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const tablesDoc = `
Two tables, nodes and links, as .csv or .parquet: a directory that holds both, or NODES,LINKS. Columns
of nodes: node_id, kind (host, tor, fabric, spine or switch) and optionally name, pod, rack. Columns
of links: src_node and dst_node (or a and b), bandwidth_bps, delay_ns, and optionally failed. A cable
has one row, or one row per direction as in table links of a lake. Other columns are ignored.

  nodes.csv                 links.csv
  node_id,name,kind,rack    a,b,bandwidth_bps,delay_ns
  0,web1,host,0             0,2,10000000000,1000
  1,web2,host,0             1,2,10000000000,1000
  2,leaf1,tor,0`

// tableFiles returns the nodes and links files of a directory; none where it holds neither.
func tableFiles(dir string) ([]string, error) {
	files := make([]string, 2)
	for i, table := range []string{"nodes", "links"} {
		for _, ext := range []string{".csv", ".parquet"} {
			name := filepath.Join(dir, table+ext)
			if _, err := os.Stat(name); err != nil {
				continue
			}
			if files[i] != "" {
				return nil, fmt.Errorf("topology %s: holds both %s and %s",
					dir, filepath.Base(files[i]), filepath.Base(name))
			}
			files[i] = name
		}
	}
	switch {
	case files[0] == "" && files[1] == "":
		return nil, nil
	case files[0] == "":
		return nil, fmt.Errorf("topology %s: holds links, and neither nodes.csv nor nodes.parquet", dir)
	case files[1] == "":
		return nil, fmt.Errorf("topology %s: holds nodes, and neither links.csv nor links.parquet", dir)
	}
	return files, nil
}

func detectTables(s *source) bool {
	return len(s.files) == 2 && tabular(s.files[0]) && tabular(s.files[1])
}

func tabular(file string) bool { return extension(file) == ".csv" || extension(file) == ".parquet" }

func readTables(s *source, _ *Options) (*draft, error) {
	d := &draft{}
	var grids [2]*grid
	for i, file := range s.files {
		data, err := s.read(file)
		if err != nil {
			return nil, err
		}
		g, fault := parseGrid(d, file, data)
		if fault != nil {
			d.faults = append(d.faults, *fault)
			continue
		}
		grids[i] = g
	}
	if grids[0] != nil && grids[1] != nil {
		d.addTables(grids[0], grids[1])
	}
	return d, nil
}

var (
	idColumns        = []string{"node_id", "id"}
	kindColumns      = []string{"kind"}
	nameColumns      = []string{"name"}
	srcColumns       = []string{"src_node", "a"}
	dstColumns       = []string{"dst_node", "b"}
	bandwidthColumns = []string{"bandwidth_bps", "bandwidth"}
	delayColumns     = []string{"delay_ns", "delay"}
	failedColumns    = []string{"failed"}
)

// hasColumns reports the columns that a table must have and has not.
func (d *draft) hasColumns(g *grid, required ...[]string) bool {
	complete := true
	for _, names := range required {
		if _, ok := g.name(names); !ok {
			d.fault(place{file: g.file, line: 1}, FaultFormat, "has no column %s", columnList(names))
			complete = false
		}
	}
	return complete
}

// addTables fills the draft from the two tables.
func (d *draft) addTables(nodes, links *grid) {
	complete := d.hasColumns(nodes, idColumns, kindColumns)
	if !d.hasColumns(links, srcColumns, dstColumns, bandwidthColumns, delayColumns) || !complete {
		return
	}
	for i := range nodes.rows {
		id, ok := nodes.integer(d, i, 32, idColumns)
		v := Node{ID: int32(id), Pod: -1, Rack: -1, Kind: strings.ToLower(nodes.cell(i, kindColumns)),
			Name: nodes.cell(i, nameColumns)}
		if pod, has := nodes.optional(d, i, podColumns); has {
			v.Pod = int32(pod)
		}
		if rack, has := nodes.optional(d, i, rackColumns); has {
			v.Rack = int32(rack)
		}
		if ok {
			d.addNode(v, nodes.place(i))
		}
	}
	directions := map[[2]int32]*tableCable{}
	for i := range links.rows {
		d.addTableLink(links, i, directions)
	}
}

// A tableCable is a cable by the direction that the table lists first.
type tableCable struct {
	cable    int
	reversed bool // the other direction is listed too
}

// addTableLink adds a cable, or the other direction of a cable that the table has listed. A row in the
// same direction again stays a cable of its own, which the checks report as parallel.
func (d *draft) addTableLink(links *grid, i int, directions map[[2]int32]*tableCable) {
	a, okA := links.integer(d, i, 32, srcColumns)
	b, okB := links.integer(d, i, 32, dstColumns)
	bps, okBps := links.integer(d, i, 64, bandwidthColumns)
	delay, okDelay := links.integer(d, i, 64, delayColumns)
	text := links.cell(i, failedColumns)
	failed, err := strconv.ParseBool(text)
	if err != nil && text != "" {
		d.fault(links.place(i), FaultFormat, "failed is %q, want true or false", text)
	}
	if !okA || !okB || !okBps || !okDelay {
		return
	}
	c := Cable{int32(a), int32(b), bps, delay}
	if first := directions[[2]int32{c.B, c.A}]; first != nil && !first.reversed {
		first.reversed = true
		if k := d.cables[first.cable]; k.BandwidthBps != c.BandwidthBps || k.DelayNS != c.DelayNS {
			d.fault(links.place(i), FaultContradictory,
				"the link %d → %d differs in bandwidth or delay from its other direction (line %d); "+
					"a cable has the same both ways",
				c.A, c.B, d.cableAt[first.cable].line)
		}
		d.failed[first.cable] = d.failed[first.cable] || failed
		return
	}
	directions[[2]int32{c.A, c.B}] = &tableCable{cable: len(d.cables)}
	d.addCable(c, failed, links.place(i))
}

// integer reads a number that must be there.
func (g *grid) integer(d *draft, row, bits int, names []string) (int64, bool) {
	text := g.cell(row, names)
	v, err := strconv.ParseInt(text, 10, bits)
	switch {
	case text == "":
		d.fault(g.place(row), FaultFormat, "%s is empty", names[0])
	case err != nil:
		d.fault(g.place(row), FaultFormat, "%s is %q, want a whole number of %d bits", names[0], text, bits)
	}
	return v, err == nil
}

// optional reads a number of 32 bits that may be missing.
func (g *grid) optional(d *draft, row int, names []string) (int64, bool) {
	if g.cell(row, names) == "" {
		return 0, false
	}
	return g.integer(d, row, 32, names)
}
