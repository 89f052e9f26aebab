package exact

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"parsimon/stages/methodtest"
	"parsimon/stages/slowdown"
	"parsimon/stages/topology/topologytest"
)

// Rows of hops may come in any order and more than once. A missing hop, and one that is not on the path, are
// errors.
func TestHopIndex(t *testing.T) {
	var x hopIndex
	begin := func() {
		x.begin(10, 3)
		for f, hops := range []int16{1, 0, 2} {
			x.reserve(f, hops)
		}
	}
	add := func(row int64, hop int16, link int32) error {
		return x.add(row, slowdown.Hop{Index: hop, Link: link, LastNS: 10 * int64(link)})
	}
	for range 2 {
		begin()
		if err := errors.Join(add(12, 1, 7), add(10, 0, 5), add(12, 0, 0), add(12, 0, 8)); err != nil {
			t.Fatal(err)
		}
		for f, want := range [][]int32{{5}, nil, {0, 7}} {
			hops, err := x.of(f)
			if err != nil || !slices.Equal(x.path, want) || len(hops) != len(want) {
				t.Errorf("flow %d has path %v, %v; want %v", f, x.path, err, want)
			}
			for h := range hops {
				if hops[h] != (slowdown.Hop{Index: int16(h), Link: want[h], LastNS: 10 * int64(want[h])}) {
					t.Errorf("flow %d, hop %d: %+v", f, h, hops[h])
				}
			}
		}
	}
	for row, hop := range map[int64]int16{10: 1, 11: 0, 12: -1} {
		begin()
		err := add(row, hop, 1)
		if err == nil || !strings.Contains(err.Error(), "which is not on its path") {
			t.Errorf("hop %d of row %d: %v", hop, row, err)
		}
	}
	begin()
	if err := add(12, 1, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := x.of(2); err == nil || err.Error() != "exact_hops has 1 of the 2 hops of flow row 12" {
		t.Errorf("a hop without a row: %v", err)
	}
}

// Ideal FCTs depend on the path, so the path of the flow before must not be used.
func TestPathsChange(t *testing.T) {
	a := newAlone(methodtest.DCTCP(t, topologytest.SmallNetwork(t)))
	for range 2 {
		// 1,000 ns of propagation on each link, and 838.4 ns for a packet
		for want, path := range map[int64][]int32{1839: {0}, 3677: {0, 7}} {
			got := a.idealNS(path, 1000)
			if got != want {
				t.Errorf("an ideal FCT of %d ns on %v", got, path)
			}
		}
	}
}
