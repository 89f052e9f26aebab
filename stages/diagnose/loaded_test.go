package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
)

// Loaded links are read in one range if few hops of other links are between them. If a range left out a
// loaded link, flows would count as crossing fewer of them.
func TestRangesOfLoadedLinks(t *testing.T) {
	for _, c := range []struct {
		loaded string // by link: x, or the flows of a link that is not loaded, in tens of thousands
		files  int64
		want   []step.Range
	}{
		{"000", 1, nil},
		{"x", 1, []step.Range{{Lo: 0, Hi: 1}}},
		{"0xx0", 1, []step.Range{{Lo: 1, Hi: 3}}},
		{"x0x1x", 1, []step.Range{{Lo: 0, Hi: 3}, {Lo: 4, Hi: 5}}},
		{"x0x1x", 2, []step.Range{{Lo: 0, Hi: 5}}},
		{"3x11x", 3, []step.Range{{Lo: 1, Hi: 5}}},
		{"3x12x3", 3, []step.Range{{Lo: 1, Hi: 2}, {Lo: 4, Hi: 5}}},
	} {
		loads := &route.Loads{Links: make([]route.LinkLoad, len(c.loaded))}
		loaded := make([]bool, len(c.loaded))
		for id, x := range c.loaded {
			loaded[id] = x == 'x'
			if x != 'x' {
				loads.Links[id].Flows = int64(x-'0') * rowsPerOpening
			}
		}
		got := loadedRanges(loads, loaded, c.files)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s in %d files: %v, want %v", c.loaded, c.files, got, c.want)
		}
	}
}

// A flow counts once for each loaded link, although a stream may have more rows than those of its range. A
// flow that the workload does not have is an error.
func TestFlowsThatCrossTwoLoadedLinks(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	loads := &route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 100_000}
	for id, bytes := range []int64{75_000, 0, 75_000, 74_999, 0, 0, 75_000, 0} {
		loads.Links[id] = route.LinkLoad{Flows: rowsPerOpening, Bytes: bytes}
	}
	var rows []tables.Hop
	for _, h := range [][2]int64{{0, 1}, {0, 64}, {2, 1}, {3, 64}, {3, 70}, {6, 1}, {6, 64}, {6, 70}} {
		at := tables.FlowAtHop{LinkID: int32(h[0]), FlowRow: h[1]}
		rows = append(rows, tables.Hop{LocalHop: tables.LocalHop{FlowAtHop: at}})
	}
	var hops tables.Memory
	if err := tables.Hops.Write(&hops, rows); err != nil {
		t.Fatal(err)
	}
	var ranges []step.Range
	read := func(links step.Range) schema.Batches {
		ranges = append(ranges, links)
		return hops.Read()
	}
	twice, err := crossTwice(n, loads, 71, 1, read)
	if err != nil || len(ranges) != 3 {
		t.Fatalf("ranges %v, %v", ranges, err)
	}
	got := ""
	for row := range int64(200) {
		if twice.has(row) {
			got += fmt.Sprintf("%d ", row)
		}
	}
	if got != "1 64 " {
		t.Errorf("flows %s cross two loaded links", got)
	}
	if _, err := crossTwice(n, loads, 70, 1, read); err == nil ||
		!strings.Contains(err.Error(), "hops: link 6 has flow row 70, of 70 flows") {
		t.Errorf("error %v", err)
	}
}
