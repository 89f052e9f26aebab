package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Slots partition the flows, and flows of one start are not separated.
func TestCutter(t *testing.T) {
	c := NewCutter(3)
	starts := []int64{5, 5, 6, 6, 6, 9, 9, 9, 9, 9, 20}
	for _, ns := range starts {
		c.Add(ns, 10)
	}
	slots := c.Slots()
	want := []Slot{{5, 9, 5, 50}, {9, 20, 5, 50}, {20, 21, 1, 10}}
	if !slices.Equal(slots, want) {
		t.Fatalf("slots %v, want %v", slots, want)
	}
}

// Every slot is in one stratum, later rounds keep the slots of earlier ones, and a seed gives one design.
func TestDesign(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	slots := make([]Slot, 300)
	for i := range slots {
		slots[i] = Slot{int64(i) * 100, int64(i)*100 + 100, 50, random.Int64N(1e6)}
	}
	d, again := NewDesign(slots, 7, 0), NewDesign(slots, 7, 0)
	drawn, seen := d.First(), map[int]bool{}
	for h, s := range d.Strata {
		if !slices.Equal(s, again.Strata[h]) {
			t.Fatal("the same seed gives two designs")
		}
		for _, n := range s {
			seen[n] = true
		}
	}
	if len(seen) != len(slots) {
		t.Fatalf("%d of %d slots are in strata", len(seen), len(slots))
	}
	for range 20 {
		next := d.Next(drawn)
		for h := range next {
			if next[h] < drawn[h] || next[h] > len(d.Strata[h]) {
				t.Fatalf("stratum %d of %d slots: %d drawn after %d", h, len(d.Strata[h]), next[h], drawn[h])
			}
		}
		drawn = next
	}
	if n := len(d.Drawn(drawn)); n != len(slots) {
		t.Fatalf("%d slots drawn in the end, want all %d", n, len(slots))
	}
}

// A slot's load is that of the last while.
func TestLoads(t *testing.T) {
	slots := []Slot{{0, 10, 1, 100}, {10, 20, 1, 300}, {20, 40, 1, 200}}
	for over, want := range map[int64][]float64{0: {10, 30, 10}, 25: {10, 20, 500.0 / 30}, 1000: {10, 20, 15}} {
		if got := loads(slots, over); !slices.Equal(got, want) {
			t.Errorf("loads over %d ns: %v, want %v", over, got, want)
		}
	}
}

// A sample of everything gives what the questions give, interpolated, and no interval around it.
func TestCensus(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var values []float64
	sample := make(Sample, 4)
	for h := range sample {
		sample[h].Slots = 5
		for range 5 {
			c := &Counts{}
			for range 200 {
				x := math.Exp(random.ExpFloat64())
				values = append(values, x)
				c.Add(CellOf(x))
			}
			c.Seal()
			sample[h].Drawn = append(sample[h].Drawn, c)
		}
	}
	slices.Sort(values)
	for _, p := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999} {
		e, ok := sample.Quantile(p, 0.95)
		at := p * float64(len(values)-1)
		low, high := values[int(at)], values[int(math.Ceil(at))]
		want := low + (at-math.Floor(at))*(high-low)
		if !ok || math.Abs(e.Value/want-1) > float64(cells)/2 || e.Lo > want || e.Hi < want || (e.Hi-e.Lo)/2/e.Value > float64(cells) {
			t.Errorf("p%v: %v to %v, want %v", 100*p, e.Lo, e.Hi, want)
		}
	}
}

// The intervals hold the quantiles of the whole about as often as they say, for a workload whose load follows a daily
// rhythm with a burst hour, a failure from 40% to 60% of the time, and slots in which all flows are slow together: after
// so many rounds, and when rounds end because the interval is narrow.
func TestCoverage(t *testing.T) {
	const slots, flows, seeds = 480, 150, 200
	random := rand.New(rand.NewPCG(5, 6))
	all := make([]Slot, slots)
	counts := make([]*Counts, slots)
	whole := &Counts{}
	for i := range all {
		at := float64(i) / slots
		load := 0.4 + 0.2*math.Sin(2*math.Pi*at)
		if at > 0.6 && at < 0.64 {
			load = 0.8
		}
		all[i] = Slot{int64(i) * 1e6, int64(i+1) * 1e6, flows, int64(1e6 * load * math.Exp(0.3*random.NormFloat64()))}
		scale := load / (1 - load) * math.Exp(0.5*random.NormFloat64()) // of the whole slot
		if at > 0.4 && at < 0.6 {
			scale *= 2
		}
		counts[i] = &Counts{}
		for range flows {
			cell := CellOf(1 + scale*random.ExpFloat64())
			counts[i].Add(cell)
			whole.Add(cell)
		}
		counts[i].Seal()
	}
	whole.Seal()
	for _, p := range []float64{0.5, 0.9, 0.99} {
		truth, _ := Sample{{Slots: 1, Drawn: []*Counts{whole}}}.Quantile(p, 0.95)
		for last, stop := range []string{"round 1", "round 2", "round 3", "±12%"} {
			covered := 0
			for seed := range seeds {
				d := NewDesign(all, uint64(seed), 0)
				drawn := d.First()
				for round := 0; ; round++ {
					sample := make(Sample, len(d.Strata))
					for h, s := range d.Strata {
						sample[h].Slots = len(s)
						for _, n := range s[:drawn[h]] {
							sample[h].Drawn = append(sample[h].Drawn, counts[n])
						}
					}
					e, _ := sample.Quantile(p, 0.95)
					if narrow := (e.Hi-e.Lo)/2 <= 0.12*e.Value; last < 3 && round == last || last == 3 && narrow {
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
			if share := float64(covered) / seeds; share < 0.95-0.046 {
				t.Errorf("p%v, %s: %.1f%% of the intervals hold the truth", 100*p, stop, 100*share)
			}
		}
	}
}

// The first slots of a design with merged strata are among those of the design with fewer merged, and every slot is in
// one stratum.
func TestMerged(t *testing.T) {
	var slots []Slot
	for i := range int64(103) {
		slots = append(slots, Slot{FromNS: i * 10, ToNS: (i + 1) * 10, Flows: 10, Bytes: 100 + i*i%17})
	}
	d := NewDesign(slots, 1, 10)
	before := d.Drawn(d.First())
	for parts, want := range map[int]int{1: 32, 2: 16, 4: 8} {
		m := d.Merged(parts)
		first := m.Drawn(m.First())
		if len(first) != want || slices.ContainsFunc(first, func(n int) bool { return !slices.Contains(before, n) }) {
			t.Errorf("%d strata in one: first slots %v, of all %v", parts, first, before)
		}
		all := slices.Concat(m.Strata...)
		slices.Sort(all)
		if len(slices.Compact(all)) != len(slots) {
			t.Errorf("%d strata in one: %d slots, want %d", parts, len(all), len(slots))
		}
	}
}
