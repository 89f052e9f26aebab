package sampled

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/sampling"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// costlyShare is the simulated share of the workload from which on windows save little.
const costlyShare = 0.4

// A Result is the answer, for scripts. Its percentiles are of the whole workload, by size bin, and their bounds those
// of Rows.
type Result struct {
	*summary.Result
	SampledShare float64 `json:"sampled_share"` // of the flows, that are in windows
	// SimulatedShare is what was simulated for that, warm-ups and their measurement included, about.
	SimulatedShare float64 `json:"simulated_share"`
	Windows        int     `json:"windows"`
	Stopped        string  `json:"stopped"`    // Precise, Spent or Whole
	Confidence     float64 `json:"confidence"` // of all intervals
	Within         float64 `json:"within"`     // asked for
	Goals          []Goal  `json:"goals"`      // every asked percentile of every asked group
	Warmup         Warmup  `json:"warmup"`
	Rows           []Row   `json:"intervals"`
}

func (s *sampler) result(rows []Row, stopped string, seconds float64) *Result {
	r := &Result{
		Result: &summary.Result{
			ScenarioID: string(s.base.ID()), Name: s.base.Spec.Name, Variant: s.variant(),
			Lake: s.base.Lake.Path(), Flows: s.index.totals[all],
			Warnings: []string{}, Stages: append(s.stages, s.base.Executor().Reports...), Seconds: seconds,
		},
		SampledShare: s.sampledShare(), Windows: len(s.counts), Stopped: stopped,
		Confidence: s.ask.Confidence, Within: s.ask.Within,
		Goals: s.goals(), Warmup: s.warmup, Rows: rows,
	}
	measured := float64(s.warmup.Windows) / float64(max(1, r.Windows)) // again, with another warm-up
	r.SimulatedShare = (1 + measured) * s.share(s.design.Drawn(s.drawn), s.warmup.NS)
	for i := range rows {
		row := &rows[i]
		if row.Key.By != stages.ByNothing {
			continue
		}
		if row.Warning != "" {
			r.Warnings = append(r.Warnings, "size "+row.SizeBin+": "+row.Warning)
		}
		if n := len(r.Percentiles); n == 0 || r.Percentiles[n-1].SizeBin != row.SizeBin {
			r.Percentiles = append(r.Percentiles, summary.PercentilesResult{SizeBin: row.SizeBin, Flows: row.Flows})
		}
		p := &r.Percentiles[len(r.Percentiles)-1]
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
	return r
}

// Text is the answer for people.
func (r *Result) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("scenario %s (%s), variant %s", r.ScenarioID, r.Name, r.Variant)
	a.Linef("%d flows; lake %s", r.Flows, r.Lake)
	from := fmt.Sprintf("sampled, %d windows, %.3g%% of flows", r.Windows, 100*r.SampledShare)
	if r.Stopped == Whole {
		from = "not sampled: windows would have been most of the workload, so all of it was estimated"
	}
	a.Linef("\nSlowdown (FCT / ideal FCT) of the whole workload, with %g%% intervals (%s)", 100*r.Confidence, from)
	table := a.Table("flows of", "size_bin", "flows", "p50", "p90", "p99", "p99.9")
	for group := range slices.Chunk(r.Rows, 4) { // pipeline.Quantiles
		x := group[0]
		if x.Key.By != stages.ByNothing && (x.SizeBin != sizebin.All || x.Key.Label == "") {
			continue
		}
		cells := []any{x.Key, x.SizeBin, x.Flows}
		for _, x := range group {
			cells = append(cells, fmt.Sprintf("%.3f (%.3f to %.3f)", x.Estimate, x.Lo, x.Hi))
		}
		table.Add(cells...)
	}
	reached := 0
	if r.Stopped != Whole {
		a.Linef("\nAsked: within ±%g%% for %d windows instead of the whole. The intervals above are wider: by ±%g%% for "+
			"what is cut off around windows,\nby what half of the warm-up of %v changes (in %d windows), and up by flows that "+
			"outlast the %v after a window.", 100*r.Within, r.Windows, 100*windowError, ns(r.Warmup.NS), r.Warmup.Windows,
			ns(cooldown*r.Warmup.NS))
		table := a.Table("flows of", "size_bin", "percentile", "precision", "reached")
		for _, g := range r.Goals {
			precision := "too few flows"
			if g.Known {
				precision = fmt.Sprintf("±%.2f%%", 100*g.HalfWidth)
			}
			if g.Reached {
				reached++
			}
			table.Add(g.Group, g.SizeBin, percentileName(g.Quantile), precision, g.Reached)
		}
	}
	for _, w := range r.Warnings {
		a.Linef("warning: %s", w)
	}
	if r.Stopped != Whole && r.SimulatedShare > costlyShare {
		a.Linef("windows, warm-ups and their measurement have simulated about %.0f%% of what the whole is: the whole costs "+
			"little more, and its percentiles have no interval of windows; leave out --within", 100*r.SimulatedShare)
	}
	a.Linef("\n%.1f s, %s", r.Seconds, map[string]string{
		Precise: fmt.Sprintf("all %d asked intervals are within ±%g%%", len(r.Goals), 100*r.Within),
		Spent: fmt.Sprintf("the budget is spent: %d of %d asked intervals are within ±%g%%", reached, len(r.Goals),
			100*r.Within),
		Whole: "the whole workload was estimated",
	}[r.Stopped])
	a.Linef("\nNext:\n  parsimon report %s@%s --lake %s", r.ScenarioID, r.Variant, r.Lake)
	return a
}

// Judge holds gates against the percentiles, and keeps the verdicts. The error is a *gate.Error if any failed.
func (r *Result) Judge(gates []gate.Gate) (err error) {
	r.Gates, err = judge(gates, func(g gate.Gate, group, bin string) (x gate.Interval, found bool) {
		for _, row := range r.Rows {
			if row.Key.String() == group && row.SizeBin == bin && row.Quantile == g.Quantile {
				return gate.Interval{Value: row.Estimate, Lo: row.Lo, Hi: row.Hi}, true
			}
		}
		return x, false
	})
	return err
}

// judge holds gates against values that are found by group and size bin.
func judge(gates []gate.Gate, find func(g gate.Gate, group, bin string) (gate.Interval, bool)) ([]gate.Verdict, error) {
	return gate.JudgeIntervals(gates, func(g gate.Gate) (x gate.Interval, err error) {
		service, byService := g.Filter["service"]
		vnet, byVNet := g.Filter["vnet"]
		bin, bySize := g.Filter["size_bin"]
		group := all
		switch {
		case g.FCT:
			return x, errors.New("estimates from windows have percentiles of slowdown only")
		case byVNet && (byService || bySize):
			return x, errors.New("estimates from windows have virtual networks of all services and sizes only")
		case byService:
			group = Key{By: stages.ByService, Label: service}
		case byVNet:
			group = Key{By: stages.ByVNet, Label: vnet}
		}
		if !bySize {
			bin = sizebin.All
		}
		x, found := find(g, group.String(), bin)
		if !found {
			err = fmt.Errorf("no flow in windows is of %s, size %s", group, bin)
		}
		return x, err
	})
}

// A Row is a percentile of a group of flows of the whole workload, with its interval and the interval's parts.
type Row struct {
	Key      Key     `json:"-"`
	Service  *string `json:"service"` // nil: all
	VNet     *string `json:"vnet"`
	SizeBin  string  `json:"size_bin"`
	Quantile float64 `json:"quantile"`
	Flows    int64   `json:"flows"`    // of the workload
	Sampled  int64   `json:"sampled"`  // of these, in windows
	Estimate float64 `json:"estimate"` // slowdown
	Lo       float64 `json:"lo"`       // of all that is known to be uncertain
	Hi       float64 `json:"hi"`
	// The part of the interval that is due to which windows were drawn.
	SamplingLo float64 `json:"sampling_lo"`
	SamplingHi float64 `json:"sampling_hi"`
	// The estimate, if flows that outlast their simulated part went on as slowly as such flows go in it.
	Sustained float64 `json:"sustained"`
	Warning   string  `json:"warning"` // few flows beyond it: the interval holds the value less often than it should
}

// halfWidth is half of the width of the sampling interval, relative to the estimate.
func (r Row) halfWidth() float64 { return (r.SamplingHi - r.SamplingLo) / 2 / r.Estimate }

func percentileName(q float64) string { return fmt.Sprintf("p%g", math.Round(q*100_000)/1000) }

// A percentile with fewer sampled flows beyond it, or of a group with a greater share of cut flows, has a warning and
// does not count as precise.
const (
	fewBeyond = 30
	manyCut   = 0.05
)

// rows are the percentiles of all groups that have sampled flows.
func (s *sampler) rows() (out []Row) {
	for _, k := range s.index.order {
		for _, q := range pipeline.Quantiles {
			if row, ok := s.row(k, q); ok {
				out = append(out, row)
			}
		}
	}
	return out
}

// row is a percentile of a group; false without sampled flows.
func (s *sampler) row(k Key, q float64) (row Row, ok bool) {
	row = Row{Key: k, SizeBin: k.binName(), Quantile: q, Flows: s.index.totals[k]}
	switch k.By {
	case stages.ByService:
		row.Service = &k.Label
	case stages.ByVNet:
		row.VNet = &k.Label
	}
	sample := s.sampleFrom(k, s.counts)
	e, ok := sample.Quantile(q, s.ask.Confidence)
	if !ok {
		return row, false
	}
	row.Sampled, row.Estimate, row.SamplingLo, row.SamplingHi = sample.Flows(), e.Value, e.Lo, e.Hi
	up, _ := s.sampleFrom(k, s.longer).Quantile(q, s.ask.Confidence)
	row.Sustained = max(e.Value, up.Value)
	row.Lo, row.Hi = s.widen(e, s.warmup.change(q))
	row.Hi *= row.Sustained / e.Value
	switch cut := float64(s.outlast[k]) / float64(row.Sampled); {
	case e.Beyond < fewBeyond && row.Sampled < row.Flows:
		row.Warning = fmt.Sprintf("%s: only %d sampled flows beyond it", percentileName(q), e.Beyond)
	case cut > manyCut:
		row.Warning = fmt.Sprintf("%s: %.0f%% of the sampled flows outlast the simulated time after their window",
			percentileName(q), 100*cut)
	}
	return row, true
}

// windowError is about the error of windows that are estimated without the rest of the workload, where it was measured
// (pipeline/sampling/README.md).
const windowError = 0.01

// widen combines the parts of an interval: what is cut off around windows is an error of its own, and is added in
// quadrature, as a logarithm; what half of the warm-up changes is a bias, and is added.
func (s *sampler) widen(e sampling.Estimate, warmup float64) (lo, hi float64) {
	down, up := math.Hypot(math.Log(e.Value/e.Lo), s.windowError), math.Hypot(math.Log(e.Hi/e.Value), s.windowError)
	return max(1, e.Value*math.Exp(-down)*(1-warmup)), e.Value * math.Exp(up) * (1 + warmup)
}

// A Goal is an asked percentile of a group of flows and how precise it is.
type Goal struct {
	Group     string  `json:"group"` // such as "service storage"
	SizeBin   string  `json:"size_bin"`
	Quantile  float64 `json:"quantile"`
	Sampled   int64   `json:"sampled"`    // flows of the group in windows
	HalfWidth float64 `json:"half_width"` // of the sampling part of the interval, relative; 0 if not Known
	Known     bool    `json:"known"`      // there are enough sampled flows for an interval
	Reached   bool    `json:"reached"`
}

// String names the percentile.
func (g Goal) String() string {
	return fmt.Sprintf("%s of %s, size %s", percentileName(g.Quantile), g.Group, g.SizeBin)
}

// goals are the asked percentiles, or their changes, of all groups with flows, in the order of the groups.
func (s *sampler) goals() (all []Goal) {
	for _, k := range s.asked() {
		for _, q := range s.ask.Of {
			g := Goal{Group: k.String(), SizeBin: k.binName(), Quantile: q}
			if s.other != nil {
				for _, x := range s.changes(k, []float64{q}) { // one, or none without flows
					g = x.Goal
				}
			} else if row, ok := s.row(k, q); ok {
				g.Sampled = row.Sampled
				if row.Warning == "" {
					g.HalfWidth, g.Known, g.Reached = row.halfWidth(), true, row.halfWidth() <= s.ask.Within
				}
			}
			all = append(all, g)
		}
	}
	return all
}

// asked are the asked groups that have flows.
func (s *sampler) asked() (all []Key) {
	for _, k := range s.index.order {
		if s.index.totals[k] > 0 && s.ask.wants(k) {
			all = append(all, k)
		}
	}
	return all
}

// binName is the name of a group's size bin.
func (k Key) binName() string {
	if k.Bin == sizebin.Count {
		return sizebin.All
	}
	return sizebin.Bins()[k.Bin].Name
}

// String is the group without its size bin.
func (k Key) String() string {
	switch k.By {
	case stages.ByService:
		return "service " + k.Label
	case stages.ByVNet:
		return "vnet " + k.Label
	}
	return "all"
}
