package pipeline

import (
	"math"
	"slices"
	"testing"

	"parsimon/simkernel"
)

// Flows that start together are in the network together. Otherwise, a burst would be predicted to take as
// long as the same flows one after another, which is a third of its time.
func TestBurstIsForecast(t *testing.T) {
	params := simkernel.DefaultParams()
	access := slices.Repeat([]float64{25e9}, 100)
	follow := func(betweenNS float64) *fluid {
		f := &fluid{params: &params, accessBps: access, roundTripNS: 10_000, atHost: make([]int, 100),
			busyUntilNS: math.Inf(-1), flowsOf: 20_000}
		for n := range int32(20_000) {
			f.add(n%100, (n*7+1)%100, 100_000, float64(n)*betweenNS)
		}
		return f
	}
	burst := follow(0)
	spread := follow(100_000)
	active := burst.meanActive()
	if active < 9_000 || active > 11_000 {
		t.Errorf("a burst of 20,000 flows: %.0f in the network on average, want half of them", active)
	}
	active = spread.meanActive()
	if active > 2 {
		t.Errorf("flows one after another: %.1f in the network", active)
	}
	const items = 20_000 * 100 * 4
	few := burst.windows(1_000, items)
	if few > 40_000 {
		t.Errorf("the burst has %.0f windows of 1 µs, but is over in 30 ms", few)
	}
	many := spread.windows(1_000, items)
	if many < 20_000*40*0.9 || many > items {
		t.Errorf("flows of 42 µs one after another have %.0f windows", many)
	}
}
