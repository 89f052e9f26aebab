package pipeline

import "math"

// A spread is how slowdowns are distributed, to within spreadStep: flows can be taken out again, and memory
// does not grow with them.
type spread struct {
	counts []int64 // by bin: those of slowdowns exp(bin × spreadStep) and up to the next
	flows  int64
}

// spreadStep is a bin's width, relative.
const spreadStep = 1e-4

func (s *spread) add(slowdown float64, flows int64) {
	bin := max(0, int(math.Log(slowdown)/spreadStep))
	for bin >= len(s.counts) {
		s.counts = append(s.counts, 0)
	}
	s.counts[bin] += flows
	s.flows += flows
}

func (s *spread) merge(o *spread) {
	for len(s.counts) < len(o.counts) {
		s.counts = append(s.counts, 0)
	}
	for bin, n := range o.counts {
		s.counts[bin] += n
	}
	s.flows += o.flows
}

// quantiles are the slowdowns at ascending quantiles; NaN without flows.
func (s *spread) quantiles(of []float64) []float64 {
	out := make([]float64, len(of))
	bin, below := 0, int64(0)
	for i, q := range of {
		if s.flows == 0 {
			out[i] = math.NaN()
			continue
		}
		rank := min(int64(q*float64(s.flows)), s.flows-1)
		for below+s.counts[bin] <= rank {
			below += s.counts[bin]
			bin++
		}
		out[i] = math.Exp(float64(bin) * spreadStep)
	}
	return out
}
