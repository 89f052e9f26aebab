package windows

import (
	"slices"

	"parsimon/stages/step"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// A carried flow is in the fluid.
type carried struct {
	workload.Row
	remaining float64 // bytes
	sent      float64 // bytes, in the present step
	path      []int32 // links
}

// fluidStepNS is the time step of a fluid. A flow begins with the first step after its start, half a step later on
// average, which stands for the delays of the path, and ends at a step.
const fluidStepNS = int64(20_000)

// fluidRounds is how many times hosts divide among others what flows cannot use on their other side. With 3 rounds
// flows have 0.8% more bytes left than with 8 (scenario small).
const fluidRounds = 6

// Version is part of the id of a scenario of windows: its carried flows and their starts depend on the fluid.
const Version = 14

// A fluid approximates which flows are active at a time, and how many bytes they have left: links divide their
// bandwidth in equal parts among the flows that cross them, and what a flow cannot use at one link is divided once more
// among the others. ACKs of what a link carries take bandwidth from its reverse. Where paths move, only the first and
// the last link of a flow count. With the hosts' links alone p90 of windows was 0.8% too low (results/coverage.md).
//
// Flows arrive in start order. Work grows with the flows that are active at a time, in steps of stepNS.
type fluid struct {
	links  []fluidLink
	path   func(*workload.Row) []int32 // none: the flow is left out
	now    int64
	stepNS int64
	steps  int64
	// ackShare is how many bytes of payload the ACKs of a byte of payload in the other direction replace on a link.
	ackShare float64
	active   []carried
	begun    []carried        // in the present step
	ended    func(c *carried) // nil, or called with a flow that ends, when now is the beginning of its last step
}

// A fluidLink is what a link can carry in a step, and the flows that share it.
type fluidLink struct {
	capacity, left float64 // bytes
	flows          float64
	used           float64 // bytes in step usedAt
	usedAt         int64
}

// use counts bytes in a step.
func (l *fluidLink) use(step int64, bytes float64) {
	if l.usedAt != step {
		l.used, l.usedAt = 0, step
	}
	l.used += bytes
	l.left -= bytes
}

// newFluid is a fluid of the network without flows. Of a link it has the share that carries payload, and of a switch's
// link what the transport fills.
func newFluid(m *step.Model) *fluid {
	p := &m.Params
	packet := float64(p.PayloadBytes + p.HeaderBytes)
	f := &fluid{links: make([]fluidLink, len(m.Network.Links)), stepNS: fluidStepNS,
		ackShare: float64(p.AckBytes) / packet}
	for i, l := range m.Network.Links {
		f.links[i].capacity = float64(p.PayloadBytes) / packet * float64(l.BandwidthBps) * float64(fluidStepNS) / 8e9
		if !m.Network.FromHost(l.ID) {
			f.links[i].capacity *= p.Utilization()
		}
	}
	f.path = func(r *workload.Row) []int32 {
		path, err := m.Router.Path(r.ID, r.Src, r.Dst, nil)
		if err == nil && m.Moves.Whole() {
			path = append(path[:1], path[len(path)-1])
		}
		return path
	}
	return f
}

// add begins a flow at a time.
func (f *fluid) add(ns int64, c carried) {
	f.advance(ns)
	if c.path = f.path(&c.Row); len(c.path) > 0 {
		f.begun = append(f.begun, c)
	}
}

// advance lets the active flows send until a time.
func (f *fluid) advance(ns int64) {
	for f.now+f.stepNS <= ns {
		if len(f.active)+len(f.begun) == 0 {
			f.now = ns - ns%f.stepNS
			return
		}
		f.step()
		f.now += f.stepNS
		started := 0 // not all, if pace has shortened the step in which they are
		for ; started < len(f.begun) && f.begun[started].StartNS < f.now; started++ {
			f.count(f.begun[started].path, 1)
		}
		f.active = append(f.active, f.begun[:started]...)
		f.begun = slices.Delete(f.begun, 0, started)
	}
}

// pace lets the active flows send until a time, and then in steps of another length.
func (f *fluid) pace(ns, stepNS int64) {
	if f.stepNS == stepNS {
		return
	}
	f.advance(ns)
	longer := float64(stepNS) / float64(f.stepNS)
	for i := range f.links {
		f.links[i].capacity *= longer
		f.links[i].used *= longer
	}
	f.stepNS = stepNS
}

// count adds flows to the links of a path.
func (f *fluid) count(path []int32, flows float64) {
	for _, l := range path {
		f.links[l].flows += flows
	}
}

// each calls do with the flows that have begun and not ended.
func (f *fluid) each(do func(*carried)) {
	for _, flows := range [][]carried{f.active, f.begun} {
		for i := range flows {
			do(&flows[i])
		}
	}
}

func (f *fluid) step() {
	before := f.steps
	f.steps++
	for i := range f.active {
		for _, l := range f.active[i].path {
			f.links[l].left = f.links[l].capacity
			if back := &f.links[topology.Reverse(l)]; back.usedAt == before {
				f.links[l].left -= f.ackShare * back.used
			}
		}
	}
	for range fluidRounds {
		for i := range f.active {
			c := &f.active[i]
			c.sent = c.remaining
			for _, l := range c.path {
				c.sent = max(0, min(c.sent, f.links[l].left/f.links[l].flows))
			}
		}
		for i := range f.active {
			c := &f.active[i]
			c.remaining -= c.sent
			for _, l := range c.path {
				f.links[l].use(f.steps, c.sent)
			}
		}
	}
	kept := f.active
	f.active = kept[:0]
	for _, c := range kept {
		if c.remaining >= 1 {
			f.active = append(f.active, c)
			continue
		}
		f.count(c.path, -1)
		if f.ended != nil {
			f.ended(&c)
		}
	}
}
