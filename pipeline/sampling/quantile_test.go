package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/schema/daily"
)

// A sample of every slot has the interpolated percentile that the questions return, with an interval one cell
// wide. Without this, an answer from all windows would differ from that of the whole workload.
func TestCensus(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var values []float64
	sample := make(sample, 4)
	for h := range sample {
		sample[h].Slots = 5
		for range 5 {
			c := &histogram{}
			for range 200 {
				x := math.Exp(random.ExpFloat64())
				values = append(values, x)
				c.Add(cellOf(x))
			}
			c.Seal()
			sample[h].Drawn = append(sample[h].Drawn, c)
		}
	}
	slices.Sort(values)
	for _, p := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999} {
		e, ok := sample.Quantile(p, 0.95)
		at := p * float64(len(values)-1)
		low := values[int(at)]
		high := values[int(math.Ceil(at))]
		want := low + (at-math.Floor(at))*(high-low)
		off := math.Abs(e.Value/want-1) > float64(cells)/2
		wide := (e.Hi-e.Lo)/2/e.Value > float64(cells)
		if !ok || off || wide || e.Lo > want || e.Hi < want {
			t.Errorf("p%v: %v to %v, want %v", 100*p, e.Lo, e.Hi, want)
		}
	}
}

// Intervals cover the quantile of the whole workload about as often as their confidence states, after one to
// three rounds and after rounds that stop once the interval is narrow. The load of the workload follows a
// daily rhythm with a burst hour. There is a failure from 40% to 60% of the time, and all flows of some slots
// are slow together. Without this, users would trust intervals that are too narrow.
func TestCoverage(t *testing.T) {
	const slots, flows, seeds = 480, 150, 200
	random := rand.New(rand.NewPCG(5, 6))
	all := make([]slot, slots)
	counts := make([]*histogram, slots)
	whole := &histogram{}
	for i := range all {
		at := float64(i) / slots
		load := 0.4 + 0.2*math.Sin(2*math.Pi*at)
		if at > 0.6 && at < 0.64 {
			load = 0.8
		}
		bytes := int64(1e6 * load * math.Exp(0.3*random.NormFloat64()))
		all[i] = slot{int64(i) * 1e6, int64(i+1) * 1e6, flows, bytes}
		scale := load / (1 - load) * math.Exp(0.5*random.NormFloat64()) // of the whole slot
		if at > 0.4 && at < 0.6 {
			scale *= 2
		}
		counts[i] = &histogram{}
		for range flows {
			cell := cellOf(1 + scale*random.ExpFloat64())
			counts[i].Add(cell)
			whole.Add(cell)
		}
		counts[i].Seal()
	}
	whole.Seal()
	quantiles := []float64{0.5, 0.9, 0.99}
	if testing.Short() {
		quantiles = daily.Today(len(quantiles), quantiles...)
	}
	for _, p := range quantiles {
		truth, _ := sample{{Slots: 1, Drawn: []*histogram{whole}}}.Quantile(p, 0.95)
		for last, stop := range []string{"round 1", "round 2", "round 3", "±12%"} {
			covered := 0
			for seed := range seeds {
				d := newDesign(all, uint64(seed), 0)
				drawn := d.First()
				for round := 0; ; round++ {
					sample := make(sample, len(d.Strata))
					for h, s := range d.Strata {
						sample[h].Slots = len(s)
						for _, n := range s[:drawn[h]] {
							sample[h].Drawn = append(sample[h].Drawn, counts[n])
						}
					}
					e, _ := sample.Quantile(p, 0.95)
					narrow := (e.Hi-e.Lo)/2 <= 0.12*e.Value
					if last < 3 && round == last || last == 3 && narrow {
						if e.Lo <= truth.Value && truth.Value <= e.Hi {
							covered++
						}
						break
					}
					drawn = d.Next(drawn)
				}
			}
			t.Logf("p%v, %s: %.1f%%", 100*p, stop, 100*float64(covered)/seeds)
			// Three standard deviations of 200 repetitions at 95%.
			share := float64(covered) / seeds
			if share < 0.95-0.046 {
				t.Errorf("p%v, %s: %.1f%% of the intervals hold the truth", 100*p, stop, 100*share)
			}
		}
	}
}
