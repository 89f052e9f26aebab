package stages

import (
	"math"
	"testing"

	"parsimon/schema/sizebin"
	"parsimon/simkernel"
)

// Two passes do not suffice where there is a warning, where cases disagree about p50, p90 or p99 of all flows, or where
// much of the slowest flows' delay is at busy links.
func TestTwoPassesDoNotSuffice(t *testing.T) {
	row := func(bin string, quantile, by float64) []Interval {
		return []Interval{{SizeBin: bin, Flows: 9000, Quantile: quantile, Method: &MethodPart{Disagreement: by}}}
	}
	for _, c := range []struct {
		name      string
		intervals []Interval
		kind      string
		busyTail  float64
		want      bool
	}{
		{"agree", row(sizebin.All, 0.99, -0.04), "", 0.2, false},
		{"p99", row(sizebin.All, 0.99, -0.06), "", 0, true},
		{"p99.9 varies by chance", row(sizebin.All, 0.999, 0.06), "", 0, false},
		{"a bin", row("<10 KB", 0.99, 0.06), "", 0, false},
		{"not known", []Interval{{SizeBin: sizebin.All, Flows: 9000, Quantile: 0.5}}, "", 0, false},
		{"a warning", nil, unsettledKind, 0, true},
		{"busy links", nil, "", 0.3, true},
	} {
		var warnings []Weakness
		if c.kind != "" {
			warnings = []Weakness{{Kind: c.kind}}
		}
		if got := NewPassesStats(c.intervals, warnings, c.busyTail).Insufficient; got != c.want {
			t.Errorf("%s: insufficient is %t", c.name, got)
		}
	}
	for _, transport := range []simkernel.Transport{simkernel.DCQCN, simkernel.Swift, simkernel.TIMELY, simkernel.HPCC} {
		if TwoPassesSuffice(transport) {
			t.Errorf("two passes suffice for %v", transport)
		}
	}
}

// BusyTail is a part of the delay of the slowest flows, by the offered load of its links.
func TestBusyTail(t *testing.T) {
	w := &WeaknessFinder{slowestNS: 100, slowestNSOfLink: []float64{40, 35, 25},
		links: &linkTraffic{offered: []float64{0.79, 0.8, 1.2}}}
	if got := w.BusyTail(); math.Abs(got-0.6) > 1e-12 {
		t.Errorf("%g, want 0.6", got)
	}
	if got := (&WeaknessFinder{links: &linkTraffic{}}).BusyTail(); got != 0 {
		t.Errorf("%g without delays", got)
	}
}
