package linksim

import (
	"testing"

	"parsimon/stages/route"
	"parsimon/stages/step"
)

type rangeTask struct {
	step.Task
	links step.Range
}

func (t rangeTask) Range() step.Range { return t.links }

// A task reads the rows from its first wanted link with flows to the last. Without the first or the last one,
// a link would be simulated without its flows.
func TestSelectsFromFirstToLastWantedLink(t *testing.T) {
	loads := &route.Loads{Links: make([]route.LinkLoad, 8)}
	for id := range loads.Links {
		loads.Links[id].Flows = 1
	}
	loads.Links[4].Flows = 0
	s := &Simulator{}
	s.Loads = loads
	for _, example := range []struct {
		name   string
		wanted []int32
		lo, hi int64
	}{
		{"the first", []int32{2}, 2, 3},
		{"the last", []int32{5}, 5, 6},
		{"both", []int32{2, 5}, 2, 6},
		{"one between, one without flows", []int32{3, 4}, 3, 4},
	} {
		got := s.selects(rangeTask{links: step.Range{Lo: 2, Hi: 6}}, func(id int32) bool {
			for _, w := range example.wanted {
				if w == id {
					return true
				}
			}
			return false
		})
		if got.Column != "link_id" || got.Lo != example.lo || got.Hi != example.hi {
			t.Errorf("%s: %+v, want [%d, %d)", example.name, got, example.lo, example.hi)
		}
	}
	none := s.selects(rangeTask{links: step.Range{Lo: 2, Hi: 6}}, func(int32) bool { return false })
	if none.Lo != none.Hi {
		t.Errorf("none: %+v", none)
	}
}
