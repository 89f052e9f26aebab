package route

import (
	"slices"
	"testing"
)

// The slowest links of a path matter if both the source and the target are faster.
func TestSlowestLinks(t *testing.T) {
	for _, c := range []struct {
		bps                  []int64 // by hop
		hop                  int
		upstream, downstream int64
		between              int32 // for Gbps: 8000 ps / bandwidth
	}{
		{[]int64{10}, 0, 0, 0, 0},
		{[]int64{10, 10}, 0, 0, 10, 0},
		{[]int64{40, 10, 40}, 0, 0, 10, 0},
		{[]int64{10, 40, 40, 10}, 0, 0, 10, 400},
		{[]int64{40, 10, 40, 40}, 1, 0, 0, 0},
		{[]int64{40, 10, 40, 40}, 2, 10, 0, 800}, // the link before
		{[]int64{40, 10, 40, 40}, 3, 10, 0, 1000},
		{[]int64{10, 40, 40, 10}, 1, 0, 10, 0},
		{[]int64{10, 40, 40, 10}, 2, 0, 10, 200},
		{[]int64{10, 40, 40, 10}, 3, 0, 0, 400},
		{[]int64{100, 25, 10, 40, 25, 100}, 3, 10, 25, 1120},
		{[]int64{100, 25, 10, 40, 25, 100}, 4, 10, 0, 1320},
	} {
		up, down := slowestLinks(c.bps, c.hop)
		if up != c.upstream || down != c.downstream {
			t.Errorf("%v, hop %d: %d and %d, want %d and %d", c.bps, c.hop, up, down, c.upstream, c.downstream)
		}
		bps := slices.Clone(c.bps)
		for h := range bps {
			bps[h] *= 1e9
		}
		got := betweenPS(bps, c.hop)
		if got != c.between {
			t.Errorf("%v, hop %d: %d ps between, want %d", c.bps, c.hop, got, c.between)
		}
	}
}
