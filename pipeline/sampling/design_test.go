package sampling

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Every slot is in one stratum, later rounds keep the slots of earlier ones, and equal seeds give equal
// designs. Otherwise a more precise run could not reuse the windows of an earlier one.
func TestDesign(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	slots := make([]slot, 300)
	for i := range slots {
		slots[i] = slot{int64(i) * 100, int64(i)*100 + 100, 50, random.Int64N(1e6)}
	}
	d := newDesign(slots, 7, 0)
	again := newDesign(slots, 7, 0)
	drawn := d.First()
	seen := map[int]bool{}
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
	n := len(d.Drawn(drawn))
	if n != len(slots) {
		t.Fatalf("%d slots drawn in the end, want all %d", n, len(slots))
	}
}

// The load of a slot is averaged over the time before its end, in whole slots.
func TestLoads(t *testing.T) {
	slots := []slot{{0, 10, 1, 100}, {10, 20, 1, 300}, {20, 40, 1, 200}}
	for over, want := range map[int64][]float64{0: {10, 30, 10}, 25: {10, 20, 500.0 / 30}, 1000: {10, 20, 15}} {
		got := loads(slots, over)
		if !slices.Equal(got, want) {
			t.Errorf("loads over %d ns: %v, want %v", over, got, want)
		}
	}
}

// The first slots of a design with merged strata are among the first slots of the full design, and every slot
// is in one stratum. Otherwise the first round would not reuse the windows of the reduced one.
func TestMerged(t *testing.T) {
	var slots []slot
	for i := range int64(103) {
		slots = append(slots, slot{FromNS: i * 10, ToNS: (i + 1) * 10, Flows: 10, Bytes: 100 + i*i%17})
	}
	d := newDesign(slots, 1, 10)
	before := d.Drawn(d.First())
	for parts, want := range map[int]int{1: 32, 2: 16, 4: 8} {
		m := d.Merged(parts)
		first := m.Drawn(m.First())
		if len(first) != want || slices.ContainsFunc(
			first, func(n int) bool { return !slices.Contains(before, n) }) {
			t.Errorf("%d strata in one: first slots %v, of all %v", parts, first, before)
		}
		all := slices.Concat(m.Strata...)
		slices.Sort(all)
		if len(slices.Compact(all)) != len(slots) {
			t.Errorf("%d strata in one: %d slots, want %d", parts, len(all), len(slots))
		}
	}
}
