package sampling

import (
	"slices"
	"testing"
)

// Slots partition the flows, and flows that start together are in one slot. Otherwise flows would count twice
// or not at all.
func TestCutter(t *testing.T) {
	c := newCutter(3)
	starts := []int64{5, 5, 6, 6, 6, 9, 9, 9, 9, 9, 20}
	for _, ns := range starts {
		c.Add(ns, 10)
	}
	slots := c.Slots()
	want := []slot{{5, 9, 5, 50}, {9, 20, 5, 50}, {20, 21, 1, 10}}
	if !slices.Equal(slots, want) {
		t.Fatalf("slots %v, want %v", slots, want)
	}
}
