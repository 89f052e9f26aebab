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

const (
	// maxLabels is the number of services, and of virtual networks, that have their own intervals: those that
	// come first in the workload.
	maxLabels = 64
	// maxSlots bounds the number of slots and so the memory of an index.
	maxSlots = 100_000
	// pathEvery is the interval, in flows, at which round trips of paths are looked up.
	pathEvery = 64
)

// An index describes the whole workload, without an estimate.
type index struct {
	fine         []slot        // the shortest possible slots; cut merges them
	slots        []slot        // as cut left them
	totals       map[Key]int64 // flows of each group
	order        []Key         // groups: all flows by size bin, all flows, then labels in order of appearance
	remarks      []string      // about the flows
	longestBytes int64         // size of the largest flow
	bytesOf      [64]int64     // element i: bytes of the flows of at least 2^(i-1) and less than 2^i bytes
	// Sums over every pathEvery-th flow, if it has a path.
	routed     float64 // bytes
	roundTrips float64 // bytes times the round trip of the idle path in ns
	labels     map[confidence.GroupBy]map[string]bool
	pairs      map[[2]string]*pair // by service and virtual network
	last       *pair               // of the last flow
}

// A pair describes the flows of one service in one virtual network.
type pair struct {
	service, vnet string
	groups        [sizebin.Count][]Key // groups of a flow, by its size bin
	flows         [sizebin.Count]int64 // by size bin
}

// flows returns the number of flows of the workload, also of those without a slowdown.
func (x *index) flows() (n int64) {
	for _, slot := range x.slots {
		n += slot.Flows
	}
	return n
}

// readIndex reads table flows once. Call cut before slots are used.
func readIndex(ctx context.Context, base *pipeline.Estimation) (*index, error) {
	g, err := base.Generated()
	if err != nil {
		return nil, err
	}
	x, err := readCut(ctx, base, newCutter(g.Flows/maxSlots))
	if err == nil {
		x.fine = x.slots
		x.slots = nil
		x.remarks = names.Of(g.Notes, func(note string) string { return "flows: " + note })
	}
	return x, err
}

// readCut reads table flows and cuts it into slots.
func readCut(ctx context.Context, base *pipeline.Estimation, into *cutter) (*index, error) {
	x := &index{
		totals: map[Key]int64{},
		pairs:  map[[2]string]*pair{},
		labels: map[confidence.GroupBy]map[string]bool{confidence.ByService: {}, confidence.ByVNet: {}},
	}
	in, err := base.Read(schema.Flows)
	if err != nil {
		return nil, err
	}
	x.addLabel(confidence.ByNothing, "")
	row := 0
	err = columns.Each(in, func(f *flow) error {
		row++
		if row%pathEvery == 0 {
			x.addPath(base, f)
		}
		into.Add(f.StartNS, f.SizeBytes)
		x.longestBytes = max(x.longestBytes, f.SizeBytes)
		x.bytesOf[bits.Len64(uint64(f.SizeBytes))] += f.SizeBytes
		if !f.Background {
			x.pair(f.Service, f.VNet).flows[sizebin.Of(f.SizeBytes)]++
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
	x.slots = into.Slots()
	return x, err
}

// addPath counts the round trip of a flow's path. It ignores flows without a path.
func (x *index) addPath(base *pipeline.Estimation, f *flow) {
	path, err := base.Router.Path(f.Connection, f.Src, f.Dst, nil)
	if err != nil {
		return
	}
	x.routed += float64(f.SizeBytes)
	for _, l := range path {
		x.roundTrips += 2 * float64(f.SizeBytes) * float64(base.Network.Links[l].DelayNS)
	}
}

// cut cuts the workload into slots of the given number of flows, or a few more.
func (x *index) cut(flows int64) {
	x.slots = nil
	for _, f := range x.fine {
		n := len(x.slots) - 1
		if n < 0 || x.slots[n].Flows >= max(1, flows) {
			x.slots = append(x.slots, f)
			continue
		}
		s := &x.slots[n]
		s.ToNS = f.ToNS
		s.Flows += f.Flows
		s.Bytes += f.Bytes
	}
}

// pair returns the pair of a service and a virtual network. It copies the strings that it keeps.
func (x *index) pair(service, vnet string) *pair {
	p := x.last
	if p != nil && p.service == service && p.vnet == vnet {
		return p
	}
	p = x.pairs[[2]string{service, vnet}]
	if p == nil {
		p = x.newPair(strings.Clone(service), strings.Clone(vnet))
		x.pairs[[2]string{p.service, p.vnet}] = p
	}
	x.last = p
	return p
}

// newPair makes a pair. Its service and virtual network have separate groups, unless there are already
// maxLabels.
func (x *index) newPair(service, vnet string) *pair {
	p := &pair{service: service, vnet: vnet}
	byService := x.label(confidence.ByService, service)
	byVNet := x.label(confidence.ByVNet, vnet)
	for bin := range p.groups {
		of := []Key{{confidence.ByNothing, "", bin}, {confidence.ByNothing, "", sizebin.Count}}
		if byService {
			of = append(of, Key{confidence.ByService, service, bin}, Key{confidence.ByService, service, sizebin.Count})
		}
		if byVNet {
			of = append(of, Key{confidence.ByVNet, vnet, sizebin.Count})
		}
		p.groups[bin] = of
	}
	return p
}

// label reports whether a label has its own groups.
func (x *index) label(by confidence.GroupBy, label string) bool {
	known := x.labels[by]
	if !known[label] && len(known) < maxLabels {
		known[label] = true
		x.addLabel(by, label)
	}
	return known[label]
}

// addLabel appends the groups of a label. Virtual networks have one group, of all sizes.
func (x *index) addLabel(by confidence.GroupBy, label string) {
	for bin := range sizebin.Count + 1 {
		if by != confidence.ByVNet || bin == sizebin.Count {
			x.order = append(x.order, Key{by, label, bin})
		}
	}
}

// groups returns the groups that a flow belongs to.
func (x *index) groups(service, vnet string, bytes int64) []Key {
	return x.pair(service, vnet).groups[sizebin.Of(bytes)]
}

// A flow is a row of table flows.
type flow struct {
	route.Flow
	workload.Labels
	Background bool `col:"background"`
}
