package sampling

import (
	"encoding/json"
	"fmt"
	"math"

	"parsimon/pipeline"
	"parsimon/simkernel"
	"parsimon/stages/confidence"
)

// A Row is a percentile of the slowdown of a group of flows of the whole workload, with its interval.
type Row struct {
	Key      Key     `json:"-"`
	Service  *string `json:"service"` // nil: all
	VNet     *string `json:"vnet"`
	SizeBin  string  `json:"size_bin"`
	Quantile float64 `json:"quantile"`
	Flows    int64   `json:"flows"`    // flows of the group in the workload
	Sampled  int64   `json:"sampled"`  // flows of the group in windows
	Estimate float64 `json:"estimate"` // slowdown
	Lo       float64 `json:"lo"`       // interval due to all known uncertainties
	Hi       Bound   `json:"hi"`
	// The interval due to the random choice of windows alone.
	SamplingLo float64 `json:"sampling_lo"`
	SamplingHi float64 `json:"sampling_hi"`
	Warning    string  `json:"warning"` // few flows are beyond the percentile: the interval covers it too rarely
}

// A Bound is the upper end of an interval. It is infinite, and null in JSON, if the sample has too few flows
// to know it.
type Bound float64

// MarshalJSON writes a number or null.
func (b Bound) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(b), 1) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(b))
}

// halfWidth returns half of the width of the sampling interval, relative to the estimate.
func (r Row) halfWidth() float64 { return (r.SamplingHi - r.SamplingLo) / 2 / r.Estimate }

// interval describes the interval for people.
func (r Row) interval() string {
	if math.IsInf(float64(r.Hi), 1) {
		return fmt.Sprintf("at least %.3f", r.Lo)
	}
	return fmt.Sprintf("%.3f to %.3f", r.Lo, r.Hi)
}

// percentileName names a quantile, such as p99.9.
func percentileName(q float64) string { return fmt.Sprintf("p%g", math.Round(q*100_000)/1000) }

// fewBeyond is the number of sampled flows beyond a percentile below which it has a warning and does not
// count as precise.
const fewBeyond = 30

// rows returns the percentiles of all groups that have sampled flows.
func (s *sampler) rows() (out []Row) {
	for _, k := range s.index.order {
		for _, q := range pipeline.Quantiles {
			row, ok := s.row(k, q)
			if ok {
				out = append(out, row)
			}
		}
	}
	return out
}

// row returns a percentile of a group. ok is false if the group has no sampled flows.
func (s *sampler) row(k Key, q float64) (row Row, ok bool) {
	row = Row{Key: k, SizeBin: k.binName(), Quantile: q, Flows: s.index.totals[k]}
	switch k.By {
	case confidence.ByService:
		row.Service = &k.Label
	case confidence.ByVNet:
		row.VNet = &k.Label
	}
	sample := s.sampleFrom(k, s.counts)
	e, ok := sample.Quantile(q, s.ask.Confidence)
	if !ok {
		return row, false
	}
	row.Sampled = sample.Flows()
	row.Estimate = e.Value
	row.SamplingLo = e.Lo
	row.SamplingHi = e.Hi
	lo, hi := s.widen(e, s.warmup.change(q))
	least, _ := s.sampleFrom(k, s.least).Quantile(q, s.ask.Confidence)
	most, _ := s.sampleFrom(k, s.most).Quantile(q, s.ask.Confidence)
	row.Lo = max(1, lo*least.Value/e.Value)
	row.Hi = Bound(hi * most.Value / e.Value)
	if row.Sampled < row.Flows && e.Open && float64(row.Sampled)*(1-q) < fewBeyond {
		row.Hi = Bound(math.Inf(1))
	}
	if e.Beyond < fewBeyond && row.Sampled < row.Flows && (e.Value > 1 || e.Hi > 1) {
		row.Warning = fmt.Sprintf("%s: only %d sampled flows are above it", percentileName(q), e.Beyond)
	}
	return row, true
}

// errorOfWindows returns the relative error of p50 to p99 of windows against the same flows in the whole
// workload, as measured (datasets/results/coverage.md). The error of p99.9 was up to twice as large. TCP
// flows that are carried over begin in slow start again. DCQCN flows begin at line rate, and the effect of
// that lasts longer than a warm-up.
func errorOfWindows(t simkernel.Transport) float64 {
	switch {
	case t.Traits().AckClocked:
		return 0.13
	case t == simkernel.HPCC:
		return 0.06
	case t == simkernel.DCQCN, t == simkernel.TIMELY:
		return 0.03
	}
	return 0.01
}

// widen adds the error of windows and the effect of half of the warm-up to an interval. Both are biases,
// which do not average out over windows. Under a bias of at most B, an interval keeps its confidence if it is
// widened by B on each side (slightly less suffices: Armstrong and Kolesár, Econometrica 86(2), 2018).
func (s *sampler) widen(e quantileEstimate, warmup float64) (lo, hi float64) {
	return max(1, e.Lo*(1-s.windowError)*(1-warmup)), e.Hi * (1 + s.windowError) * (1 + warmup)
}

// A Goal is a requested percentile of a group of flows and its precision.
type Goal struct {
	Group     string  `json:"group"` // such as "service storage"
	SizeBin   string  `json:"size_bin"`
	Quantile  float64 `json:"quantile"`
	Sampled   int64   `json:"sampled"`    // flows of the group in windows
	HalfWidth float64 `json:"half_width"` // half of the width of the sampling interval, relative; 0 unless Known
	Known     bool    `json:"known"`      // there are enough sampled flows for an interval
	Reached   bool    `json:"reached"`    // the interval is as narrow as requested
}

// String names the percentile.
func (g Goal) String() string {
	return fmt.Sprintf("%s of %s, size %s", percentileName(g.Quantile), g.Group, g.SizeBin)
}

// goals returns the requested percentiles, or in a comparison their changes, of all groups with flows.
func (s *sampler) goals() (all []Goal) {
	for _, k := range s.asked() {
		for _, q := range s.ask.Of {
			all = append(all, s.goal(k, q))
		}
	}
	return all
}

// goal returns a requested percentile of a group, or in a comparison its change.
func (s *sampler) goal(k Key, q float64) Goal {
	g := Goal{Group: k.String(), SizeBin: k.binName(), Quantile: q}
	if s.other != nil {
		for _, x := range s.changes(k, []float64{q}) { // one, or none without flows
			g = x.Goal
		}
		return g
	}
	row, ok := s.row(k, q)
	if !ok {
		return g
	}
	g.Sampled = row.Sampled
	if row.Warning == "" {
		g.HalfWidth = row.halfWidth()
		g.Known = true
		g.Reached = g.HalfWidth <= s.ask.Within
	}
	return g
}
