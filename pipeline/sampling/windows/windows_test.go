package windows

import (
	"slices"
	"testing"
)

// Overlapping parts are merged, and none extends beyond the workload.
func TestParts(t *testing.T) {
	w := Selection{Spans: [][2]int64{{100, 200}, {215, 300}, {900, 990}}, WarmupNS: 10, CooldownNS: 10}
	got := w.Parts(95, 995)
	want := [][2]int64{{95, 310}, {890, 996}}
	if !slices.Equal(got, want) {
		t.Errorf("parts %v, want %v", got, want)
	}
}
