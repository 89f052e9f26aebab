package sampled

import (
	"context"
	"math/bits"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/sampling"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// maxLabels is how many services have intervals of their own, and how many virtual networks: the first by flow.
const maxLabels = 64

// A Key is a group of flows; Bin is sizebin.Count for all sizes.
type Key struct {
	By    stages.GroupBy
	Label string
	Bin   int
}

// An index is what is known of the whole workload without an estimate.
type index struct {
	fine         []sampling.Slot // as short as slots can be
	slots        []sampling.Slot
	totals       map[Key]int64 // flows
	order        []Key         // all flows by size bin, all flows, then labels in the order in which they first come
	longestBytes int64
	bytesOf      [64]int64 // bytes of flows of 2^(i-1) to 2^i bytes, at i
	labels       map[stages.GroupBy]map[string]bool
	pairs        map[[2]string]*pair // of service and virtual network
	last         *pair
}

// A pair is what is known of the flows of a service in a virtual network.
type pair struct {
	service, vnet string
	groups        [sizebin.Count][]Key // of a flow of a size bin
	flows         [sizebin.Count]int64
}

// readIndex reads table flows once. cut cuts what it read.
func readIndex(ctx context.Context, base *pipeline.Estimation) (*index, error) {
	g, err := base.Generated()
	if err != nil {
		return nil, err
	}
	x, err := readCut(ctx, base, sampling.NewCutter(g.Flows/maxSlots))
	if err == nil {
		x.fine, x.slots = x.slots, nil
	}
	return x, err
}

func readCut(ctx context.Context, base *pipeline.Estimation, cutter *sampling.Cutter) (*index, error) {
	x := &index{totals: map[Key]int64{}, pairs: map[[2]string]*pair{},
		labels: map[stages.GroupBy]map[string]bool{stages.ByService: {}, stages.ByVNet: {}}}
	in, err := base.Read(schema.Flows, []string{"size_bytes", "start_ns", "service", "vnet"}, nil)
	if err != nil {
		return nil, err
	}
	x.addLabel(stages.ByNothing, "")
	err = columns.ForEach(in, func(rec arrow.Record) error {
		service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
		size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		for i := range size {
			cutter.Add(start[i], size[i])
			x.longestBytes = max(x.longestBytes, size[i])
			x.bytesOf[bits.Len64(uint64(size[i]))] += size[i]
			x.pair(service.Value(i), vnet.Value(i)).flows[sizebin.Of(size[i])]++
		}
		return ctx.Err()
	})
	for _, p := range x.pairs {
		for bin, flows := range p.flows {
			for _, k := range p.groups[bin] {
				x.totals[k] += flows
			}
		}
	}
	x.slots = cutter.Slots()
	return x, err
}

// cut cuts the workload into slots of so many flows.
func (x *index) cut(flows int64) {
	x.slots = nil
	for _, f := range x.fine {
		n := len(x.slots) - 1
		if n < 0 || x.slots[n].Flows >= max(1, flows) {
			x.slots = append(x.slots, f)
			continue
		}
		s := &x.slots[n]
		s.ToNS, s.Flows, s.Bytes = f.ToNS, s.Flows+f.Flows, s.Bytes+f.Bytes
	}
}

// pair is that of a service and a virtual network, whose texts need not outlive the call.
func (x *index) pair(service, vnet string) *pair {
	if p := x.last; p != nil && p.service == service && p.vnet == vnet {
		return p
	}
	p := x.pairs[[2]string{service, vnet}]
	if p == nil {
		p = x.newPair(strings.Clone(service), strings.Clone(vnet))
		x.pairs[[2]string{p.service, p.vnet}] = p
	}
	x.last = p
	return p
}

// newPair gives labels groups of their own, unless there are too many.
func (x *index) newPair(service, vnet string) *pair {
	p := &pair{service: service, vnet: vnet}
	services, vnets := x.label(stages.ByService, service), x.label(stages.ByVNet, vnet)
	for bin := range p.groups {
		of := []Key{{stages.ByNothing, "", bin}, {stages.ByNothing, "", sizebin.Count}}
		if services {
			of = append(of, Key{stages.ByService, service, bin}, Key{stages.ByService, service, sizebin.Count})
		}
		if vnets {
			of = append(of, Key{stages.ByVNet, vnet, sizebin.Count})
		}
		p.groups[bin] = of
	}
	return p
}

// label reports whether a label has groups of its own.
func (x *index) label(by stages.GroupBy, label string) bool {
	known := x.labels[by]
	if !known[label] && len(known) < maxLabels {
		known[label] = true
		x.addLabel(by, label)
	}
	return known[label]
}

func (x *index) addLabel(by stages.GroupBy, label string) {
	for bin := range sizebin.Count + 1 {
		if by != stages.ByVNet || bin == sizebin.Count {
			x.order = append(x.order, Key{by, label, bin})
		}
	}
}

func (x *index) groups(service, vnet string, bytes int64) []Key {
	return x.pair(service, vnet).groups[sizebin.Of(bytes)]
}

// all is the group of all flows.
var all = Key{stages.ByNothing, "", sizebin.Count}
