package report

import (
	"fmt"
	"math"
)

// A verdict says what a change did.
type verdict struct {
	Changed   bool
	Sentences []string
	Reasons   []string // why nothing changed, or what explains the change
}

// noChange is the least change of a percentile that is worth the name, as a fraction.
const noChange = 0.01

// verdict reads the comparison.
func (c *content) verdict() *verdict {
	if c.base == nil {
		return nil
	}
	v := &verdict{}
	rows := c.answers["what_changed"]
	all := rows.where(func(i int) bool {
		return rows.Text(i, "service") == "all" && rows.Text(i, "vnet") == "all" && rows.Text(i,
			"size_bin") == "all" && rows.Text(i, "hops") == "all"
	})
	for i := range all.rows {
		change, lo, hi := all.Float(i, "change"), all.Float(i, "change_lo"), all.Float(i, "change_hi")
		sure := (lo > 0 || hi < 0) && math.Abs(change) >= noChange
		v.Changed = v.Changed || sure
		meaning := "no change beyond chance"
		switch {
		case sure && change > 0:
			meaning = "slower"
		case sure:
			meaning = "faster"
		case lo > 0 || hi < 0:
			meaning = "less than 1% apart"
		}
		v.Sentences = append(v.Sentences, fmt.Sprintf("%s: %s in the base, %s now, %s (95%% interval %s to %s): %s.",
			quantileName(all.Float(i, "quantile")),
			times(all.Float(i, "base_slowdown")), times(all.Float(i, "slowdown")), signed(change), signed(lo), signed(hi),
			meaning))
	}
	if n, flows := all.Int(0, "flows"), c.answers["headline"].Int(0, "flows"); n > 0 && n != flows {
		v.Sentences = append(v.Sentences, fmt.Sprintf("Compared are the %s flows that both scenarios have; the numbers "+
			"above are of all %s flows.", thousands(n), thousands(flows)))
	}
	v.Reasons = append(c.linkReasons(), c.tailReasons(v.Changed)...)
	return v
}

func quantileName(q float64) string {
	return map[float64]string{0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9"}[q]
}

// linkReasons say what the change did to links and their loads.
func (c *content) linkReasons() []string {
	var out []string
	loads := c.answers["load_changes"]
	failed := loads.where(func(i int) bool { return loads.Is(i, "newly_failed") })
	flows := c.answers["headline"].Int(0, "flows")
	for i := range failed.rows {
		if i == 6 {
			out = append(out, fmt.Sprintf("%d more links failed.", failed.Len()-i))
			break
		}
		out = append(out, fmt.Sprintf("Link %s failed. In the base it carried %s flows, %s of all, at a load of %s.",
			failed.Text(i, "link"),
			thousands(failed.Int(i, "base_flows")), percent(float64(failed.Int(i, "base_flows"))/float64(max(1, flows))),
			percent(failed.Float(i, "base_load"))))
	}
	if loads.Len() == 0 {
		return out
	}
	most := -1
	for i := range loads.rows {
		up := loads.Float(i, "load") - loads.Float(i, "base_load")
		if up > 0 && (most < 0 || up > loads.Float(most, "load")-loads.Float(most, "base_load")) {
			most = i
		}
	}
	text := fmt.Sprintf("%s of %s links carry a load that differs by more than one point.", thousands(loads.Int(0,
		"changed_links")), thousands(loads.Int(0, "links")))
	if most >= 0 {
		text += fmt.Sprintf(" The largest rise is at %s, from %s to %s.", loads.Text(most, "link"),
			percent(loads.Float(most, "base_load")), percent(loads.Float(most, "load")))
	}
	return append(out, text)
}

// tailReasons say how much of the slowest flows' time is lost where the load changed, and which link explains most.
func (c *content) tailReasons(changed bool) []string {
	var out []string
	loads, links, explaining := c.answers["load_changes"], c.answers["link_load_and_tail"], c.answers["explaining_links"]
	moved, highest := map[int64]bool{}, 0.0
	for i := range loads.rows {
		if math.Abs(loads.Float(i, "load")-loads.Float(i, "base_load")) > 0.01 {
			moved[loads.Int(i, "link_id")] = true
			highest = max(highest, loads.Float(i, "load"))
		}
	}
	same, all := 0.0, 0.0
	for i := range links.rows {
		all += links.Float(i, "tail_share")
		if !moved[links.Int(i, "link_id")] {
			same += links.Float(i, "tail_share")
		}
	}
	if all > 0 && loads.Len() > 0 {
		out = append(out, fmt.Sprintf("The slowest 1%% lose %s of their time at links whose load is the same as in the "+
			"base.", percent(same/all)))
		if len(moved) > 0 && !changed {
			out = append(out, fmt.Sprintf("The links whose load did change are loaded %s at most.", percent(highest)))
		}
	}
	if explaining.Len() > 0 && changed {
		out = append(out, fmt.Sprintf("The largest difference is at %s: %+.1f µs for a mean flow of the %s slowest of "+
			"either scenario.", explaining.Text(0, "link"),
			explaining.Float(0, "difference_ns")/1000, thousands(explaining.Int(0, "tail_flows"))))
	}
	if loads.Len() == 0 {
		out = append(out, "The two scenarios have no links in common, so that loads cannot be compared.")
	}
	return out
}
