package stages

import (
	"testing"

	"parsimon/schema/sizebin"
)

// More passes are made where cases disagree about p50, p90 or p99 of all flows, or where a warning says that passes may
// remove it.
func TestMorePasses(t *testing.T) {
	row := func(bin string, quantile, by float64) []Interval {
		return []Interval{{SizeBin: bin, Flows: 9000, Quantile: quantile, Method: &MethodPart{Disagreement: by}}}
	}
	for _, c := range []struct {
		name      string
		intervals []Interval
		kind      string
		want      bool
	}{
		{"agree", row(sizebin.All, 0.99, -0.04), "overload", false},
		{"p99", row(sizebin.All, 0.99, -0.06), "", true},
		{"p99.9 varies by chance", row(sizebin.All, 0.999, 0.06), "", false},
		{"a bin", row("<10 KB", 0.99, 0.06), "", false},
		{"not known", []Interval{{SizeBin: sizebin.All, Flows: 9000, Quantile: 0.5}}, "", false},
		{"waits move", nil, unsettledKind, true},
		{"waits of the slowest move", nil, tailUnsettledKind, true},
		{"a warning about a bin", row("<10 KB", 0.99, 0.11), disagreementKind, true},
	} {
		var warnings []Weakness
		if c.kind != "" {
			warnings = []Weakness{{Kind: c.kind}}
		}
		p := NewPassesStats(c.intervals, warnings)
		if got := p.MorePasses(3); got != c.want {
			t.Errorf("%s: %t after three passes", c.name, got)
		}
		if got, want := p.MorePasses(2), c.want || c.kind != ""; got != want {
			t.Errorf("%s: %t after two passes, want %t", c.name, got, want)
		}
	}
}
