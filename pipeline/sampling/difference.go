package sampling

import (
	"math"
	"sort"

	"parsimon/stages/rng"
)

// replicates of a bootstrap give a standard error to 5%.
const replicates = 200

// A Difference is a quantile of slowdown of two estimates of a workload, from the same windows.
type Difference struct {
	Base, Other    float64
	Change, Lo, Hi float64 // Other / Base - 1
}

// Compare compares a quantile of two samples of the same windows. ok is false without flows on either side.
//
// The interval is of log(other/base), with the standard error of a bootstrap of the windows within their strata: a
// replicate draws n−1 of the n windows of a stratum with replacement, the same for both sides, and rescales their
// weights so that its variance is that of the design, without replacement (Rao and Wu, JASA 83, 1988; Rao, Wu and Yue,
// Survey Methodology 18(2), 1992). What a window does to both sides cancels.
// The degrees of freedom are those of Sample.variance, for what leaving out a window at a time changes.
func Compare(base, other Sample, p, confidence float64, seed uint64) (d Difference, ok bool) {
	weights := make([][]float64, len(base))
	for h := range base {
		weights[h] = make([]float64, len(base[h].Drawn))
	}
	base.resample(weights, nil)
	a, okA := base.weighted(p, weights)
	b, okB := other.weighted(p, weights)
	if !okA || !okB {
		return d, false
	}
	d.Base, d.Other, d.Change = a, b, b/a-1
	middle := math.Log(b / a)
	var common float64
	for rep := range replicates {
		random := rng.New(seed, rng.Bootstrap, uint64(rep))
		base.resample(weights, &random)
		x, okX := base.weighted(p, weights)
		y, okY := other.weighted(p, weights)
		if !okX || !okY {
			continue
		}
		d := math.Log(y/b) - math.Log(x/a)
		common += d * d / replicates
	}
	t := StudentT(confidence, max(1, freedom(base, other, p, weights)))
	half := t * math.Sqrt(common)
	d.Lo, d.Hi = math.Exp(middle-half)-1, math.Exp(middle+half)-1
	return d, true
}

// freedom are the degrees of freedom of the variance of log(other/base): few where a few windows have most of it.
func freedom(base, other Sample, p float64, weights [][]float64) float64 {
	var v, fourth, squares, slots, free float64
	base.resample(weights, nil)
	for h, stratum := range base {
		n := float64(len(stratum.Drawn))
		if n < 2 || len(stratum.Drawn) == stratum.Slots {
			continue
		}
		left, mean := make([]float64, len(stratum.Drawn)), 0.0
		for i := range left {
			for j := range left {
				weights[h][j] = stratum.weight() * n / (n - 1)
			}
			weights[h][i] = 0
			x, _ := base.weighted(p, weights)
			y, _ := other.weighted(p, weights)
			left[i] = math.Log(y / x)
			mean += left[i] / n
		}
		for j := range left {
			weights[h][j] = stratum.weight()
		}
		part, factor := 0.0, (n-1)/n*(1-n/float64(stratum.Slots))
		for _, x := range left {
			u := (x - mean) * (x - mean)
			part += factor * u
			fourth += factor * factor * u * u
		}
		v += part
		squares += part * part / (n - 1)
		slots, free = slots+n, free+n-1
	}
	return degrees(v, squares, fourth, slots, free)
}

// resample draws the weights of a replicate, or those of the sample without a source of random numbers.
func (s Sample) resample(weights [][]float64, random *rng.Stream) {
	for h, stratum := range s {
		n := len(stratum.Drawn)
		of := weights[h]
		for i := range of {
			of[i] = stratum.weight()
		}
		if n < 2 || n == stratum.Slots || random == nil {
			continue
		}
		kept := math.Sqrt(1 - float64(n)/float64(stratum.Slots))
		for i := range of {
			of[i] *= 1 - kept
		}
		for range n - 1 {
			of[random.IntN(n)] += stratum.weight() * kept * float64(n) / float64(n-1)
		}
	}
}

// weighted is the quantile with a weight for each window. ok is false where no flow has a weight.
func (s Sample) weighted(p float64, weights [][]float64) (slowdown float64, ok bool) {
	flows := 0.0
	largest := int32(-1)
	for h, stratum := range s {
		for i, c := range stratum.Drawn {
			if c != nil {
				flows += weights[h][i] * float64(c.Flows())
				largest = max(largest, c.last())
			}
		}
	}
	if flows <= 0 {
		return 0, false
	}
	at := sort.Search(int(largest), func(cell int) bool {
		sum := 0.0
		for h, stratum := range s {
			for i, c := range stratum.Drawn {
				if c != nil {
					sum += weights[h][i] * float64(c.UpTo(int32(cell)))
				}
			}
		}
		return sum >= p*flows
	})
	return Slowdown(int32(at), 0.5), true
}
