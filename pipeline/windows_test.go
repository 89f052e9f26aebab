package pipeline

import (
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

// Two flows of one sender have half of its bandwidth each, until the shorter one ends.
func TestFluid(t *testing.T) {
	const bps = 8_000_000_000 // a byte per ns
	f := newFluid(map[int32]int64{1: bps, 2: bps, 3: bps})
	f.add(0, carried{id: 1, src: 1, dst: 2, remaining: 1e6})
	f.add(0, carried{id: 2, src: 1, dst: 3, remaining: 4e5})
	for _, step := range []struct {
		ns     int64
		active int
		left   float64 // of flow 1
	}{{400_000, 2, 8e5}, {800_000, 1, 6e5}, {1_400_000, 0, 0}} {
		f.advance(step.ns)
		if len(f.active) != step.active || step.active > 0 && f.active[0].remaining != step.left {
			t.Errorf("at %d ns: %d flows, %+v", step.ns, len(f.active), f.active)
		}
	}
}
