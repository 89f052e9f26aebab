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
