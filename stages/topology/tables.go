package topology

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/csv"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// NodesRecord returns table nodes of the lake. The caller releases it.
func (n *Network) NodesRecord() arrow.Record {
	rows := columns.NewRows(schema.Nodes)
	names := map[int32]string{} // by host, or by -1 - rack for switches in a rack
	for i, name := range n.RackNames() {
		for _, h := range n.racks[i] {
			names[h] = name
		}
		if v, _ := n.Node(n.racks[i][0]); v.Rack >= 0 {
			names[-1-v.Rack] = name
		}
	}
	for _, v := range n.Nodes {
		row := columns.Row{"node_id": v.ID, "name": v.Name, "kind": v.Kind}
		if v.Pod >= 0 {
			row["pod"] = v.Pod
		}
		if v.Rack >= 0 {
			row["rack"] = v.Rack
		}
		name := names[v.ID]
		if name == "" && v.Rack >= 0 {
			name = names[-1-v.Rack]
		}
		if name != "" {
			row["rack_name"] = name
		}
		rows.Add(row)
	}
	return rows.Record()
}

// LinksRecord returns table links of the lake. The caller releases it.
func (n *Network) LinksRecord() arrow.Record {
	rows := columns.NewRows(schema.Links)
	for _, l := range n.Links {
		row := columns.Row{"link_id": l.ID, "src_node": l.Src, "dst_node": l.Dst, "bandwidth_bps": l.BandwidthBps,
			"delay_ns": l.DelayNS, "tier": l.Tier, "failed": l.Failed}
		if from, to := n.portsOf(l.ID); len(from) > 0 {
			row["src_port"], row["dst_port"] = strings.Join(from, ","), strings.Join(to, ",")
		}
		rows.Add(row)
	}
	return rows.Record()
}

// FromTables rebuilds a network from tables nodes and links of the lake, failed cables, ports and names of racks
// included: the inverse of NodesRecord and LinksRecord.
func FromTables(nodes, links schema.Batches) (*Network, error) {
	var t tableRows
	if err := columns.ForEach(nodes, t.addNodes); err != nil {
		return nil, err
	}
	if err := columns.ForEach(links, t.addLinks); err != nil {
		return nil, err
	}
	n, err := NewNetwork(t.nodes, t.cables)
	if err != nil {
		return nil, err
	}
	for i, down := range t.failed {
		n.Links[2*i].Failed, n.Links[2*i+1].Failed = down, down
		if len(t.ports[i].A) > 0 {
			n.SetPorts(i, t.ports[i])
		}
	}
	n.SetRackNames(t.racks)
	return n, nil
}

// tableRows are the rows of tables nodes and links.
type tableRows struct {
	nodes  []Node
	racks  map[int32]string
	cables []Cable
	failed []bool  // by cable
	ports  []Ports // by cable
}

// addNodes reads table nodes. A null pod or rack is -1.
func (t *tableRows) addNodes(rec arrow.Record) error {
	text := func(name string) *array.String { return columns.Named(rec, name).(*array.String) }
	id, name, kind, label := columns.Int32s(rec, "node_id"), text("name"), text("kind"), text("rack_name")
	pod, rack := columns.Named(rec, "pod").(*array.Int32), columns.Named(rec, "rack").(*array.Int32)
	for i := range id {
		n := Node{ID: id[i], Pod: -1, Rack: -1, Name: strings.Clone(name.Value(i)), Kind: strings.Clone(kind.Value(i))}
		if pod.IsValid(i) {
			n.Pod = pod.Value(i)
		}
		if rack.IsValid(i) {
			n.Rack = rack.Value(i)
			if label.IsValid(i) && t.racks[n.Rack] == "" {
				if t.racks == nil {
					t.racks = map[int32]string{}
				}
				t.racks[n.Rack] = strings.Clone(label.Value(i))
			}
		}
		t.nodes = append(t.nodes, n)
	}
	return nil
}

// addLinks reads the even links, one per cable; the odd link after each is the other direction.
func (t *tableRows) addLinks(rec arrow.Record) error {
	id, src, dst := columns.Int32s(rec, "link_id"), columns.Int32s(rec, "src_node"), columns.Int32s(rec, "dst_node")
	bandwidth, delay := columns.Int64s(rec, "bandwidth_bps"), columns.Int64s(rec, "delay_ns")
	down := columns.Named(rec, "failed").(*array.Boolean)
	from, to := columns.Named(rec, "src_port").(*array.String), columns.Named(rec, "dst_port").(*array.String)
	for i := range id {
		if id[i]%2 != 0 {
			continue
		}
		if int(id[i]) != 2*len(t.cables) {
			return fmt.Errorf("table links: link %d is out of order", id[i])
		}
		t.cables = append(t.cables, Cable{A: src[i], B: dst[i], BandwidthBps: bandwidth[i], DelayNS: delay[i]})
		t.failed = append(t.failed, down.Value(i))
		var p Ports
		if from.IsValid(i) && to.IsValid(i) {
			p = Ports{strings.Split(strings.Clone(from.Value(i)), ","), strings.Split(strings.Clone(to.Value(i)), ",")}
		}
		t.ports = append(t.ports, p)
	}
	return nil
}

// WriteTables writes tables nodes and links to nodes.csv and links.csv in a directory, which it creates where needed.
// Reading the directory gives the same network: the same ids, links and paths.
func WriteTables(dir string, n *Network) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(writeCSV(filepath.Join(dir, "nodes.csv"), n.NodesRecord()),
		writeCSV(filepath.Join(dir, "links.csv"), n.LinksRecord()))
}

// writeCSV writes a record to a file, and releases it.
func writeCSV(file string, rec arrow.Record) error {
	defer rec.Release()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f, rec.Schema(), csv.WithHeader(true), csv.WithNullWriter(""))
	return errors.Join(w.Write(rec), w.Flush(), f.Close())
}
