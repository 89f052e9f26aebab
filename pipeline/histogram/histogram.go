// Package histogram counts slowdowns in bins of relative width Step, in memory that does not grow with the flows.
package histogram

import (
	"math"
	"slices"
)

// A Histogram counts slowdowns. Flows can be removed again. The zero value is empty.
type Histogram struct {
	counts []int64 // by bin: slowdowns from exp(bin × Step) to the next bin
	flows  int64
}

// Step is the relative width of a bin.
const Step = 1e-4

// Add counts so many flows of a slowdown of at least 1; a negative number removes flows.
func (h *Histogram) Add(slowdown float64, flows int64) {
	bin := max(0, int(math.Log(slowdown)/Step))
	for bin >= len(h.counts) {
		h.counts = append(h.counts, 0)
	}
	h.counts[bin] += flows
	h.flows += flows
}

// Merge adds the flows of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for len(h.counts) < len(o.counts) {
		h.counts = append(h.counts, 0)
	}
	for bin, n := range o.counts {
		h.counts[bin] += n
	}
	h.flows += o.flows
}

// Quantiles are the slowdowns at ascending quantiles, each the lower end of its bin; NaN without flows.
func (h *Histogram) Quantiles(of []float64) []float64 {
	out := make([]float64, len(of))
	bin, below := 0, int64(0)
	for i, q := range of {
		if h.flows == 0 {
			out[i] = math.NaN()
			continue
		}
		rank := min(int64(q*float64(h.flows)), h.flows-1)
		for below+h.counts[bin] <= rank {
			below += h.counts[bin]
			bin++
		}
		out[i] = math.Exp(float64(bin) * Step)
	}
	return out
}

// Flows is the number of flows counted.
func (h *Histogram) Flows() int64 { return h.flows }

// Clone is a copy.
func (h *Histogram) Clone() *Histogram { return &Histogram{slices.Clone(h.counts), h.flows} }
