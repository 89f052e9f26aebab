package windows

import (
	"math"
	"testing"

	"parsimon/stages/workload"
)

// star is a fluid of hosts with two links each, out and in, at one switch.
func star(bps map[int32]int64) *fluid {
	const goodput = 1000.0 / 1048
	f := &fluid{links: make([]fluidLink, 2*len(bps)+2), stepNS: fluidStepNS, ackShare: 60.0 / 1048}
	for host, bps := range bps {
		capacity := goodput * float64(bps) * float64(fluidStepNS) / 8e9
		f.links[2*host].capacity, f.links[2*host+1].capacity = capacity, capacity
	}
	f.path = func(r *workload.Row) []int32 { return []int32{2 * r.Src, 2*r.Dst + 1} }
	return f
}

// Two flows of one sender have half of its payload bandwidth each, until the shorter one ends. A flow begins
// with the step after its start.
func TestFluid(t *testing.T) {
	const bps, step = 8_000_000_000 * 1.048, float64(fluidStepNS) // a byte of payload per ns
	f := star(map[int32]int64{1: bps, 2: bps, 3: bps})
	f.add(0, carried{Row: workload.Row{ID: 1, Src: 1, Dst: 2}, remaining: 1e6})
	f.add(0, carried{Row: workload.Row{ID: 2, Src: 1, Dst: 3}, remaining: 4e5})
	for _, at := range []struct {
		ns     int64
		active int
		left   float64 // of flow 1
	}{{400_000, 2, 8e5 + step/2}, {800_000 + fluidStepNS, 1, 6e5}, {1_400_000 + fluidStepNS, 0, 0}} {
		f.advance(at.ns)
		if len(f.active) != at.active || at.active > 0 && math.Abs(f.active[0].remaining-at.left) > 1 {
			t.Errorf("at %d ns: %d flows, %+v", at.ns, len(f.active), f.active)
		}
	}
}

// A flow that can use a quarter of its sender's bandwidth leaves the rest to another one.
func TestFluidDivides(t *testing.T) {
	const bps = 8_000_000_000 * 1.048
	f := star(map[int32]int64{1: bps, 2: bps / 4, 3: bps})
	f.add(0, carried{Row: workload.Row{ID: 1, Src: 1, Dst: 2}, remaining: 1e6})
	f.add(0, carried{Row: workload.Row{ID: 2, Src: 1, Dst: 3}, remaining: 1e6})
	f.advance(1_000_000 + fluidStepNS)
	left := f.active[1].remaining
	if left < 2.5e5 || left > 3.2e5 { // three rounds give 11 of 12 parts of it
		t.Errorf("%v bytes are left, want about 250,000", left)
	}
}

// A host that receives at full rate sends less, by the bandwidth of the ACKs.
func TestFluidACKs(t *testing.T) {
	const bps = 8_000_000_000 * 1.048 // a byte of payload per ns
	f := star(map[int32]int64{1: bps, 2: bps, 3: bps})
	f.add(0, carried{Row: workload.Row{ID: 1, Src: 1, Dst: 2}, remaining: 1e7})
	f.add(0, carried{Row: workload.Row{ID: 2, Src: 3, Dst: 1}, remaining: 1e7})
	f.advance(1_000_000)
	want := 1e7 - 1e6*(1-f.ackShare)
	left := f.active[0].remaining
	if math.Abs(left-want) > 2*float64(fluidStepNS) {
		t.Errorf("%v bytes are left, want about %v", left, want)
	}
}

// A flow sends nothing before its start, also if it starts in a long step that ends early.
func TestFlowsInAShortenedStep(t *testing.T) {
	f := star(map[int32]int64{0: 8_000_000_000 * 1.048, 1: 8_000_000_000 * 1.048}) // a byte of payload per ns
	f.pace(0, farSteps*fluidStepNS)
	row := workload.Row{Src: 0, Dst: 1, SizeBytes: 300_000, StartNS: 190_000}
	f.add(190_000, carried{Row: row, remaining: 300_000})
	f.pace(195_000, fluidStepNS)
	f.advance(220_000)
	f.each(func(c *carried) {
		sent := 300_000 - c.remaining
		if sent < 10_000 || sent > 30_000 {
			t.Errorf("%.0f bytes sent in 30 µs", sent)
		}
	})
}
