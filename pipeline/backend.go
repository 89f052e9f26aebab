package pipeline

import (
	"fmt"

	"parsimon/stages"
)

// findProgram finds out which program will run the link cases, if it is not the link kernel: another
// build's results are not taken for its own. Where all of them are there already, none is needed.
func (r *Run) findProgram(loads *stages.Loads, want func(int32) bool) error {
	if r.backend == stages.Kernel {
		return nil
	}
	var err error
	if r.program, err = r.ns3.Identity(); err == nil {
		return nil
	}
	if plan, _, incomplete := r.simulateStage().complete(r.lake); incomplete == nil {
		r.program = plan.Program
		return nil
	}
	for id, l := range loads.Links {
		if l.Flows > 0 && want(int32(id)) { // the first of many
			link := r.net.Links[id]
			return fmt.Errorf("stage simulate: link %d (%d → %d): %w", link.ID, link.Src, link.Dst, err)
		}
	}
	return fmt.Errorf("stage simulate: %w", err)
}

// programOf is the program that a stage's tables come of: the one that runs the link cases or, after
// them, the one that ran them. Others' have none.
func (r *Run) programOf(s stage) string {
	switch {
	case r.backend == stages.Kernel || s.place != r.variant() || s.name == "cluster":
		return ""
	case s.name == "simulate":
		return r.program
	}
	plan, _, _, err := r.simulateStage().records(r.lake)
	if err != nil {
		return "" // a stage that needs it says so
	}
	return plan.Program
}
