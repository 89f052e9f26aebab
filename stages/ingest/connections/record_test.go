package connections

import (
	"math"
	"testing"
)

// Records of a lake that are outside the limits are refused, because a file that was changed could make sums
// overflow. Those at the limits are accepted.
func TestLimitsOfRecords(t *testing.T) {
	const last = int64(1) << 62 // the last time
	for i, c := range []struct {
		set         func(r *record, v int64)
		least, most int64
	}{
		{func(r *record, v int64) { r.startNS = v }, 0, 50},
		{func(r *record, v int64) { r.endNS = v }, 5, last},
		{func(r *record, v int64) {
			r.startNS = v
			r.endNS = last
		}, 0, last},
		{func(r *record, v int64) { r.bytes = v }, 0, 1 << 50},
		{func(r *record, v int64) { r.resolutionNS = v }, 0, 86_400_000_000_000},
		{func(r *record, v int64) { r.packets = v }, noValue, 1 << 50},
		{func(r *record, v int64) { r.samples = v }, noValue, math.MaxInt64 - 1},
	} {
		for v, want := range map[int64]bool{c.least: true, c.most: true, c.least - 1: false, c.most + 1: false} {
			r := record{startNS: 5, endNS: 50, bytes: 1, packets: 1}
			c.set(&r, v)
			err := r.check()
			if (err == nil) != want && v != math.MaxInt64 {
				t.Errorf("column %d: a value of %d: %v", i, v, err)
			}
		}
	}
}
