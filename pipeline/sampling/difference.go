package sampling

import (
	"math"
	"slices"
)

// A Difference is a quantile of slowdown of two estimates of a workload, from the same windows.
type quantileChange struct {
	Base, Other    float64
	Change, Lo, Hi float64 // Other / Base - 1
}

// compareSamples compares a quantile of two samples of the same windows. ok is false if one side has no flows, or only in one
// window.
//
// The interval is of log(other/base), with the variance of the jackknife that leaves out a window of a stratum at a
// time, the same on both sides (Wolter, Introduction to Variance Estimation, 2nd ed., §4.5). What a window does to
// both cancels. The degrees of freedom are those of Sample.variance.
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
	d.Change, d.Lo, d.Hi = math.Exp(middle)-1, math.Exp(middle-half)-1, math.Exp(middle+half)-1
	return d, true
}

// without is the sample without a drawn slot.
func (s sample) without(h, i int) sample {
	out := slices.Clone(s)
	out[h].Drawn = slices.Concat(s[h].Drawn[:i], s[h].Drawn[i+1:])
	return out
}
