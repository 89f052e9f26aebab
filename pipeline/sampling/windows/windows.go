// Package windows simulates windows of time of a scenario. It cuts their flows out of the workload
// (WriteFlows), simulates each part of the time packet by packet, and follows flows that outlast a part in a
// fluid model of the links (Simulate). Package pipeline calls it from the plan of a scenario of windows.
//
//	    warm-up         span            cool-down
//	|──────────────|════════════════|──────────────|      time ─►
//	|─────| flows that began earlier and are still active begin here, with the bytes that they have left
//
// A span is a window. Flows that start in a span count. Flows of the warm-up and the cool-down are simulated
// for their effect on those that count. Overlapping stretches are merged into one part. Parts are
// independent: a flow that outlasts a part begins again in the next one.
package windows

import (
	"sort"

	"parsimon/pipeline/lake"
	"parsimon/stages/step"
)

// A Selection chooses windows of a scenario.
type Selection struct {
	Spans      [][2]int64 `json:"spans"` // in ns, ascending; the second time is excluded
	WarmupNS   int64      `json:"warmup_ns"`
	CooldownNS int64      `json:"cooldown_ns"`
	// LongestBytes is the size of the workload's largest flow. It determines how far before a part the flows are
	// read, in order to find those that are still active.
	LongestBytes int64 `json:"longest_bytes"`
	// SizeFactor multiplies the sizes of messages that no rule states (package traffic); 0: the windows have
	// the flows of the workload.
	SizeFactor float64 `json:"size_factor,omitempty"`
	// Burst is the number of messages that begin at a time, if no rule states their size; 0: as rules have it.
	Burst int64 `json:"burst,omitempty"`
}

// A Spec is the record of a scenario of windows that the lake keeps.
type Spec struct {
	Of          lake.ScenarioID `json:"of"`            // the scenario that the windows were drawn from
	Parts       [][2]int64      `json:"parts"`         // in ns: see Selection.Parts
	Spans       [][2]int64      `json:"spans"`         // see Selection
	LastStartNS int64           `json:"last_start_ns"` // the last start of a flow of Of
}

// A Scenario is a scenario of windows, ready to be simulated.
type Scenario struct {
	Model *step.Model
	Spec  *Spec
}

// Parts returns the simulated parts of the time, ascending and disjoint. They do not extend beyond the first
// and the last start of the workload.
func (s Selection) Parts(firstNS, lastNS int64) (all [][2]int64) {
	for _, span := range s.Spans {
		all = join(all, max(firstNS, span[0]-s.WarmupNS), min(lastNS+1, span[1]+s.CooldownNS))
	}
	return all
}

// join appends a range to ascending ranges. If it touches the last one, it extends that one.
func join(all [][2]int64, from, to int64) [][2]int64 {
	last := len(all) - 1
	if last >= 0 && from <= all[last][1] {
		all[last][1] = max(all[last][1], to)
		return all
	}
	return append(all, [2]int64{from, to})
}

// Counts reports whether a time is in a span.
func (s *Spec) Counts(ns int64) bool {
	i := sort.Search(len(s.Spans), func(i int) bool { return s.Spans[i][1] > ns })
	return i < len(s.Spans) && s.Spans[i][0] <= ns
}
