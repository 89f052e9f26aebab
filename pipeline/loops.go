package pipeline

import (
	"errors"
	"fmt"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// A ClosedLoopError refuses a workload whose flows wait for others.
type ClosedLoopError struct{ what string }

// Error says what cannot have the workload and why.
func (e *ClosedLoopError) Error() string {
	return e.what + " needs start times that are given, and flows of this workload wait for the delivery of others: " +
		"only the whole network finds their starts (--estimator exact)"
}

// Closed reports whether flows of the workload wait for others, or are compute steps.
func (g *GenerateStats) Closed() bool { return g.Dependencies > 0 || g.ComputeSteps > 0 }

// refuseClosed is a *ClosedLoopError if the workload is Closed.
func (g *GenerateStats) refuseClosed(what string) error {
	if g.Closed() {
		return &ClosedLoopError{what}
	}
	return nil
}

// RefuseClosed is a *ClosedLoopError if flows of the workload wait for others. Its flows are in the lake.
func (e *Estimation) RefuseClosed(what string) error {
	g, err := e.Generated()
	if err != nil {
		return err
	}
	return g.refuseClosed(what)
}

// checkLoops refuses estimators that cannot have the workload.
func (m *method) checkLoops(g *GenerateStats) error {
	if m.variant.Estimator == stages.WholeNetwork {
		if g.Closed() && m.Spec.AllowUnreachable {
			return errors.New("--allow-unreachable does not go with flows that wait for others: those would wait for ever")
		}
		return nil
	}
	return g.refuseClosed(fmt.Sprintf("estimator %s", m.variant.Estimator))
}

// dependencies sets what the simulation of a workload whose flows wait for others needs.
func (m *method) dependencies(t *engine.Attempt, in engine.Output, generate *engine.Stage, x Exact,
	o *stages.ExactOptions) error {
	r, err := engine.Complete(m.Lake, generate, methodVersion)
	if err != nil {
		return err
	}
	g, err := generateStats(r)
	if err != nil || !g.Closed() {
		return err
	}
	if x.Window != (Window{}) {
		return g.refuseClosed("a stretch of time")
	}
	o.Flows = g.Flows
	o.Dependencies = func() schema.Batches { return t.Read(in, []string{"flow_row", "after_row", "delay_ns"}, nil) }
	return nil
}

// setClosedSpan sets the time of a workload whose flows wait for others: what links are offered depends on what the
// network delivers, and flows start until the last one ends.
func setClosedSpan(in *engine.Inputs, generate, sample *engine.Stage, loads *stages.Loads) error {
	g, err := generateStats(in.Records(generate))
	if err != nil || !g.Closed() {
		return err
	}
	chunks, err := engine.Stats[stages.SampleStats](in.Records(sample))
	for _, c := range chunks {
		loads.LastStartNS = max(loads.LastStartNS, c.LastEndNS)
	}
	return err
}
