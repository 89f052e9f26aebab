package summary

import (
	"slices"
	"testing"
)

// The lines about warnings have a fixed order, and each names the largest warning of its cause. Otherwise the
// summaries of two runs would differ, or name a link that matters less.
func TestLinesOfCauses(t *testing.T) {
	measure := func(value float64) *float64 { return &value }
	causes := map[cause]*causeOf{}
	for _, remark := range []string{"b", "c", "a"} {
		of := &causeOf{}
		of.add(remark, nil, 0)
		causes[cause{"flows", remark}] = of
	}
	links := &causeOf{}
	links.add("no measure", nil, 1)
	links.add("small", measure(1), 5)
	links.add("large, link 9", measure(2), 9)
	links.add("large, link 3", measure(2), 3)
	links.add("large, link 4", measure(2), 4)
	links.add("no measure, link 0", nil, 0)
	causes[cause{"overload", ""}] = links
	unmeasured := &causeOf{}
	unmeasured.add("link 2", nil, 2)
	unmeasured.add("link 1", nil, 1)
	causes[cause{"buffers", ""}] = unmeasured
	got := causeLines(causes, "SQL")
	want := []string{"buffers: link 1 (the largest of 2; SQL lists them)", "flows: a", "flows: b", "flows: c",
		"overload: large, link 3 (the largest of 6; SQL lists them)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
