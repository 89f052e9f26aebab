package sampling

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
	"parsimon/schema/variant"
	"parsimon/stages/confidence"
)

// costlyShare is the simulated share of the workload above which windows save little.
const costlyShare = 0.4

// A Result is the answer, for scripts. Its percentiles by size bin apply to the whole workload. Their bounds
// are those of Rows.
type Result struct {
	*summary.Result
	SampledShare float64 `json:"sampled_share"` // share of the flows that are in windows
	// SimulatedShare is approximately the share of the flows that was simulated, including warm-ups and their
	// measurement.
	SimulatedShare float64         `json:"simulated_share"`
	Windows        int             `json:"windows"`
	Stopped        string          `json:"stopped"`    // Precise, Spent or Whole
	Confidence     float64         `json:"confidence"` // of all intervals
	Within         float64         `json:"within"`     // requested precision
	Goals          []Goal          `json:"goals"`      // requested percentiles of requested groups
	Warmup         Warmup          `json:"warmup"`
	WindowError    float64         `json:"window_error"` // relative; intervals include it: see errorOfWindows
	Rows           []Row           `json:"intervals"`
	Made           variant.Variant `json:"-"` // how the estimate was made; Variant is its name
	// Whole has the variants of the whole workload that the lake has beside the windows.
	Whole []string `json:"whole_variants,omitempty"`
}

// result makes the answer from the percentiles of all groups.
func (s *sampler) result(rows []Row, stopped string, seconds float64) *Result {
	r := &Result{
		Result: &summary.Result{
			ScenarioID: string(s.base.ID()), Name: s.base.Spec.Name, Variant: s.variant().String(),
			Lake: s.base.Lake.Path(), Flows: s.index.totals[all], Warnings: append([]string{}, s.index.remarks...),
			Stages: append(s.stages, s.base.Executor().Reports...), Seconds: seconds,
		},
		SampledShare: s.sampledShare(s.counts), Windows: len(s.counts), Stopped: stopped,
		Confidence: s.ask.Confidence, Within: s.ask.Within,
		Goals: s.goals(), Warmup: s.warmup, WindowError: s.windowError, Rows: rows, Made: s.variant(),
	}
	var few []string
	// Some windows were simulated again, with half of the warm-up.
	measured := float64(s.warmup.Windows) / float64(max(1, r.Windows))
	r.SimulatedShare = (1 + measured) * s.share(s.design.Drawn(s.drawn), s.warmup.NS)
	for i := range rows {
		row := &rows[i]
		if row.Key.By != confidence.ByNothing {
			continue
		}
		if row.Warning != "" {
			few = append(few, "size "+row.SizeBin+": "+row.Warning)
		}
		n := len(r.Percentiles)
		if n == 0 || r.Percentiles[n-1].SizeBin != row.SizeBin {
			r.Percentiles = append(r.Percentiles, summary.PercentilesResult{SizeBin: row.SizeBin, Flows: row.Flows})
		}
		setPercentile(&r.Percentiles[len(r.Percentiles)-1], row)
	}
	if few != nil {
		r.Warnings = append(r.Warnings, "few flows: "+strings.Join(few, "; "))
	}
	return r
}

// setPercentile sets the percentile of a row and its bounds. An infinite upper bound stays nil.
func setPercentile(p *summary.PercentilesResult, row *Row) {
	var hi *float64
	if !math.IsInf(float64(row.Hi), 1) {
		value := float64(row.Hi)
		hi = &value
	}
	set := func(estimate *float64, loOf, hiOf **float64) {
		*estimate = row.Estimate
		*loOf = &row.Lo
		*hiOf = hi
	}
	switch row.Quantile {
	case 0.5:
		set(&p.P50, &p.P50Lo, &p.P50Hi)
	case 0.9:
		set(&p.P90, &p.P90Lo, &p.P90Hi)
	case 0.99:
		set(&p.P99, &p.P99Lo, &p.P99Hi)
	case 0.999:
		set(&p.P999, &p.P999Lo, &p.P999Hi)
	}
}

// Text returns the answer for people.
func (r *Result) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("scenario %s (%s), variant %s", r.ScenarioID, r.Name, r.Variant)
	a.Linef("%d flows; lake %s", r.Flows, r.Lake)
	from := fmt.Sprintf("sampled, %d windows, %.3g%% of flows", r.Windows, 100*r.SampledShare)
	if r.Stopped == Whole {
		from = "not sampled: windows would have been most of the workload, so all of it was estimated"
	}
	a.Linef("\nSlowdown (FCT / ideal FCT) of the whole workload, with %g%% intervals (%s)",
		100*r.Confidence, from)
	table := a.Table("flows of", "size_bin", "flows", "p50", "p90", "p99", "p99.9")
	for group := range slices.Chunk(r.Rows, len(pipeline.Quantiles)) {
		x := group[0]
		if x.Key.By != confidence.ByNothing && (x.SizeBin != sizebin.All || x.Key.Label == "") {
			continue
		}
		cells := names.Of(group, func(x Row) any { return fmt.Sprintf("%.3f (%s)", x.Estimate, x.interval()) })
		table.Add(append([]any{x.Key, x.SizeBin, x.Flows}, cells...)...)
	}
	if r.Stopped != Whole {
		r.addGoals(a)
	}
	summary.AddSizes(a, r.Sizes)
	for _, line := range r.Warnings {
		a.Linef("warning: %s", line)
	}
	if r.Stopped != Whole && r.SimulatedShare > costlyShare {
		a.Linef("windows and warm-ups have simulated about %.0f%% of the whole workload: without --within, "+
			"the whole costs little more, and its percentiles are not sampled", 100*r.SimulatedShare)
	}
	a.Linef("\n%.1f s, %s", r.Seconds, r.reason())
	estimate := r.ScenarioID // whose answer is the whole
	if r.Stopped != Whole {
		estimate += "@" + r.Variant
	}
	for _, variant := range r.Whole {
		a.Linef("the estimate of the whole is in the lake, too: parsimon query --param scenario=%s@%s",
			r.ScenarioID, variant)
	}
	a.Linef("\nNext:\n  parsimon report %s --lake %s", estimate, r.Lake)
	return a
}

// reason says why the run stopped.
func (r *Result) reason() string {
	switch r.Stopped {
	case Precise:
		return fmt.Sprintf("all %d asked intervals are within ±%g%%", len(r.Goals), 100*r.Within)
	case Spent:
		reached := 0
		for _, g := range r.Goals {
			if g.Reached {
				reached++
			}
		}
		return fmt.Sprintf("stopped by --budget: %d of %d asked intervals are within ±%g%%",
			reached, len(r.Goals), 100*r.Within)
	}
	return "the whole workload was estimated"
}

// addGoals adds the requested percentiles with their precision.
func (r *Result) addGoals(a *text.Answer) {
	a.Linef("\nAsked: ±%g%% due to the choice of windows. The intervals above are wider, because they also\n"+
		"cover ±%g%% for traffic outside the windows, the effect of half of the warm-up of %v (measured in\n"+
		"%d windows), and the error of the fluid model of flows that last longer than %v after their window.",
		100*r.Within,
		100*r.WindowError, time.Duration(r.Warmup.NS), r.Warmup.Windows, time.Duration(cooldown*r.Warmup.NS))
	table := a.Table("flows of", "size_bin", "percentile", "precision", "reached")
	for _, g := range r.Goals {
		precision := "too few flows"
		if g.Known {
			precision = fmt.Sprintf("±%.2f%%", 100*g.HalfWidth)
		}
		table.Add(g.Group, g.SizeBin, percentileName(g.Quantile), precision, g.Reached)
	}
}

// Judge compares the percentiles with gates and keeps the verdicts. The error is a *gate.Error if a gate
// failed.
func (r *Result) Judge(gates []gate.Gate) (err error) {
	groups := names.Of(r.Rows, func(row Row) string { return row.Key.String() })
	r.Gates, err = judge(gates, groups, func(g gate.Gate, group, bin string) (x gate.Interval, found bool) {
		for _, row := range r.Rows {
			if row.Key.String() == group && row.SizeBin == bin && row.Quantile == g.Quantile {
				return gate.Interval{Value: row.Estimate, Lo: row.Lo, Hi: float64(row.Hi)}, true
			}
		}
		return x, false
	})
	return err
}

// judge compares gates with the values that find returns for a group and a size bin. groups are the known
// groups.
func judge(gates []gate.Gate, groups []string,
	find func(g gate.Gate, group, bin string) (gate.Interval, bool),
) ([]gate.Verdict, error) {
	return gate.Judge(gates, func(g gate.Gate) (x gate.Interval, err error) {
		service, byService := g.Filter["service"]
		vnet, byVNet := g.Filter["vnet"]
		bin, bySize := g.Filter["size_bin"]
		group := all
		switch {
		case g.FCT || g.Load:
			return x, errors.New("estimates from windows have percentiles of slowdown only")
		case byVNet && (byService || bySize):
			return x, errors.New("estimates from windows have virtual networks of all services and sizes only")
		case byService:
			group = Key{By: confidence.ByService, Label: service}
		case byVNet:
			group = Key{By: confidence.ByVNet, Label: vnet}
		}
		if !bySize {
			bin = sizebin.All
		}
		x, found := find(g, group.String(), bin)
		if !found {
			slices.Sort(groups)
			err = fmt.Errorf("no flow in windows is of %s, size %s; there are flows of %s", group, bin,
				strings.Join(names.Nearest(group.String(), slices.Compact(groups), 20), ", "))
		}
		return x, err
	})
}
