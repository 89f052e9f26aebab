package sampled

import (
	"math"
	"testing"

	"parsimon/pipeline/sampling"
)

// A flow that ends in its part is no cut. One that has sent half of its bytes in twice the time that it needs alone,
// and the rest alone, would take four times that time if it went on.
func TestSustain(t *testing.T) {
	r := &round{parts: [][2]int64{{0, 1000}, {5000, 6000}}}
	if _, ok := r.cutOf(&flow{StartNS: 5100, FCTNS: 900, Slowdown: 1.5}); ok {
		t.Error("a flow that ends with its part is cut")
	}
	c, ok := r.cutOf(&flow{StartNS: 5200, FCTNS: 1000, Slowdown: 2.5}) // alone: 400 ns; 800 ns in the part, then half of it
	if !ok || math.Abs(c.shared-2) > 1e-9 || math.Abs(c.done-0.5) > 1e-9 {
		t.Fatalf("cut %+v (%v), want 2 ideal FCTs for half of the bytes", c, ok)
	}
	c.slot, c.groups = 3, []Key{all}
	to := map[int]counts{3: {}}
	sustain([]cut{c}, to)
	to[3].seal()
	if got := to[3][all]; got.Flows() != 1 || got.UpTo(sampling.CellOf(4)) != 1 || got.UpTo(sampling.CellOf(3.99)) != 0 {
		t.Errorf("a sustained flow is counted as %+v, want a slowdown of 4", got)
	}
}
