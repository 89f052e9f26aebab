// Package summary summarizes an estimate. Read reads a Result, for scripts, and its method Text formats it
// for users. The result includes the verdicts of gates and the cost of the estimate. The package writes no
// table.
//
//	tables slowdowns, link_stats, intervals, warnings ────────┐
//	quantile of the flows that a gate selects ────────────────┼─► Result ─┬─► JSON
//	records of the stages: time, memory, link cases ──────────┘           └─► Text
//
// The tables of a small estimate are read without DuckDB, which takes longer to open than they take to read.
// The figures are those of questions slowdown_by_size, slowdown_by_service, hottest_links and load_top10.
package summary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/stages/diagnose"
	"parsimon/stages/estimators"
	"parsimon/stages/exact"
	"parsimon/stages/linksim"
	"parsimon/stages/topology"
)

// forPeople has the results that only Text shows.
type forPeople struct {
	intervals        []interval
	links            []linkRow // in descending order of load
	tail             diagnose.TailLink
	unreachable      int64
	firstUnreachable *topology.UnreachableError
}

// read reads a table of an estimate. A table that its plan does not write has no rows.
func read(e *pipeline.Estimation, t schema.Table) (schema.Batches, error) {
	if e.Plan().Writer(t) == nil {
		return columns.Concat(), nil
	}
	return e.Read(t)
}

// A lateDB opens the lake for questions when the first one is asked. Opening DuckDB takes longer than reading
// the tables of a small estimate.
type lateDB struct {
	of *pipeline.Estimation
	db *queries.DB // nil: not open
}

func (l *lateDB) open(ctx context.Context) (_ *queries.DB, err error) {
	if l.db == nil {
		l.db, err = l.of.OpenQueries(ctx)
	}
	return l.db, err
}

func (l *lateDB) close() error {
	if l.db == nil {
		return nil
	}
	return l.db.Close()
}

// tailLink finds the link that delays the slowest flows most. Stage intervals has recorded it, unless the
// stage read no hops.
func tailLink(ctx context.Context, q *lateDB, r *Result) (found diagnose.TailLink, err error) {
	if records, err := r.of.Records(schema.Intervals); err == nil {
		if noted, err := engine.Stats[diagnose.TailLink](records); err == nil && noted[0].Share > 0 {
			return noted[0], nil
		}
	}
	p99 := 1.0
	n := len(r.Percentiles)
	if n > 0 {
		all := r.Percentiles[n-1]
		p99 = all.P99
		if all.Max == p99 { // no flow is slower
			return found, nil
		}
	}
	db, err := q.open(ctx)
	if err != nil {
		return found, err
	}
	links, err := answers[struct {
		Link  int32   `json:"link_id"`
		Share float64 `json:"link_share"`
	}](ctx, db, r.of, "p99_links", map[string]string{"limit": fmt.Sprint(p99), "n": "1"})
	if len(links) > 0 {
		found = diagnose.TailLink(links[0])
	}
	return found, err
}

// Text formats the results for users: slowdowns and FCTs by size bin, their confidence intervals, the most
// loaded links, the cost of each stage, and suggested commands.
func (r *Result) Text() *text.Answer {
	a := &text.Answer{}
	e := r.of
	g := &r.generated
	a.Linef("scenario %s (%s), variant %s", r.ScenarioID, r.Name, r.Variant)
	over := ""
	if !g.Closed() { // otherwise the simulation determines the starts, and the jobs have separate times
		over = " over " + time.Duration(g.LastStartNS-g.FirstStartNS).Round(time.Microsecond).String()
	}
	if g.ComputeSteps > 0 {
		over += fmt.Sprintf(" and %d steps of computation or without bytes", g.ComputeSteps)
	}
	a.Linef("%d flows%s; lake %s", g.Flows-g.ComputeSteps, over, r.Lake)
	r.addWorkload(a)
	r.addJobs(a)
	a.Linef("\nSlowdown (FCT / ideal FCT) by flow size")
	table := a.Table("size_bin", "flows", "p50_slowdown", "p90_slowdown", "p99_slowdown", "p999_slowdown",
		"max_slowdown", "p50_fct_ms", "p99_fct_ms")
	for _, p := range r.Percentiles {
		table.Add(p.SizeBin, p.Flows, p.P50, p.P90, p.P99, p.P999, p.Max, *p.P50FCT, *p.P99FCT)
	}
	r.addIntervals(a)
	for _, line := range r.Warnings {
		a.Linef("warning: %s", line)
	}
	AddSizes(a, r.Sizes)
	r.addLinks(a)
	tail := r.tail
	if tail.Share > 0 {
		link := e.Network.Links[tail.Link]
		also := ""
		if e.Variant().Estimator == estimators.Exact && strings.HasPrefix(link.Tier, "host-") {
			also = ", where senders also wait because of congestion at later links (windows, losses, timeouts)"
		}
		a.Linef("the slowest 1%% of the flows lose most time at %s (link %d): %.0f%% of their delay%s; parsimon "+
			"query p99_links lists others", e.Network.LinkName(link.ID), link.ID, 100*tail.Share, also)
	}
	r.addLoad(a)
	AddCost(a, e)
	shell := pipeline.ShellName(e.Lake, e.ID())
	a.Linef("\nNext:\n  parsimon query --list\n  parsimon query slowdown_by_service --lake %s --param "+
		"scenario=%s\n  parsimon report %s --lake %s", r.Lake, shell, shell, r.Lake)
	return a
}

// addWorkload adds remarks about the flows: rejects, synthetic start times, and flows without a path.
func (r *Result) addWorkload(a *text.Answer) {
	g := &r.generated
	if g.SyntheticStarts > 0 {
		a.Linef("%.1f%% of the flows have a synthetic start (the trace has it to the second or ms only, or "+
			"sampled packets): results hold for traffic like that of the trace, not for each flow",
			100*float64(g.SyntheticStarts)/float64(g.Flows))
	}
	if g.Rejects > 0 {
		a.Linef("%d rows of the flow file could not be simulated (table rejects):", g.Rejects)
		for _, why := range g.RejectReasons {
			a.Linef("  %d × %s (first: %s)", why.Rows, why.Reason, why.Example)
		}
	}
	first := r.firstUnreachable
	if r.unreachable > 0 {
		a.Linef("%d flows have no path and no estimate, e.g. from %s to %s", r.unreachable,
			r.of.Network.Name(first.Src), r.of.Network.Name(first.Dst))
	}
}

// addJobs adds the times of the jobs.
func (r *Result) addJobs(a *text.Answer) {
	if len(r.Jobs) == 0 {
		return
	}
	a.Linef("\nJobs (parsimon query job_links: the links that cost them time; job_critical_path: on what; " +
		"job_hosts: where)")
	t := a.Table("job", "iterations", "first_iteration", "shortest", "longest", "completion")
	for _, j := range r.Jobs {
		say := func(ns int64) string { return time.Duration(ns).Round(time.Microsecond).String() }
		t.Add(j.Name, int64(len(j.Iterations)), say(j.Iterations[0]), say(slices.Min(j.Iterations)),
			say(slices.Max(j.Iterations)), say(j.CompletionNS))
	}
}

// ask runs a query about the estimate.
func ask(ctx context.Context, db *queries.DB, e *pipeline.Estimation, name string, more map[string]string) (
	*format.Answer, error) {
	params := map[string]string{"scenario": string(e.ID()), "variant": e.Variant().String()}
	maps.Copy(params, more)
	return db.Run(ctx, queries.Known(name), params)
}

// answers reads the result of a query. Its columns are the JSON names of the fields of T; those of slowdowns
// omit the suffix _slowdown.
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

// selected returns an SQL condition that selects the rows of an estimate.
func selected(e *pipeline.Estimation) string {
	return fmt.Sprintf("scenario = %s AND variant = %s", duckdb.Quote(string(e.ID())),
		duckdb.Quote(e.Variant().String()))
}

// AddCost adds the cost of each stage, and the duration with a separate core for every link case and chunk of
// flows. The latter is the paper's Parsimon/inf: the longest task plus the sequential part.
func AddCost(a *text.Answer, e *pipeline.Estimation) {
	reports := e.Executor().Reports
	if len(reports) == 0 {
		return
	}
	a.Linef("\nTime and memory (%d workers; unlimited_s: the time with a core for each link case and each "+
		"chunk of flows)", e.Workers)
	table := a.Table("stage", "seconds", "cpu_s", "unlimited_s", "tasks", "reused", "peak_mb")
	var seconds, cpu, critical float64
	for _, s := range reports {
		table.Add(s.Stage, s.Seconds, s.CPUSeconds, s.CriticalSeconds, s.Tasks, s.Reused, s.PeakBytes/1e6)
		seconds += s.Seconds
		cpu += s.CPUSeconds
		critical += s.CriticalSeconds
	}
	wall, process := e.Took()
	other := max(0, wall-seconds)
	otherCPU := max(0, process-cpu)
	table.Add("other", other, otherCPU, other, nil, nil, engine.PeakBytes()/1e6)
	table.Add("all", seconds+other, cpu+otherCPU, critical+other, nil, nil, nil)
	writeCases(a, e)
	if e.Variant().Estimator == estimators.Exact {
		_ = addWhole(a, e) // status reports the error
	}
}

// writeCases writes how many packet-hops were simulated, and how many link cases were found in the cache.
func writeCases(a *text.Answer, e *pipeline.Estimation) {
	all, err := e.Cases()
	if err != nil {
		return // status reports the error
	}
	if all.PacketHops > 0 {
		a.Linef("%s packet-hops simulated at %.1f ns each", units.Human(float64(all.PacketHops)),
			float64(all.KernelNS)/float64(all.PacketHops))
	}
	if all.PacketHops > 0 && all.LongestCaseNS > 0 {
		link := e.Network.Links[all.LongestLink]
		a.Linef("longest link case: %s (link %d, %s), %.3f s: a pass takes at least that on any number of cores",
			e.Network.LinkName(link.ID), link.ID, link.Tier, float64(all.LongestCaseNS)/1e9)
	}
	n := all.CachedCases
	if all.CachedHops > 0 {
		a.Linef("%d of %d link cases (%s packet-hops) found in the cache, at %.2f ns a packet-hop", n, n+all.Cases,
			units.Human(float64(all.CachedHops)), float64(all.CachedNS)/float64(all.CachedHops))
	}
}

// exactCost returns the counts and the time of a complete simulation of the whole network.
func exactCost(e *pipeline.Estimation) (did exact.Stats, seconds float64, err error) {
	r, err := e.ExactRecords()
	if err != nil {
		return did, 0, err
	}
	all, err := engine.Stats[exact.Stats](r)
	if err != nil || len(all) == 0 {
		return did, 0, err
	}
	return all[0], r.Done[0].Seconds, nil
}

// addWhole adds the counts and the cost of a simulation of the whole network.
func addWhole(a *text.Answer, e *pipeline.Estimation) error {
	s, seconds, err := exactCost(e)
	if err != nil {
		return err
	}
	a.Linef("whole network: %d flows; %s packet-hops in %s, %.0f ns each", s.Flows,
		units.Human(float64(s.PacketHops)), time.Duration(seconds*1e9).Round(time.Millisecond),
		seconds*1e9/float64(max(1, s.PacketHops)))
	l := s.Losses
	buffer := e.Spec.Switches
	deepest := e.Network.Name(s.DeepestSwitch)
	if buffer.IsZero() {
		a.Linef("most bytes queued in one switch: at most %d (%s: sum of the longest queue of each port)",
			s.DeepestSwitchBytes, deepest)
	} else {
		a.Linef("most bytes queued in one switch: %d (%s)", s.DeepestSwitchBytes, deepest)
		a.Linef("switch buffers of %d bytes, alpha %g: %d of %d packets dropped, %d discarded out of order, %d "+
			"retransmitted; %d NACKs, %d timeouts; links were paused for %s in all", buffer.SwitchBytes, buffer.Alpha,
			l.Dropped,
			l.Sent,
			l.Discarded, l.Again, l.NACKs, l.Timeouts, time.Duration(s.PausedNS))
	}
	if l.Dropped > 0 {
		a.Linef("most drops, %d, before %s (link %d)", s.MostDropped, e.Network.LinkName(s.MostDroppedLink),
			s.MostDroppedLink)
	}
	m := e.Spec.Moves
	if m.Whole() {
		a.Linef("%s: %d packets retransmitted, %d reordered; of %d sent in all %d were lost; %d timeouts",
			m.Describe(e.Network), s.Retransmissions, s.Reordered, l.Sent, l.Lost, l.Timeouts)
	}
	return nil
}

// AddExact adds the counts and the cost of the simulation of the whole network with which an estimate is
// compared.
func AddExact(a *text.Answer, e *pipeline.Estimation) error {
	if e.Variant().Estimator == estimators.Exact { // its summary has them
		a.Linef("the estimate is this simulation, so its errors below are 0 (--estimator flow compares link cases " +
			"with it)")
		return nil
	}
	return addWhole(a, e)
}

// A Result is the result of an estimate, for scripts.
type Result struct {
	ScenarioID  string              `json:"scenario_id"`
	Name        string              `json:"name"`
	Variant     string              `json:"variant"`
	Lake        string              `json:"lake"`
	Flows       int64               `json:"flows"`
	Percentiles []PercentilesResult `json:"percentiles"`
	Services    []PercentilesResult `json:"services"` // in descending order of flows
	Jobs        []JobResult         `json:"jobs,omitempty"`
	Load        *LoadResult         `json:"load,omitempty"` // set for a workload that was drawn for a load
	Sizes       []SizeResult        `json:"message_sizes,omitempty"`
	Warnings    []string            `json:"warnings"`
	Stages      []engine.Report     `json:"stages"`
	Cases       linksim.Stats       `json:"link_cases"`
	WholeHops   int64               `json:"whole_network_packet_hops,omitempty"` // of estimator exact
	// By switches, with estimator exact.
	Drops int64 `json:"drops"`
	// Sum over the links, with estimator exact.
	PausedNS int64 `json:"paused_ns"`
	// With estimator exact: the number of retransmitted packets and of reordered packets over all flows, and
	// the number of all packets that hosts sent and that were lost.
	Retransmissions int64  `json:"retransmissions"`
	Reordered       int64  `json:"reordered"`
	PacketsSent     int64  `json:"packets_sent,omitempty"`
	PacketsLost     int64  `json:"packets_lost"`
	Moves           string `json:"moves,omitempty"` // balancing and events

	Gates      []gate.Verdict `json:"gates,omitempty"`
	Validation any            `json:"validation,omitempty"` // of --exact
	Seconds    float64        `json:"seconds"`

	of        *pipeline.Estimation
	generated pipeline.Generated
	forPeople
}

// Options select which results are read.
type Options struct {
	Gates    []gate.Gate
	Services bool // the percentiles of services
	Text     bool // results that only Text shows
}

// PercentilesResult has the percentiles of slowdown, with their 95% intervals, and of FCT, for one size bin
// or one service. Size bin "all" has all flows.
type PercentilesResult struct {
	SizeBin string   `json:"size_bin,omitempty"`
	Service string   `json:"service"`
	Flows   int64    `json:"flows"`
	P50     float64  `json:"p50"`
	P90     float64  `json:"p90"`
	P99     float64  `json:"p99"`
	P999    float64  `json:"p999"`
	Max     float64  `json:"max,omitempty"` // 0: not known, for windows of time
	P50FCT  *float64 `json:"p50_fct_ms"`    // nil: not known, for windows of time
	P99FCT  *float64 `json:"p99_fct_ms"`
	P50Lo   *float64 `json:"p50_lo"`
	P50Hi   *float64 `json:"p50_hi"`
	P90Lo   *float64 `json:"p90_lo"`
	P90Hi   *float64 `json:"p90_hi"`
	P99Lo   *float64 `json:"p99_lo"`
	P99Hi   *float64 `json:"p99_hi"`
	P999Lo  *float64 `json:"p999_lo"`
	P999Hi  *float64 `json:"p999_hi"`
}

// Read reads the results of a complete estimate and evaluates gates. If a gate failed, it returns the result
// together with a *gate.Error.
func Read(ctx context.Context, e *pipeline.Estimation, o Options) (_ *Result, err error) {
	r := &Result{
		ScenarioID: string(e.ID()), Name: e.Spec.Name, Variant: e.Variant().String(), Lake: e.Lake.Path(),
		Stages: e.Executor().Reports, Percentiles: []PercentilesResult{}, Services: []PercentilesResult{}, of: e,
	}
	r.Seconds, _ = e.Took()
	if err := r.readCounts(); err != nil {
		return nil, err
	}
	q := &lateDB{of: e}
	defer func() { err = errors.Join(err, q.close()) }()
	verdicts, failed := gate.Judge(o.Gates, func(g gate.Gate) (gate.Interval, error) {
		db, err := q.open(ctx)
		if err != nil {
			return gate.Interval{}, err
		}
		return Value(ctx, db, e, g)
	})
	if failed != nil && verdicts == nil {
		return nil, failed
	}
	r.Gates = verdicts
	if err := r.readTables(ctx, q, o); err != nil {
		return nil, err
	}
	return r, failed
}

// readTables reads the results from the tables of the estimate.
func (r *Result) readTables(ctx context.Context, q *lateDB, o Options) (err error) {
	if r.intervals, err = readIntervals(r.of); err != nil {
		return err
	}
	if r.links, err = readLinks(r.of); err != nil {
		return err
	}
	if err := r.readPercentiles(ctx, q, o); err != nil {
		return err
	}
	if r.Load, err = load(r.of, r.links); err != nil {
		return err
	}
	if r.Warnings, err = warnings(r.of, r.Load, r.intervals); err != nil {
		return err
	}
	if r.generated.Dependencies > 0 || len(r.generated.Traffic) > 0 {
		db, err := q.open(ctx)
		if err != nil {
			return err
		}
		if r.Jobs, err = Jobs(ctx, db, r.of); err != nil {
			return err
		}
		if r.Sizes, err = readSizes(ctx, db, r.of, r.of.Variant().Stored()); err != nil {
			return err
		}
	}
	if !o.Text {
		return nil
	}
	if r.unreachable, r.firstUnreachable, err = r.of.Unreachable(); err != nil {
		return err
	}
	r.tail, err = tailLink(ctx, q, r)
	return err
}

// readCounts reads the counts from the records of the stages.
func (r *Result) readCounts() (err error) {
	if r.generated, err = r.of.Generated(); err != nil {
		return err
	}
	r.Flows = r.generated.Flows
	if r.Cases, err = r.of.Cases(); err != nil || r.of.Variant().Estimator != estimators.Exact {
		return err
	}
	did, _, err := exactCost(r.of)
	r.WholeHops = did.PacketHops
	r.Drops = did.Losses.Dropped
	r.PausedNS = did.PausedNS
	r.Retransmissions = did.Retransmissions
	r.Reordered = did.Reordered
	r.PacketsSent = did.Losses.Sent
	r.PacketsLost = did.Losses.Lost
	if r.of.Spec.Moves != nil {
		r.Moves = r.of.Spec.Moves.Describe(r.of.Network)
	}
	return err
}

// SharedHosts returns lines about jobs of an estimate that share more hosts than in the base.
func SharedHosts(ctx context.Context, db *queries.DB, e *pipeline.Estimation, base lake.ScenarioID) ([]string,
	error) {
	g, err := e.Generated()
	if err != nil || !g.Closed() {
		return nil, err
	}
	return lines(db.Run(ctx, queries.Known("shared_hosts"),
		map[string]string{"scenario": string(e.ID()), "base_scenario": string(base)}))
}

// lines returns the texts of the first column of a query result.
func lines(found *format.Answer, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return names.Of(found.Rows, func(row []any) string { return fmt.Sprint(row[0]) }), nil
}

// mostServices is the maximum number of services in a result. The services with the most flows are included.
const mostServices = 1000

// Value returns the value of a gate. It is a quantile of the selected flows, +Inf if none of them has a path,
// or the largest load of the selected links.
func Value(ctx context.Context, db *queries.DB, e *pipeline.Estimation, g gate.Gate) (gate.Interval, error) {
	const bin = "(SELECT size_bin FROM size_bins AS b WHERE b.bin = size_bin_of(size_bytes)) AS size_bin"
	of := duckdb.Quote(string(e.ID()))
	// Without compute steps.
	all := fmt.Sprintf("(SELECT *, %s FROM flows WHERE scenario = %s AND src <> dst)", bin, of)
	from := fmt.Sprintf("(SELECT *, %s FROM slowdowns_all WHERE %s)", bin, selected(e))
	value := fmt.Sprintf("quantile_cont(%s, %v)",
		map[bool]string{true: "fct_ns / 1e6", false: "slowdown"}[g.FCT], g.Quantile)
	if g.Load {
		from = fmt.Sprintf(`(SELECT load, tier, unnest([a.name || ':' || b.name, b.name || ':' || a.name]) AS link
			FROM (FROM link_stats_all WHERE %s) JOIN (FROM nodes WHERE scenario = %[2]s) AS a ON a.node_id = src_node
			JOIN (FROM nodes WHERE scenario = %[2]s) AS b ON b.node_id = dst_node)`, selected(e), of)
		value = "max(load)"
		all = from
	}
	where := " WHERE true"
	for column, value := range g.Filter {
		where += fmt.Sprintf(" AND %s = %s", column, duckdb.Quote(value))
	}
	found, err := db.Ask(ctx, "gate", fmt.Sprintf("SELECT (SELECT %s FROM %s%s), (SELECT count(*) FROM %s%[3]s)",
		value, from, where, all))
	if err != nil {
		return gate.Interval{}, err
	}
	if x, ok := found.Rows[0][0].(float64); ok {
		return gate.Exactly(x), nil
	}
	if found.Rows[0][1].(int64) > 0 {
		return gate.Exactly(math.Inf(1)), nil
	}
	return gate.Interval{}, g.None(func(column string) ([]string, error) {
		return lines(db.Ask(ctx, column, "SELECT DISTINCT "+column+" FROM "+all))
	})
}

// A JobResult has the times of a job.
type JobResult struct {
	Name string `json:"name"`
	// Iterations are the durations of the iterations, in ns. An iteration lasts from the end of the previous
	// one, or from the start of the job, to its last delivery.
	Iterations   []int64 `json:"iterations"`
	CompletionNS int64   `json:"completion_ns"` // from the start of the job
}

// MeanNS returns the mean duration of an iteration, in ns.
func (j *JobResult) MeanNS() float64 { return float64(j.CompletionNS) / float64(len(j.Iterations)) }

// Jobs reads the times of the jobs of a complete estimate. It returns none if no flow waits for others, or if
// only messages of a connection do.
func Jobs(ctx context.Context, db *queries.DB, e *pipeline.Estimation) (all []JobResult, err error) {
	g, err := e.Generated()
	if err != nil || g.Dependencies == 0 || len(g.Traffic) > 0 || e.Variant().Estimator != estimators.Exact {
		return nil, err
	}
	type iteration struct {
		Job          string
		IterationNS  int64 `json:"iteration_ns"`
		CompletionNS int64 `json:"completion_ns"`
	}
	rows, err := answers[iteration](ctx, db, e, "job_iterations", nil)
	for _, r := range rows {
		if len(all) == 0 || all[len(all)-1].Name != r.Job {
			all = append(all, JobResult{Name: r.Job, CompletionNS: r.CompletionNS})
		}
		j := &all[len(all)-1]
		j.Iterations = append(j.Iterations, r.IterationNS)
	}
	return all, err
}
