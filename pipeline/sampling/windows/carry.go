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

// A FlowReader streams the flows of a workload that start from fromNS up to, but not including, toNS.
type FlowReader func(fromNS, toNS int64) schema.Batches

// WriteFlows writes the flows that start in the parts of the selected windows, and those that are active when
// a part begins, with the bytes that they have left. Rows are in start order. read reads the whole workload.
func (s Scenario) WriteFlows(
	ctx context.Context, selection Selection, read FlowReader, out schema.Sink,
) error {
	c := carrier{
		selection: selection, parts: s.Spec.Parts, fluid: newFluid(s.Model), out: out,
		key:       rng.New(s.Model.Seed, rng.Carried).Key(),
		longestNS: s.longestNS(selection),
	}
	for _, p := range s.Reads(selection) {
		add := func(r *workload.Row) error { return cmp.Or(ctx.Err(), c.add(*r)) }
		if err := columns.Each(read(p[0], p[1]), add); err != nil {
			return err
		}
	}
	return errors.Join(c.begin(math.MaxInt64), c.write(math.MaxInt64))
}

// Reads returns the times of the flows that WriteFlows reads: each part and the time before it.
func (s Scenario) Reads(selection Selection) (reads [][2]int64) {
	for _, p := range s.Spec.Parts {
		reads = join(reads, p[0]-carryBack*s.longestNS(selection), p[1])
	}
	return reads
}

// longestNS returns the time in which the slowest host sends the largest flow.
func (s Scenario) longestNS(selection Selection) int64 {
	slowestBps, _ := s.Model.Network.HostBps()
	return int64(min(1e16, float64(selection.LongestBytes)*8e9/float64(slowestBps))) + 1
}

// A carrier writes the flows of the parts and carries flows over that are still active when a part begins.
type carrier struct {
	selection Selection
	parts     [][2]int64
	key       uint64         // of the hash that chooses the times at which carried flows begin
	next      int            // index of the first part that has not begun
	fluid     *fluid         // of the whole workload
	longestNS int64          // time in which the slowest host sends the largest flow
	due       []workload.Row // carried flows of the current part that have not begun, by their start in the part
	held      []workload.Row // flows of the current part that are not written yet
	out       schema.Sink
}

// byStart orders flows by start, then by id.
func byStart(a, b workload.Row) int {
	return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.ID, b.ID))
}

// The fluid begins carryBack times longestNS before a part. With 4, the fluid, which begins empty, had too
// few large flows when the part began, and p90 of windows was 1.2% lower (datasets/results/coverage.md).
//
// Until nearBack times longestNS before the part, the fluid has no flows smaller than 1/fewBytes of the
// largest one, and its steps are farSteps times longer. With all flows and short steps it would take as long
// as the packets.
const (
	carryBack, nearBack = 16, 4
	fewBytes, farSteps  = 64, 10
)

// add adds the next flow of the workload in start order.
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
	inside := c.next > 0 && r.StartNS < c.parts[c.next-1][1]
	if near || inside {
		c.fluid.pace(r.StartNS, fluidStepNS)
	} else {
		c.fluid.pace(r.StartNS, farSteps*fluidStepNS)
		if r.SizeBytes < c.selection.LongestBytes/fewBytes {
			return nil
		}
	}
	r.Labels = r.Labels.Clone()
	c.fluid.add(r.StartNS, carried{Row: r, remaining: float64(r.SizeBytes)})
	if inside {
		c.held = append(c.held, r)
	}
	return nil
}

// begin begins the parts that begin at or before a time. It makes the flows that are active then due in the
// first eighth of the warm-up. Until they have begun, new flows get too much bandwidth. With the first half
// instead, p90 and p99 of windows of 2 ms (scenario small) were 1.8% and 2.2% below those of the same flows
// in the whole workload. With the first eighth they were 1.3% and 1.1% below.
//
// If all of them began with the part, their first congestion windows would meet in the queues. With long
// flows that lasts longer than a warm-up. A flow therefore begins at a time that a hash of the seed and its
// id chooses, with the bytes that it has left then, if any.
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

// drain begins the flows that are due at or before a time, with the bytes that they have left in the fluid.
func (c *carrier) drain(ns int64) {
	for len(c.due) > 0 && c.due[0].StartNS <= ns {
		c.fluid.advance(c.due[0].StartNS)
		step := c.due[0].StartNS / fluidStepNS
		starts := map[int64]int64{} // by flow id
		for len(c.due) > 0 && c.due[0].StartNS <= ns && c.due[0].StartNS/fluidStepNS == step {
			starts[c.due[0].ID] = c.due[0].StartNS
			c.due = c.due[1:]
		}
		c.fluid.each(func(x *carried) {
			if start, ok := starts[x.ID]; ok {
				row := x.Row
				row.StartNS = start
				row.SizeBytes = int64(x.remaining)
				c.held = append(c.held, row)
			}
		})
	}
}

// mostHeld is approximately the number of flows that are written at a time.
const mostHeld = 1 << 16

// write begins the flows that are due before a time and writes the held flows that begin before it.
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
