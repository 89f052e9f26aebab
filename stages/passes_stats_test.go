package stages

import (
	"math"
	"testing"

	"parsimon/schema/sizebin"
	"parsimon/simkernel"
)

// More passes are made where cases disagree about p50, p90 or p99 of all flows, or where a warning says that passes may
// remove it.
func TestMorePasses(t *testing.T) {
	row := func(bin string, quantile, by float64) []Interval {
		return []Interval{{SizeBin: bin, Flows: 9000, Quantile: quantile, Method: &MethodPart{Disagreement: by}}}
	}
	for _, c := range []struct {
		name      string
		intervals []Interval
		kind      string
		want      bool
	}{
		{"agree", row(sizebin.All, 0.99, -0.04), "overload", false},
		{"p99", row(sizebin.All, 0.99, -0.06), "", true},
		{"p99.9 varies by chance", row(sizebin.All, 0.999, 0.06), "", false},
		{"a bin", row("<10 KB", 0.99, 0.06), "", false},
		{"not known", []Interval{{SizeBin: sizebin.All, Flows: 9000, Quantile: 0.5}}, "", false},
		{"waits move", nil, unsettledKind, true},
		{"waits of the slowest move", nil, tailUnsettledKind, true},
		{"a warning about a bin", row("<10 KB", 0.99, 0.11), disagreementKind, true},
	} {
		var warnings []Weakness
		if c.kind != "" {
			warnings = []Weakness{{Kind: c.kind}}
		}
		p := NewPassesStats(2, c.intervals, warnings, 0, nil)
		if got := p.MorePasses(3, simkernel.DCTCP); got != c.want {
			t.Errorf("%s: %t after three passes", c.name, got)
		}
		if p.MorePasses(7, simkernel.DCTCP) {
			t.Errorf("%s: more than seven passes although no percentile moved", c.name)
		}
		if got, want := p.MorePasses(2, simkernel.DCTCP), c.want || c.kind != ""; got != want {
			t.Errorf("%s: %t after two passes, want %t", c.name, got, want)
		}
	}
}

// Senders that react to delay or telemetry, or whose ACKs wait behind data, need five passes even if nothing speaks
// against the estimate.
func TestMorePassesOfTransports(t *testing.T) {
	var p PassesStats
	for transport, want := range map[simkernel.Transport]bool{simkernel.DCTCP: false, simkernel.DCQCN: true,
		simkernel.Swift: true, simkernel.TIMELY: true, simkernel.HPCC: true} {
		if got := p.MorePasses(2, transport); got != want {
			t.Errorf("%v: %t after two passes, want %t", transport, got, want)
		}
		if p.MorePasses(5, transport) {
			t.Errorf("%v: more than five passes", transport)
		}
	}
}

// Where much of the slowest flows' delay is at busy links, two passes are too few, and five are enough.
func TestMorePassesAtBusyLinks(t *testing.T) {
	for _, c := range []struct {
		busyTail float64
		want     bool
	}{{0.2, false}, {0.3, true}} {
		p := NewPassesStats(2, nil, nil, c.busyTail, nil)
		if got := p.MorePasses(2, simkernel.DCTCP); got != c.want {
			t.Errorf("%g of the delay: %t after two passes", c.busyTail, got)
		}
		if p.MorePasses(5, simkernel.DCTCP) {
			t.Errorf("%g of the delay: more than five passes", c.busyTail)
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

// A percentile that further passes moved is a warning, and calls for more: of all flows, and p99 of a size bin with
// enough flows.
func TestMovedPercentile(t *testing.T) {
	rows := func(all, bin, few float64) []Interval {
		m := &MethodPart{}
		return []Interval{
			{SizeBin: sizebin.All, Flows: 9000, Quantile: 0.5, Estimate: all, Method: m},
			{SizeBin: "<10 KB", Flows: 2000, Quantile: 0.99, Estimate: bin, Method: m},
			{SizeBin: ">1 MB", Flows: 900, Quantile: 0.99, Estimate: few, Method: m},
		}
	}
	earlier := NewPassesStats(2, rows(2, 5, 5), nil, 0, nil)
	for _, c := range []struct {
		name      string
		intervals []Interval
		want      float64
	}{
		{"settled", rows(2.09, 5, 9), 0},
		{"p50", rows(2.2, 5.1, 5), 0.1},
		{"a bin", rows(2, 4, 5), 0.2},
	} {
		found := MovedPercentile(5, c.intervals, &earlier)
		var measure float64
		if len(found) > 0 {
			measure = found[0].Measure
		}
		if math.Abs(measure-c.want) > 1e-9 || len(found) > 1 {
			t.Errorf("%s: %+v, want one of %g", c.name, found, c.want)
		}
		p := NewPassesStats(5, c.intervals, found, 0, &earlier)
		if more := c.want > 0; p.MorePasses(5, simkernel.DCTCP) != more || p.MorePasses(9, simkernel.DCTCP) != more || p.Compared != 2 {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
	if found := MovedPercentile(2, rows(9, 9, 9), nil); len(found) > 0 {
		t.Errorf("compared with nothing: %+v", found)
	}
}
