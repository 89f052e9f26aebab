package whatif

import (
	"slices"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology"
)

// write puts the comparison into the lake.
func (c *Comparison) write(session *lake.Session) error {
	at := lake.Place{Scenario: lake.ScenarioID(c.Other.Scenario), Variant: c.Other.Variant}
	name := c.Base.Scenario + "-" + c.Base.Variant
	rows := columns.NewRows(schema.Comparisons)
	for _, r := range c.Rows {
		row := columns.Row{
			"base_scenario": c.Base.Scenario, "base_variant": c.Base.Variant, "flows": r.Flows, "quantile": r.Quantile,
			"base_slowdown": r.Base, "slowdown": r.Other, "change": r.Change, "change_lo": r.Lo, "change_hi": r.Hi,
			"base_fct_ns": r.BaseFCT * 1e6, "fct_ns": r.OtherFCT * 1e6, "fct_change": r.FCTChange,
			"fct_change_lo": r.FCTLo, "fct_change_hi": r.FCTHi,
		}
		for i, group := range ComparisonGroups() {
			row[group] = r.Group[i]
		}
		rows.Add(row)
	}
	links := columns.NewRows(schema.ComparisonLinks)
	for i, d := range c.Links {
		links.Add(columns.Row{
			"base_scenario": c.Base.Scenario, "base_variant": c.Base.Variant, "place": int64(i + 1), "link_id": d.Link,
			"tail_flows": c.TailFlows, "base_load": d.BaseLoad, "load": d.Load,
			"base_delay_ns": d.BaseDelayNS, "delay_ns": d.DelayNS,
		})
	}
	return session.PublishRows(at, name, rows, links)
}

// Text is the comparison for people. Where the ideal FCT of flows differs, the FCTs come first.
func (c *Comparison) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("base  %s (%s), variant %s", c.Base.Scenario, c.BaseName, c.Base.Variant)
	a.Linef("other %s (%s), variant %s", c.Other.Scenario, c.OtherName, c.Other.Variant)
	a.Linef("%d flows are in both (of %d and %d); changes with their 95%% bootstrap intervals", c.Both, c.BaseFlows, c.Flows)
	if n := len(c.Changed); n > 0 {
		a.Linef("%s changed: %s", topology.Count(n, "cable"), changedCables(c.Changed))
	}
	if c.IdealChanged > 0 {
		a.Linef("The ideal FCT of %d of these flows differs, because bandwidth, delay or length of their paths does. Their "+
			"slowdown is relative to another ideal: compare the FCTs.", c.IdealChanged)
	}
	c.addJobs(a)
	a.Linef("")
	by := c.by
	if len(by) == 0 && len(c.Services) > 1 {
		by = []string{"service"}
	}
	var head []string
	for _, g := range ComparisonGroups() {
		if slices.Contains(by, g) {
			head = append(head, g)
		}
	}
	fct := []string{"base_fct_ms", "fct_ms", "fct_change", "fct_change_lo", "fct_change_hi"}
	slowdown := []string{"base_slowdown", "slowdown", "change", "change_lo", "change_hi"}
	first, second := slowdown, fct[:3]
	if c.IdealChanged > 0 {
		first, second = fct, slowdown[:3]
	}
	table := a.Table(slices.Concat(head, []string{"flows", "quantile"}, first, second)...)
	for _, r := range c.Rows {
		var row []any
		for i, g := range ComparisonGroups() {
			if slices.Contains(by, g) {
				row = append(row, r.Group[i])
			}
		}
		row = append(row, r.Flows, r.Quantile)
		fct := []any{r.BaseFCT, r.OtherFCT, text.Percent(r.FCTChange), text.Percent(r.FCTLo), text.Percent(r.FCTHi)}
		slowdown := []any{r.Base, r.Other, text.Percent(r.Change), text.Percent(r.Lo), text.Percent(r.Hi)}
		if c.IdealChanged > 0 {
			table.Add(slices.Concat(row, fct, slowdown[:3])...)
		} else {
			table.Add(slices.Concat(row, slowdown, fct[:3])...)
		}
	}
	if len(c.Links) > 0 {
		a.Linef("\nLinks that explain it: mean delay there of the %d flows above the p99 slowdown of either", c.TailFlows)
		table := a.Table("link_id", "link", "tier", "base_load", "load", "base_delay_ns", "delay_ns", "difference_ns")
		for _, d := range c.Links {
			table.Add(d.Link, d.Src+" → "+d.Dst, d.Tier, d.BaseLoad, d.Load, d.BaseDelayNS, d.DelayNS, d.DelayNS-d.BaseDelayNS)
		}
	}
	return a
}

// changedCables lists the first cables that a what-if changes.
func changedCables(changed []scenario.CableChange) string {
	var all []string
	for _, cable := range changed {
		all = append(all, cable.String())
	}
	return topology.Listed(all, 8) // --format json has all
}
