package diagnose

import (
	"context"
	"errors"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/together"
	"parsimon/stages/confidence"
	"parsimon/stages/route"
	"parsimon/stages/step"
)

// A reader reads the slowdowns and contributions of all flows, a few chunks at a time.
type reader struct {
	*Estimate
	model    *step.Model
	task     step.Task
	workload step.Workload
	loads    *route.Loads
	overflow *Overflow // nil: buffers are unlimited
}

func (r *reader) readOverflow() error {
	rooms := r.Rooms(r.model)
	if rooms == nil {
		return nil
	}
	var err error
	stats := r.task.Read(step.All, r.Cases.Output(schema.LinkStats))
	r.overflow, err = NewOverflow(r.model, rooms, r.loads, r.Waits, stats)
	return err
}

// readFlows is the smallest number of flows whose contributions are read at a time. Files of contributions
// have rows of all flows. Reading few rows of each would decode many pages for a part of their rows.
const readFlows = 1 << 18

// eachPart calls do with the slowdowns of consecutive chunks of flows, which together have readFlows flows or
// more, except for the last ones.
func (r *reader) eachPart(ctx context.Context,
	do func(flows step.Range, slowdowns schema.Batches) error) error {
	chunks := r.task.Tasks(r.Slowdowns)
	var part step.Range
	var slowdowns []schema.Batches
	for n, chunk := range chunks {
		slowdowns = append(slowdowns, r.task.Part(r.Slowdowns.Output(schema.Slowdowns), n))
		part.Hi = chunk.Hi
		if part.Hi-part.Lo < readFlows && n < len(chunks)-1 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(part, columns.Concat(slowdowns...)); err != nil {
			return err
		}
		r.task.Add(part.Hi - part.Lo)
		part.Lo = part.Hi
		slowdowns = nil
	}
	return nil
}

// findings computes the intervals of the percentiles, and watches all flows.
func (r *reader) findings(ctx context.Context) (*Findings, error) {
	groups, err := r.groups(ctx)
	if err != nil {
		return nil, err
	}
	f := &Findings{Loads: r.loads, Effects: groups.DrawEffects()}
	tails := groups.Tails()
	bootstrap := func() { f.Intervals = groups.Rows() } // runs while the flows are read again
	together.Run(bootstrap, func() { f.Watch, err = r.watch(ctx, tails) })
	if r.Clusters != nil {
		for i := range f.Intervals {
			f.Intervals[i].Forget()
		}
	}
	return f, err
}

// groups counts the slowdowns of the groups that have intervals.
func (r *reader) groups(ctx context.Context) (*confidence.Intervals, error) {
	var cases confidence.CaseSlowdowns
	if r.Slowdowns.WritesTable(schema.CaseSlowdowns) {
		var err error
		cases, err = confidence.ReadCaseSlowdowns(r.task.Read(step.All, r.Slowdowns.Output(schema.CaseSlowdowns)))
		if err != nil {
			return nil, err
		}
	}
	x := confidence.New(r.workload.FirstStartNS, max(r.workload.LastStartNS, r.loads.LastStartNS), cases)
	err := r.eachPart(ctx, func(flows step.Range, slowdowns schema.Batches) error {
		if r.Buckets == nil || r.Clusters != nil {
			return x.Read(slowdowns)
		}
		delays, err := r.caseDelays(flows)
		if err != nil {
			return errors.Join(err, slowdowns.Close())
		}
		return x.ReadDrawn(slowdowns, func(flowRow int64) int64 {
			at := flowRow - flows.Lo
			if at < 0 || at >= int64(len(delays)) {
				return 0 // a row of another part
			}
			return delays[at]
		})
	})
	x.SetEvent(eventShare(r.model, r.loads, x.Traffic()))
	return x, err
}

// caseDelays returns the sum of the delays that each of some flows had in the link cases of its path.
func (r *reader) caseDelays(flows step.Range) ([]int64, error) {
	type caseDelay struct {
		FlowRow int64 `col:"flow_row"`
		DelayNS int64 `col:"case_delay_ns"`
	}
	delays := make([]int64, flows.Hi-flows.Lo)
	rows := step.Selection{Column: "flow_row", Range: flows}
	hops := r.task.Read(rows, r.Contributions.Output(schema.HopContributions))
	err := columns.Each(hops, func(h *caseDelay) error {
		if h.FlowRow >= flows.Lo && h.FlowRow < flows.Hi {
			delays[h.FlowRow-flows.Lo] += h.DelayNS
		}
		return nil
	})
	return delays, err
}

// watch reads all flows again. If the estimate is made by link cases, it also reads what their hops
// contribute. If buffers are limited, it reads all of their hops. If delays are drawn, it reads the hops of
// loaded links.
func (r *reader) watch(ctx context.Context, tails confidence.Tails) (*TailWatch, error) {
	watch := NewTailWatch(r.model.Network, tails, r.overflow)
	hops := r.Routed.Output(schema.Hops)
	if r.Buckets != nil {
		var err error
		read := func(links step.Range) schema.Batches {
			return r.task.Read(step.Selection{Column: "link_id", Range: links}, hops)
		}
		files := len(r.task.Tasks(r.Routed))
		if watch.twice, err = crossTwice(r.model.Network, r.loads, r.workload.Flows, files, read); err != nil {
			return nil, err
		}
	}
	return watch, r.eachPart(ctx, func(flows step.Range, slowdowns schema.Batches) error {
		in := Watched{Flows: flows, Slowdowns: slowdowns}
		if r.Cases != nil {
			rows := step.Selection{Column: "flow_row", Range: flows}
			in.Contributions = r.task.Read(rows, r.Contributions.Output(schema.HopContributions))
		}
		if r.overflow != nil {
			in.Hops = r.hopsOf(flows)
		}
		return watch.Watch(in)
	})
}

// hopsOf streams table hops of consecutive chunks of flows.
func (r *reader) hopsOf(flows step.Range) schema.Batches {
	var parts []schema.Batches
	for n, chunk := range r.task.Tasks(r.Routed) {
		if chunk.Lo >= flows.Lo && chunk.Hi <= flows.Hi {
			parts = append(parts, r.task.Part(r.Routed.Output(schema.Hops), n))
		}
	}
	return columns.Concat(parts...)
}
