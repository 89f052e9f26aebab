package calendar

import (
	"testing"

	"parsimon/simkernel"
)

// slotAt agrees with a division at the first and the last ps of windows. With another slot, work would be
// done in the wrong window.
func TestSlotsAreExact(t *testing.T) {
	for _, lengthPS := range []int64{500, 1_000_003, 1<<20 - 1, 1 << 20, LongestPS - 1, LongestPS} {
		c := New(1, lengthPS)
		c.SetWindow((3*blockWindows + 5) * lengthPS)
		for w := range int64(blockWindows) {
			for _, at := range []int64{c.blockPS + w*lengthPS, c.blockPS + (w+1)*lengthPS - 1} {
				got := c.slotAt(at)
				if got != uint64(w) {
					t.Errorf("windows of %d ps: %d ps after the block begins slot is %d, not %d", lengthPS,
						at-c.blockPS, got, w)
				}
			}
		}
		for _, at := range []int64{c.blockPS + blockWindows*lengthPS, simkernel.HorizonPS} {
			got := c.slotAt(at)
			if got < blockWindows {
				t.Errorf("windows of %d ps: slot %d for a time in a later block", lengthPS, got)
			}
		}
	}
}
