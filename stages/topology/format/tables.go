package format

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// The columns of the two tables.
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

// tableFiles returns the nodes and links files of a directory; none where it holds neither.
func tableFiles(dir string) ([]string, error) {
	files, err := glob(dir, "nodes.csv", "nodes.parquet", "links.csv", "links.parquet")
	slices.Reverse(files) // nodes, then links
	name := func(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }
	if len(files) > 0 && (len(files) != 2 || name(files[0]) != "nodes" || name(files[1]) != "links") {
		err = fmt.Errorf("topology %s: holds %s; want one table nodes and one table links, each .csv or .parquet", dir,
			strings.Join(files, ", "))
	}
	return files, err
}

func (d *draft) readTables() {
	d.ofTables(openTable(d, d.files[0], idColumn, kindColumn, nameColumn, podColumn, rackColumn, rackNameColumn),
		openTable(d, d.files[1], srcColumn, dstColumn, bandwidthColumn, delayColumn, failedColumn, srcPortColumn,
			dstPortColumn))
}

// FromTables rebuilds a network from tables nodes and links of a lake, failed cables, ports and names of racks
// included: the inverse of NodesRecord and LinksRecord.
func FromTables(nodes, links schema.Batches) (*topology.Network, error) {
	d := &draft{source: &source{files: []string{"nodes", "links"}}, o: &Options{}}
	nodeTable, err := d.ofBatches(schema.Nodes, nodes)
	if err != nil {
		return nil, err
	}
	linkTable, err := d.ofBatches(schema.Links, links)
	if err != nil {
		return nil, err
	}
	for i := range linkTable.rows {
		if id := linkTable.cell(i, linkColumn); id != strconv.Itoa(i) {
			return nil, fmt.Errorf("table links: link %s is out of order", id)
		}
	}
	d.ofTables(nodeTable, linkTable)
	if n := d.finish(); n != nil {
		return n, nil
	}
	return nil, joinFaults(d.faults)
}

// ofBatches is a table of a lake as text; a null is an empty cell.
func (d *draft) ofBatches(of schema.Table, in schema.Batches) (*table, error) {
	header := names.Of(of.Columns, func(c schema.Column) string { return c.Name })
	t := newTable(d, of.Name, header)
	err := columns.ForEach(in, func(rec arrow.Record) error {
		for i := range int(rec.NumRows()) {
			cells := make([]string, len(header))
			for k, name := range header {
				if column := columns.Named(rec, name); column.IsValid(i) {
					cells[k] = strings.Clone(column.ValueStr(i))
				}
			}
			t.add(cells, len(t.rows)+1)
		}
		return nil
	})
	return t, err
}

// ofTables fills the draft from the two tables; nil is one with a fault.
func (d *draft) ofTables(nodes, links *table) {
	if nodes == nil || links == nil {
		return
	}
	for i := range nodes.rows {
		id, ok := nodes.integer(i, 32, idColumn)
		v := topology.Node{ID: int32(id), Kind: strings.ToLower(nodes.cell(i, kindColumn)), Name: nodes.cell(i, nameColumn),
			Pod: nodes.position(i, podColumn), Rack: nodes.position(i, rackColumn)}
		if name := nodes.cell(i, rackNameColumn); name != "" && v.Rack >= 0 {
			d.nameRack(v.Rack, name)
		}
		if ok {
			d.addNode(v, nodes.place(i))
		}
	}
	directions := map[[2]int32]*tableCable{}
	for i := range links.rows {
		links.cable(i, directions)
	}
}

func (d *draft) nameRack(rack int32, name string) {
	if d.racks == nil {
		d.racks = map[int32]string{}
	}
	if d.racks[rack] == "" {
		d.racks[rack] = name
	}
}

// A tableCable is a cable by the direction that the table lists first.
type tableCable struct {
	cable    int
	reversed bool // the other direction is listed too
}

// cable adds a cable, or the other direction of a cable that the table has listed. A row in the
// same direction again stays a cable of its own, which the checks report as parallel.
func (t *table) cable(i int, directions map[[2]int32]*tableCable) {
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
	c := topology.Cable{A: int32(a), B: int32(b), BandwidthBps: bps, DelayNS: delay}
	if first := directions[[2]int32{c.B, c.A}]; first != nil && !first.reversed {
		first.reversed = true
		k := &t.cables[first.cable]
		if k.BandwidthBps != c.BandwidthBps || k.DelayNS != c.DelayNS {
			t.fault(t.place(i), topology.FaultContradictory,
				"the link %d → %d differs in bandwidth or delay from its other direction (line %d); "+
					"a cable has the same both ways",
				c.A, c.B, k.at.line)
		}
		k.failed = k.failed || failed
		return
	}
	directions[[2]int32{c.A, c.B}] = &tableCable{cable: len(t.cables)}
	t.addCable(c, failed, t.place(i))
	if src, dst := t.cell(i, srcPortColumn), t.cell(i, dstPortColumn); src != "" || dst != "" {
		t.cables[len(t.cables)-1].ports = topology.Ports{A: strings.Split(src, ","), B: strings.Split(dst, ",")}
	}
}
