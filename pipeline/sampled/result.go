package sampled

import (
	"fmt"
	"strings"

	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// A Result is the answer, for scripts. Its percentiles are of the whole workload, by size bin, and their bounds those
// of Rows.
type Result struct {
	*summary.Result
	SampledShare float64 `json:"sampled_share"` // of the flows, that are in windows
	Windows      int     `json:"windows"`
	Stopped      string  `json:"stopped"`    // Precise, Spent or Whole
	Confidence   float64 `json:"confidence"` // of all intervals
	Within       float64 `json:"within"`     // asked for
	Goals        []Goal  `json:"goals"`      // every asked percentile of every asked group
	Warmup       Warmup  `json:"warmup"`
	Rows         []Row   `json:"intervals"`
}

func (s *sampler) result(rows []Row, stopped string, seconds float64) *Result {
	r := &Result{
		Result: &summary.Result{
			ScenarioID: string(s.base.ID()), Name: s.base.Spec.Name, Variant: s.variant(),
			Lake: s.base.Lake.Path(), Flows: s.index.totals[all],
			Warnings: []string{}, Stages: append(s.stages, s.base.Executor().Reports...), Cases: s.cases, Seconds: seconds,
		},
		SampledShare: s.sampledShare(), Windows: len(s.counts), Stopped: stopped,
		Confidence: s.ask.Confidence, Within: s.ask.Within,
		Goals: s.goals(), Warmup: s.warmup, Rows: rows,
	}
	if s.base.Variant().Estimator != stages.WholeNetwork {
		r.Warnings = append(r.Warnings, "the intervals leave out the error of link cases: without --estimator, windows are "+
			"simulated packet by packet")
	}
	for _, row := range rows {
		if row.Warning != "" && row.Key.By == stages.ByNothing {
			r.Warnings = append(r.Warnings, "size "+row.SizeBin+": "+row.Warning)
		}
	}
	r.Percentiles = percentiles(rows)
	return r
}

// percentiles are the rows of all services and networks, a size bin in one.
func percentiles(rows []Row) (out []summary.PercentilesResult) {
	for i := range rows {
		row := &rows[i]
		if row.Key.By != stages.ByNothing {
			continue
		}
		if n := len(out); n == 0 || out[n-1].SizeBin != row.SizeBin {
			out = append(out, summary.PercentilesResult{SizeBin: row.SizeBin, Flows: row.Flows})
		}
		p := &out[len(out)-1]
		switch row.Quantile {
		case 0.5:
			p.P50, p.P50Lo, p.P50Hi = row.Estimate, &row.Lo, &row.Hi
		case 0.9:
			p.P90, p.P90Lo, p.P90Hi = row.Estimate, &row.Lo, &row.Hi
		case 0.99:
			p.P99, p.P99Lo, p.P99Hi = row.Estimate, &row.Lo, &row.Hi
		case 0.999:
			p.P999, p.P999Lo, p.P999Hi = row.Estimate, &row.Lo, &row.Hi
		}
	}
	return out
}

// sampledText says how little was estimated.
func (r *Result) sampledText() string {
	if r.Stopped == Whole {
		return "not sampled: windows would have been most of the workload, so all of it was estimated"
	}
	return fmt.Sprintf("sampled, %d windows, %.3g%% of flows", r.Windows, 100*r.SampledShare)
}

// Text is the answer for people.
func (r *Result) Text() *text.Answer {
	p := &text.Answer{}
	p.Linef("scenario %s (%s), variant %s", r.ScenarioID, r.Name, r.Variant)
	p.Linef("%d flows; lake %s", r.Flows, r.Lake)
	p.Linef("\nSlowdown (FCT / ideal FCT) of the whole workload, with %g%% intervals (%s)", 100*r.Confidence, r.sampledText())
	p.Linef("%-24s %-12s %12s  %s", "flows of", "size_bin", "flows", "p50, p90, p99 and p99.9")
	for i := 0; i < len(r.Rows); {
		j := i
		var cells []string
		for ; j < len(r.Rows) && r.Rows[j].Key == r.Rows[i].Key; j++ {
			x := r.Rows[j]
			cells = append(cells, fmt.Sprintf("%.3f (%.3f to %.3f)", x.Estimate, x.Lo, x.Hi))
		}
		if x := r.Rows[i]; x.Key.By == stages.ByNothing || x.SizeBin == sizebin.All && x.Key.Label != "" {
			p.Linef("%-24s %-12s %12d  %s", groupName(x.Key), x.SizeBin, x.Flows, strings.Join(cells, "  "))
		}
		i = j
	}
	r.addGoals(p)
	for _, w := range r.Warnings {
		p.Linef("warning: %s", w)
	}
	p.Linef("\n%.1f s, %s", r.Seconds, stopText(r))
	p.Linef("\nNext:\n  parsimon report %s@%s --lake %s", r.ScenarioID, r.Variant, r.Lake)
	return p
}

// addGoals says how precise the asked percentiles are.
func (r *Result) addGoals(p *text.Answer) {
	if r.Stopped == Whole {
		return
	}
	p.Linef("\nAsked: within ±%g%% for %d windows instead of the whole. The intervals above are wider: by ±%g%% for what is cut off around "+
		"windows,\nby what half of the warm-up of %v changes (in %d windows), and up by flows that outlast the %v after a window.",
		100*r.Within, r.Windows, 100*windowError, ns(r.Warmup.NS), r.Warmup.Windows, ns(cooldown*r.Warmup.NS))
	for _, g := range r.Goals {
		precision := "too few flows"
		if g.Known {
			precision = fmt.Sprintf("±%.2f%%", 100*g.HalfWidth)
		}
		p.Linef("  %-24s %-12s %-6s %-13s %s", g.Group, g.SizeBin, percentileName(g.Quantile), precision,
			map[bool]string{true: "reached", false: "not reached"}[g.Reached])
	}
}

func groupName(k Key) string {
	switch k.By {
	case stages.ByService:
		return "service " + k.Label
	case stages.ByVNet:
		return "vnet " + k.Label
	}
	return "all"
}

func stopText(r *Result) string {
	_, reached := widest(r.Goals)
	switch r.Stopped {
	case Precise:
		return fmt.Sprintf("all %d asked intervals are within ±%g%%", len(r.Goals), 100*r.Within)
	case Spent:
		return fmt.Sprintf("the budget is spent: %d of %d asked intervals are within ±%g%%", reached, len(r.Goals), 100*r.Within)
	}
	return "the whole workload was estimated"
}
