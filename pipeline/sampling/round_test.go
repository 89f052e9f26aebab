package sampling

import (
	"math"
	"testing"
)

// The slowdown of a flow that ends in its part is certain. If a flow outlasts its part, the time after the
// part is uncertain.
func TestBounds(t *testing.T) {
	r := &round{parts: [][2]int64{{0, 1000}, {5000, 6000}}, error: 0.25}
	least, most := r.bounds(&estimatedFlow{StartNS: 5100, FCTNS: 900, Slowdown: 1.5})
	if least != 1.5 || most != 1.5 {
		t.Errorf("a flow that ends with its part has %v to %v", least, most)
	}
	// Alone it takes 400 ns. It spends 800 ns in the part.
	least, most = r.bounds(&estimatedFlow{StartNS: 5200, FCTNS: 1000, Slowdown: 2.5})
	if math.Abs(least-(2+0.5/1.25)) > 1e-9 || math.Abs(most-(2+0.5*1.25)) > 1e-9 {
		t.Errorf("bounds %v to %v, want 2.4 to 2.625", least, most)
	}
}
