package sampling

import (
	"context"
	"math/bits"
	"strings"

	"parsimon/pipeline"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
	"parsimon/stages/confidence"
	"parsimon/stages/route"
	"parsimon/stages/workload"
)

// maxLabels is how many services have intervals of their own, and how many virtual networks: the first by flow.
const maxLabels = 64

// An index describes the whole workload, without an estimate.
type index struct {
	fine         []slot // as short as slots can be
	slots        []slot
	totals       map[Key]int64 // flows
	order        []Key         // all flows by size bin, all flows, then labels in the order in which they first come
	remarks      []string      // about the flows
	longestBytes int64
	bytesOf      [64]int64 // bytes of flows of 2^(i-1) to 2^i bytes, at i
	// Of every pathEvery-th flow with a path: bytes, and bytes times the round trip of the idle path in ns.
	routed, roundTrips float64
	labels             map[confidence.GroupBy]map[string]bool
	pairs              map[[2]string]*pair // of service and virtual network
	last               *pair
}

// A pair describes the flows of a service in a virtual network.
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
	x, err := readCut(ctx, base, newCutter(g.Flows/maxSlots))
	if err == nil {
		x.fine, x.slots = x.slots, nil
		x.remarks = names.Of(g.Notes, func(note string) string { return "flows: " + note })
	}
	return x, err
}

func readCut(ctx context.Context, base *pipeline.Estimation, into *cutter) (*index, error) {
	x := &index{totals: map[Key]int64{}, pairs: map[[2]string]*pair{},
		labels: map[confidence.GroupBy]map[string]bool{confidence.ByService: {}, confidence.ByVNet: {}}}
	in, err := base.Read(schema.Flows)
	if err != nil {
		return nil, err
	}
	x.addLabel(confidence.ByNothing, "")
	row := 0
	err = columns.Each(in, func(f *flow) error {
		if row++; row%pathEvery == 0 {
			if path, err := base.Router.Path(f.ID, f.Src, f.Dst, nil); err == nil {
				x.routed += float64(f.SizeBytes)
				for _, l := range path {
					x.roundTrips += 2 * float64(f.SizeBytes) * float64(base.Network.Links[l].DelayNS)
				}
			}
		}
		into.Add(f.StartNS, f.SizeBytes)
		x.longestBytes = max(x.longestBytes, f.SizeBytes)
		x.bytesOf[bits.Len64(uint64(f.SizeBytes))] += f.SizeBytes
		x.pair(f.Service, f.VNet).flows[sizebin.Of(f.SizeBytes)]++
		return ctx.Err()
	})
	for _, p := range x.pairs {
		for bin, flows := range p.flows {
			for _, k := range p.groups[bin] {
				x.totals[k] += flows
			}
		}
	}
	x.slots = into.Slots()
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
	services, vnets := x.label(confidence.ByService, service), x.label(confidence.ByVNet, vnet)
	for bin := range p.groups {
		of := []Key{{confidence.ByNothing, "", bin}, {confidence.ByNothing, "", sizebin.Count}}
		if services {
			of = append(of, Key{confidence.ByService, service, bin}, Key{confidence.ByService, service, sizebin.Count})
		}
		if vnets {
			of = append(of, Key{confidence.ByVNet, vnet, sizebin.Count})
		}
		p.groups[bin] = of
	}
	return p
}

// label reports whether a label has groups of its own.
func (x *index) label(by confidence.GroupBy, label string) bool {
	known := x.labels[by]
	if !known[label] && len(known) < maxLabels {
		known[label] = true
		x.addLabel(by, label)
	}
	return known[label]
}

func (x *index) addLabel(by confidence.GroupBy, label string) {
	for bin := range sizebin.Count + 1 {
		if by != confidence.ByVNet || bin == sizebin.Count {
			x.order = append(x.order, Key{by, label, bin})
		}
	}
}

func (x *index) groups(service, vnet string, bytes int64) []Key {
	return x.pair(service, vnet).groups[sizebin.Of(bytes)]
}

// A flow of the workload.
type flow struct {
	route.Flow
	workload.Labels
}
