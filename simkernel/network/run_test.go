package network

import "testing"

// A run that ends early simulates the steps that begin before its end. With one step more, flows would have
// finished after the end. The step that contains the end is simulated.
func TestStepsBeforeTheEnd(t *testing.T) {
	const stepPS = 4_000
	for _, c := range []struct{ endNS, fromPS, steps, want int64 }{
		{0, 0, 50, 50}, {0, 80_000, 1, 1},
		{40, 0, 50, 10}, {41, 0, 50, 11}, {44, 0, 50, 11}, {45, 0, 50, 12},
		{40, 36_000, 50, 1}, {40, 32_000, 50, 2}, {41, 40_000, 50, 1}, {40, 20_000, 5, 5}, {40, 20_000, 4, 4},
	} {
		n := &Network{EndNS: c.endNS, layout: layout{stepPS: stepPS}}
		got := n.stepsBeforeEnd(c.fromPS, c.steps)
		if got != c.want {
			t.Errorf("%+v: %d steps", c, got)
		}
	}
}
