package diagnose

import (
	"context"
	"errors"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/confidence"
	"parsimon/stages/route"
	"parsimon/stages/step"
)

// An Estimate has the steps that made an estimate, and what is needed to diagnose it.
type Estimate struct {
	Flows, Routed *step.Step
	Slowdowns     *step.Step // writes table slowdowns and possibly case_slowdowns
	Contributions *step.Step // writes table hop_contributions
	// Cases is the step of the last link cases. It is nil if there are none; the simulation then reports all
	// that is known about waits.
	Cases *step.Step
	// Buckets is the step that writes table delay_buckets. It is nil for estimators that draw no delays.
	Buckets *step.Step
	// Clusters is the step that writes table link_clusters. It is nil without clusters. With clusters, the flows
	// of some links are not simulated, so the percentiles have no intervals.
	Clusters *step.Step
	// Rooms returns the buffer space of each link in its switch, in bytes (exact.Rooms).
	Rooms func(m *step.Model) []int64
	Waits Waits
	// Warnings returns the warnings that are specific to the estimator.
	Warnings func(m *step.Model, f *Findings) []Warning
}

// Findings are what the step found about an estimate.
type Findings struct {
	Loads     *route.Loads
	Watch     *TailWatch
	Intervals []confidence.Interval
	Effects   []confidence.DrawEffect // of drawn delays
}

// Step returns the step that writes the intervals of the percentiles of slowdown, and the warnings. The step
// is a single task. It reads the estimate twice, a few chunks of flows at a time.
func Step(m *step.Model, e Estimate) *step.Step {
	s := &step.Step{
		Name: "intervals",
		Reads: []step.Output{e.Flows.Output(schema.Flows), e.Slowdowns.Output(schema.Slowdowns),
			e.Contributions.Output(schema.HopContributions), e.Routed.Output(schema.LinkLoads)},
		Writes: []schema.Table{schema.Intervals, schema.Warnings},
		Unit:   "flows",
		Cut: step.Cut{By: step.Whole, Size: func(in step.Inputs) (rows step.Range, cost int64, err error) {
			for _, c := range in.Tasks(e.Slowdowns) {
				rows.Hi = c.Hi
			}
			return rows, 2 * rows.Hi, nil
		}},
	}
	if e.Slowdowns.WritesTable(schema.CaseSlowdowns) {
		s.Reads = append(s.Reads, e.Slowdowns.Output(schema.CaseSlowdowns))
	}
	if e.Buckets != nil {
		s.Reads = append(s.Reads, e.Buckets.Output(schema.DelayBuckets))
	}
	if e.Buckets != nil || e.limited(m) {
		s.Reads = append(s.Reads, e.Routed.Output(schema.Hops))
	}
	if e.Clusters != nil {
		s.Reads = append(s.Reads, e.Clusters.Output(schema.LinkClusters))
	}
	if e.limited(m) {
		s.Reads = append(s.Reads, e.Cases.Output(schema.LinkStats))
	}
	s.Open = step.Always(func(ctx context.Context, t step.Task) error { return e.write(ctx, m, t) })
	return s
}

// limited reports whether the network has limited buffers, but the estimate is made by link cases, which do
// not.
func (e *Estimate) limited(m *step.Model) bool { return e.Cases != nil && !m.Buffers.IsZero() }

func (e *Estimate) write(ctx context.Context, m *step.Model, t step.Task) error {
	loads, err := route.LoadsOf(m, t, e.Routed)
	if err != nil {
		return err
	}
	w, err := t.Workload()
	if err != nil {
		return err
	}
	remarks, err := e.remarks(m, t, w, loads)
	if err != nil {
		return err
	}
	r := reader{Estimate: e, model: m, task: t, workload: w, loads: loads}
	if e.limited(m) {
		err = r.readOverflow()
	}
	if err != nil {
		return err
	}
	f, err := r.findings(ctx)
	if err != nil {
		return err
	}
	buckets, err := e.mixed(m, t, f)
	if err != nil {
		return err
	}
	clusters, err := e.clusters(t)
	if err != nil {
		return err
	}
	t.Note(f.Watch.TailLink(), -1)
	found := slices.Concat(f.Watch.Warnings(), e.Warnings(m, f), clusters, buckets,
		InputWarnings(m, loads, remarks))
	rows := confidence.Record(f.Intervals)
	warnings := Record(found)
	defer rows.Release()
	defer warnings.Release()
	return errors.Join(t.Sink(schema.Intervals).Write(rows), t.Sink(schema.Warnings).Write(warnings))
}

// remarks returns the remarks about the flows, and about events that begin after all flows have finished. If
// flows wait for others, it sets the end time of the loads, because the offered load depends on what the
// network delivers.
func (e *Estimate) remarks(m *step.Model, t step.Task, w step.Workload, loads *route.Loads) ([]string,
	error) {
	if !w.Closed && len(m.Moves.LateEvents(m.Network, w.LastStartNS)) == 0 {
		return w.Notes, nil
	}
	end, err := lastEnd(t.Read(step.All, e.Slowdowns.Output(schema.Slowdowns)), loads.LastStartNS)
	if w.Closed {
		loads.LastStartNS = end
	}
	return slices.Concat(w.Notes, m.Moves.LateEvents(m.Network, end)), err
}

// lastEnd returns the time at which the last flow has finished, or fromNS if that is later.
func lastEnd(slowdowns schema.Batches, fromNS int64) (int64, error) {
	type ended struct {
		StartNS int64 `col:"start_ns"`
		FCTNS   int64 `col:"fct_ns"`
	}
	lastNS := fromNS
	err := columns.Each(slowdowns, func(f *ended) error {
		lastNS = max(lastNS, f.StartNS+f.FCTNS)
		return nil
	})
	return lastNS, err
}
