// Package windows simulates windows of time of a scenario: it cuts their flows out of the workload, simulates each part of
// the time packet by packet, and follows flows that outlast a part in a fluid model.
package windows

import (
	"sort"

	"parsimon/pipeline/lake"
	"parsimon/stages/step"
)

// A Selection is some windows: parts of a scenario's time that are estimated without the rest:
//
//	    warm-up         span            cool-down
//	|──────────────|════════════════|──────────────|      time ─►
//	|─────| flows that began earlier and are still active begin here, with the bytes that they have left
//
// Flows that start in a span count. Flows of the warm-up and the cool-down are simulated for their effect on those that
// count. Parts that overlap are one. Each part is simulated without the others: flows that outlast a part begin again
// in the next one.
type Selection struct {
	Spans      [][2]int64 `json:"spans"` // starts in ns, from and to (excluded), ascending
	WarmupNS   int64      `json:"warmup_ns"`
	CooldownNS int64      `json:"cooldown_ns"`
	// LongestBytes is the size of the workload's largest flow, which says how long before a window flows are looked
	// for that are still active.
	LongestBytes int64 `json:"longest_bytes"`
}

// A Spec marks the scenario of some windows of another one.
type Spec struct {
	Of          lake.ScenarioID `json:"of"`
	Parts       [][2]int64      `json:"parts"`         // of the time, in ns: see Selection.Parts
	Spans       [][2]int64      `json:"spans"`         // see Selection
	LastStartNS int64           `json:"last_start_ns"` // of a flow in Of
}

// A Scenario is a scenario of windows.
type Scenario struct {
	Model *step.Model
	Spec  *Spec
}

// Parts are the simulated parts of the time, ascending and apart, within the workload's starts.
func (s Selection) Parts(firstNS, lastNS int64) (all [][2]int64) {
	for _, span := range s.Spans {
		all = join(all, max(firstNS, span[0]-s.WarmupNS), min(lastNS+1, span[1]+s.CooldownNS))
	}
	return all
}

// join adds a range to ascending ones, as a part of the last where the two touch.
func join(all [][2]int64, from, to int64) [][2]int64 {
	if n := len(all) - 1; n >= 0 && from <= all[n][1] {
		all[n][1] = max(all[n][1], to)
		return all
	}
	return append(all, [2]int64{from, to})
}

// Counts reports whether flows that start at a time are in a span.
func (s *Spec) Counts(ns int64) bool {
	i := sort.Search(len(s.Spans), func(i int) bool { return s.Spans[i][1] > ns })
	return i < len(s.Spans) && s.Spans[i][0] <= ns
}
