package whatif

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology"
)

// write puts the comparison into the lake.
func (c *Comparison) write(ctx context.Context, l *lake.Lake) error {
	at := lake.Place{Scenario: lake.ScenarioID(c.Other.Scenario), Variant: c.Other.Variant}
	session, err := l.Lock(ctx, lake.Of(at.Scenario))
	if err != nil {
		return err
	}
	defer session.Close()
	name := c.Base.Scenario + "-" + c.Base.Variant
	rows := columns.NewRows(schema.Comparisons)
	for _, r := range c.Rows {
		row := columns.Row{
			"base_scenario": c.Base.Scenario, "base_variant": c.Base.Variant, "flows": r.Flows, "quantile": r.Quantile,
			"base_slowdown": r.Base, "slowdown": r.Other, "change": r.Change, "change_lo": r.Lo, "change_hi": r.Hi,
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
	var files []lake.DataFile
	for _, t := range []struct {
		table schema.Table
		rec   arrow.Record
	}{{schema.Comparisons, rows.Record()}, {schema.ComparisonLinks, links.Record()}} {
		d, err := session.WriteRecord(at, t.table, name, t.rec)
		t.rec.Release()
		if err != nil {
			return err
		}
		files = append(files, d)
	}
	return session.Publish(at, files...)
}

// Write writes the comparison as tables.
func (c *Comparison) Write(w io.Writer) error {
	p := text.Printer{W: w}
	p.Linef("base  %s (%s), variant %s", c.Base.Scenario, c.BaseName, c.Base.Variant)
	p.Linef("other %s (%s), variant %s", c.Other.Scenario, c.OtherName, c.Other.Variant)
	p.Linef("%d flows are in both (of %d and %d)", c.Both, c.BaseFlows, c.Flows)
	if n := len(c.Changed); n > 0 {
		const most = 8
		var first []string
		for _, cable := range c.Changed[:min(n, most)] {
			first = append(first, cable.String())
		}
		if n > most {
			first = append(first, fmt.Sprintf("%d more (--format json lists all)", n-most))
		}
		p.Linef("%s changed: %s", topology.Count(n, "cable"), strings.Join(first, "; "))
	}
	p.Linef("\nSlowdown of the flows in both; change with its 95%% bootstrap interval")
	head := ""
	for _, g := range ComparisonGroups() {
		if slices.Contains(c.by, g) {
			head += fmt.Sprintf("%-12s ", g)
		}
	}
	p.Linef("%s%9s %8s %10s %10s %8s %19s", head, "flows", "quantile", "base", "other", "change", "interval")
	for _, r := range c.Rows {
		label := ""
		for i, g := range ComparisonGroups() {
			if slices.Contains(c.by, g) {
				label += fmt.Sprintf("%-12s ", r.Group[i])
			}
		}
		p.Linef("%s%9d %8g %10.3f %10.3f %+7.1f%% %+8.1f%% to %+6.1f%%", label, r.Flows, r.Quantile, r.Base, r.Other, 100*r.Change, 100*r.Lo, 100*r.Hi)
	}
	if len(c.Links) > 0 {
		p.Linef("\nLinks that explain it: mean delay there, ns, of the %d flows above the p99 of either", c.TailFlows)
		p.Linef("%8s  %-36s %-14s %9s %7s %12s %12s %12s", "link_id", "link", "tier", "base_load", "load", "base_delay", "delay", "difference")
		for _, d := range c.Links {
			p.Linef("%8d  %-36s %-14s %9.4f %7.4f %12.0f %12.0f %+12.0f", d.Link, d.Src+" → "+d.Dst, d.Tier, d.BaseLoad, d.Load, d.BaseDelayNS, d.DelayNS, d.DelayNS-d.BaseDelayNS)
		}
	}
	return p.Err
}
