package sampling

import (
	"math"
	"slices"
)

// A quantileChange compares a quantile of the slowdown between two estimates of a workload from the same
// windows.
type quantileChange struct {
	Base, Other    float64
	Change, Lo, Hi float64 // Other / Base - 1, and its interval
}

// compareSamples compares quantile p of two samples of the same windows. ok is false if a side has no flows
// or has them in one window only.
//
// The interval is that of log(other/base). Its variance is that of the jackknife that leaves out one window
// of a stratum at a time, the same one on both sides (Wolter, Introduction to Variance Estimation, 2nd ed.,
// §4.5). Effects of a window that are common to both sides cancel. The degrees of freedom are those of
// sample.variance.
func compareSamples(base, other sample, p, confidence float64) (d quantileChange, ok bool) {
	change := func(a, b sample) float64 {
		x, okX := a.value(p)
		y, okY := b.value(p)
		if !okX || !okY {
			return math.NaN()
		}
		return math.Log(y / x)
	}
	middle := change(base, other)
	v, df := base.variance(func(h int, n float64) (left []float64, scale float64) {
		for i := range base[h].Drawn {
			left = append(left, change(base.without(h, i), other.without(h, i)))
		}
		return left, (n - 1) / n
	})
	if math.IsNaN(middle + v) {
		return d, false
	}
	half := StudentT(confidence, df) * math.Sqrt(v)
	d.Base, _ = base.value(p)
	d.Other, _ = other.value(p)
	d.Change = math.Exp(middle) - 1
	d.Lo = math.Exp(middle-half) - 1
	d.Hi = math.Exp(middle+half) - 1
	return d, true
}

// without returns the sample without drawn slot i of stratum h.
func (s sample) without(h, i int) sample {
	out := slices.Clone(s)
	out[h].Drawn = slices.Concat(s[h].Drawn[:i], s[h].Drawn[i+1:])
	return out
}
