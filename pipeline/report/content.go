package report

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"parsimon/queries"
)

// mostTableLinks is the maximum number of links with the highest load, and with the largest share of the
// tail, on a page.
const mostTableLinks = 60

// A content is the content of a page.
type content struct {
	db       *queries.DB
	lake     string
	estimate Estimate
	base     *Estimate                    // nil: no comparison
	answers  map[string]*answer           // results by query
	asked    map[string]map[string]string // parameters by query
}

// parameters returns the query parameters that select the estimates.
func parameters(of Estimate, base *Estimate) map[string]string {
	params := map[string]string{"scenario": of.Scenario, "variant": of.Variant.String()}
	if base != nil {
		params["base_scenario"], params["base_variant"] = base.Scenario, base.Variant.String()
	}
	return params
}

// collect asks all queries of the page.
func (c *content) collect(ctx context.Context) error {
	first := []string{"scenario", "warnings", "short", "sweep", "truth", "log", "headline"}
	sampled := c.estimate.Variant.Sampled()
	if sampled {
		first = []string{"scenario", "warnings", "short", "sampled_headline"}
	}
	if err := c.putAll(ctx, first, nil); err != nil {
		return err
	}
	if c.base != nil {
		if err := c.collectComparison(ctx); err != nil {
			return err
		}
	}
	if err := c.collectCharts(ctx); err != nil {
		return err
	}
	if sampled {
		c.answers["headline"] = c.answers["sampled_headline"]
		all := c.answers["sampled_percentiles"] // for the filter and for sentences
		c.answers["percentiles_by_group"] = all.where(func(i int) bool { return all.Text(i, "size_bin") == "all" })
		return nil
	}
	if c.answers["sweep"].Len() > 0 { // the largest parameter sweep that includes the scenario
		of := map[string]string{"scenario": "", "sweep": c.answers["sweep"].Text(0, "sweep")}
		err := c.putAll(ctx, []string{"parameter_sweep", "sweep_errors", "sweep_error_by_size"}, of)
		if err != nil {
			return err
		}
	}
	return errors.Join(c.linksOfWorst(ctx), c.curves(ctx))
}

// collectComparison asks what a change did.
func (c *content) collectComparison(ctx context.Context) error {
	err := errors.Join(c.put(ctx, "ideal", nil),
		c.put(ctx, "what_changed", map[string]string{"groups": strconv.Itoa(mostChanged)}),
		c.put(ctx, "load_changes", map[string]string{"n": "100000"}))
	if err == nil && c.answers["what_changed"].Len() == 0 {
		err = fmt.Errorf("the lake holds no comparison of %s@%s with %s@%s: parsimon compare makes it",
			c.estimate.Scenario, c.estimate.Variant, c.base.Scenario, c.base.Variant)
	}
	return err
}

// collectCharts asks the queries of the charts whose condition holds.
func (c *content) collectCharts(ctx context.Context) error {
	sections, err := plan()
	if err != nil {
		return err
	}
	holds := c.conditions()
	for _, s := range sections {
		for _, chart := range s.Charts {
			if !holds[chart.Of] {
				continue
			}
			if err := c.put(ctx, chart.ID, chart.Params); err != nil {
				return err
			}
		}
	}
	if c.answers["link_loads_over_time"].Len() > 0 { // paths move
		return c.put(ctx, "path_shares", nil)
	}
	return nil
}

// conditions reports which conditions of charts hold: all estimates, those of all flows, those from windows
// of time, reports with a base, simulations of every packet, and such simulations with jobs.
func (c *content) conditions() map[string]bool {
	sampled := c.estimate.Variant.Sampled()
	exact := c.estimate.Variant.WholeNetwork()
	return map[string]bool{"all": true, "flows": !sampled, "windows": sampled, "base": c.base != nil,
		"exact": exact, "jobs": exact && c.answers["scenario"].Int(0, "dependencies") > 0}
}

// putAll asks several queries with the same parameters.
func (c *content) putAll(ctx context.Context, names []string, more map[string]string) error {
	for _, name := range names {
		if err := c.put(ctx, name, more); err != nil {
			return err
		}
	}
	return nil
}

// linksOfWorst asks at which link the service with the highest p99 loses most of its time.
func (c *content) linksOfWorst(ctx context.Context) error {
	p99 := c.servicesByP99()
	if p99.Len() < 2 {
		return nil
	}
	return c.put(ctx, "p99_links", map[string]string{"service": p99.Text(0, "service"), "n": "1"})
}

// mostCurveRows is the maximum number of points of curves, which are most of a page's data.
const mostCurveRows = 4_500

// curves queries the distributions. If the distributions of all groups of flows would make the page too
// large, it queries fewer groups.
func (c *content) curves(ctx context.Context) error {
	for groups := 12; ; groups /= 2 {
		err := c.put(ctx, "slowdown_cdf", map[string]string{"groups": strconv.Itoa(groups)})
		if err != nil {
			return err
		}
		if groups == 1 || c.answers["slowdown_cdf"].Len() <= mostCurveRows {
			c.answers["slowdown_cdf"] = c.answers["slowdown_cdf"].without("share") // 1 - slower_share
			return nil
		}
	}
}

// put runs a query about the estimate. If the query supports bases, its result includes rows for the base.
func (c *content) put(ctx context.Context, name string, more map[string]string) error {
	q := queries.Known(name)
	params := parameters(c.estimate, c.base)
	maps.Copy(params, more)
	maps.DeleteFunc(params, func(name, _ string) bool {
		return !slices.ContainsFunc(q.Params, func(p queries.Param) bool { return p.Name == name })
	})
	a, err := ask(ctx, c.db, q, params)
	if err != nil {
		return err
	}
	if slices.Contains(a.columns, "base_scenario") {
		a = a.where(func(i int) bool {
			return a.Text(i, "base_scenario") == c.base.Scenario &&
				a.Text(i, "base_variant") == c.base.Variant.String()
		})
	}
	c.answers[name] = a.without("scenario", "variant", "base_scenario", "base_variant")
	c.asked[name] = params
	return nil
}

// runs returns one row for each run of a sweep. The result of query parameter_sweep has one row for each run
// and parameter.
func (c *content) runs() *answer {
	long := c.answers["parameter_sweep"]
	first := long.where(func(i int) bool { return long.Int(i, "parameter_place") == 1 })
	return first.without("sweep", "label", "parameter", "name", "parameter_place", "value", "value_number",
		"value_place")
}
