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

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/rng"
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

// A WindowsSpec marks the scenario of some windows of another one.
type WindowsSpec struct {
	Of          lake.ScenarioID `json:"of"`
	Parts       [][2]int64      `json:"parts"`         // of the time, in ns: see Windows.Parts
	Spans       [][2]int64      `json:"spans"`         // see Windows
	LastStartNS int64           `json:"last_start_ns"` // of a flow in Of
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
	spec.Windows = &WindowsSpec{base.ID(), w.Parts(g.FirstStartNS, g.LastStartNS), w.Spans, g.LastStartNS}
	model := &Model{base.Lake, spec, base.Network, base.Router, base.waits}
	model.limit(0)
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
		slowestBps, _ := m.Network.HostBps()
		c.longestNS = int64(min(1e16, float64(windows.LongestBytes)*8e9/float64(slowestBps))) + 1
		r, err := engine.Complete(m.Lake, base, MethodVersion)
		var reads [][2]int64 // each part and the time before it
		for _, p := range c.parts {
			reads = join(reads, p[0]-carryBack*c.longestNS, p[1])
		}
		for _, p := range reads {
			if err != nil {
				break
			}
			in := m.Lake.Read(schema.Flows, r.Files(schema.Flows), &lake.Range{Column: "start_ns", Lo: p[0], Hi: p[1]})
			err = columns.Each(in, func(r *workload.Row) error { return cmp.Or(ctx.Err(), c.add(*r)) })
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
	windows   Windows
	parts     [][2]int64
	key       uint64         // of the times at which active flows begin
	next      int            // the first part that has not begun
	fluid     *fluid         // of the whole workload
	longestNS int64          // in which the slowest host sends the largest flow
	due       []workload.Row // flows that are to begin in the present part, if they are active then, by time
	held      []workload.Row // of the present part, not written yet
	out       schema.Sink
}

// byStart orders flows by their starts, and those that start together by id.
func byStart(a, b workload.Row) int {
	return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.ID, b.ID))
}

// Flows are looked for before a part for carryBack times as long as the largest flow takes alone: with 4, a fluid that
// was empty then had too few large flows at the part, and p90 of windows was 1.2% lower (results/coverage.md). Until
// nearBack times before the part, flows below a fewBytes-th of the largest are left out and steps are farSteps times as
// long: a fluid of all flows so far back would take as long as the packets.
const (
	carryBack, nearBack = 16, 4
	fewBytes, farSteps  = 64, 10
)

// add takes a flow that is in a part, or active when one begins.
func (c *carrier) add(r workload.Row) error {
	err := c.begin(r.StartNS)
	if err == nil && len(c.held) >= mostHeld {
		err = c.write(r.StartNS)
	}
	if err != nil {
		return err
	}
	c.drain(r.StartNS)
	near := c.next < len(c.parts) && r.StartNS >= c.parts[c.next][0]-nearBack*c.longestNS
	if near || c.next > 0 && r.StartNS < c.parts[c.next-1][1] {
		c.fluid.pace(r.StartNS, fluidStepNS)
	} else if c.fluid.pace(r.StartNS, farSteps*fluidStepNS); r.SizeBytes < c.windows.LongestBytes/fewBytes {
		return nil
	}
	r.Labels = r.Labels.Clone()
	c.fluid.add(r.StartNS, carried{Row: r, remaining: float64(r.SizeBytes)})
	if n := c.next - 1; n >= 0 && r.StartNS < c.parts[n][1] { // inside part n
		c.held = append(c.held, r)
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
		c.fluid.pace(part[0], fluidStepNS)
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
