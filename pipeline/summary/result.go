package summary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
	"parsimon/schema/names"
	"parsimon/stages"
)

// A Result is the answer of an estimate, for scripts.
type Result struct {
	ScenarioID  string               `json:"scenario_id"`
	Name        string               `json:"name"`
	Variant     string               `json:"variant"`
	Lake        string               `json:"lake"`
	Flows       int64                `json:"flows"`
	Percentiles []PercentilesResult  `json:"percentiles"`
	Services    []PercentilesResult  `json:"services"` // those with the most flows first
	Jobs        []JobResult          `json:"jobs,omitempty"`
	Warnings    []string             `json:"warnings"`
	Stages      []engine.Report      `json:"stages"`
	Cases       stages.SimulateStats `json:"link_cases"`
	WholeHops   int64                `json:"whole_network_packet_hops,omitempty"` // of estimator exact
	Drops       int64                `json:"drops"`                               // by switches, of estimator exact
	PausedNS    int64                `json:"paused_ns"`                           // sum over the links, likewise
	// Of estimator exact: packets that were sent again and that arrived out of order, of all flows, and all packets that
	// hosts sent and that were lost on the way.
	Retransmissions int64  `json:"retransmissions"`
	Reordered       int64  `json:"reordered"`
	PacketsSent     int64  `json:"packets_sent,omitempty"`
	PacketsLost     int64  `json:"packets_lost"`
	Moves           string `json:"moves,omitempty"` // balance and events

	Gates      []gate.Verdict `json:"gates,omitempty"`
	Validation any            `json:"validation,omitempty"` // of --exact
	Seconds    float64        `json:"seconds"`

	of        *pipeline.Estimation
	generated pipeline.Generated
	forPeople
}

// Options say what of an answer is read.
type Options struct {
	Gates    []gate.Gate
	Services bool // the percentiles of services
	Text     bool // what only Text says
}

// PercentilesResult are the percentiles of slowdown, with their 95% intervals, and of FCT, of one size bin or of one
// service; all flows are bin "all".
type PercentilesResult struct {
	SizeBin string   `json:"size_bin,omitempty"`
	Service string   `json:"service"`
	Flows   int64    `json:"flows"`
	P50     float64  `json:"p50"`
	P90     float64  `json:"p90"`
	P99     float64  `json:"p99"`
	P999    float64  `json:"p999"`
	Max     float64  `json:"max,omitempty"` // 0: not known, of windows of time
	P50FCT  *float64 `json:"p50_fct_ms"`    // nil: not known, of windows of time
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

// Read reads the answer of a complete estimate, and holds gates on slowdowns against it. The error is a *gate.Error,
// beside the answer, if any failed.
func Read(ctx context.Context, e *pipeline.Estimation, o Options) (_ *Result, err error) {
	r := &Result{
		ScenarioID: string(e.ID()), Name: e.Spec.Name, Variant: e.Variant().String(), Lake: e.Lake.Path(),
		Stages: e.Executor().Reports, Services: []PercentilesResult{}, of: e,
	}
	r.Seconds, _ = e.Took()
	if err := r.readCounts(); err != nil {
		return nil, err
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	verdicts, failed := gate.Judge(o.Gates, func(g gate.Gate) (gate.Interval, error) { return Value(ctx, db, e, g) })
	if failed != nil && verdicts == nil {
		return nil, failed
	}
	r.Gates = verdicts
	var wrong [5]error // the first counts
	r.Percentiles, wrong[0] = answers[PercentilesResult](ctx, db, e, "slowdown_by_size", nil)
	if o.Services {
		r.Services, wrong[1] = answers[PercentilesResult](ctx, db, e, "slowdown_by_service", nil)
		slices.SortStableFunc(r.Services, func(a, b PercentilesResult) int { return cmp.Compare(b.Flows, a.Flows) })
		r.Services = r.Services[:min(mostServices, len(r.Services))]
	}
	r.Jobs, wrong[2] = Jobs(ctx, db, e)
	r.Warnings, wrong[3] = warnings(ctx, db, e)
	if o.Text {
		wrong[4] = r.forPeople.read(ctx, db, r)
	}
	if err := cmp.Or(wrong[:]...); err != nil {
		return nil, err
	}
	return r, failed
}

// readCounts reads what the records of the stages say.
func (r *Result) readCounts() (err error) {
	if r.generated, err = r.of.Generated(); err != nil {
		return err
	}
	r.Flows = r.generated.Flows
	if r.Cases, err = r.of.Cases(); err != nil || r.of.Variant().Estimator != stages.WholeNetwork {
		return err
	}
	did, _, err := exactCost(r.of)
	r.WholeHops, r.Drops, r.PausedNS = did.PacketHops, did.Losses.Dropped, did.PausedNS
	r.Retransmissions, r.Reordered = did.Retransmissions, did.Reordered
	r.PacketsSent, r.PacketsLost = did.Losses.Sent, did.Losses.Lost
	if r.of.Spec.Moves != nil {
		r.Moves = r.of.Spec.Moves.Describe(r.of.Network)
	}
	return err
}

// Warnings are the warnings about an estimate, without those about the length of the workload.
func Warnings(ctx context.Context, db *queries.DB, e *pipeline.Estimation) ([]string, error) {
	all, err := warnings(ctx, db, e)
	return slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, "few flows: ") }), err
}

// warnings are the warnings about the estimate: a line for each cause, with how many links it concerns and what to do,
// and one about the percentiles for which the workload is too short.
func warnings(ctx context.Context, db *queries.DB, e *pipeline.Estimation) ([]string, error) {
	longer := "a longer workload (of an ingested one: --from and --to)"
	if e.Spec.MaxLoad > 0 {
		longer = "more time (--duration)"
	}
	found, err := ask(ctx, db, e, "warning_lines", map[string]string{"longer": longer, "more": fmt.Sprintf(
		`; parsimon query --lake %s --sql "SELECT * FROM warnings_all WHERE %s" lists them)`, e.Lake.Path(), selected(e))})
	return lines(found, err)
}

// SharedHosts are lines about the jobs of an estimate that share hosts, but not as many in a base.
func SharedHosts(ctx context.Context, db *queries.DB, e *pipeline.Estimation, base lake.ScenarioID) ([]string, error) {
	g, err := e.Generated()
	if err != nil || !g.Closed() {
		return nil, err
	}
	return lines(db.Run(ctx, queries.Known("shared_hosts"),
		map[string]string{"scenario": string(e.ID()), "base_scenario": string(base)}))
}

// lines are the texts of the first column of an answer.
func lines(found *format.Answer, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return names.Of(found.Rows, func(row []any) string { return fmt.Sprint(row[0]) }), nil
}

// mostServices is how many services, those with the most flows, a result has.
const mostServices = 1000

// Value is what a gate is held against: a quantile of the flows that it selects, +Inf if none of them has a path; or
// the largest load of the links that it selects.
func Value(ctx context.Context, db *queries.DB, e *pipeline.Estimation, g gate.Gate) (gate.Interval, error) {
	const bin = "(SELECT size_bin FROM size_bins AS b WHERE b.bin = size_bin_of(size_bytes)) AS size_bin"
	of := duckdb.Quote(string(e.ID()))
	all := fmt.Sprintf("(SELECT *, %s FROM flows WHERE scenario = %s AND src <> dst)", bin, of) // without compute steps
	from, value := fmt.Sprintf("(SELECT *, %s FROM slowdowns_all WHERE %s)", bin, selected(e)),
		fmt.Sprintf("quantile_cont(%s, %v)", map[bool]string{true: "fct_ns / 1e6", false: "slowdown"}[g.FCT], g.Quantile)
	if g.Load {
		from, value = fmt.Sprintf(`(SELECT load, tier, unnest([a.name || ':' || b.name, b.name || ':' || a.name]) AS link
			FROM (FROM link_stats_all WHERE %s) JOIN (FROM nodes WHERE scenario = %[2]s) AS a ON a.node_id = src_node
			JOIN (FROM nodes WHERE scenario = %[2]s) AS b ON b.node_id = dst_node)`, selected(e), of), "max(load)"
		all = from
	}
	where := " WHERE true"
	for column, value := range g.Filter {
		where += fmt.Sprintf(" AND %s = %s", column, duckdb.Quote(value))
	}
	found, err := db.Ask(ctx, "gate", fmt.Sprintf("SELECT (SELECT %s FROM %s%s), (SELECT count(*) FROM %s%[3]s)", value,
		from, where, all))
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

// A JobResult is how long a job took.
type JobResult struct {
	Name string `json:"name"`
	// Iterations are their times in ns: from the end of the one before, or the start of the job, to the last delivery.
	Iterations   []int64 `json:"iterations"`
	CompletionNS int64   `json:"completion_ns"` // from the start of the job
}

// MeanNS is the mean time of an iteration.
func (j *JobResult) MeanNS() float64 { return float64(j.CompletionNS) / float64(len(j.Iterations)) }

// Jobs reads the times of the jobs of a complete estimate; none if no flow waits for others.
func Jobs(ctx context.Context, db *queries.DB, e *pipeline.Estimation) (all []JobResult, err error) {
	g, err := e.Generated()
	if err != nil || g.Dependencies == 0 || e.Variant().Estimator != stages.WholeNetwork {
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
