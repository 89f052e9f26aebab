package pipeline

import (
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// plan is the list of stages of an estimate, in order.
func (m *method) plan() engine.Plan {
	switch m.variant.Estimator {
	case stages.Flow:
		return m.flowPlan()
	case stages.WholeNetwork:
		return m.exactPlan()
	}
	return m.independentPlan()
}

// independentPlan is the paper's method (§3): each link case runs once, and delays are drawn from each link's
// distribution, independently.
func (m *method) independentPlan() engine.Plan {
	plan := engine.Plan{m.generate, m.route}
	// barrier: a link case needs all of its flows
	if m.cluster != nil {
		plan = append(plan, m.cluster)
	}
	simulate := m.caseStage(m.variant, engine.Output{}, nil, schema.HopDelays)
	bucket := m.bucketStage(simulate)
	contributions := bucket
	plan = append(plan, simulate, bucket)
	if m.cluster != nil {
		contributions = m.drawStage(bucket)
		plan = append(plan, contributions)
	}
	// barrier: a flow needs all of its hops
	sample := m.sampleStage(contributions)
	plan = append(plan, sample)
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(sample, contributions, simulate))
	}
	return plan
}

// flowPlan is waveform relaxation over the link cases: two passes exchange observations, then the hosts' uplinks are
// replayed with complete feedback.
func (m *method) flowPlan() engine.Plan {
	// barrier: a link case needs all of its flows
	first := m.passStage(1, engine.Output{}, nil)
	plan := engine.Plan{m.generate, m.route, first}
	last := first
	observed := []engine.Output{first.Output(schema.HopObservations)}
	if m.variant.Passes > 1 {
		// barrier: a flow needs all of its hops
		feedback := m.feedbackStage(first)
		last = m.passStage(2, feedback.Output(schema.Feedback), first)
		plan = append(plan, feedback, last)
		observed = append([]engine.Output{last.Output(schema.HopObservations)}, observed...) // the newest first
	}
	// barrier: a flow needs all of its hops
	sender := m.senderFeedbackStage(observed)
	replay := m.replayStage(sender)
	sample := m.sampleReplaysStage(observed, replay)
	plan = append(plan, sender, replay, sample)
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(sample, sample, last))
	}
	return plan
}

// exactPlan simulates the whole network, without link cases.
func (m *method) exactPlan() engine.Plan {
	if m.Spec.Windows != nil {
		return engine.Plan{m.generate, m.exactWindowsStage()}
	}
	exact := m.exactStage()
	sample := m.sampleExactStage(exact)
	plan := engine.Plan{m.generate, m.route, exact, sample}
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(sample, sample, nil))
	}
	return plan
}

// generated is stage generate of a scenario, for reading what it wrote.
func generated(l *lake.Lake, id lake.ScenarioID) *engine.Stage {
	return newMethod(&Model{Lake: l, Spec: Spec{ScenarioID: id}}, Variant{}, Settings{}, nil).generate
}
