package sampling

import (
	"math"
	"slices"
)

// A Difference is a quantile of slowdown of two estimates of a workload, from the same windows.
type Difference struct {
	Base, Other    float64
	Change, Lo, Hi float64 // Other / Base - 1
}

// Compare compares a quantile of two samples of the same windows. ok is false if one side has no flows, or only in one
// window.
//
// The interval is of log(other/base), with the variance of the jackknife that leaves out a window of a stratum at a
// time, the same on both sides (Wolter, Introduction to Variance Estimation, 2nd ed., §4.5). What a window does to
// both cancels. The degrees of freedom are those of Sample.variance.
func Compare(base, other Sample, p, confidence float64) (d Difference, ok bool) {
	change := func(a, b Sample) (log float64, ok bool) {
		x, okX := a.value(p)
		y, okY := b.value(p)
		return math.Log(y / x), okX && okY
	}
	middle, ok := change(base, other)
	if !ok {
		return d, false
	}
	var v, fourth, squares, slots, free float64
	for h, stratum := range base {
		n := float64(len(stratum.Drawn))
		if n < 2 || len(stratum.Drawn) == stratum.Slots {
			continue // as in Sample.variance
		}
		left, mean := make([]float64, len(stratum.Drawn)), 0.0
		for i := range left {
			if left[i], ok = change(base.without(h, i), other.without(h, i)); !ok {
				return d, false
			}
			mean += left[i] / n
		}
		part, factor := 0.0, (n-1)/n*(1-n/float64(stratum.Slots))
		for _, x := range left {
			u := factor * (x - mean) * (x - mean)
			part += u
			fourth += u * u
		}
		v += part
		squares += part * part / (n - 1)
		slots, free = slots+n, free+n-1
	}
	half := StudentT(confidence, max(1, degrees(v, squares, fourth, slots, free))) * math.Sqrt(v)
	d.Base, _ = base.value(p)
	d.Other, _ = other.value(p)
	d.Change, d.Lo, d.Hi = math.Exp(middle)-1, math.Exp(middle-half)-1, math.Exp(middle+half)-1
	return d, true
}

// without is the sample without a drawn slot.
func (s Sample) without(h, i int) Sample {
	out := slices.Clone(s)
	out[h].Drawn = slices.Concat(s[h].Drawn[:i], s[h].Drawn[i+1:])
	return out
}
