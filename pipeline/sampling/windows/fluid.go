package windows

import (
	"slices"

	"parsimon/stages/step"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// A carried flow is a flow in the fluid.
type carried struct {
	workload.Row
	remaining float64 // bytes
	path      []int32 // link ids
}

// fluidStepNS is the shortest time step of a fluid. A flow begins with the first step after its start, on
// average half a step late, which stands for the delays of the path. It ends at the end of a step.
const fluidStepNS = int64(20_000)

// fluidRounds is the number of times per step that links divide their unused bandwidth among flows. With 3
// rounds flows have 0.8% more bytes left than with 8 (scenario small).
const fluidRounds = 6

// Version is part of the id of a scenario of windows, because its carried flows and their starts depend on
// the fluid. Raise it with every change of the fluid or of the carried flows.
const Version = 14

// A fluid approximates which flows are active at a time and how many bytes they have left. Links divide their
// bandwidth equally among the flows that cross them. Bandwidth that a flow cannot use is divided among the
// other flows of the link. The ACKs of the data on a link take bandwidth from its reverse link. If paths
// move, only the first and the last link of a flow count. If only these counted always, p90 of windows would
// be 0.8% too low (datasets/results/coverage.md).
//
// Flows must be added in start order. The time of a step is proportional to the number of active flows.
type fluid struct {
	links  []fluidLink
	path   func(*workload.Row) []int32 // link ids; if it returns none, the flow is omitted
	now    int64                       // in ns
	stepNS int64
	steps  int64 // number of the current step
	// ackShare is the number of payload bytes for which a link has no capacity per payload byte on its reverse
	// link, because of the ACKs.
	ackShare float64
	active   []carried
	busy     []int32   // the links of the active flows, and some that have none any more
	sending  []int32   // indexes of the active flows that send in the current round
	begun    []carried // added in the current step, in start order
	// ended is called with each flow that ends, when now is the beginning of its last step; it may be nil.
	ended func(c *carried)
}

// A fluidLink is the state of one link.
type fluidLink struct {
	capacity, left float64 // bytes of payload in a step
	flows          float64 // that share it
	share          float64 // of each of them in the current round
	used           float64 // bytes in step usedAt
	usedAt         int64
	busy           bool // the link is in fluid.busy
}

// newFluid returns a fluid without flows. The capacity of a link is its share for payload. At switches it is
// multiplied by the utilization that the transport reaches.
func newFluid(m *step.Model) *fluid {
	p := &m.Params
	packet := float64(p.PayloadBytes + p.HeaderBytes)
	f := &fluid{
		links: make([]fluidLink, len(m.Network.Links)), stepNS: fluidStepNS, ackShare: float64(p.AckBytes) / packet,
	}
	for i, l := range m.Network.Links {
		capacity := float64(p.PayloadBytes) / packet * float64(l.BandwidthBps) * float64(fluidStepNS) / 8e9
		f.links[i].capacity = capacity
		if !m.Network.FromHost(l.ID) {
			f.links[i].capacity *= p.Utilization()
		}
	}
	f.path = func(r *workload.Row) []int32 {
		path, err := m.Router.Path(r.Connection, r.Src, r.Dst, nil)
		if err == nil && m.Moves.Whole() {
			path = append(path[:1], path[len(path)-1])
		}
		return path
	}
	return f
}

// add adds a flow that begins at a time.
func (f *fluid) add(ns int64, c carried) {
	f.advance(ns)
	c.path = f.path(&c.Row)
	if len(c.path) > 0 {
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
		started := 0 // if pace has shortened the step, some flows start after it
		for ; started < len(f.begun) && f.begun[started].StartNS < f.now; started++ {
			f.count(f.begun[started].path, 1)
		}
		f.active = append(f.active, f.begun[:started]...)
		f.begun = slices.Delete(f.begun, 0, started)
	}
}

// pace lets the active flows send until a time and changes the length of later steps.
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

// count adds a number of flows, which may be negative, to the links of a path.
func (f *fluid) count(path []int32, flows float64) {
	for _, id := range path {
		l := &f.links[id]
		l.flows += flows
		if !l.busy {
			l.busy = true
			f.busy = append(f.busy, id)
		}
	}
}

// each calls do with every flow that has been added and has not ended.
func (f *fluid) each(do func(*carried)) {
	for _, flows := range [][]carried{f.active, f.begun} {
		for i := range flows {
			do(&flows[i])
		}
	}
}

// step lets the active flows send for one step and removes those that have ended.
//
// Links first get their capacity, less the ACKs of the data that their reverse carried in the last step. In
// each round a flow then sends an equal share of what its links have left, at most that of the most loaded
// one. What a link has left never grows in a step, so a flow that sends nothing in a round is done.
func (f *fluid) step() {
	f.refill()
	f.sending = f.sending[:0]
	for i := range f.active {
		f.sending = append(f.sending, int32(i))
	}
	for round := 0; round < fluidRounds && len(f.sending) > 0; round++ {
		for _, l := range f.busy {
			link := &f.links[l]
			link.share = max(0, link.left/link.flows)
		}
		sending := f.sending[:0]
		for _, i := range f.sending {
			c := &f.active[i]
			bytes := c.remaining
			for _, l := range c.path {
				bytes = min(bytes, f.links[l].share)
			}
			if bytes <= 0 {
				continue
			}
			c.remaining -= bytes
			for _, l := range c.path {
				f.links[l].used += bytes
				f.links[l].left -= bytes
			}
			sending = append(sending, i)
		}
		f.sending = sending
	}
	kept := 0
	for i := range f.active {
		c := &f.active[i]
		if c.remaining < 1 {
			f.count(c.path, -1)
			if f.ended != nil {
				f.ended(c)
			}
			continue
		}
		if kept < i {
			f.active[kept] = *c
		}
		kept++
	}
	f.active = f.active[:kept]
}

// refill begins a step: it sets what the links of the active flows have left.
func (f *fluid) refill() {
	before := f.steps
	f.steps++
	busy := f.busy[:0]
	for _, id := range f.busy {
		l := &f.links[id]
		l.busy = l.flows > 0
		if !l.busy {
			continue
		}
		busy = append(busy, id)
		l.left = l.capacity
		back := &f.links[topology.Reverse(id)]
		if back.usedAt == before {
			l.left -= f.ackShare * back.used
		}
	}
	f.busy = busy
	for _, id := range busy {
		f.links[id].used = 0
		f.links[id].usedAt = f.steps
	}
}
