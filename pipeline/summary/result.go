package summary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	P50FCT  *float64 `json:"p50_fct_ms"` // nil: not known, of windows of time
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

// ReadResult reads the answer of a complete estimate.
func ReadResult(ctx context.Context, e *pipeline.Estimation) (_ *Result, err error) {
	g, err := e.Generated()
	if err != nil {
		return nil, err
	}
	r := &Result{
		ScenarioID: string(e.ID()), Name: e.Spec.Name, Variant: e.Variant().String(), Lake: e.Lake.Path(), Flows: g.Flows,
		Stages: e.Executor().Reports,
	}
	r.Seconds, _ = e.Took()
	if r.Cases, err = e.Cases(); err != nil {
		return nil, err
	}
	if e.Variant().Estimator == stages.WholeNetwork {
		did, _, err := exactCost(e)
		if err != nil {
			return nil, err
		}
		r.WholeHops, r.Drops, r.PausedNS = did.PacketHops, did.Losses.Dropped, did.PausedNS
		r.Retransmissions, r.Reordered = did.Retransmissions, did.Reordered
		r.PacketsSent, r.PacketsLost = did.Losses.Sent, did.Losses.Lost
		if e.Spec.Moves != nil {
			r.Moves = e.Spec.Moves.Describe(e.Network)
		}
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var wrong [4]error // the first counts
	r.Percentiles, wrong[0] = answers[PercentilesResult](ctx, e, db, "slowdown_by_size", nil)
	r.Services, wrong[1] = answers[PercentilesResult](ctx, e, db, "slowdown_by_service", nil)
	r.Jobs, wrong[2] = jobResults(ctx, e, db)
	r.Warnings, wrong[3] = warnings(ctx, e, db)
	slices.SortStableFunc(r.Services, func(a, b PercentilesResult) int { return cmp.Compare(b.Flows, a.Flows) })
	r.Services = r.Services[:min(mostServices, len(r.Services))]
	return r, cmp.Or(wrong[:]...)
}

// Warnings are the warnings about the estimate, without those about the length of the workload.
func Warnings(ctx context.Context, e *pipeline.Estimation) (all []string, err error) {
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	all, err = warnings(ctx, e, db)
	return slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, "few flows: ") }), err
}

// warnings are the warnings about the estimate: a line for each cause, with how many links it concerns and what to do,
// and one about the percentiles for which the workload is too short.
func warnings(ctx context.Context, e *pipeline.Estimation, db *queries.DB) ([]string, error) {
	of := selected(e)
	more := duckdb.Quote(fmt.Sprintf(`; parsimon query --lake %s --sql "SELECT * FROM warnings_all WHERE %s" lists them)`,
		e.Lake.Path(), of))
	longer := "a longer workload (of an ingested one: --from and --to)"
	if e.Spec.MaxLoad > 0 {
		longer = "more time (--duration)"
	}
	all, err := lines(ctx, db, `SELECT kind || ': ' || first(warning ORDER BY measure DESC NULLS LAST, link_id)
			|| CASE WHEN count(*) > 1 THEN ' (the largest of ' || count(*) || `+more+` ELSE '' END, 1 AS place, kind
		FROM warnings_all WHERE `+of+` GROUP BY kind
		UNION ALL
		SELECT 'few flows: the workload is too short to be sure of ' || string_agg(percentiles
			|| CASE size_bin WHEN 'all' THEN ' of all flows' ELSE ' of ' || size_bin END, '; ' ORDER BY bin)
			|| '. Estimate `+longer+`, or use lower percentiles', 2, ''
		FROM (SELECT size_bin, any_value(b.bin) AS bin, string_agg('p' || replace(CAST(CAST(100 * quantile AS DECIMAL(4, 1)) AS VARCHAR), '.0', ''), ', ' ORDER BY quantile) AS percentiles
			FROM intervals_all JOIN size_bins AS b USING (size_bin)
			WHERE `+of+` AND service IS NULL AND vnet IS NULL AND warning <> '' GROUP BY size_bin)
		HAVING count(*) > 0
		ORDER BY place, kind`)
	return all, err
}

// SharedHosts are lines about the jobs of an estimate that share hosts, but not as many in a base.
func SharedHosts(ctx context.Context, e *pipeline.Estimation, base lake.ScenarioID) (_ []string, err error) {
	g, err := e.Generated()
	if err != nil || !g.Closed() {
		return nil, err
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return lines(ctx, db, fmt.Sprintf(`
		WITH jobs AS (
			SELECT DISTINCT f.scenario, f.service FROM dependencies AS d JOIN flows AS f USING (scenario, flow_id)
			WHERE scenario IN ('%[1]s', '%[2]s')
		), hosts AS (
			SELECT DISTINCT scenario, service AS job, unnest([src, dst]) AS host FROM flows JOIN jobs USING (scenario, service)
			WHERE scenario IN ('%[1]s', '%[2]s')
		), pairs AS (
			SELECT scenario, a.job, b.job AS other, count(*) AS hosts FROM hosts AS a JOIN hosts AS b USING (scenario, host)
			WHERE a.job < b.job GROUP BY ALL
		)
		SELECT 'jobs ' || job || ' and ' || other || ' share ' || hosts || ' hosts' FROM pairs WHERE scenario = '%[1]s'
			AND (job, other, hosts) NOT IN (SELECT (job, other, hosts) FROM pairs WHERE scenario = '%[2]s')
		ORDER BY hosts DESC, job, other`, e.ID(), base))
}

// lines are the texts that SQL answers with.
func lines(ctx context.Context, db *queries.DB, sql string) ([]string, error) {
	found, err := db.Ask(ctx, "warnings", sql)
	if err != nil {
		return nil, err
	}
	return names.Of(found.Rows, func(row []any) string { return fmt.Sprint(row[0]) }), nil
}

// mostServices is how many services, those with the most flows, a result has.
const mostServices = 1000

// Judge holds gates on slowdowns against the estimate.
func Judge(ctx context.Context, e *pipeline.Estimation, gates []gate.Gate) ([]gate.Verdict, error) {
	if len(gates) == 0 {
		return nil, nil
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	return gate.Judge(gates, func(g gate.Gate) (float64, error) { return quantile(ctx, e, db, g) })
}

// quantile is a quantile of the slowdowns that a gate selects.
func quantile(ctx context.Context, e *pipeline.Estimation, db *queries.DB, g gate.Gate) (float64, error) {
	where := selected(e)
	columns := map[string]string{"service": "service", "vnet": "vnet", "size_bin": "(SELECT size_bin FROM size_bins AS b WHERE b.bin = size_bin_of(size_bytes))"}
	for name, value := range g.Filter {
		where += fmt.Sprintf(" AND %s = %s", columns[name], duckdb.Quote(value))
	}
	value := "slowdown"
	if g.FCT {
		value = "fct_ns / 1e6"
	}
	found, err := db.Ask(ctx, "quantile",
		fmt.Sprintf("SELECT quantile_cont(%s, %v) FROM slowdowns_all WHERE %s", value, g.Quantile, where))
	if err != nil {
		return 0, err
	}
	x, ok := found.Rows[0][0].(float64)
	if !ok {
		return 0, g.None(func(column string) ([]string, error) {
			return lines(ctx, db, "SELECT DISTINCT "+columns[column]+" FROM slowdowns_all WHERE "+selected(e))
		})
	}
	return x, nil
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
func Jobs(ctx context.Context, e *pipeline.Estimation) (all []JobResult, err error) {
	if g, err := e.Generated(); err != nil || !g.Closed() {
		return nil, err
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	all, err = jobResults(ctx, e, db)
	return all, errors.Join(err, db.Close())
}

// jobResults reads the times of the jobs; none if no flow waits for others.
func jobResults(ctx context.Context, e *pipeline.Estimation, db *queries.DB) (all []JobResult, err error) {
	g, err := e.Generated()
	if err != nil || g.Dependencies == 0 || e.Variant().Estimator != stages.WholeNetwork {
		return nil, err
	}
	type iteration struct {
		Job          string
		IterationNS  int64 `json:"iteration_ns"`
		CompletionNS int64 `json:"completion_ns"`
	}
	rows, err := answers[iteration](ctx, e, db, "job_iterations", nil)
	for _, r := range rows {
		if len(all) == 0 || all[len(all)-1].Name != r.Job {
			all = append(all, JobResult{Name: r.Job, CompletionNS: r.CompletionNS})
		}
		j := &all[len(all)-1]
		j.Iterations = append(j.Iterations, r.IterationNS)
	}
	return all, err
}

// addJobs adds the times of the jobs.
func addJobs(ctx context.Context, a *text.Answer, e *pipeline.Estimation, db *queries.DB) error {
	all, err := jobResults(ctx, e, db)
	if err != nil || len(all) == 0 {
		return err
	}
	a.Linef("\nJobs (parsimon query job_links: the links that cost them time; job_critical_path: on what; job_hosts: where)")
	t := a.Table("job", "iterations", "first_iteration", "shortest", "longest", "completion")
	for _, j := range all {
		say := func(ns int64) string { return time.Duration(ns).Round(time.Microsecond).String() }
		t.Add(j.Name, int64(len(j.Iterations)), say(j.Iterations[0]), say(slices.Min(j.Iterations)),
			say(slices.Max(j.Iterations)), say(j.CompletionNS))
	}
	return nil
}
