package report

import (
	"fmt"
	"math"
)

// A verdict describes the effect of a change.
type verdict struct {
	// Slowdown, or FCT if the slowdowns of the two estimates are relative to different ideals.
	Measure   string
	Changed   bool // for all flows or for one service
	Sentences []string
	Reasons   []string // why nothing changed, or what explains the change
}

// mostChanged is the maximum number of groups of flows in a comparison. The groups with the most flows are
// shown.
const mostChanged = 25

// noChange is the smallest relative change of a percentile that is reported as a change.
const noChange = 0.01

// idealChanged reports whether the ideal FCT of any flow differs from the base.
func (c *content) idealChanged() bool { return c.answers["ideal"].Int(0, "flows") > 0 }

// verdict reads the comparison of all flows, and of the services that changed.
func (c *content) verdict() *verdict {
	if c.base == nil {
		return nil
	}
	v := &verdict{Measure: "Slowdown"}
	if c.idealChanged() {
		v.Measure = "FCT"
		v.Sentences = append(v.Sentences,
			fmt.Sprintf("The ideal FCT of %s flows differs, because bandwidth, delay or length of their paths "+
				"does. Slowdowns are relative to another ideal, so FCTs are compared.",
				thousands(c.answers["ideal"].Int(0, "flows"))))
	}
	ideal := c.answers["ideal"]
	if ideal.Len() > 0 && ideal.Int(0, "pairs") == 0 {
		v.Sentences = append(v.Sentences, "No flow is in both scenarios: percentiles of all flows of each are "+
			"compared, and flows are not paired.")
	}
	rows := c.answers["what_changed"]
	of := func(column string, i int) bool { return rows.Text(i, column) == "all" }
	rows = rows.where(func(i int) bool { return of("vnet", i) && of("size_bin", i) && of("hops", i) })
	all := rows.where(func(i int) bool { return of("service", i) })
	services := rows.where(func(i int) bool { return !of("service", i) })
	for i := range all.Len() {
		sentence, changed := v.sentence(all, i, "")
		v.Sentences = append(v.Sentences, sentence)
		v.Changed = v.Changed || changed
	}
	names := map[string]bool{}
	for i := range services.Len() {
		names[services.Text(i, "service")] = true
		sentence, changed := v.sentence(services, i, " of service "+service(services.Text(i, "service")))
		if changed {
			v.Sentences = append(v.Sentences, sentence)
			v.Changed = true
		}
	}
	if len(names) >= mostChanged-1 {
		v.Sentences = append(v.Sentences,
			fmt.Sprintf("The %d services with the most flows are compared; table comparisons has the others.",
				len(names)))
	}
	n := all.Int(0, "flows")
	flows := c.answers["headline"].Int(0, "flows")
	if n > 0 && n != flows {
		v.Sentences = append(v.Sentences,
			fmt.Sprintf("The comparison covers the %s flows that both scenarios have; the numbers "+
				"above cover all %s flows.", thousands(n), thousands(flows)))
	}
	v.Reasons = append(c.linkReasons(), c.tailReasons(v.Changed)...)
	return v
}

// sentence describes the change of a percentile of a group. changed reports whether the change is significant
// and at least noChange.
func (v *verdict) sentence(a *answer, i int, of string) (text string, changed bool) {
	value := "slowdown"
	change := "change"
	written := times
	if v.Measure == "FCT" {
		value = "fct_ms"
		change = "fct_change"
		written = millis
	}
	x := a.Float(i, change)
	lo := a.Float(i, change+"_lo")
	hi := a.Float(i, change+"_hi")
	meaning := "faster"
	switch {
	case !(lo > 0 || hi < 0):
		meaning = "no change beyond chance"
	case math.Abs(x) < noChange:
		meaning = "less than 1% apart"
	case x > 0:
		meaning = "slower"
		changed = true
	default:
		changed = true
	}
	name := map[float64]string{0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9"}[a.Float(i, "quantile")]
	return fmt.Sprintf("%s%s: %s in the base, %s now, %s (95%% interval %s to %s): %s.", name, of,
			written(a.Float(i, "base_"+value)), written(a.Float(i, value)), signed(x), signed(lo), signed(hi),
			meaning),
		changed
}

// mostFailed is the maximum number of failed links that a page lists.
const mostFailed = 6

// linkReasons describes the effect of the change on links and their loads.
func (c *content) linkReasons() (out []string) {
	loads := c.answers["load_changes"]
	flows := c.answers["headline"].Float(0, "flows")
	if loads.Len() == 0 {
		return []string{"The two scenarios have no links in common, so that loads cannot be compared."}
	}
	failed := 0
	most := -1
	rise := 0.0
	for i := range loads.Len() {
		up := loads.Float(i, "load") - loads.Float(i, "base_load")
		if up > rise {
			most = i
			rise = up
		}
		if !loads.Is(i, "newly_failed") {
			continue
		}
		failed++
		if failed <= mostFailed {
			out = append(out, fmt.Sprintf("Link %s failed. In the base it carried %s flows, %s of all, at a load of "+
				"%s.",
				loads.Text(i, "link"), thousands(loads.Int(i, "base_flows")), percent(loads.Float(i, "base_flows")/flows),
				percent(loads.Float(i, "base_load"))))
		}
	}
	if failed > mostFailed {
		out = append(out, fmt.Sprintf("%d more links failed.", failed-mostFailed))
	}
	text := fmt.Sprintf("%s of %s links carry a load that differs by more than one point.",
		thousands(loads.Int(0, "changed_links")), thousands(loads.Int(0, "links")))
	if most >= 0 {
		text += fmt.Sprintf(" The largest rise is at %s, from %s to %s.", loads.Text(most, "link"),
			percent(loads.Float(most, "base_load")), percent(loads.Float(most, "load")))
	}
	return append(out, text)
}

// tailReasons describes how much time the slowest flows lose on links whose load changed, and names the link
// that explains most of the change.
func (c *content) tailReasons(changed bool) (out []string) {
	loads := c.answers["load_changes"]
	links := c.answers["link_load_and_tail"]
	explaining := c.answers["what_changed_links"]
	moved := map[int64]bool{}
	highest := 0.0
	for i := range loads.Len() {
		if math.Abs(loads.Float(i, "load")-loads.Float(i, "base_load")) > 0.01 {
			moved[loads.Int(i, "link_id")] = true
			highest = max(highest, loads.Float(i, "load"))
		}
	}
	same := 0.0
	all := 0.0
	for i := range links.Len() {
		all += links.Float(i, "tail_share")
		if !moved[links.Int(i, "link_id")] {
			same += links.Float(i, "tail_share")
		}
	}
	if all > 0 && loads.Len() > 0 {
		out = append(out, fmt.Sprintf("The slowest 1%% lose %s of their time at links whose load is the same as "+
			"in the base.", percent(same/all)))
		if len(moved) > 0 && !changed {
			out = append(out, fmt.Sprintf("The links whose load did change are loaded %s at most.", percent(highest)))
		}
	}
	if explaining.Len() > 0 && changed {
		ms := explaining.Float(0, "difference_ns") / 1e6
		out = append(out, fmt.Sprintf("The largest difference is at %s: the %s slowest flows of either scenario "+
			"wait %s %s there on average.", explaining.Text(0, "link"), thousands(explaining.Int(0, "tail_flows")),
			millis(math.Abs(ms)),
			map[bool]string{true: "longer", false: "shorter"}[ms > 0]))
	}
	return out
}
