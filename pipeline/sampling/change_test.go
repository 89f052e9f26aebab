package sampling

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// sides returns two estimates of a workload of 480 slots. On the other side, flows are delayed 1.1 times as
// much, and 1.5 times as much in every fifth slot. Both sides have the same daily rhythm and the same effects
// of slots.
func sides(random *rand.Rand) (slots []slot, base, other []*histogram) {
	const n, flows = 480, 150
	for i := range n {
		load := 0.4 + 0.2*math.Sin(2*math.Pi*float64(i)/n)
		scale := load / (1 - load) * math.Exp(0.5*random.NormFloat64())
		bytes := int64(1e6 * load * math.Exp(0.3*random.NormFloat64()))
		slots = append(slots, slot{int64(i) * 1e6, int64(i+1) * 1e6, flows, bytes})
		worse := 1.1
		if i%5 == 0 {
			worse = 1.5
		}
		a := &histogram{}
		b := &histogram{}
		for range flows {
			x := scale * random.ExpFloat64()
			a.Add(cellOf(1 + x))
			b.Add(cellOf(1 + worse*x))
		}
		a.Seal()
		b.Seal()
		base = append(base, a)
		other = append(other, b)
	}
	return slots, base, other
}

func sampleOf(d *design, drawn []int, counts []*histogram) sample {
	sample := make(sample, len(d.Strata))
	for h, s := range d.Strata {
		sample[h].Slots = len(s)
		for _, n := range s[:drawn[h]] {
			sample[h].Drawn = append(sample[h].Drawn, counts[n])
		}
	}
	return sample
}

// Intervals of a change from common windows cover the change of the whole workload about as often as their
// confidence states, and are at most half as wide as with separate windows. Otherwise common windows would
// gain nothing.
func TestCompareCoverage(t *testing.T) {
	seeds := 20
	if os.Getenv("PARSIMON_LONG") != "" { // make sampling-test
		seeds = 200
	}
	slots, base, other := sides(rand.New(rand.NewPCG(7, 8)))
	every := newDesign(slots, 1, 0)
	all := make([]int, len(every.Strata))
	for h, s := range every.Strata {
		all[h] = len(s)
	}
	for _, p := range []float64{0.5, 0.9, 0.99} {
		truth, _ := compareSamples(sampleOf(every, all, base), sampleOf(every, all, other), p, 0.95)
		if truth.Lo != truth.Change || truth.Hi != truth.Change {
			t.Errorf("p%v: the interval of all windows is %v to %v around %v", 100*p, truth.Lo, truth.Hi, truth.Change)
		}
		covered := 0
		common := 0.0
		separate := 0.0
		for seed := range seeds {
			d := newDesign(slots, uint64(seed), 0)
			drawn := d.Next(d.First())
			c, ok := compareSamples(sampleOf(d, drawn, base), sampleOf(d, drawn, other), p, 0.95)
			if ok && c.Lo <= truth.Change && truth.Change <= c.Hi {
				covered++
			}
			common += (c.Hi - c.Lo) / 2 / float64(seeds)
			a, _ := sampleOf(d, drawn, base).Quantile(p, 0.95)
			b, _ := sampleOf(d, drawn, other).Quantile(p, 0.95)
			separate += math.Hypot((a.Hi-a.Lo)/a.Value, (b.Hi-b.Lo)/b.Value) / 2 / float64(seeds)
		}
		t.Logf("p%v: %+.1f%%, %.1f%% of the intervals hold it; ±%.2f%%, with separate windows ±%.2f%%", 100*p,
			100*truth.Change, 100*float64(covered)/float64(seeds), 100*common, 100*separate)
		if covered < seeds*17/20 {
			t.Errorf("p%v: %d of %d intervals hold the change", 100*p, covered, seeds)
		}
		if common > separate/2 {
			t.Errorf("p%v: ±%.2f%% with common windows, ±%.2f%% without", 100*p, 100*common, 100*separate)
		}
	}
}
