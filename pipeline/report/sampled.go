package report

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"parsimon/queries"
)

// A scenario that was estimated from windows of time has no rows of every flow. Its report asks questions of its own,
// whose answers are of the whole workload by the windows' weights, and leaves out what needs every flow.

// mostSampledGroups is how many services, and how many virtual networks, those with the most flows, a page shows.
const mostSampledGroups = 24

// errCompareSampled says why a report does not compare estimates from windows.
var errCompareSampled = errors.New("a report compares estimates of every flow, and one of these is from windows of time " +
	"(run --within): parsimon compare --within answers what changed, from the same windows of both")

// Questions of the report of an estimate from windows, in the order they are asked.
var sampledQuestions = []string{"sampled_percentiles", "sampled_over_time"}

// sampledHeadlineQuery has the columns of question headline that are known, and what was sampled.
var sampledHeadlineQuery = queries.Query{Name: "headline", Params: estimateParams,
	SQL: `WITH whole AS (
			SELECT count(*) AS flows, CAST(sum(size_bytes) AS BIGINT) AS bytes, max(start_ns) - min(start_ns) AS span_ns,
				count(DISTINCT service) AS services, count(DISTINCT vnet) AS vnets,
				count(*) FILTER (WHERE synthetic_start) AS synthetic_flows
			FROM flows WHERE scenario = $scenario
		), drawn AS (
			SELECT count(*) AS windows, CAST(sum(flows) AS BIGINT) AS sampled_flows, max(round) AS rounds,
				CAST(median(to_ns - from_ns) AS BIGINT) AS window_ns, max(warmup_ns) AS warmup_ns
			FROM windows WHERE scenario = $scenario AND variant = $variant
		), percentiles AS (` + sampledHeadlineColumns() + `
			FROM intervals
			WHERE scenario = $scenario AND variant = $variant AND service IS NULL AND vnet IS NULL AND size_bin = 'all'
		)
		SELECT * FROM whole, drawn, percentiles`}

// sampledHeadlineColumns selects the percentiles of all flows as columns.
func sampledHeadlineColumns() string {
	var columns []string
	for _, p := range [][2]string{{"p50", "0.5"}, {"p90", "0.9"}, {"p99", "0.99"}, {"p999", "0.999"}} {
		for _, c := range [][2]string{{"estimate", "_slowdown"}, {"lo", "_lo"}, {"hi", "_hi"}} {
			columns = append(columns, fmt.Sprintf("max(%s) FILTER (quantile = %s) AS %s%s", c[0], p[1], p[0], c[1]))
		}
	}
	return "SELECT " + strings.Join(columns, ", ")
}

// collectSampled asks every question about an estimate from windows.
func (r *reader) collectSampled(ctx context.Context) (*content, error) {
	c := &content{lake: r.lake, estimate: r.estimate, answers: map[string]*answer{}, asked: map[string]map[string]string{}}
	own := map[string]string{"scenario": r.estimate.Scenario, "variant": r.estimate.Variant}
	for _, q := range []queries.Query{scenarioQuery, shortQuery, sampledHeadlineQuery} {
		a, err := ask(ctx, r.db, q, own)
		if err != nil {
			return nil, err
		}
		c.answers[q.Name] = a
	}
	for _, name := range sampledQuestions {
		if err := r.put(ctx, c, name, nil); err != nil {
			return nil, err
		}
	}
	c.keepSampledGroups()
	return c, nil
}

// keepSampledGroups leaves out groups with few flows where there are many. Services and networks are put where other
// reports have them, for the filter and for sentences.
func (c *content) keepSampledGroups() {
	all := c.answers["sampled_percentiles"]
	kept := func(column string) map[string]bool {
		rows := all.where(func(i int) bool {
			return !all.Null(i, column) && all.Text(i, "size_bin") == "all" && all.Float(i, "quantile") == 0.5
		})
		order := make([]int, rows.Len())
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return int(rows.Int(j, "flows") - rows.Int(i, "flows")) })
		names := map[string]bool{}
		for _, i := range order[:min(mostSampledGroups, len(order))] {
			names[rows.Text(i, column)] = true
		}
		return names
	}
	services, vnets := kept("service"), kept("vnet")
	a := all.where(func(i int) bool {
		return (all.Null(i, "service") || services[all.Text(i, "service")]) &&
			(all.Null(i, "vnet") || vnets[all.Text(i, "vnet")])
	})
	c.answers["sampled_percentiles"], c.answers["percentiles_by_group"] = a, a.where(func(i int) bool { return a.Text(i, "size_bin") == "all" })
}

// sampledPlan lists the sections of the report of an estimate from windows.
func (c *content) sampledPlan() []planned {
	return []planned{
		{section{ID: "slow", Title: "How slow", Intro: "Slowdown is the time that a flow takes over the time that it would take " +
			"alone in the network: 1× is ideal. All percentiles are of the whole workload."}, []figureChart{
			{ID: "sampled_percentiles", Title: "Percentiles by service and virtual network", Wide: true},
		}},
		{section{ID: "windows", Title: "Which windows", Intro: c.windowsText()}, []figureChart{
			{ID: "sampled_over_time", Title: "Windows and offered load over time", Wide: true},
		}},
	}
}

// sampledFrom says what the windows of all rounds hold; "" for an estimate of every flow.
func (c *content) sampledFrom() string {
	if c.estimate.Windows == 0 {
		return ""
	}
	if c.sampledShare() == 1 {
		return "not sampled"
	}
	return fmt.Sprintf("sampled, %d windows, %.3g%% of flows", c.answers["headline"].Int(0, "windows"), 100*c.sampledShare())
}

// variantConfidence is the confidence of intervals that are not 95%, in the name of a variant.
var variantConfidence = regexp.MustCompile(`-confidence-([0-9.]+%)`)

// confidence is that of the intervals.
func (c *content) confidence() string {
	if found := variantConfidence.FindStringSubmatch(c.estimate.Variant); found != nil {
		return found[1]
	}
	return "95%"
}

// sampledInterval writes an interval of all flows and what it was estimated from.
func (c *content) sampledInterval(lo, hi float64) string {
	return fmt.Sprintf("%s interval %s to %s; %s", c.confidence(), times(lo), times(hi), c.sampledFrom())
}

// sampledFigures are the large numbers.
func (c *content) sampledFigures() []figure {
	h := c.answers["headline"]
	out := []figure{}
	for _, p := range percentileFigures {
		out = append(out, figure{p.label, times(h.Float(0, p.column+"_slowdown")),
			c.sampledInterval(h.Float(0, p.column+"_lo"), h.Float(0, p.column+"_hi")) + "; " + p.note})
	}
	return append(out, figure{"flows that were estimated", fmt.Sprintf("%.3g%%", 100*c.sampledShare()), fmt.Sprintf("%s of %s flows, in %s windows",
		thousands(h.Int(0, "sampled_flows")), thousands(h.Int(0, "flows")), thousands(h.Int(0, "windows")))})
}

// sampledShare is the share of the flows that start in windows.
func (c *content) sampledShare() float64 {
	h := c.answers["headline"]
	return h.Float(0, "sampled_flows") / h.Float(0, "flows")
}

// windowsText says how windows were drawn.
func (c *content) windowsText() string {
	h := c.answers["headline"]
	if c.sampledShare() == 1 {
		return "Windows would have been most of the workload, so all of it was estimated."
	}
	rounds := "one round"
	if n := h.Int(0, "rounds"); n > 1 {
		rounds = fmt.Sprintf("%d rounds", n)
	}
	return fmt.Sprintf("%s windows, half of them at most %s long, were drawn at random in %s, from strata by time and load. Each was "+
		"simulated with %s before it and after it.", thousands(h.Int(0, "windows")), spanText(h.Int(0, "window_ns")), rounds,
		spanText(h.Int(0, "warmup_ns")))
}

// sampledSentences are the answers to the first questions.
func (c *content) sampledSentences() []string {
	h := c.answers["headline"]
	out := []string{fmt.Sprintf("One flow in a hundred of the whole workload takes at least %s as long as it would take alone in "+
		"the network (%s); the median flow takes %s.", times(h.Float(0, "p99_slowdown")),
		c.sampledInterval(h.Float(0, "p99_lo"), h.Float(0, "p99_hi")), times(h.Float(0, "p50_slowdown")))}
	return append(out, c.worstService()...)
}

// sampledWarnings are what a reader has to beware of.
func (c *content) sampledWarnings() []warning {
	var out []warning
	if !strings.HasPrefix(c.estimate.Variant, "exact") {
		out = append(out, warning{"weak", "The intervals leave out the error of link cases: without --estimator, windows are " +
			"simulated packet by packet.", nil})
	}
	out = append(out, c.shortWarnings("Windows have too few flows to be sure of some percentiles, or too many that outlast them.")...)
	h := c.answers["headline"]
	out = append(out, syntheticWarnings(h.Int(0, "synthetic_flows"), h.Int(0, "flows"))...)
	return append(out, c.rejectWarnings()...)
}

// leftOut says what the report of an estimate from windows does not show, and why.
func (c *content) leftOut() []string {
	if c.estimate.Windows == 0 {
		return nil
	}
	return []string{"Charts of links, of racks and of the whole network are left out, because they need the delays of every flow at " +
		"every link, and windows have those of some flows: parsimon run without --within estimates every flow."}
}

// WindowScenarios are the hidden scenarios in which the windows of an estimate were estimated; none for an estimate of
// every flow.
func WindowScenarios(ctx context.Context, lake string, of Estimate, opt queries.Options) (ids []string, err error) {
	if of.Windows == 0 {
		return nil, nil
	}
	db, err := queries.Open(ctx, lake, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	a, err := ask(ctx, db, queries.Query{Name: "window_scenarios", Params: estimateParams,
		SQL: `SELECT window_scenario, min(round) AS round FROM windows WHERE scenario = $scenario AND variant = $variant
			GROUP BY window_scenario ORDER BY round, window_scenario`},
		map[string]string{"scenario": of.Scenario, "variant": of.Variant})
	if err != nil {
		return nil, err
	}
	for i := range a.rows {
		ids = append(ids, a.Text(i, "window_scenario"))
	}
	return ids, nil
}
