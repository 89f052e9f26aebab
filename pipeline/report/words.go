package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"parsimon/schema/names"
	"parsimon/schema/units"
)

// A figure is one of the large numbers at the top of the page.
type figure struct {
	Label, Value, Note string
}

// A warning limits the use of the estimate. Weight is "weak" for a known inaccuracy of the estimate, and
// "short" for a workload with too few flows.
type warning struct {
	Weight, Text string
	Items        []string
}

// confidence returns the level of the intervals, such as 95%.
func (c *content) confidence() string { return fmt.Sprintf("%g%%", c.estimate.Variant.Confidence()) }

func (c *content) interval(lo, hi float64) string {
	return fmt.Sprintf("%s interval %s to %s", c.confidence(), times(lo), times(hi))
}

// sampled describes what an estimate from windows of time was made from. It is empty for an estimate of all
// flows.
func (c *content) sampled() string {
	h := c.answers["headline"]
	share := h.Float(0, "sampled_flows") / h.Float(0, "flows")
	switch {
	case !c.estimate.Variant.Sampled():
		return ""
	case share == 1:
		return "not sampled"
	}
	return fmt.Sprintf("sampled, %d windows, %.3g%% of flows", h.Int(0, "windows"), 100*share)
}

// sure returns the interval of a percentile of all flows. For an estimate from windows, it adds what the
// estimate was made from.
func (c *content) sure(percentile string) string {
	h := c.answers["headline"]
	interval := ""
	if !h.Null(0, percentile+"_lo") {
		interval = c.interval(h.Float(0, percentile+"_lo"), h.Float(0, percentile+"_hi"))
	}
	return joined("; ", interval, c.sampled())
}

func joined(by string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), by)
}

// figures returns the large numbers. If slowdowns are relative to another ideal FCT than those of the base,
// the FCT comes first.
func (c *content) figures() []figure {
	h := c.answers["headline"]
	out := names.Of([][3]string{{"p50", "p50 slowdown", "half of the flows are slower"},
		{"p99", "p99 slowdown", "1 flow in 100 is slower"}, {"p999", "p99.9 slowdown", "1 flow in 1,000 is slower"},
	}, func(p [3]string) figure {
		return figure{p[1], times(h.Float(0, p[0]+"_slowdown")), joined("; ", c.sure(p[0]), p[2])}
	})
	if !h.Null(0, "p99_fct_ms") {
		at := len(out)
		if c.idealChanged() {
			at = 0
		}
		out = slices.Insert(out, at, figure{"p99 FCT", millis(h.Float(0, "p99_fct_ms")),
			"the median flow takes " + millis(h.Float(0, "p50_fct_ms"))})
	}
	if c.estimate.Variant.Sampled() {
		out = append(out, figure{"flows that were estimated", thousands(h.Int(0, "sampled_flows")),
			fmt.Sprintf("of %s, in %s windows", thousands(h.Int(0, "flows")), thousands(h.Int(0, "windows")))})
	}
	// The first row has the link with the most drops or the longest pause.
	lost := c.answers["drops_and_pauses"]
	if lost.Len() > 0 {
		drops := lost.Int(0, "all_drops")
		paused := lost.Int(0, "all_paused_ns")
		if drops > 0 {
			out = append(out, figure{"packets dropped", thousands(drops), "most before " + lost.Text(0, "link")})
		}
		if paused > 0 {
			out = append(out, figure{"pauses of links, in all", spanText(paused),
				fmt.Sprintf("%s links have drops or pauses", thousands(lost.Int(0, "links")))})
		}
	}
	jobs := c.answers["job_iterations"]
	if jobs.Len() > 0 {
		last := 0
		for i := range jobs.Len() {
			if jobs.Int(i, "completion_ns") > jobs.Int(last, "completion_ns") {
				last = i
			}
		}
		out = append(out, figure{"completion of the last job", spanText(jobs.Int(last, "completion_ns")),
			"job " + service(jobs.Text(last, "job"))})
	}
	if h.Text(0, "max_load_src") != "" {
		out = append(out, figure{"most loaded link", percent(h.Float(0, "max_load")), fmt.Sprintf("%s → %s (%s)",
			h.Text(0, "max_load_src"), h.Text(0, "max_load_dst"), h.Text(0, "max_load_tier"))})
	}
	return out
}

func (c *content) summary() string {
	h := c.answers["headline"]
	text := fmt.Sprintf("%s flows of %s over %s", thousands(h.Int(0, "flows")), bytesText(h.Int(0, "bytes")),
		spanText(h.Int(0, "span_ns")))
	for _, of := range [][2]string{{"services", "services"}, {"vnets", "virtual networks"}} {
		n := h.Int(0, of[0])
		if n > 1 {
			text += fmt.Sprintf(", %d %s", n, of[1])
		}
	}
	return joined("; ", text, c.sampled())
}

// sentences returns the answers to the first questions of a reader: how slow the network is, for which
// service, where, and how certain this is.
func (c *content) sentences() []string {
	h := c.answers["headline"]
	sure := c.sure("p99")
	if sure != "" {
		sure = " (" + sure + ")"
	}
	out := []string{fmt.Sprintf("One flow in a hundred takes at least %s as long as it would take alone in the "+
		"network%s; the median flow takes %s.", times(h.Float(0, "p99_slowdown")), sure,
		times(h.Float(0, "p50_slowdown")))}
	out = append(out, c.worstService()...)
	if c.estimate.Variant.Sampled() {
		return append(out, c.windowsText())
	}
	return append(out, c.tailPlace(), c.trust())
}

func (c *content) windowsText() string {
	h := c.answers["headline"]
	if c.sampled() == "not sampled" {
		return "Windows of time would have been most of the workload, so all of it was estimated."
	}
	return fmt.Sprintf("%s windows of time, half of them at most %s long, were drawn at random in %d rounds, "+
		"from strata by time and load. Each was simulated with %s before it and after it.",
		thousands(h.Int(0, "windows")),
		spanText(h.Int(0, "window_ns")), h.Int(0, "rounds"), spanText(h.Int(0, "warmup_ns")))
}

// servicesByP99 returns the p99 rows of each service, the slowest first.
func (c *content) servicesByP99() *answer {
	all := c.answers["percentiles_by_group"]
	p99 := all.where(func(i int) bool {
		return all.Float(i, "quantile") == 0.99 && !all.Null(i, "service") && all.Null(i, "vnet")
	})
	at := slices.Index(p99.columns, "slowdown")
	if at >= 0 { // in descending order
		slices.SortStableFunc(p99.rows, func(x, y []any) int { return cmp.Compare(number(y[at]), number(x[at])) })
	}
	return p99
}

// worstService names the service with the highest p99, and where its slowest flows lose their time.
func (c *content) worstService() []string {
	p99 := c.servicesByP99()
	all := c.answers["percentiles_by_group"]
	if p99.Len() < 2 {
		return nil
	}
	whole := all.where(func(i int) bool {
		return all.Float(i, "quantile") == 0.99 && all.Null(i, "service") && all.Null(i, "vnet")
	})
	name := p99.Text(0, "service")
	sure := ""
	if !p99.Null(0, "lo") {
		sure = " (" + c.interval(p99.Float(0, "lo"), p99.Float(0, "hi")) + ")"
	}
	text := fmt.Sprintf("Service %s is the slowest: its p99 is %s%s, %s that of all flows.", service(name),
		times(p99.Float(0, "slowdown")), sure, times(p99.Float(0, "slowdown")/whole.Float(0, "slowdown")))
	if p99.Float(0, "lo") <= p99.Float(1, "hi") {
		text += fmt.Sprintf(" Its interval and that of service %s overlap: their order may be chance.",
			service(p99.Text(1, "service")))
	}
	tiers := c.answers["tail_by_tier"]
	own := tiers.where(func(i int) bool { return !tiers.Null(i, "service") && tiers.Text(i, "service") == name })
	if own.Float(0, "share") > 0 { // in descending order
		text += fmt.Sprintf(" Its slowest 1%% lose %s of their time on %s", percent(own.Float(0, "share")),
			tier(own.Text(0, "tier")))
		links := c.answers["p99_links"]
		if links.Len() > 0 {
			text += fmt.Sprintf(", most at %s: %s, at a load of %s", links.Text(0, "link"),
				percent(links.Float(0, "link_share")), percent(links.Float(0, "load")))
		}
		text += "."
	}
	return []string{text}
}

// tailPlace names the tier and the link on which the slowest flows lose their time.
func (c *content) tailPlace() string {
	tiers := c.answers["tail_by_tier"]
	links := c.answers["link_load_and_tail"]
	all := tiers.where(func(i int) bool { return tiers.Null(i, "service") })
	if !(all.Float(0, "share") > 0) {
		return "The slowest flows lose no time on any link: the network is idle, or the estimate says nothing " +
			"about single links."
	}
	text := fmt.Sprintf("The slowest 1%% of all flows lose %s of their time on %s.",
		percent(all.Float(0, "share")), tier(all.Text(0, "tier")))
	first := links.where(func(i int) bool { return links.Int(i, "tail_place") == 1 })
	if first.Len() > 0 {
		text += fmt.Sprintf(" The link where they lose most, %s, has %s of it, at a load of %s.",
			first.Text(0, "link"), percent(first.Float(0, "tail_share")), percent(first.Float(0, "load")))
	}
	return text
}

func (c *content) trust() string {
	if c.estimate.Variant.WholeNetwork() {
		return "Every packet of every flow was simulated in the whole network: the intervals say what other flows " +
			"of the same kind might give."
	}
	e := c.answers["truth"]
	if e.Len() > 0 {
		way := "high"
		if e.Float(0, "error") < 0 {
			way = "low"
		}
		return fmt.Sprintf("Compared with the truth (%s), the estimated p99 is %.1f%% too %s (95%% interval %s to "+
			"%s).",
			e.Text(0, "truth"), 100*math.Abs(e.Float(0, "error")), way, signed(e.Float(0, "error_lo")),
			signed(e.Float(0, "error_hi")))
	}
	return "The estimate was not compared with a simulation of the whole network (parsimon validate does it). " +
		"The intervals say what other flows of the same kind might give, and for estimator flow how far its link " +
		"cases disagree."
}

// mostAlikeWarnings is the maximum number of warnings of one kind on a page.
const mostAlikeWarnings = 3

func (c *content) warnings() []warning {
	var out []warning
	w := c.answers["warnings"]
	s := c.answers["scenario"]
	short := c.answers["short"]
	for i := range w.Len() { // in the order of their kinds
		head := "The estimate may be wrong: " + w.Text(i, "kind") + "."
		if len(out) == 0 || out[len(out)-1].Text != head {
			out = append(out, warning{"weak", head, nil})
		}
		last := &out[len(out)-1]
		last.Items = append(last.Items, w.Text(i, "warning")+".")
	}
	for i := range out {
		more := len(out[i].Items) - mostAlikeWarnings
		if more > 1 {
			out[i].Items = append(out[i].Items[:mostAlikeWarnings],
				fmt.Sprintf("And %d more of this kind (table warnings).", more))
		}
	}
	few := warning{Weight: "short", Text: "The workload is too short to be sure of some percentiles."}
	if c.estimate.Variant.Sampled() {
		few.Text = "Windows have too few flows to be sure of some percentiles."
	}
	for i := range short.Len() {
		bin := "all flows"
		b := short.Text(i, "size_bin")
		if b != "all" {
			bin = "flows of " + b
		}
		few.Items = append(few.Items, bin+": "+short.Text(i, "warning"))
	}
	if len(few.Items) > 0 {
		out = append(out, few)
	}
	n := s.Int(0, "synthetic_flows")
	if n > 0 {
		out = append(out, warning{
			"weak", fmt.Sprintf("%s of the flows have starts that the trace does not give exactly and "+
				"that were drawn: for them, the workload only resembles the trace.",
				percent(float64(n)/s.Float(0, "flows"))), nil})
	}
	if n := s.Int(0, "rejects"); n > 0 {
		out = append(out, warning{
			"short", fmt.Sprintf("%s rows of the flow file could not be simulated and are left out "+
				"(table rejects).", thousands(n)), nil})
	}
	return out
}

var tiers = map[string]string{
	"host-tor": "the uplinks of the sending hosts", "host-switch": "the uplinks of the sending hosts",
	"tor-host":   "the links from the rack switches to the receiving hosts",
	"tor-fabric": "the links up from the racks", "fabric-tor": "the links down into the racks",
	"fabric-spine": "the links up to the spines", "spine-fabric": "the links down from the spines",
	"switch-host": "the links to the receiving hosts", "switch-switch": "the links between switches",
}

func tier(name string) string {
	if text, ok := tiers[name]; ok {
		return text + " (" + name + ")"
	}
	return name + " links"
}

func service(name string) string { return cmp.Or(name, "(no service)") }

// times formats a ratio with three or four digits: 1.006×, 12.4×.
func times(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x >= 1000:
		return thousands(int64(math.Round(x))) + "×"
	case x >= 100:
		return fmt.Sprintf("%.0f×", x)
	case x >= 10:
		return fmt.Sprintf("%.1f×", x)
	case x >= 1.1:
		return fmt.Sprintf("%.2f×", x)
	}
	return fmt.Sprintf("%.3f×", x)
}

func percent(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x > 0.9995 && x < 1:
		return "more than 99.9%"
	case x != 0 && math.Abs(x) < 0.095, math.Abs(x) > 0.995 && math.Abs(x) < 1:
		return fmt.Sprintf("%.1f%%", 100*x)
	}
	return fmt.Sprintf("%.0f%%", 100*x)
}

func signed(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	text := fmt.Sprintf("%+.1f%%", 100*x)
	if text == "+0.0%" || text == "-0.0%" {
		return "0.0%"
	}
	return strings.Replace(text, "-", "−", 1)
}

// millis formats a time that is given in ms.
func millis(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x < 1:
		return fmt.Sprintf("%.3g µs", 1e3*x)
	case x >= 1e3:
		return fmt.Sprintf("%.3g s", x/1e3)
	}
	return fmt.Sprintf("%.3g ms", x)
}

func thousands(n int64) string {
	if n < 0 {
		return "−" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

func bytesText(bytes int64) string {
	number, prefix, _ := strings.Cut(units.Human(float64(bytes)), " ")
	return number + " " + prefix + "B"
}

// spanText formats a time that is given in ns.
func spanText(ns int64) string {
	d := time.Duration(ns)
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return millis(float64(ns) / 1e6)
}

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

// idealChanged reports whether the ideal FCT of any flow differs from that in the base.
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
			fmt.Sprintf("The ideal FCT of %s flows differs, because bandwidth, delay or "+"length of their paths "+
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
			fmt.Sprintf("The %d services with the most flows are compared; table comparisons "+"has the others.",
				len(names)))
	}
	n, flows := all.Int(0, "flows"), c.answers["headline"].Int(0, "flows")
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

// tailReasons describes how much of the time of the slowest flows is lost on links whose load changed, and
// which link explains most of the change.
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
