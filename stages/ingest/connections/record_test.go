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

// Sums of squares need 128 bits. A lost carry would change the estimated number of exporters by orders of
// magnitude.
func TestArithmeticOf128Bits(t *testing.T) {
	const top = uint64(1) << 63
	for name, c := range map[string][2]uint128{
		"square":                  {square(1 << 32), {1, 0}},
		"sum with a carry":        {uint128{1, top}.plus(uint128{2, top}), {4, 0}},
		"difference with a carry": {uint128{4, 0}.minus(uint128{2, top}), {1, top}},
		"product":                 {uint128{1, top}.times(3), {4, top}},
		"quotient":                {uint128{5, 6}.over(2), {2, top + 3}},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %v, want %v", name, c[0], c[1])
		}
	}
	f := uint128{3, top}.float()
	if f != 3.5*0x1p64 {
		t.Errorf("3.5·2^64 as a float is %g", f)
	}
	order := []uint128{{0, 0}, {0, 9}, {1, 3}, {1, 4}, {2, 0}}
	for i := range order {
		for j := range order {
			if order[i].less(order[j]) != (i < j) {
				t.Errorf("%v is less than %v: %v", order[i], order[j], i >= j)
			}
		}
	}
}

// Texts have one number each, also the empty one, which may be the first.
func TestNumbersOfTexts(t *testing.T) {
	n := newTexts()
	for i, text := range []string{"", "", "b", "a", "b", ""} {
		got := n.number(text)
		want := []int32{0, 0, 1, 2, 1, 0}[i]
		if got != want {
			t.Errorf("text %d, %q: number %d, want %d", i, text, got, want)
		}
	}
	for _, pair := range [][2]int32{{1, 2}, {2, 1}} {
		got := n.maxText(pair[0], pair[1])
		if got != 1 {
			t.Errorf("the larger text of %v is %d, want 1, which is b", pair, got)
		}
	}
}
