package topology

import (
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// NetworkFromTables rebuilds a network from tables nodes and links, failed cables included: the
// inverse of NodesRecord and LinksRecord.
func FromTables(nodes, links schema.Batches) (*Network, error) {
	var ns []Node
	err := columns.ForEach(nodes, func(rec arrow.Record) error {
		id, name, kind := columns.Int32s(rec, "node_id"), columns.Named(rec, "name").(*array.String), columns.Named(rec, "kind").(*array.String)
		pod, rack := columns.Named(rec, "pod").(*array.Int32), columns.Named(rec, "rack").(*array.Int32)
		for i := range id {
			n := Node{ID: id[i], Name: strings.Clone(name.Value(i)), Kind: strings.Clone(kind.Value(i)), Pod: -1, Rack: -1}
			if pod.IsValid(i) {
				n.Pod = pod.Value(i)
			}
			if rack.IsValid(i) {
				n.Rack = rack.Value(i)
			}
			ns = append(ns, n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var cables []Cable
	var failed []Cable
	err = columns.ForEach(links, func(rec arrow.Record) error {
		id, src, dst := columns.Int32s(rec, "link_id"), columns.Int32s(rec, "src_node"), columns.Int32s(rec, "dst_node")
		bandwidth, delay := columns.Int64s(rec, "bandwidth_bps"), columns.Int64s(rec, "delay_ns")
		down := columns.Named(rec, "failed").(*array.Boolean)
		for i := range id {
			if id[i]%2 != 0 {
				continue // the other direction of the cable before it
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
	if err != nil {
		return nil, err
	}
	n, err := NewNetwork(ns, cables)
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
