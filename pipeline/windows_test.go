package pipeline

import (
	"math"
	"slices"
	"testing"
)

// Parts that overlap are one, and none reaches beyond the workload.
func TestParts(t *testing.T) {
	w := Windows{Spans: [][2]int64{{100, 200}, {215, 300}, {900, 990}}, WarmupNS: 10, CooldownNS: 10}
	if got, want := w.parts(95, 995), [][2]int64{{95, 310}, {890, 996}}; !slices.Equal(got, want) {
		t.Errorf("parts %v, want %v", got, want)
	}
}

// Two flows of one sender have half of its payload bandwidth each, until the shorter one ends. A flow begins with the
// step after its start.
func TestFluid(t *testing.T) {
	const bps, step = 8_000_000_000 * 1.048, float64(fluidStepNS) // a byte of payload per ns
	f := newFluid(map[int32]int64{1: bps, 2: bps, 3: bps})
	f.add(0, carried{id: 1, src: 1, dst: 2, remaining: 1e6})
	f.add(0, carried{id: 2, src: 1, dst: 3, remaining: 4e5})
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
	f := newFluid(map[int32]int64{1: bps, 2: bps / 4, 3: bps})
	f.add(0, carried{id: 1, src: 1, dst: 2, remaining: 1e6})
	f.add(0, carried{id: 2, src: 1, dst: 3, remaining: 1e6})
	f.advance(1_000_000 + fluidStepNS)
	if left := f.active[1].remaining; left < 2.5e5 || left > 3.2e5 { // three rounds give 11 of 12 parts of it
		t.Errorf("%v bytes are left, want about 250,000", left)
	}
}
