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
	bytesOf      [64]int64                            // bytes of flows of 2^(i-1) to 2^i bytes, at i
	labels       map[stages.GroupBy]map[string]string // to themselves, in memory of their own
}

// A cutter is a sampling.Cutter or a sampling.Recounter.
type cutter interface {
	Add(startNS, bytes int64)
	Slots() []sampling.Slot
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

// readCut reads table flows and cuts it.
func readCut(ctx context.Context, base *pipeline.Estimation, cutter cutter) (*index, error) {
	x := &index{totals: map[Key]int64{}, labels: map[stages.GroupBy]map[string]string{stages.ByService: {}, stages.ByVNet: {}}}
	in, err := base.Read(schema.Flows, []string{"size_bytes", "start_ns", "service", "vnet"}, nil)
	if err != nil {
		return nil, err
	}
	x.addLabel(stages.ByNothing, "")
	err = columns.Consume(in, func(rec arrow.Record) error {
		service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
		size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		for i := range size {
			cutter.Add(start[i], size[i])
			x.longestBytes = max(x.longestBytes, size[i])
			x.bytesOf[bits.Len64(uint64(size[i]))] += size[i]
			x.label(stages.ByService, service.Value(i))
			x.label(stages.ByVNet, vnet.Value(i))
			x.each(service.Value(i), vnet.Value(i), size[i], func(k Key) { x.totals[k]++ })
		}
		return ctx.Err()
	})
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

// label gives a label groups of its own, unless there are too many.
func (x *index) label(by stages.GroupBy, label string) {
	known := x.labels[by]
	if _, ok := known[label]; !ok && len(known) < maxLabels {
		label = strings.Clone(label)
		known[label] = label
		x.addLabel(by, label)
	}
}

func (x *index) addLabel(by stages.GroupBy, label string) {
	for bin := range sizebin.Count + 1 {
		if by != stages.ByVNet || bin == sizebin.Count {
			x.order = append(x.order, Key{by, label, bin})
		}
	}
}

// each calls do with every group that a flow is in. service and vnet need not outlive the call.
func (x *index) each(service, vnet string, bytes int64, do func(Key)) {
	bin := sizebin.Of(bytes)
	do(Key{stages.ByNothing, "", bin})
	do(Key{stages.ByNothing, "", sizebin.Count})
	if service, ok := x.labels[stages.ByService][service]; ok {
		do(Key{stages.ByService, service, bin})
		do(Key{stages.ByService, service, sizebin.Count})
	}
	if vnet, ok := x.labels[stages.ByVNet][vnet]; ok {
		do(Key{stages.ByVNet, vnet, sizebin.Count})
	}
}

// all is the group of all flows.
var all = Key{stages.ByNothing, "", sizebin.Count}
