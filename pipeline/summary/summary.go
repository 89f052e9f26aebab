// Package summary says what an estimate found: Write for people, a Result for scripts, verdicts of conditions
// (Judge), and what the estimate cost. It reads a complete estimate and the lake's queries, and writes no table.
//
//	estimate ─┬─ question slowdown_by_size, tables intervals, warnings ─► Result ─► JSON
//	          ├─ the same, questions hottest_links …, exact (if there is one) ─► Write: text
//	          ├─ quantile of the flows that a gate selects ─► Judge
//	          └─ records of the stages ─► cost: time, memory, link cases found in the cache
package summary

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
	"parsimon/schema/units"
	"parsimon/stages"
)

// Answer is what an estimate found: its slowdowns and FCTs by size bin, how far to trust them, the most loaded links,
// what each stage cost, and what to run next.
func Answer(ctx context.Context, e *pipeline.Estimation) (_ *text.Answer, err error) {
	g, err := e.Generated()
	if err != nil {
		return nil, err
	}
	a := &text.Answer{}
	a.Linef("scenario %s (%s), variant %s", e.ID(), e.Spec.Name, e.Variant())
	over := ""
	if !g.Closed() { // else their starts come of the simulation: the times of the jobs say how long they take
		over = " over " + time.Duration(g.LastStartNS-g.FirstStartNS).Round(time.Microsecond).String()
	}
	if g.ComputeSteps > 0 {
		over += fmt.Sprintf(" and %d steps of computation or without bytes", g.ComputeSteps)
	}
	a.Linef("%d flows%s; lake %s", g.Flows-g.ComputeSteps, over, e.Lake.Path())
	if err := summarizeWorkload(a, e, g); err != nil {
		return nil, err
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := addJobs(ctx, a, e, db); err != nil {
		return nil, err
	}
	a.Linef("\nSlowdown (FCT / ideal FCT) by flow size")
	all, err := addQuery(ctx, a, e, db, "slowdown_by_size", nil)
	if err != nil {
		return nil, err
	}
	if err := addIntervals(ctx, a, e, db); err != nil {
		return nil, err
	}
	lines, err := warnings(ctx, e, db)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		a.Linef("warning: %s", line)
	}
	a.Linef("\nMost loaded links")
	if _, err := addQuery(ctx, a, e, db, "hottest_links", map[string]string{"n": "5"}); err != nil {
		return nil, err
	}
	if err := addTailLink(ctx, a, e, db, all["p99_slowdown"]); err != nil {
		return nil, err
	}
	a.Linef("\nLoad of the network")
	if _, err := addQuery(ctx, a, e, db, "load_top10", nil); err != nil {
		return nil, err
	}
	if g.ExpectedMaxLoad > 0 {
		a.Linef("expected load of the most loaded link, from the matrices: %.4f (%s, link %d)", g.ExpectedMaxLoad, e.Network.LinkName(g.ExpectedMaxLink), g.ExpectedMaxLink)
	}
	AddCost(a, e)
	shell := pipeline.ShellName(e.Lake, e.ID())
	a.Linef("\nNext:\n  parsimon query --list\n  parsimon query slowdown_by_service --lake %s --param scenario=%s\n  parsimon report %s --lake %s", e.Lake.Path(), shell, shell, e.Lake.Path())
	return a, nil
}

// summarizeWorkload writes remarks about the flows: rejects, synthetic starts, flows without a path.
func summarizeWorkload(a *text.Answer, e *pipeline.Estimation, g pipeline.Generated) error {
	if g.SyntheticStarts > 0 {
		a.Linef("%.1f%% of the flows have synthetic starts, drawn within what the times of the trace leave open (a ms, a second), or those of sampled packets: at finer times the estimate is of a workload LIKE the trace",
			100*float64(g.SyntheticStarts)/float64(g.Flows))
	}
	for _, note := range g.Notes {
		a.Linef("warning: %s", note)
	}
	if g.Rejects > 0 {
		a.Linef("%d rows of the flow file could not be simulated (table rejects):", g.Rejects)
		for _, why := range g.RejectReasons {
			a.Linef("  %d × %s (first: %s)", why.Rows, why.Reason, why.Example)
		}
	}
	n, first, err := e.Unreachable()
	if err == nil && n > 0 {
		a.Linef("%d flows have no path and no estimate, e.g. from %s to %s", n, e.Network.Name(first.Src),
			e.Network.Name(first.Dst))
	}
	return err
}

// ask asks a question about the estimate.
func ask(ctx context.Context, e *pipeline.Estimation, db *queries.DB, name string, more map[string]string) (
	*format.Answer, error,
) {
	q, err := queries.Get(name)
	if err != nil {
		return nil, err
	}
	params := map[string]string{"scenario": string(e.ID()), "variant": e.Variant().String()}
	maps.Copy(params, more)
	return db.Run(ctx, q, params)
}

// answers reads the answer of a question. Its columns are the JSON names of the fields of T, the slowdowns without
// _slowdown.
func answers[T any](ctx context.Context, e *pipeline.Estimation, db *queries.DB, name string,
	more map[string]string) (all []T, err error) {
	found, err := ask(ctx, e, db, name, more)
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

// addQuery adds the answer of one question about the estimate. It returns the last row, by column.
func addQuery(ctx context.Context, a *text.Answer, e *pipeline.Estimation, db *queries.DB, name string,
	more map[string]string) (last map[string]any, err error) {
	found, err := ask(ctx, e, db, name, more)
	if err != nil {
		return nil, err
	}
	// Intervals and warnings have lines of their own.
	other := regexp.MustCompile(`^(scenario|variant|warning|p\d+_(lo|hi))$`)
	table := a.Table(slices.DeleteFunc(slices.Clone(found.Columns), other.MatchString)...)
	last = map[string]any{}
	for _, row := range found.Rows {
		var shown []any
		for i, name := range found.Columns {
			last[name] = row[i]
			if !other.MatchString(name) {
				shown = append(shown, row[i])
			}
		}
		table.Add(shown...)
	}
	return last, nil
}

// addTailLink names the link that delays the slowest flows most, those with slowdowns above p99.
func addTailLink(ctx context.Context, a *text.Answer, e *pipeline.Estimation, db *queries.DB, p99 any) error {
	links, err := answers[struct {
		Link  string   `json:"link"`
		ID    int32    `json:"link_id"`
		Tier  string   `json:"tier"`
		Share *float64 `json:"link_share"` // nil: no flow is delayed
	}](ctx, e, db, "p99_links", map[string]string{"limit": fmt.Sprint(cmp.Or(p99, 1))})
	if len(links) > 0 && links[0].Share != nil {
		also := ""
		if e.Variant().Estimator == stages.WholeNetwork && strings.HasPrefix(links[0].Tier, "host-") {
			also = ", where senders also wait for windows, losses and timeouts"
		}
		a.Linef("the slowest 1%% of the flows lose most time at %s (link %d): %.0f%% of their delay%s; parsimon query p99_links "+
			"lists others", links[0].Link, links[0].ID, 100**links[0].Share, also)
	}
	return err
}

// addIntervals adds the intervals of all flows, then their two parts if the method's is known.
func addIntervals(ctx context.Context, a *text.Answer, e *pipeline.Estimation, db *queries.DB) error {
	found, err := db.Ask(ctx, "intervals", `
		SELECT string_agg(name || printf(' %.3f to %.3f', lo, hi), ', ' ORDER BY quantile),
			string_agg(name || printf(' %.3f to %.3f', workload_lo, workload_hi), ', ' ORDER BY quantile),
			string_agg(name || printf(' ±%.1f%%', 100 * method_error), ', ' ORDER BY quantile)
		FROM (SELECT *, 'p' || replace(CAST(CAST(100 * quantile AS DECIMAL(4, 1)) AS VARCHAR), '.0', '') AS name
			FROM intervals_all WHERE `+selected(e)+` AND service IS NULL AND vnet IS NULL AND size_bin = 'all')`)
	if err != nil || found.Rows[0][0] == nil { // of an estimate that is deleted again
		return err
	}
	switch row := found.Rows[0]; {
	case row[2] != nil:
		a.Linef("95%% intervals of all flows: %s", row[0])
		a.Linef("  of these, other flows of the same kind: %s", row[1])
		a.Linef("  of these, the method's own error: %s", row[2])
	default:
		part := "not the method's own error"
		if e.Variant().Estimator == stages.WholeNetwork {
			part = "every packet was simulated"
		}
		a.Linef("95%% intervals of all flows: %s (what other flows of the same kind might give; %s)", row[0], part)
	}
	return nil
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
	a.Linef("\nTime and memory; unlimited_s: what it would take if each link case and each chunk of flows had a core (%d workers now)", e.Workers)
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
		a.Linef("longest link case: %s (link %d, %s), %.3f s: no number of cores makes its pass shorter",
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
		a.Linef("no switch held more than %d bytes at a time (%s: the longest queues of its ports, added up)",
			s.DeepestSwitchBytes, deepest)
	} else {
		a.Linef("no switch held more than %d bytes at a time (%s)", s.DeepestSwitchBytes, deepest)
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
		a.Linef("the estimate is this simulation, and its errors below are 0 (--estimator flow holds link cases against it)")
	}
	return nil
}
