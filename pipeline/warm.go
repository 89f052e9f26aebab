package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// A WarmStart says that an estimate by Flow starts from what another scenario's link cases observed, after as many
// passes as Variant.Passes, and simulates again only links that a change affects. The scenarios have the same flows.
type WarmStart struct {
	Base  lake.ScenarioID
	Steps int // sweeps over the affected links
}

// warmSteps is the number of sweeps of a warm estimate. The first simulates the links whose traffic or bandwidth
// changes by much; the second and third, given what these observed, the links of all flows with other paths, where they
// matter to others. Links that are loaded much more than before need all three (pipeline/whatif/README.md, "A warm
// start").
const warmSteps = 3

// WarmFrom is the variant of a scenario made from the base, whose estimate of this variant it starts from.
func (v Variant) WarmFrom(base lake.ScenarioID) (Variant, error) {
	switch {
	case v.Estimator != stages.Flow:
		return v, errors.New("a warm estimate is made by estimator flow")
	case v.Cluster != nil:
		return v, errors.New("a warm estimate needs the observations of every link: not with clustering")
	}
	v.Warm = &WarmStart{base, warmSteps}
	return v, nil
}

// warmBase is what a warm estimate reads of its base.
type warmBase struct {
	plan     engine.Plan
	route    *engine.Stage
	last     *engine.Stage // the last pass
	replay   *engine.Stage
	observed []engine.Output // of all passes, the newest first
	queues   []engine.Output // link_queues of all passes, likewise
}

// warmBaseOf returns the base's stages of a cold variant, for reading what they wrote. Its transport is that of m.
func (m *Model) warmBaseOf(base lake.ScenarioID, v Variant) warmBase {
	of := &method{Model: &Model{Lake: m.Lake, Spec: Spec{ScenarioID: base, Params: m.Spec.Params}}, variant: v}
	b := warmBase{plan: of.flowPlan()}
	b.route, b.queues = of.route, of.queues
	for _, s := range slices.Backward(b.plan) {
		if s.WritesTable(schema.HopObservations) {
			b.observed = append(b.observed, s.Output(schema.HopObservations))
		} else if s.WritesTable(schema.UplinkObservations) && s.Pass > 0 {
			b.observed = append(b.observed, s.Output(schema.UplinkObservations))
		}
	}
	b.last, b.replay = b.observed[0].Stage, b.plan.Writer(schema.SenderFCTs)
	return b
}

// reads are the temporary tables that a warm estimate reads.
func (b *warmBase) reads() []engine.Output { return slices.Concat(b.observed, b.queues) }

// warmPlan starts from the base's observations (see WarmStart).
//
//	observations of the base ─┬─► feedback ─► simulate: links with other flows, or of another bandwidth
//	                          ├─────► feedback ─► simulate: links of flows with other paths that matter to others
//	                          └─────────► sender-feedback ─► replay: hosts with flows on links whose waits changed
//	                                                                 └─► sample, with the base's replays of the others
//
// Feedback is not damped: the base's observations are near the fixed point, where what a hop sends and what its packets
// observe are the same.
func (m *method) warmPlan() engine.Plan {
	generate := m.generateStage()
	plan := append(engine.Plan{generate}, m.flowRoutes(generate)...)
	// barrier: a link case needs all of its flows
	base := m.warmBaseOf(m.variant.Warm.Base, m.variant.Cold())
	observed, simulates := base.observed, []*engine.Stage{base.last}
	m.queues = base.queues
	for n := 1; n <= m.variant.Warm.Steps; n++ {
		omitted := m.unaffected(n, base, simulates)
		feedback := m.warmFeedbackStage(n, generate, observed, omitted)
		simulate := m.warmPassStage(n, feedback, omitted)
		simulates = append(simulates, simulate)
		observed = append([]engine.Output{simulate.Output(schema.HopObservations)}, observed...)
		plan = append(plan, feedback, simulate)
	}
	// barrier: a flow needs all of its hops
	same := m.unaffectedHosts(base, simulates)
	sender := m.senderFeedbackStage(generate, observed, same)
	replay := m.replayStage(sender, same)
	sample := m.sampleReplaysStage(generate, observed, base.replay, replay)
	return append(plan, sender, replay, sample, m.intervalsStage(generate, sample, sample, simulates))
}

// warmFeedbackStage turns what is observed so far into the feedback of step n's links.
func (m *method) warmFeedbackStage(n int, generate *engine.Stage, observed []engine.Output,
	omitted omission) *engine.Stage {
	s := m.feedbackOf("feedback", m.variant.step(n), n, generate, observed)
	s.Pass, s.Writes = n, []schema.Table{schema.Feedback}
	s.Reads = append(append(s.Reads, m.routedPaths()...), omitted.reads...)
	build := m.feedbackWork(m.variant.Passes+n, omitted, nil, func(builder *stages.FeedbackBuilder) engine.Worker {
		return func(ctx context.Context, t *engine.Attempt) error {
			if err := m.prepare(builder, t, generate); err != nil {
				return err
			}
			defer t.Add(t.Cost)
			return builder.Build(ctx, stages.PassScope, t.Lo, t.Hi-t.Lo, readObserved(t, observed), nil,
				t.Sink(schema.Feedback), nil)
		}
	})
	s.Open = func(ctx context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		all, err := m.omitsAll(in, omitted)
		if err != nil {
			return nil, err
		}
		if !all {
			return build(ctx, in)
		}
		nothing := func(_ context.Context, t *engine.Attempt) error {
			t.Sink(schema.Feedback)
			t.Add(t.Cost)
			return nil
		}
		return func() (engine.Worker, error) { return nothing, nil }, nil
	}
	return s
}

// omitsAll reports whether no link with flows is left to simulate.
func (m *method) omitsAll(in *engine.Inputs, omitted omission) (bool, error) {
	kept, err := omitted.links(in)
	if err != nil {
		return false, err
	}
	loads, err := m.readLoads(in)
	if err != nil {
		return false, err
	}
	for id, l := range loads.Links {
		if _, is := kept[int32(id)]; l.Flows > 0 && !is {
			return false, nil
		}
	}
	return true, nil
}

// warmPassStage simulates the links of step n.
func (m *method) warmPassStage(n int, feedback *engine.Stage, omitted omission) *engine.Stage {
	s := m.caseStage("simulate", m.variant.step(n), feedback.Output(schema.Feedback), omitted, schema.HopObservations)
	m.writePass(s, n)
	s.Work = nil // tasks cost what they simulate
	// few links are not omitted
	s.Cut = func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
		loads, err := m.readLoads(in)
		if err != nil {
			return nil, err
		}
		kept, err := omitted.links(in)
		return m.cutLinks(loads, func(id int32) bool {
			_, is := kept[id]
			return !is
		}, minPartitions), err
	}
	return s
}

// routedPaths is what follow reads; nothing if every hop of the paths has observations.
func (m *method) routedPaths() []engine.Output {
	if m.variant.Warm == nil && m.only() == nil {
		return nil
	}
	return []engine.Output{m.route.Output(schema.Hops)}
}

// follow reads the paths of a task's flows: for a warm estimate, because the observations that it starts from may be of
// others; for one of a group, because cases that are left out have no observations.
func (m *method) follow(x interface{ Follow(*stages.Paths) }, t *engine.Attempt) error {
	if m.variant.Warm == nil && m.only() == nil {
		return nil
	}
	paths := &stages.Paths{}
	x.Follow(paths)
	return paths.Read(t.Lo, t.Hi-t.Lo, t.ReadChunk(m.route.Output(schema.Hops), stages.PathColumns()))
}

// warmWarning says that an estimate is warm.
func (m *method) warmWarning() []stages.Weakness {
	w := m.variant.Warm
	if w == nil {
		return nil
	}
	return []stages.Weakness{{Kind: "warm", Measure: -1, Link: -1, Warning: fmt.Sprintf(
		"a warm estimate: it starts from what the link cases of scenario %s observed in %d passes, and simulates only links "+
			"that the change affects by much; a run may give other percentiles", w.Base, m.variant.Passes)}}
}

// SupplyWarm makes the estimate of a base and brings back what warm estimates read of it, if that was removed. It stays
// in the lake until another run of the variant.
func (e *Estimation) SupplyWarm(ctx context.Context) error {
	base := e.warmBaseOf(e.ID(), e.variant)
	if err := e.exec.Supply(ctx, e.Plan(), base.reads()); err != nil {
		return e.forgetUnborn(err)
	}
	return e.Publish()
}
