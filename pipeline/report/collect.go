package report

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"parsimon/queries"
)

// A reader asks the questions of one report.
type reader struct {
	db       *queries.DB
	lake     string
	estimate Estimate
	base     *Estimate // nil without a comparison
}

// A content is everything that a page says.
type content struct {
	lake     string
	estimate Estimate
	base     *Estimate
	answers  map[string]*answer // by question; and the network's, by data set
	asked    map[string]map[string]string
	layout   string // how the network is drawn, in words
}

// baseQuestions need a comparison.
var baseQuestions = []string{"what_changed", "explaining_links", "load_changes"}

// Questions of the report, in the order they are asked, with parameters that are not the defaults.
var reportQuestions = []struct {
	name   string
	params map[string]string
}{
	{"headline", nil}, {"percentiles_by_group", nil}, {"slowdown_vs_size_by_group", nil},
	{"slowdown_and_load_over_time", nil},
	{"tail_by_tier", nil}, {"link_load_and_tail", map[string]string{"n": "100000"}},
	{"worst_failures", map[string]string{"n": "25"}}, {"synthetic_share", nil},
}

// Questions of the report's own, about the estimate in words.
var (
	scenarioQuery = queries.Query{Name: "scenario", Params: estimateParams,
		SQL: `SELECT name, base_id, seed, spec, flows, rejects FROM scenarios WHERE scenario = $scenario AND $variant <> ''`}
	warningsQuery = queries.Query{Name: "warnings", Params: estimateParams,
		SQL: `SELECT kind, warning FROM warnings WHERE scenario = $scenario AND variant = $variant ORDER BY kind, warning`}
	shortQuery = queries.Query{Name: "short", Params: estimateParams,
		SQL: `SELECT size_bin, string_agg(i.warning, ', ' ORDER BY i.quantile) AS warning
			FROM intervals AS i JOIN size_bins AS b USING (size_bin)
			WHERE i.scenario = $scenario AND i.variant = $variant AND i.service IS NULL AND i.vnet IS NULL AND i.warning <> ''
			GROUP BY size_bin ORDER BY (size_bin = 'all') DESC, any_value(b.bin)`}
	sweepQuery = queries.Query{Name: "sweep", Params: estimateParams,
		SQL: `SELECT sweep, count(*) AS runs FROM sweep_runs
			WHERE variant = $variant AND sweep IN (SELECT sweep FROM sweep_runs WHERE scenario = $scenario AND variant = $variant)
			GROUP BY sweep ORDER BY runs DESC, sweep LIMIT 1`}
	truthQuery = queries.Query{Name: "truth", Params: estimateParams,
		SQL: `SELECT truth, error, error_lo, error_hi FROM validations
			WHERE scenario = $scenario AND variant = $variant AND size_bin = 'all' AND quantile = 0.99 ORDER BY truth LIMIT 1`}
	// The tail of a service, link by link, in the way of question link_load_and_tail.
	serviceLinksQuery = queries.Query{Name: "service_links",
		Params: append(estimateParams, queries.Param{Name: "service", Type: "text"},
			queries.Param{Name: "slowdown_limit", Type: "positive"}),
		SQL: `WITH tail AS (
				SELECT unnest(list(row(flow_row)::STRUCT(flow_row BIGINT)), recursive := true) FROM slowdowns
				WHERE scenario = $scenario AND variant = $variant AND service = $service AND slowdown >= $slowdown_limit
			), parts AS (
				SELECT h.link_id, sum(CAST(h.delay_ns AS DECIMAL(30, 3))) AS delay_ns
				FROM hop_contributions AS h JOIN tail AS t ON t.flow_row = h.flow_row
				WHERE h.scenario = $scenario AND h.variant = $variant GROUP BY h.link_id
			)
			SELECT a.name || ' → ' || b.name AS link, coalesce(k.load, 0) AS load,
				CAST(p.delay_ns AS DOUBLE) / CAST(sum(p.delay_ns) OVER () AS DOUBLE) AS share
			FROM parts AS p JOIN links AS l ON l.scenario = $scenario AND l.link_id = p.link_id
			LEFT JOIN nodes AS a ON a.scenario = $scenario AND a.node_id = l.src_node
			LEFT JOIN nodes AS b ON b.scenario = $scenario AND b.node_id = l.dst_node
			LEFT JOIN link_stats AS k ON k.scenario = $scenario AND k.variant = $variant AND k.link_id = p.link_id
			WHERE p.delay_ns > 0 ORDER BY p.delay_ns DESC, p.link_id LIMIT 1`}
	estimateParams = []queries.Param{{Name: "scenario", Type: "text"}, {Name: "variant", Type: "text"}}
)

// collect asks every question.
func (r *reader) collect(ctx context.Context) (*content, error) {
	if r.estimate.Windows > 0 {
		return r.collectSampled(ctx)
	}
	c := &content{lake: r.lake, estimate: r.estimate, base: r.base, answers: map[string]*answer{},
		asked: map[string]map[string]string{}}
	own := map[string]string{"scenario": r.estimate.Scenario, "variant": r.estimate.Variant}
	for _, q := range []queries.Query{scenarioQuery, warningsQuery, shortQuery, sweepQuery, truthQuery} {
		a, err := ask(ctx, r.db, q, own)
		if err != nil {
			return nil, err
		}
		c.answers[q.Name] = a
	}
	for _, q := range reportQuestions {
		if err := r.put(ctx, c, q.name, q.params); err != nil {
			return nil, err
		}
	}
	if err := r.curves(ctx, c, "slowdown_cdf", map[string]string{}); err != nil {
		return nil, err
	}
	if err := r.sweep(ctx, c); err != nil {
		return nil, err
	}
	if err := r.slowestService(ctx, c); err != nil {
		return nil, err
	}
	if r.base != nil {
		if err := r.compare(ctx, c); err != nil {
			return nil, err
		}
	}
	// The drawing needs every link, the chart and the table the foremost ones.
	links := c.answers["link_load_and_tail"]
	net := drawNetwork(links)
	c.layout = net.layout
	c.answers["network_links"], c.answers["network_nodes"], c.answers["network_labels"] = net.links, net.nodes,
		net.labels
	return c, nil
}

// put asks a question of the library about the estimate.
func (r *reader) put(ctx context.Context, c *content, name string, more map[string]string) error {
	q, err := queries.Get(name)
	if err != nil {
		return err
	}
	params := map[string]string{"scenario": r.estimate.Scenario, "variant": r.estimate.Variant}
	for k, v := range more {
		params[k] = v
	}
	a, err := ask(ctx, r.db, q, params)
	if err != nil {
		return err
	}
	// Of share and slower_share, each 1 less the other, one is enough.
	c.answers[name], c.asked[name] = a.without("scenario", "variant"), maps.Clone(params)
	if slices.Contains(a.columns, "slower_share") {
		c.answers[name] = c.answers[name].without("share")
	}
	return nil
}

// mostCurveRows bounds the points of curves, which are most of a page's data.
const mostCurveRows = 4_500

// curves asks a question about curves. Where all groups of flows would make the page too large, it asks for fewer.
func (r *reader) curves(ctx context.Context, c *content, name string, params map[string]string) error {
	for groups := 12; ; groups /= 2 {
		params["groups"] = strconv.Itoa(groups)
		err := r.put(ctx, c, name, params)
		if err != nil || groups == 1 || c.answers[name].Len() <= mostCurveRows {
			return err
		}
	}
}

// slowestService asks at which link the slowest flows of the slowest service lose most time.
func (r *reader) slowestService(ctx context.Context, c *content) error {
	p99, worst, _ := c.slowestService()
	if worst < 0 {
		return nil
	}
	params := map[string]string{"scenario": r.estimate.Scenario, "variant": r.estimate.Variant,
		"service":        p99.Text(worst, "service"),
		"slowdown_limit": strconv.FormatFloat(p99.Float(worst, "slowdown"), 'g', -1, 64)}
	a, err := ask(ctx, r.db, serviceLinksQuery, params)
	c.answers[serviceLinksQuery.Name] = a
	return err
}

// sweep asks the questions about the sweep of parameters that the scenario is a run of; the largest, if of several.
func (r *reader) sweep(ctx context.Context, c *content) error {
	if c.answers["sweep"].Len() == 0 {
		return nil
	}
	params := map[string]string{"scenario": "", "variant": r.estimate.Variant,
		"sweep": c.answers["sweep"].Text(0, "sweep")}
	q, err := queries.Get("parameter_sweep")
	if err != nil {
		return err
	}
	if c.answers[q.Name], err = ask(ctx, r.db, q, params); err != nil {
		return err
	}
	c.asked[q.Name] = params
	c.answers["parameter_sweep_runs"] = pivot(c.answers["parameter_sweep"])
	return nil
}

// compare asks the questions about the comparison.
func (r *reader) compare(ctx context.Context, c *content) error {
	against := map[string]string{"base_scenario": r.base.Scenario, "base_variant": r.base.Variant}
	if err := r.put(ctx, c, "explaining_links", against); err != nil {
		return err
	}
	against = maps.Clone(against)
	against["n"] = "100000"
	if err := r.put(ctx, c, "load_changes", against); err != nil {
		return err
	}
	if err := r.put(ctx, c, "what_changed", nil); err != nil {
		return err
	}
	all := c.answers["what_changed"]
	c.answers["what_changed"] = all.where(func(i int) bool {
		return all.Text(i, "base_scenario") == r.base.Scenario && all.Text(i, "base_variant") == r.base.Variant
	})
	for _, name := range baseQuestions {
		c.answers[name] = c.answers[name].without("base_scenario", "base_variant")
	}
	if c.answers["what_changed"].Len() == 0 {
		return fmt.Errorf("the lake holds no comparison of %s@%s with %s@%s: parsimon compare makes it",
			r.estimate.Scenario, r.estimate.Variant, r.base.Scenario, r.base.Variant)
	}
	return nil
}
