package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"parsimon/schema/names"
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
	if h.Text(0, "max_load_name") != "" {
		out = append(out, figure{"most loaded link", percent(h.Float(0, "max_load")), fmt.Sprintf("%s (%s)",
			h.Text(0, "max_load_name"), h.Text(0, "max_load_tier"))})
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
	out = append(out, c.tailPlace(), c.trust())
	if c.answers["log"].Len() > 0 {
		out = append(out, c.calibration())
	}
	return out
}

// calibration says how the run compares with the flow log that its flows come from.
func (c *content) calibration() string {
	l := c.answers["log"]
	text := fmt.Sprintf("Compared with the flow log, the bytes of links differ by %s in all; %s of them are "+
		"in slots of "+
		"time in which a link is within 1%%.", signed(l.Float(0, "difference")), percent(l.Float(0, "near_share")))
	earlier := l.Float(0, "earlier_share")
	if earlier > 0 {
		text += fmt.Sprintf(" The run leaves out %s, whose transfers began before it.", percent(earlier))
	}
	if !l.Null(0, "median_ratio") {
		text += fmt.Sprintf(" The median transfer takes %s of its time in the "+
			"log.", percent(l.Float(0, "median_ratio")))
	}
	return text
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
		return "Every packet of every flow was simulated in the whole network: the intervals say what other " +
			"flows " +
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
			"weak", fmt.Sprintf("The trace does not give the exact starts of %s of the flows: their starts "+
				"were drawn at random.",
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
