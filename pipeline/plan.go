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
	generate := m.generateStage()
	m.route = m.routeStage(generate)
	plan := engine.Plan{generate, m.route}
	// barrier: a link case needs all of its flows
	if m.variant.Cluster != nil {
		m.cluster = m.clusterStage()
		plan = append(plan, m.cluster)
	}
	simulate := m.simulateStage()
	bucket := m.bucketStage(simulate)
	contributions := bucket
	plan = append(plan, simulate, bucket)
	if m.cluster != nil {
		contributions = m.drawStage(bucket)
		plan = append(plan, contributions)
	}
	// barrier: a flow needs all of its hops
	sample := m.sampleStage(generate, simulate, contributions)
	plan = append(plan, sample)
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(generate, sample, contributions))
	}
	return plan
}

// flowPlan is waveform relaxation over the link cases: two passes exchange observations, then the hosts' uplinks are
// replayed with complete feedback.
func (m *method) flowPlan() engine.Plan {
	generate := m.generateStage()
	m.route = m.routeStage(generate)
	plan := engine.Plan{generate, m.route}
	// barrier: a link case needs all of its flows
	first := m.passStage(1, engine.Output{}, nil)
	plan = append(plan, first)
	observed := []engine.Output{first.Output(schema.HopObservations)}
	if m.variant.Passes > 1 {
		// barrier: a flow needs all of its hops
		feedback := m.feedbackStage(generate, first)
		second := m.passStage(2, feedback.Output(schema.Feedback), first)
		plan = append(plan, feedback, second)
		observed = append([]engine.Output{second.Output(schema.HopObservations)}, observed...) // the newest first
	}
	// barrier: a flow needs all of its hops
	sender := m.senderFeedbackStage(generate, observed)
	replay := m.replayStage(sender)
	sample := m.sampleReplaysStage(generate, observed, replay)
	plan = append(plan, sender, replay, sample)
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(generate, sample, sample))
	}
	return plan
}

// exactPlan simulates the whole network, without link cases.
func (m *method) exactPlan() engine.Plan {
	generate := m.generateStage()
	if m.Spec.Windows != nil {
		return engine.Plan{generate, m.exactWindowsStage(generate)}
	}
	m.route = m.routeStage(generate)
	exact := m.exactStage(generate, Exact{})
	sample := m.sampleExactStage(generate, exact)
	plan := engine.Plan{generate, m.route, exact, sample}
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(generate, sample, sample))
	}
	return plan
}

// generated is stage generate of a scenario, for reading what it wrote.
func generated(l *lake.Lake, id lake.ScenarioID) *engine.Stage {
	m := &method{Model: &Model{Lake: l, Spec: Spec{ScenarioID: id}}}
	return m.generateStage()
}
