package sampled

import (
	"context"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/sampling"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// checkWindows is how many windows the time of --check is divided among: as many as a jackknife needs to estimate the
// variance of the error.
const checkWindows = 4

// fewMeasured is the least number of measured flows beyond a percentile for its error to be reported.
const fewMeasured = 10

// A MethodError is the relative error of an estimated percentile, in windows that were also simulated packet by packet.
type MethodError struct {
	Quantile float64 `json:"quantile"`
	Flows    int64   `json:"flows"`
	Error    float64 `json:"error"`    // estimate / truth - 1
	ErrorLo  float64 `json:"error_lo"` // jackknife interval over the windows, at the asked confidence
	ErrorHi  float64 `json:"error_hi"`
}

// check simulates parts of the first round's windows packet by packet and compares all flows with the estimate.
func (s *sampler) check(ctx context.Context, stopped string) error {
	if s.ask.Check <= 0 {
		return nil
	}
	first := s.rounds[0].slots
	var slots []int
	for i := range min(checkWindows, len(first)) {
		slots = append(slots, first[i*len(first)/min(checkWindows, len(first))])
	}
	length := int64(s.ask.Check) / int64(len(slots))
	pairs := make([]checkPair, len(slots))
	exact := func(run *pipeline.Estimation) error {
		for i, n := range slots {
			x := s.index.slots[n]
			to := min(x.ToNS, x.FromNS+length)
			// Flows after the part are simulated, too: the estimate has them.
			w := pipeline.Window{FromNS: x.FromNS, ToNS: to + cooldown*s.warmup.NS, WarmupNS: s.warmup.NS}
			if err := compare(ctx, run, pipeline.Exact{Window: w}, to, &pairs[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if stopped == Whole {
		if err := exact(s.base); err != nil {
			return err
		}
	} else if _, err := s.estimate(ctx, first, s.warmup.NS, exact); err != nil {
		return err
	}
	s.method = methodErrors(pairs, s.ask.Confidence)
	return nil
}

// A checkPair are the slowdowns of the same flows, estimated and true.
type checkPair struct{ estimate, truth sampling.Counts }

// compare simulates a window and adds the flows that start before a time.
func compare(ctx context.Context, run *pipeline.Estimation, x pipeline.Exact, toNS int64, pair *checkPair) error {
	if err := run.Exact(ctx, x); err != nil {
		return err
	}
	r, err := run.ExactRecords(x)
	if err != nil {
		return err
	}
	truth := map[int64]float64{}
	in := run.Lake.Read(schema.ExactFCTs, r.Files(schema.ExactFCTs), []string{"flow_row", "start_ns", "slowdown"}, nil)
	err = columns.Consume(in, func(rec arrow.Record) error {
		start, slowdown := columns.Int64s(rec, "start_ns"), columns.Float64s(rec, "slowdown")
		for i, row := range columns.Int64s(rec, "flow_row") {
			if start[i] < toNS {
				truth[row] = slowdown[i]
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = pipeline.EachSlowdown(run, func(f pipeline.SampledFlow) {
		if t, ok := truth[f.Row]; ok {
			pair.estimate.Add(sampling.CellOf(f.Slowdown))
			pair.truth.Add(sampling.CellOf(t))
		}
	})
	pair.estimate.Seal()
	pair.truth.Seal()
	return err
}

// methodErrors are the errors of the percentiles of all pairs together. Their intervals are of the jackknife that
// leaves out a window at a time (Efron and Stein, Annals of Statistics 9(3), 1981), with Student's t.
func methodErrors(pairs []checkPair, confidence float64) (out []MethodError) {
	of := func(p float64, without int) (relative float64, flows int64) {
		var estimate, truth sampling.Stratum
		for i := range pairs {
			if i != without {
				estimate.Drawn, truth.Drawn = append(estimate.Drawn, &pairs[i].estimate), append(truth.Drawn, &pairs[i].truth)
				flows += pairs[i].truth.Flows()
			}
		}
		estimate.Slots, truth.Slots = len(estimate.Drawn), len(truth.Drawn)
		e, _ := sampling.Sample{estimate}.Quantile(p, confidence)
		t, _ := sampling.Sample{truth}.Quantile(p, confidence)
		return e.Value/t.Value - 1, flows
	}
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(p checkPair) bool { return p.truth.Flows() == 0 })
	if len(pairs) == 0 {
		return nil
	}
	for _, p := range pipeline.Quantiles {
		m := MethodError{Quantile: p}
		m.Error, m.Flows = of(p, -1)
		if float64(m.Flows)*(1-p) < fewMeasured {
			break // and of the greater ones fewer
		}
		half := math.Abs(m.Error) // one window has no variance
		if n := float64(len(pairs)); n > 1 {
			var left []float64
			mean, squares := 0.0, 0.0
			for i := range pairs {
				e, _ := of(p, i)
				left = append(left, e)
				mean += e / n
			}
			for _, e := range left {
				squares += (e - mean) * (e - mean)
			}
			half = sampling.StudentT(confidence, n-1) * math.Sqrt((n-1)/n*squares)
		}
		m.ErrorLo, m.ErrorHi = m.Error-half, m.Error+half
		out = append(out, m)
	}
	return out
}
