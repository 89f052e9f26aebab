package sampling

import (
	"encoding/json"
	"fmt"
	"math"

	"parsimon/pipeline"
	"parsimon/simkernel"
	"parsimon/stages/confidence"
)

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
	Hi       Bound   `json:"hi"`
	// The part of the interval that is due to which windows were drawn.
	SamplingLo float64 `json:"sampling_lo"`
	SamplingHi float64 `json:"sampling_hi"`
	Warning    string  `json:"warning"` // few flows beyond it: the interval holds the value less often than it should
}

// A Bound is the upper end of an interval: infinite, null in JSON, if the sample has too few flows to know it.
type Bound float64

// MarshalJSON writes a number or null.
func (b Bound) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(b), 1) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(b))
}

// halfWidth is half of the width of the sampling interval, relative to the estimate.
func (r Row) halfWidth() float64 { return (r.SamplingHi - r.SamplingLo) / 2 / r.Estimate }

func (r Row) interval() string {
	if math.IsInf(float64(r.Hi), 1) {
		return fmt.Sprintf("at least %.3f", r.Lo)
	}
	return fmt.Sprintf("%.3f to %.3f", r.Lo, r.Hi)
}

func percentileName(q float64) string { return fmt.Sprintf("p%g", math.Round(q*100_000)/1000) }

// fewBeyond: a percentile with fewer sampled flows beyond it has a warning and does not count as precise.
const fewBeyond = 30

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
	row.Sampled, row.Estimate, row.SamplingLo, row.SamplingHi = sample.Flows(), e.Value, e.Lo, e.Hi
	lo, hi := s.widen(e, s.warmup.change(q))
	least, _ := s.sampleFrom(k, s.least).Quantile(q, s.ask.Confidence)
	most, _ := s.sampleFrom(k, s.most).Quantile(q, s.ask.Confidence)
	row.Lo, row.Hi = max(1, lo*least.Value/e.Value), Bound(hi*most.Value/e.Value)
	if row.Sampled < row.Flows && e.Open && float64(row.Sampled)*(1-q) < fewBeyond {
		row.Hi = Bound(math.Inf(1))
	}
	if e.Beyond < fewBeyond && row.Sampled < row.Flows && (e.Value > 1 || e.Hi > 1) {
		row.Warning = fmt.Sprintf("%s: only %d sampled flows are above it", percentileName(q), e.Beyond)
	}
	return row, true
}

// errorOfWindows is about how far p50 to p99 of windows are from those of the same flows in the whole workload, where
// it was measured; p99.9 was up to twice as far (datasets/results/coverage.md). TCP flows that are carried over are in
// slow start again, and those of DCQCN forget later than a warm-up ends that they begin at line rate.
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

// widen adds to an interval the part that is cut off around windows and the effect of half of the warm-up. Both are
// biases, which do not average out over windows: an interval holds its confidence under a bias of at most B if it is
// longer by B on each side (a little less would do: Armstrong and Kolesár, Econometrica 86(2), 2018).
func (s *sampler) widen(e quantileEstimate, warmup float64) (lo, hi float64) {
	return max(1, e.Lo*(1-s.windowError)*(1-warmup)), e.Hi * (1 + s.windowError) * (1 + warmup)
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
