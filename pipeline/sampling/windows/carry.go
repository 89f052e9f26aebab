package windows

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sort"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/rng"
	"parsimon/stages/workload"
)

// A FlowReader streams the flows of a workload that start from fromNS until toNS, excluded.
type FlowReader func(fromNS, toNS int64) schema.Batches

// WriteFlows writes the flows that start in the parts of the selected windows, and the flows that are active when a part
// begins. Rows are in start order. read reads the whole workload.
func (s Scenario) WriteFlows(ctx context.Context, selection Selection, read FlowReader, out schema.Sink) error {
	slowestBps, _ := s.Model.Network.HostBps()
	c := carrier{
		selection: selection, parts: s.Spec.Parts, fluid: newFluid(s.Model), out: out,
		key:       rng.New(s.Model.Seed, rng.Carried).Key(),
		longestNS: int64(min(1e16, float64(selection.LongestBytes)*8e9/float64(slowestBps))) + 1,
	}
	var reads [][2]int64 // each part and the time before it
	for _, p := range c.parts {
		reads = join(reads, p[0]-carryBack*c.longestNS, p[1])
	}
	for _, p := range reads {
		add := func(r *workload.Row) error { return cmp.Or(ctx.Err(), c.add(*r)) }
		if err := columns.Each(read(p[0], p[1]), add); err != nil {
			return err
		}
	}
	return errors.Join(c.begin(math.MaxInt64), c.write(math.MaxInt64))
}

// A carrier passes on the flows of the parts and finds those that are still active when a part begins.
type carrier struct {
	selection Selection
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
	} else if c.fluid.pace(r.StartNS, farSteps*fluidStepNS); r.SizeBytes < c.selection.LongestBytes/fewBytes {
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
		spreadNS := min(c.selection.WarmupNS/8, part[1]-part[0]-1)
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
