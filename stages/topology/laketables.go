package topology

import (
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// NodesRecord returns table nodes of the lake. The caller releases it.
func (n *Network) NodesRecord() arrow.Record {
	rows := columns.NewRows(schema.Nodes)
	for _, v := range n.Nodes {
		row := columns.Row{"node_id": v.ID, "name": v.Name, "kind": v.Kind}
		if v.Pod >= 0 {
			row["pod"] = v.Pod
		}
		if v.Rack >= 0 {
			row["rack"] = v.Rack
		}
		rows.Add(row)
	}
	return rows.Record()
}

// LinksRecord returns table links of the lake. The caller releases it.
func (n *Network) LinksRecord() arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Links.Arrow())
	defer b.Release()
	t := schema.Links
	id := b.Field(t.Index("link_id")).(*array.Int32Builder)
	src := b.Field(t.Index("src_node")).(*array.Int32Builder)
	dst := b.Field(t.Index("dst_node")).(*array.Int32Builder)
	bps := b.Field(t.Index("bandwidth_bps")).(*array.Int64Builder)
	delay := b.Field(t.Index("delay_ns")).(*array.Int64Builder)
	tier := b.Field(t.Index("tier")).(*array.StringBuilder)
	failed := b.Field(t.Index("failed")).(*array.BooleanBuilder)
	for _, l := range n.Links {
		id.Append(l.ID)
		src.Append(l.Src)
		dst.Append(l.Dst)
		bps.Append(l.BandwidthBps)
		delay.Append(l.DelayNS)
		tier.Append(l.Tier)
		failed.Append(l.Failed)
	}
	return b.NewRecord()
}

// FromTables rebuilds a network from tables nodes and links of the lake, failed cables included: the
// inverse of NodesRecord and LinksRecord.
func FromTables(nodes, links schema.Batches) (*Network, error) {
	nodeList, err := nodesOf(nodes)
	if err != nil {
		return nil, err
	}
	cables, failed, err := cablesOf(links)
	if err != nil {
		return nil, err
	}
	n, err := NewNetwork(nodeList, cables)
	if err != nil {
		return nil, err
	}
	for _, c := range failed {
		if err := n.Fail(c.A, c.B); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// nodesOf reads table nodes. A null pod or rack is -1.
func nodesOf(nodes schema.Batches) (list []Node, err error) {
	err = columns.ForEach(nodes, func(rec arrow.Record) error {
		id := columns.Int32s(rec, "node_id")
		name, kind := columns.Named(rec, "name").(*array.String), columns.Named(rec, "kind").(*array.String)
		pod, rack := columns.Named(rec, "pod").(*array.Int32), columns.Named(rec, "rack").(*array.Int32)
		for i := range id {
			n := Node{ID: id[i], Pod: -1, Rack: -1}
			n.Name, n.Kind = strings.Clone(name.Value(i)), strings.Clone(kind.Value(i))
			if pod.IsValid(i) {
				n.Pod = pod.Value(i)
			}
			if rack.IsValid(i) {
				n.Rack = rack.Value(i)
			}
			list = append(list, n)
		}
		return nil
	})
	return list, err
}

// cablesOf reads the even links, one per cable; the odd link after each is the other direction.
func cablesOf(links schema.Batches) (cables, failed []Cable, err error) {
	err = columns.ForEach(links, func(rec arrow.Record) error {
		id, src, dst := columns.Int32s(rec, "link_id"), columns.Int32s(rec, "src_node"), columns.Int32s(rec, "dst_node")
		bandwidth, delay := columns.Int64s(rec, "bandwidth_bps"), columns.Int64s(rec, "delay_ns")
		down := columns.Named(rec, "failed").(*array.Boolean)
		for i := range id {
			if id[i]%2 != 0 {
				continue
			}
			if int(id[i]) != 2*len(cables) {
				return fmt.Errorf("table links: link %d is out of order", id[i])
			}
			c := Cable{A: src[i], B: dst[i], BandwidthBps: bandwidth[i], DelayNS: delay[i]}
			cables = append(cables, c)
			if down.Value(i) {
				failed = append(failed, c)
			}
		}
		return nil
	})
	return cables, failed, err
}
