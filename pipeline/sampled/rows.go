package sampled

import (
	"fmt"
	"math"

	"parsimon/pipeline"
	"parsimon/pipeline/sampling"
	"parsimon/schema/sizebin"
	"parsimon/stages"
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

// String is the row as one line for people.
func (r Row) String() string {
	of := "all flows"
	switch r.Key.By {
	case stages.ByService:
		of = "service " + r.Key.Label
	case stages.ByVNet:
		of = "virtual network " + r.Key.Label
	}
	return fmt.Sprintf("%s of %s, size %s: %.3f (%.3f to %.3f)", percentileName(r.Quantile), of, r.SizeBin, r.Estimate, r.SamplingLo, r.SamplingHi)
}

// HalfWidth is halfWidth, and infinite for a row that is not there or has a warning.
func (r Row) HalfWidth() float64 {
	if r.Estimate == 0 || r.Warning != "" {
		return math.Inf(1)
	}
	return r.halfWidth()
}

func percentileName(q float64) string { return fmt.Sprintf("p%g", math.Round(q*100_000)/1000) }

// A percentile with fewer sampled flows beyond it, or of a group with a greater share of cut flows, has a warning and
// does not count as precise.
const (
	fewBeyond = 30
	manyCut   = 0.05
)

// binName is the name of a group's size bin.
func (k Key) binName() string {
	if k.Bin == sizebin.Count {
		return sizebin.All
	}
	return sizebin.Bins()[k.Bin].Name
}

// rows are the percentiles of all groups that have sampled flows.
func (s *sampler) rows() (out []Row) {
	for _, k := range s.index.order {
		out = append(out, s.rowsOf(k)...)
	}
	return out
}

// rowsOf are the percentiles of a group.
func (s *sampler) rowsOf(k Key) (out []Row) {
	if s.index.totals[k] == 0 {
		return nil
	}
	for _, q := range pipeline.Quantiles {
		row, ok := s.row(k, q)
		if !ok {
			return nil
		}
		out = append(out, row)
	}
	return out
}

// row is a percentile of a group; false without sampled flows.
func (s *sampler) row(k Key, q float64) (row Row, ok bool) {
	sample := s.sampleFrom(k, s.counts)
	e, ok := sample.Quantile(q, s.ask.Confidence)
	if !ok {
		return row, false
	}
	row = Row{Key: k, SizeBin: k.binName(), Quantile: q, Flows: s.index.totals[k], Sampled: flowsOf(sample),
		Estimate: e.Value, SamplingLo: e.Lo, SamplingHi: e.Hi}
	switch k.By {
	case stages.ByService:
		row.Service = &k.Label
	case stages.ByVNet:
		row.VNet = &k.Label
	}
	up, _ := s.sampleFrom(k, s.longer).Quantile(q, s.ask.Confidence)
	row.Sustained = max(e.Value, up.Value)
	row.Lo, row.Hi = s.widen(e, s.warmup.change(q))
	row.Hi *= row.Sustained / e.Value
	switch cut := float64(s.outlast[k]) / float64(row.Sampled); {
	case e.Beyond < fewBeyond && row.Sampled < row.Flows:
		row.Warning = fmt.Sprintf("%s: only %d sampled flows beyond it", percentileName(q), e.Beyond)
	case cut > manyCut:
		row.Warning = fmt.Sprintf("%s: %.0f%% of the sampled flows outlast the simulated time after their window", percentileName(q), 100*cut)
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

func flowsOf(s sampling.Sample) (n int64) {
	for _, h := range s {
		for _, c := range h.Drawn {
			if c != nil {
				n += c.Flows()
			}
		}
	}
	return n
}
