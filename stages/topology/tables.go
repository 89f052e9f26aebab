package topology

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/csv"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// NodesRecord returns table nodes of the lake. The caller releases it.
func (n *Network) NodesRecord() arrow.Record {
	rows := columns.NewRows(schema.Nodes)
	key := func(v Node) int32 { // of a rack: its number or, where it has none, each of its hosts
		if v.Rack >= 0 {
			return -1 - v.Rack
		}
		return v.ID
	}
	names := map[int32]string{}
	for i, name := range n.RackNames() {
		for _, h := range n.racks[i] {
			names[key(n.Nodes[n.index.of(h)])] = name
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
		if name := names[key(v)]; name != "" {
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

// WriteTables writes tables nodes and links to nodes.csv and links.csv in a directory, which it creates where needed.
// Reading the directory gives the same network: the same ids, links and paths.
func WriteTables(dir string, n *Network) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(writeCSV(filepath.Join(dir, "nodes.csv"), n.NodesRecord()),
		writeCSV(filepath.Join(dir, "links.csv"), n.LinksRecord()))
}

func writeCSV(file string, rec arrow.Record) error {
	defer rec.Release()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f, rec.Schema(), csv.WithHeader(true), csv.WithNullWriter(""))
	return errors.Join(w.Write(rec), w.Flush(), f.Close())
}
