// Package summary says what an estimate found: Read reads a Result, for scripts and, by its Text, for people, with the
// verdicts of conditions and what the estimate cost. It writes no table.
//
//	questions slowdown_by_size …, tables intervals, warnings ─┐
//	quantile of the flows that a gate selects ────────────────┼─► Result ─┬─► JSON
//	records of the stages: time, memory, link cases ──────────┘           └─► Text, with questions hottest_links …
package summary

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
	"parsimon/schema"
	"parsimon/schema/units"
	"parsimon/stages"
	"parsimon/stages/topology"
)

// forPeople is what only Text says.
type forPeople struct {
	intervals         []any // of all flows, and their two parts: texts, nil if a part is not known
	hottest, mostLoad *format.Answer
	tail              stages.TailLink
	unreachable       int64
	firstUnreachable  *topology.UnreachableError
}

func (p *forPeople) read(ctx context.Context, db *queries.DB, r *Result) error {
	var wrong [5]error // the first counts
	p.unreachable, p.firstUnreachable, wrong[0] = r.of.Unreachable()
	p.intervals, wrong[1] = intervals(ctx, db, r.of)
	p.hottest, wrong[2] = ask(ctx, db, r.of, "hottest_links", map[string]string{"n": "5"})
	p.tail, wrong[3] = tailLink(ctx, db, r)
	p.mostLoad, wrong[4] = ask(ctx, db, r.of, "load_top10", nil)
	return cmp.Or(wrong[:]...)
}

// tailLink finds the link that delays the slowest flows most. Stage intervals has noted it, unless it read no hops.
func tailLink(ctx context.Context, db *queries.DB, r *Result) (found stages.TailLink, err error) {
	if records, err := r.of.Records(schema.Intervals); err == nil {
		if noted, err := engine.Stats[stages.TailLink](records); err == nil && noted[0].Share > 0 {
			return noted[0], nil
		}
	}
	p99 := 1.0
	if n := len(r.Percentiles); n > 0 {
		p99 = r.Percentiles[n-1].P99 // of all flows
	}
	links, err := answers[struct {
		Link  int32   `json:"link_id"`
		Share float64 `json:"link_share"`
	}](ctx, db, r.of, "p99_links", map[string]string{"limit": fmt.Sprint(p99), "n": "1"})
	if len(links) > 0 {
		found = stages.TailLink(links[0])
	}
	return found, err
}

// Text is what an estimate found: its slowdowns and FCTs by size bin, how far to trust them, the most loaded links,
// what each stage cost, and what to run next.
func (r *Result) Text() *text.Answer {
	a, e, g := &text.Answer{}, r.of, &r.generated
	a.Linef("scenario %s (%s), variant %s", r.ScenarioID, r.Name, r.Variant)
	over := ""
	if !g.Closed() { // else their starts come of the simulation: the times of the jobs say how long they take
		over = " over " + time.Duration(g.LastStartNS-g.FirstStartNS).Round(time.Microsecond).String()
	}
	if g.ComputeSteps > 0 {
		over += fmt.Sprintf(" and %d steps of computation or without bytes", g.ComputeSteps)
	}
	a.Linef("%d flows%s; lake %s", g.Flows-g.ComputeSteps, over, r.Lake)
	r.addWorkload(a)
	r.addJobs(a)
	a.Linef("\nSlowdown (FCT / ideal FCT) by flow size")
	table := a.Table("size_bin", "flows", "p50_slowdown", "p90_slowdown", "p99_slowdown", "p999_slowdown", "max_slowdown",
		"p50_fct_ms", "p99_fct_ms")
	for _, p := range r.Percentiles {
		table.Add(p.SizeBin, p.Flows, p.P50, p.P90, p.P99, p.P999, p.Max, *p.P50FCT, *p.P99FCT)
	}
	r.addIntervals(a)
	for _, line := range r.Warnings {
		a.Linef("warning: %s", line)
	}
	a.Linef("\nMost loaded links")
	addRows(a, r.hottest)
	if tail := r.tail; tail.Share > 0 {
		link, also := e.Network.Links[tail.Link], ""
		if e.Variant().Estimator == stages.WholeNetwork && strings.HasPrefix(link.Tier, "host-") {
			also = ", where senders also wait because of congestion at later links (windows, losses, timeouts)"
		}
		a.Linef("the slowest 1%% of the flows lose most time at %s (link %d): %.0f%% of their delay%s; parsimon query p99_links "+
			"lists others", e.Network.LinkName(link.ID), link.ID, 100*tail.Share, also)
	}
	a.Linef("\nLoad of the network")
	addRows(a, r.mostLoad)
	if g.ExpectedMaxLoad > 0 {
		a.Linef("expected load of the most loaded link, from the matrices: %.4f (%s, link %d)", g.ExpectedMaxLoad,
			e.Network.LinkName(g.ExpectedMaxLink), g.ExpectedMaxLink)
	}
	AddCost(a, e)
	shell := pipeline.ShellName(e.Lake, e.ID())
	a.Linef("\nNext:\n  parsimon query --list\n  parsimon query slowdown_by_service --lake %s --param scenario=%s\n"+
		"  parsimon report %s --lake %s", r.Lake, shell, shell, r.Lake)
	return a
}

// addWorkload adds remarks about the flows: rejects, synthetic starts, flows without a path.
func (r *Result) addWorkload(a *text.Answer) {
	g := &r.generated
	if g.SyntheticStarts > 0 {
		a.Linef("%.1f%% of the flows have a synthetic start (the trace has it to the second or ms only, or sampled packets): results hold for traffic like that of the trace, not for each flow",
			100*float64(g.SyntheticStarts)/float64(g.Flows))
	}
	if g.Rejects > 0 {
		a.Linef("%d rows of the flow file could not be simulated (table rejects):", g.Rejects)
		for _, why := range g.RejectReasons {
			a.Linef("  %d × %s (first: %s)", why.Rows, why.Reason, why.Example)
		}
	}
	if first := r.firstUnreachable; r.unreachable > 0 {
		a.Linef("%d flows have no path and no estimate, e.g. from %s to %s", r.unreachable, r.of.Network.Name(first.Src),
			r.of.Network.Name(first.Dst))
	}
}

// addJobs adds the times of the jobs.
func (r *Result) addJobs(a *text.Answer) {
	if len(r.Jobs) == 0 {
		return
	}
	a.Linef("\nJobs (parsimon query job_links: the links that cost them time; job_critical_path: on what; job_hosts: where)")
	t := a.Table("job", "iterations", "first_iteration", "shortest", "longest", "completion")
	for _, j := range r.Jobs {
		say := func(ns int64) string { return time.Duration(ns).Round(time.Microsecond).String() }
		t.Add(j.Name, int64(len(j.Iterations)), say(j.Iterations[0]), say(slices.Min(j.Iterations)),
			say(slices.Max(j.Iterations)), say(j.CompletionNS))
	}
}

// ask asks a question about the estimate.
func ask(ctx context.Context, db *queries.DB, e *pipeline.Estimation, name string, more map[string]string) (
	*format.Answer, error) {
	params := map[string]string{"scenario": string(e.ID()), "variant": e.Variant().String()}
	maps.Copy(params, more)
	return db.Run(ctx, queries.Known(name), params)
}

// answers reads the answer of a question. Its columns are the JSON names of the fields of T, the slowdowns without
// _slowdown.
func answers[T any](ctx context.Context, db *queries.DB, e *pipeline.Estimation, name string,
	more map[string]string) (all []T, err error) {
	found, err := ask(ctx, db, e, name, more)
	if err != nil {
		return nil, err
	}
	rows := make([]map[string]any, len(found.Rows))
	for k, row := range found.Rows {
		rows[k] = map[string]any{}
		for i, name := range found.Columns {
			rows[k][strings.TrimSuffix(name, "_slowdown")] = row[i]
		}
	}
	data, err := json.Marshal(rows)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	return all, err
}

// addRows adds the answer of a question about one estimate.
func addRows(a *text.Answer, found *format.Answer) {
	table := a.Table(found.Columns[2:]...) // after scenario and variant
	for _, row := range found.Rows {
		table.Add(row[2:]...)
	}
}

// intervals are texts of the intervals of all flows, then of their two parts if the method's is known; nil if there are
// none: of an estimate that is deleted again.
func intervals(ctx context.Context, db *queries.DB, e *pipeline.Estimation) ([]any, error) {
	found, err := ask(ctx, db, e, "interval_lines", nil)
	if err != nil || found.Rows[0][0] == nil {
		return nil, err
	}
	return found.Rows[0], nil
}

func (r *Result) addIntervals(a *text.Answer) {
	switch row := r.intervals; {
	case row == nil:
	case row[2] != nil:
		a.Linef("95%% intervals of all flows: %s", row[0])
		a.Linef("  part due to the traffic (other flows of the same kind): %s", row[1])
		a.Linef("  part due to the method (its own error): %s", row[2])
	default:
		part := "not the method's own error"
		if r.of.Variant().Estimator == stages.WholeNetwork {
			part = "every packet was simulated"
		}
		a.Linef("95%% intervals of all flows: %s (for other traffic of the same kind; %s)", row[0], part)
	}
}

// selected selects the rows of an estimate in SQL.
func selected(e *pipeline.Estimation) string {
	return fmt.Sprintf("scenario = %s AND variant = %s", duckdb.Quote(string(e.ID())), duckdb.Quote(e.Variant().String()))
}

// AddCost adds what each stage took, and what it would take if every link case and chunk of flows had a core of its
// own: the paper's Parsimon/inf, the longest piece plus the sequential part.
func AddCost(a *text.Answer, e *pipeline.Estimation) {
	reports := e.Executor().Reports
	if len(reports) == 0 {
		return
	}
	a.Linef("\nTime and memory (%d workers; unlimited_s: the time with a core for each link case and each chunk of flows)", e.Workers)
	table := a.Table("stage", "seconds", "cpu_s", "unlimited_s", "tasks", "reused", "peak_mb")
	var seconds, cpu, critical float64
	for _, s := range reports {
		table.Add(s.Stage, s.Seconds, s.CPUSeconds, s.CriticalSeconds, s.Tasks, s.Reused, s.PeakBytes/1e6)
		seconds += s.Seconds
		cpu += s.CPUSeconds
		critical += s.CriticalSeconds
	}
	wall, process := e.Took()
	other, otherCPU := max(0, wall-seconds), max(0, process-cpu)
	table.Add("other", other, otherCPU, other, nil, nil, engine.PeakBytes()/1e6)
	table.Add("all", seconds+other, cpu+otherCPU, critical+other, nil, nil, nil)
	writeCases(a, e)
	if e.Variant().Estimator == stages.WholeNetwork {
		_ = addWhole(a, e) // status reports it
	}
}

// writeCases writes how many packet-hops were simulated, and how many link cases were found in the cache.
func writeCases(a *text.Answer, e *pipeline.Estimation) {
	all, err := e.Cases()
	if err != nil {
		return // status reports it
	}
	if all.PacketHops > 0 {
		a.Linef("%s packet-hops simulated at %.1f ns each", units.Human(float64(all.PacketHops)),
			float64(all.KernelNS)/float64(all.PacketHops))
	}
	if all.LongestCaseNS > 0 {
		link := e.Network.Links[all.LongestLink]
		a.Linef("longest link case: %s (link %d, %s), %.3f s: a pass takes at least that on any number of cores",
			e.Network.LinkName(link.ID), link.ID, link.Tier, float64(all.LongestCaseNS)/1e9)
	}
	if n := all.CachedCases; all.CachedHops > 0 {
		a.Linef("%d of %d link cases (%s packet-hops) found in the cache, at %.2f ns a packet-hop", n, n+all.Cases,
			units.Human(float64(all.CachedHops)), float64(all.CachedNS)/float64(all.CachedHops))
	}
}

// exactCost is the counts and the time of a complete whole-network simulation.
func exactCost(e *pipeline.Estimation) (did stages.ExactStats, seconds float64, err error) {
	r, err := e.ExactRecords()
	if err != nil {
		return did, 0, err
	}
	all, err := engine.Stats[stages.ExactStats](r)
	if err != nil || len(all) == 0 {
		return did, 0, err
	}
	return all[0], r.Done[0].Seconds, nil
}

// addWhole adds the counts and the cost of a whole-network simulation.
func addWhole(a *text.Answer, e *pipeline.Estimation) error {
	s, seconds, err := exactCost(e)
	if err != nil {
		return err
	}
	a.Linef("whole network: %d flows; %s packet-hops in %s, %.0f ns each", s.Flows, units.Human(float64(s.PacketHops)),
		time.Duration(seconds*1e9).Round(time.Millisecond), seconds*1e9/float64(max(1, s.PacketHops)))
	l, buffer, deepest := s.Losses, e.Spec.Switches, e.Network.Name(s.DeepestSwitch)
	if buffer.IsZero() {
		a.Linef("most bytes queued in one switch: at most %d (%s: sum of the longest queue of each port)",
			s.DeepestSwitchBytes, deepest)
	} else {
		a.Linef("most bytes queued in one switch: %d (%s)", s.DeepestSwitchBytes, deepest)
		a.Linef("switch buffers of %d bytes, alpha %g: %d of %d packets dropped, %d discarded out of order, %d sent again; "+
			"%d NACKs, %d timeouts; links were paused for %s in all", buffer.SwitchBytes, buffer.Alpha, l.Dropped, l.Sent,
			l.Discarded, l.Again, l.NACKs, l.Timeouts, time.Duration(s.PausedNS))
	}
	if l.Dropped > 0 {
		a.Linef("most drops, %d, before %s (link %d)", s.MostDropped, e.Network.LinkName(s.MostDroppedLink),
			s.MostDroppedLink)
	}
	if m := e.Spec.Moves; m.Whole() {
		a.Linef("%s: %d packets sent again, %d reordered; of %d sent in all %d were lost; %d timeouts", m.Describe(e.Network),
			s.Retransmissions, s.Reordered, l.Sent, l.Lost, l.Timeouts)
	}
	return nil
}

// AddExact adds what a whole-network simulation that an estimate is held against did and cost.
func AddExact(a *text.Answer, e *pipeline.Estimation) error {
	if err := addWhole(a, e); err != nil {
		return err
	}
	if e.Variant().Estimator == stages.WholeNetwork {
		a.Linef("the estimate is this simulation, so its errors below are 0 (--estimator flow compares link cases with it)")
	}
	return nil
}
