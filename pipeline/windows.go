package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// Windows are parts of a scenario's time that are estimated without the rest:
//
//	    warm-up         span            cool-down
//	|──────────────|════════════════|──────────────|      time ─►
//	|─────| flows that began earlier and are still active begin here, with the bytes that they have left
//
// Flows that start in a span count. Flows of the warm-up and the cool-down are simulated for their effect on those that
// count. Parts that overlap are one. Each part is simulated without the others: flows that outlast a part begin again
// in the next one.
type Windows struct {
	Spans      [][2]int64 `json:"spans"` // starts in ns, from and to (excluded), ascending
	WarmupNS   int64      `json:"warmup_ns"`
	CooldownNS int64      `json:"cooldown_ns"`
	// LongestBytes is the size of the workload's largest flow, which says how long before a window flows are looked
	// for that are still active.
	LongestBytes int64 `json:"longest_bytes"`
}

// WindowsVersion changes whenever windows of the same scenario would get other numbers than before.
func WindowsVersion() string { return fmt.Sprintf("%d-%d", MethodVersion, fluidVersion) }

// A WindowsSpec marks the scenario of some windows of another one.
type WindowsSpec struct {
	Of    lake.ScenarioID `json:"of"`
	Parts [][2]int64      `json:"parts"` // of the time, in ns: see Windows.Parts
	Spans [][2]int64      `json:"spans"` // see Windows
}

// Parts are the simulated parts of the time, ascending and apart, within the workload's starts.
func (w Windows) Parts(firstNS, lastNS int64) (all [][2]int64) {
	for _, s := range w.Spans {
		all = join(all, max(firstNS, s[0]-w.WarmupNS), min(lastNS+1, s[1]+w.CooldownNS))
	}
	return all
}

// join adds a range to ascending ones, as a part of the last where the two touch.
func join(all [][2]int64, from, to int64) [][2]int64 {
	if n := len(all) - 1; n >= 0 && from <= all[n][1] {
		all[n][1] = max(all[n][1], to)
		return all
	}
	return append(all, [2]int64{from, to})
}

// DeriveWindows opens the scenario of some windows of one that the lake holds, for an estimate. It is a scenario of its
// own, which commands do not list, and is removed with the one that it was made from. The variant of base is that of
// the whole network.
func DeriveWindows(ctx context.Context, base *Estimation, w Windows, o Settings) (*Estimation, error) {
	g, err := base.Generated()
	if err != nil {
		return nil, err
	}
	spec := base.Spec
	spec.Canonical, err = json.Marshal(struct {
		WindowsOf lake.ScenarioID `json:"windows_of"`
		Windows   Windows         `json:"windows"`
		Fluid     int             `json:"fluid"`
	}{base.ID(), w, fluidVersion})
	if err != nil {
		return nil, err
	}
	spec.ScenarioID = lake.ScenarioID(scenario.IDOf(spec.Canonical))
	spec.Name = fmt.Sprintf("%s, %d windows", base.Spec.Name, len(w.Spans))
	spec.Aliases, spec.Named = nil, nil
	spec.Windows = &WindowsSpec{Of: base.ID(), Parts: w.Parts(g.FirstStartNS, g.LastStartNS), Spans: w.Spans}
	model := &Model{base.Lake, spec, base.Network, base.Router, base.waits}
	if err := model.check(base.variant, o); err != nil {
		return nil, err
	}
	o.Base, o.Ephemeral = base.ID(), true
	e, err := newEstimation(ctx, model, base.variant, o)
	if err == nil {
		e.source = model.windowFlows(base.ID(), w)
	}
	return e, err
}

// windowFlows are the flows of a base scenario in windows.
func (m *Model) windowFlows(from lake.ScenarioID, windows Windows) *source {
	base := generated(m.Lake, from)
	s := &source{reads: []engine.Output{base.Output(schema.Flows)}}
	s.write = func(ctx context.Context, _ *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
		c := carrier{windows: windows, parts: m.Spec.Windows.Parts, fluid: m.newFluid(), out: out}
		c.key = rng.New(m.Spec.Seed, rng.Carried).Key()
		c.slowestBps, _ = m.Network.HostBps()
		r, err := engine.Complete(m.Lake, base, MethodVersion)
		for _, p := range c.reads() {
			if err != nil {
				break
			}
			in := m.Lake.Read(schema.Flows, r.Files(schema.Flows), nil, &lake.Range{Column: "start_ns", Lo: p[0], Hi: p[1]})
			err = columns.ForEach(in, func(rec arrow.Record) error { return errors.Join(ctx.Err(), c.batch(rec)) })
		}
		if err == nil {
			err = errors.Join(c.begin(math.MaxInt64), c.write(math.MaxInt64))
		}
		return &Generated{}, err
	}
	return s
}

// A carrier passes on the flows of the parts and finds those that are still active when a part begins.
type carrier struct {
	windows    Windows
	parts      [][2]int64
	key        uint64         // of the times at which active flows begin
	next       int            // the first part that has not begun
	fluid      *fluid         // of the whole workload
	slowestBps int64          // of the hosts
	due        []workload.Row // flows that are to begin in the present part, if they are active then, by time
	held       []workload.Row // of the present part, not written yet
	rows       []workload.Row // of the present batch
	out        schema.Sink
}

// A carried flow is in the fluid.
type carried struct {
	workload.Row
	remaining float64 // bytes
	sent      float64 // bytes, in the present step
	path      []int32 // links
}

// byStart orders flows by their starts, and those that start together by id.
func byStart(a, b workload.Row) int {
	return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.ID, b.ID))
}

// carryBack is how many times as long as the largest flow takes alone flows are looked for before a part.
const carryBack = 4

// reads are the times whose flows are read: each part, and before it carryBack times as long as the largest flow
// takes at the slowest host.
func (c *carrier) reads() (all [][2]int64) {
	back := int64(min(1e18, carryBack*float64(c.windows.LongestBytes)*8e9/float64(c.slowestBps))) + 1
	for _, p := range c.parts {
		all = join(all, p[0]-back, p[1])
	}
	return all
}

// batch takes the flows of a batch that are in a part, and those that are active when one begins.
func (c *carrier) batch(rec arrow.Record) error {
	c.rows = columns.Append(c.rows[:0], rec)
	for _, r := range c.rows {
		err := c.begin(r.StartNS)
		if err == nil && len(c.held) >= mostHeld {
			err = c.write(r.StartNS)
		}
		if err != nil {
			return err
		}
		c.drain(r.StartNS)
		r.Service, r.VNet = strings.Clone(r.Service), strings.Clone(r.VNet) // the batch's memory is used again
		c.fluid.add(r.StartNS, carried{Row: r, remaining: float64(r.SizeBytes)})
		if n := c.next - 1; n >= 0 && r.StartNS < c.parts[n][1] { // inside part n
			c.held = append(c.held, r)
		}
	}
	return nil
}

// begin begins the parts that begin before or at a time. The flows that are active then are due in the first eighth of
// the warm-up. New flows have too much of the bandwidth until then: in the first half, p90 and p99 of windows of 2 ms
// (scenario small) were 1.8% and 2.2% below those of the same flows in the whole; in the first eighth, 1.3% and 1.1%.
//
// If they all began with the part, the first windows of all of them would meet in the queues, which takes longer than
// a warm-up to pass where flows are long. Each has its own time (a hash of seed and id), and begins with the bytes that
// it has left then, if any.
func (c *carrier) begin(ns int64) error {
	for c.next < len(c.parts) && c.parts[c.next][0] <= ns {
		if err := c.write(math.MaxInt64); err != nil {
			return err
		}
		part := c.parts[c.next]
		c.next++
		spreadNS := min(c.windows.WarmupNS/8, part[1]-part[0]-1)
		c.fluid.advance(part[0])
		c.fluid.each(func(x *carried) {
			offsetNS := rng.Below32(uint32(rng.Hash(c.key, uint64(x.ID))), int(spreadNS+1))
			c.due = append(c.due, workload.Row{ID: x.ID, StartNS: part[0] + int64(offsetNS)})
		})
		slices.SortFunc(c.due, byStart)
	}
	return nil
}

// drain begins the flows that are due until a time. The fluid knows what they have left at each of its steps.
func (c *carrier) drain(ns int64) {
	for len(c.due) > 0 && c.due[0].StartNS <= ns {
		c.fluid.advance(c.due[0].StartNS)
		step, starts := c.due[0].StartNS/fluidStepNS, map[int64]int64{}
		for len(c.due) > 0 && c.due[0].StartNS <= ns && c.due[0].StartNS/fluidStepNS == step {
			starts[c.due[0].ID] = c.due[0].StartNS
			c.due = c.due[1:]
		}
		c.fluid.each(func(x *carried) {
			if start, ok := starts[x.ID]; ok {
				row := x.Row
				row.StartNS, row.SizeBytes = start, int64(x.remaining)
				c.held = append(c.held, row)
			}
		})
	}
}

// mostHeld is about how many flows are written at a time.
const mostHeld = 1 << 16

// write begins the flows that are due before a time, and writes those that are held and begin before it.
func (c *carrier) write(beforeNS int64) error {
	c.drain(beforeNS - 1)
	slices.SortFunc(c.held, byStart)
	n := sort.Search(len(c.held), func(i int) bool { return c.held[i].StartNS >= beforeNS })
	if n == 0 {
		return nil
	}
	err := workload.RowTable.Write(c.out, c.held[:n])
	c.held = slices.Delete(c.held, 0, n)
	return err
}

// fluidStepNS is the time step of a fluid. A flow begins with the first step after its start, half a step later on
// average, which stands for the delays of the path, and ends at a step.
const fluidStepNS = int64(20_000)

// fluidRounds is how many times hosts divide among others what flows cannot use on their other side. With 3 rounds
// flows have 0.8% more bytes left than with 8 (scenario small).
const fluidRounds = 6

// fluidVersion is part of the id of a scenario of windows: its carried flows and their starts depend on the fluid.
const fluidVersion = 10

// goodput is the share of a link's capacity that carries payload: 1,000 of 1,048 bytes of a packet.
const goodput = 1000.0 / 1048

// ackShare is how many bytes of payload the ACKs of a byte of payload in the other direction replace on a link: of 60
// bytes for a packet of 1,000 bytes of payload.
const ackShare = 60 * goodput / 1000

// A fluid approximates which flows are active at a time, and how many bytes they have left: links divide their
// bandwidth in equal parts among the flows that cross them, and what a flow cannot use at one link is divided once more
// among the others. ACKs of what a link carries take bandwidth from its reverse. Where paths move, only the first and
// the last link of a flow count. With the hosts' links alone p90 of windows was 0.8% too low (results/coverage.md).
//
// Flows arrive in start order. Work grows with the flows that are active at a time, in steps of fluidStepNS.
type fluid struct {
	links  []fluidLink
	path   func(*workload.Row) []int32 // none: the flow is left out
	now    int64
	steps  int64
	active []carried
	begun  []carried // in the present step
}

// A fluidLink is what a link can carry in a step, and the flows that share it.
type fluidLink struct {
	capacity, left float64 // bytes
	flows          float64
	used           float64 // bytes in step usedAt
	usedAt         int64
}

// usedIn is how many bytes the link carried in a step.
func (l *fluidLink) usedIn(step int64) float64 {
	if l.usedAt != step {
		return 0
	}
	return l.used
}

// use counts bytes in a step.
func (l *fluidLink) use(step int64, bytes float64) {
	if l.usedAt != step {
		l.used, l.usedAt = 0, step
	}
	l.used += bytes
	l.left -= bytes
}

// newFluid is a fluid of the network without flows.
func (m *Model) newFluid() *fluid {
	f := &fluid{links: make([]fluidLink, len(m.Network.Links))}
	for i, l := range m.Network.Links {
		f.links[i].capacity = goodput * float64(l.BandwidthBps) * float64(fluidStepNS) / 8e9
	}
	f.path = func(r *workload.Row) []int32 {
		path, err := m.Router.Path(r.ID, r.Src, r.Dst, nil)
		if err == nil && m.Spec.Moves.Whole() {
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
	for f.now+fluidStepNS <= ns {
		if len(f.active)+len(f.begun) == 0 {
			f.now = ns - ns%fluidStepNS
			return
		}
		f.step()
		for _, c := range f.begun {
			f.count(c.path, 1)
		}
		f.active, f.begun = append(f.active, f.begun...), f.begun[:0]
		f.now += fluidStepNS
	}
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
			f.links[l].left = f.links[l].capacity - ackShare*f.links[topology.Reverse(l)].usedIn(before)
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
	}
}
