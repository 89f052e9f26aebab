package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"parsimon/schema/sizebin"
)

// A verdict is the errors of an estimate: estimate / truth - 1.
type verdict struct {
	mean      float64 // of slowdown
	quantiles [4]float64
	bins      [sizebin.Count]float64 // p99; NaN: fewer than binFlows flows
	flows     [2]float64             // median and 90th percentile of |estimate / truth - 1|
}

const binFlows = 1000

func (s *scenario) verdict(fctNS, idealNS []int64) (v verdict) {
	bins := sizebin.Bins()
	estimate, truth := make([][]float64, len(bins)+1), make([][]float64, len(bins)+1)
	var off []float64
	var sums [2]float64
	for f, t := range s.truthNS {
		if math.IsNaN(t) {
			continue
		}
		off = append(off, math.Abs(float64(fctNS[f])/t-1))
		e, t := float64(fctNS[f])/float64(idealNS[f]), t/float64(idealNS[f])
		sums[0], sums[1] = sums[0]+e, sums[1]+t
		bin := slices.IndexFunc(bins, func(b sizebin.Bin) bool { return s.size[f] <= b.MaxBytes })
		for _, at := range []int{bin, len(bins)} {
			estimate[at], truth[at] = append(estimate[at], e), append(truth[at], t)
		}
	}
	v.mean = sums[0]/sums[1] - 1
	for i := range bins {
		v.bins[i] = math.NaN()
		if len(truth[i]) > binFlows {
			v.bins[i] = quantile(estimate[i], 0.99)/quantile(truth[i], 0.99) - 1
		}
	}
	for i, q := range []float64{0.5, 0.9, 0.99, 0.999} {
		v.quantiles[i] = quantile(estimate[len(bins)], q)/quantile(truth[len(bins)], q) - 1
	}
	v.flows = [2]float64{quantile(off, 0.5), quantile(off, 0.9)}
	return v
}

func quantile(values []float64, q float64) float64 {
	slices.Sort(values)
	at := q * float64(len(values)-1)
	lo := int(at)
	hi := min(lo+1, len(values)-1)
	return values[lo] + (at-float64(lo))*(values[hi]-values[lo])
}

func (v verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mean %+6.1f%% | p50 … p99.9", 100*v.mean)
	for _, q := range v.quantiles {
		fmt.Fprintf(&b, " %+6.1f", 100*q)
	}
	b.WriteString(" | p99 by bin")
	for _, x := range v.bins {
		if math.IsNaN(x) {
			b.WriteString("      -")
		} else {
			fmt.Fprintf(&b, " %+6.1f", 100*x)
		}
	}
	fmt.Fprintf(&b, " | flows %4.1f %5.1f", 100*v.flows[0], 100*v.flows[1])
	return b.String()
}
