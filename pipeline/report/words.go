package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A figure is one of the large numbers at the top of the page.
type figure struct {
	Label, Value, Note string
}

// A warning is what a reader has to beware of. Weight is "weak" for what speaks against the estimate, and "short" for
// a workload with too few flows.
type warning struct {
	Weight, Text string
	Items        []string
}

// percentileFigures are the percentiles among the large numbers.
var percentileFigures = []struct{ column, label, note string }{
	{"p50", "p50 slowdown", "half of the flows are slower"},
	{"p99", "p99 slowdown", "1 flow in 100 is slower"},
	{"p999", "p99.9 slowdown", "1 flow in 1,000 is slower"},
}

// figures are the large numbers.
func (c *content) figures() []figure {
	if c.estimate.Windows > 0 {
		return c.sampledFigures()
	}
	h := c.answers["headline"]
	out := []figure{}
	for _, p := range percentileFigures {
		note := p.note
		if !h.Null(0, p.column+"_lo") {
			note = fmt.Sprintf("95%% interval %s to %s; %s", times(h.Float(0, p.column+"_lo")), times(h.Float(0,
				p.column+"_hi")), p.note)
		}
		out = append(out, figure{p.label, times(h.Float(0, p.column+"_slowdown")), note})
	}
	if link := c.busiest(); link != "" {
		out = append(out, figure{"most loaded link", percent(h.Float(0, "max_load")), link})
	}
	return out
}

// busiest names the most loaded link.
func (c *content) busiest() string {
	h := c.answers["headline"]
	if h.Null(0, "max_load") || h.Text(0, "max_load_src") == "" {
		return ""
	}
	return fmt.Sprintf("%s → %s (%s)", h.Text(0, "max_load_src"), h.Text(0, "max_load_dst"), h.Text(0, "max_load_tier"))
}

// summary says in a line what was estimated.
func (c *content) summary() string {
	h := c.answers["headline"]
	text := fmt.Sprintf("%s flows of %s over %s", thousands(h.Int(0, "flows")), bytesText(h.Float(0, "bytes")),
		spanText(h.Int(0, "span_ns")))
	if n := h.Int(0, "services"); n > 1 {
		text += fmt.Sprintf(", %d services", n)
	}
	if n := h.Int(0, "vnets"); n > 1 {
		text += fmt.Sprintf(", %d virtual networks", n)
	}
	return text
}

// sentences are the answers to the first questions: how slow, which service, where, and how sure.
func (c *content) sentences() []string {
	if c.estimate.Windows > 0 {
		return c.sampledSentences()
	}
	var out []string
	h := c.answers["headline"]
	out = append(out, fmt.Sprintf("One flow in a hundred takes at least %s as long as it would take alone in the "+
		"network%s; the median flow takes %s.",
		times(h.Float(0, "p99_slowdown")), interval(h.Float(0, "p99_lo"), h.Float(0, "p99_hi")),
		times(h.Float(0, "p50_slowdown"))))
	out = append(out, c.worstService()...)
	out = append(out, c.tailPlace()...)
	return append(out, c.trust())
}

// slowestService returns the p99 of each service, and the rows of the highest and the second; -1 where fewer than two.
func (c *content) slowestService() (p99 *answer, worst, second int) {
	all := c.answers["percentiles_by_group"]
	p99 = all.where(func(i int) bool {
		return all.Float(i, "quantile") == 0.99 && !all.Null(i, "service") && all.Null(i, "vnet")
	})
	if p99.Len() < 2 {
		return p99, -1, -1
	}
	order := make([]int, p99.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(p99.Float(j, "slowdown"), p99.Float(i, "slowdown"))
	})
	return p99, order[0], order[1]
}

// worstService says which service has the highest p99, and where its slowest flows lose their time.
func (c *content) worstService() []string {
	p99, worst, second := c.slowestService()
	if worst < 0 {
		return nil
	}
	all := c.answers["percentiles_by_group"]
	whole := all.where(func(i int) bool {
		return all.Float(i, "quantile") == 0.99 && all.Null(i, "service") && all.Null(i, "vnet")
	})
	name := p99.Text(worst, "service")
	text := fmt.Sprintf("Service %s is the slowest: its p99 is %s%s, %s that of all flows.", service(name),
		times(p99.Float(worst, "slowdown")),
		interval(p99.Float(worst, "lo"), p99.Float(worst, "hi")), times(p99.Float(worst, "slowdown")/whole.Float(0,
			"slowdown")))
	if p99.Float(worst, "lo") <= p99.Float(second, "hi") {
		text += fmt.Sprintf(" Its interval and that of service %s overlap: their order may be chance.",
			service(p99.Text(second, "service")))
	}
	budget := c.answers["tail_by_tier"]
	own := budget.where(func(i int) bool { return !budget.Null(i, "service") && budget.Text(i, "service") == name })
	if own.Len() > 0 && own.Float(0, "share") > 0 { // the largest first
		text += fmt.Sprintf(" Its slowest 1%% lose %s of their time on %s", percent(own.Float(0, "share")),
			tier(own.Text(0, "tier")))
		if links := c.answers["service_links"]; links.Len() > 0 {
			text += fmt.Sprintf(", most at %s: %s, at a load of %s", links.Text(0, "link"),
				percent(links.Float(0, "share")), percent(links.Float(0, "load")))
		}
		text += "."
	}
	return []string{text}
}

// tailPlace says on which tier and on which link the slowest flows lose their time.
func (c *content) tailPlace() []string {
	budget, links := c.answers["tail_by_tier"], c.answers["link_load_and_tail"]
	all := budget.where(func(i int) bool { return budget.Null(i, "service") })
	if all.Len() == 0 || !(all.Float(0, "share") > 0) {
		return []string{"The slowest flows lose no time on any link: the network is idle, or the estimate says nothing " +
			"about single links."}
	}
	text := fmt.Sprintf("The slowest 1%% of all flows lose %s of their time on %s.", percent(all.Float(0, "share")),
		tier(all.Text(0, "tier")))
	first := links.where(func(i int) bool { return links.Int(i, "tail_place") == 1 })
	if first.Len() > 0 {
		text += fmt.Sprintf(" The link where they lose most, %s, has %s of it, at a load of %s.", first.Text(0,
			"link"), percent(first.Float(0, "tail_share")), percent(first.Float(0, "load")))
	}
	return []string{text}
}

// trust says what the estimate was compared with.
func (c *content) trust() string {
	if c.estimate.Variant == exactVariant {
		return "Every packet of every flow was simulated in the whole network: the intervals say what other flows of the same " +
			"kind might give."
	}
	if e := c.answers["truth"]; e.Len() > 0 {
		way := "high"
		if e.Float(0, "error") < 0 {
			way = "low"
		}
		return fmt.Sprintf("Compared with the truth (%s), the estimated p99 is %.1f%% too %s%s.", e.Text(0, "truth"),
			100*math.Abs(e.Float(0, "error")), way, intervalOf(signed(e.Float(0, "error_lo")), signed(e.Float(0, "error_hi"))))
	}
	return "The estimate was not compared with a simulation of the whole network (parsimon validate does it). The " +
		"intervals say what other flows of the same kind might give, and for estimator flow how far its link cases disagree."
}

// mostAlikeWarnings is how many warnings of one kind a page shows.
const mostAlikeWarnings = 3

// warnings are what a reader has to beware of.
func (c *content) warnings() []warning {
	if c.estimate.Windows > 0 {
		return c.sampledWarnings()
	}
	var out []warning
	w, synthetic := c.answers["warnings"], c.answers["synthetic_share"]
	for i := range w.rows { // in the order of their kinds
		last := len(out) - 1
		head := "Against the estimate, " + w.Text(i, "kind") + "."
		if last < 0 || out[last].Text != head {
			out = append(out, warning{"weak", head, nil})
			last++
		}
		out[last].Items = append(out[last].Items, w.Text(i, "warning")+".")
	}
	for i := range out {
		if more := len(out[i].Items) - mostAlikeWarnings; more > 1 {
			out[i].Items = append(out[i].Items[:mostAlikeWarnings], fmt.Sprintf("And %d more of this kind (table warnings).", more))
		}
	}
	out = append(out, c.shortWarnings("The workload is too short to be sure of some percentiles.")...)
	var made, flows int64
	for i := range synthetic.rows {
		made, flows = made+synthetic.Int(i, "synthetic_flows"), flows+synthetic.Int(i, "flows")
	}
	return append(append(out, syntheticWarnings(made, flows)...), c.rejectWarnings()...)
}

// shortWarnings list the percentiles of all flows, by size, that too few flows are known of.
func (c *content) shortWarnings(head string) []warning {
	short := c.answers["short"]
	if short.Len() == 0 {
		return nil
	}
	var parts []string
	for i := range short.rows {
		bin := "all flows"
		if b := short.Text(i, "size_bin"); b != "all" {
			bin = "flows of " + b
		}
		parts = append(parts, bin+": "+longNumber.ReplaceAllStringFunc(short.Text(i, "warning"), grouped))
	}
	return []warning{{"short", head, parts}}
}

// syntheticWarnings say that some flows have starts that were drawn.
func syntheticWarnings(made, flows int64) []warning {
	if made == 0 {
		return nil
	}
	return []warning{{"weak", fmt.Sprintf("%s of the flows have starts that the trace does not give exactly "+
		"and that were drawn: so far the estimate is of a workload like the trace.",
		percent(float64(made)/float64(flows))), nil}}
}

// rejectWarnings say that rows of the flow file are left out.
func (c *content) rejectWarnings() []warning {
	n := c.answers["scenario"].Int(0, "rejects")
	if n == 0 {
		return nil
	}
	return []warning{{"short", fmt.Sprintf("%s rows of the flow file could not be simulated and are left "+
		"out (table rejects).", thousands(n)), nil}}
}

// tier explains a tier of links.
func tier(name string) string {
	known := map[string]string{
		"host-tor": "the uplinks of the sending hosts", "tor-host": "the links from the rack switches to the receiving " +
			"hosts",
		"tor-fabric": "the links up from the racks", "fabric-tor": "the links down into the racks",
		"fabric-spine": "the links up to the spines", "spine-fabric": "the links down from the spines",
		"host-switch": "the uplinks of the sending hosts", "switch-host": "the links to the receiving hosts",
		"switch-switch": "the links between switches",
	}
	if text, ok := known[name]; ok {
		return text + " (" + name + ")"
	}
	return name + " links"
}

func service(name string) string {
	if name == "" {
		return "(no service)"
	}
	return name
}
