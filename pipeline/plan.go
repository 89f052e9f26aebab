package pipeline

import (
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// plan is the list of stages of an estimate, in order.
func (m *method) plan() engine.Plan {
	switch {
	case m.variant.Warm != nil:
		return m.warmPlan()
	case m.variant.Estimator == stages.Flow:
		return m.flowPlan()
	case m.variant.Estimator == stages.WholeNetwork:
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
		m.cluster = m.clusterStage(m.variant)
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
		plan = append(plan, m.intervalsStage(generate, sample, contributions, []*engine.Stage{simulate}))
	}
	return plan
}

// flowPlan is waveform relaxation over the link cases: passes exchange observations until the hosts' uplinks are
// replayed with complete feedback.
func (m *method) flowPlan() engine.Plan {
	m.queues = nil
	generate := m.generateStage()
	plan := append(engine.Plan{generate}, m.flowRoutes(generate)...)
	// barrier: a link case needs all of its flows
	if m.variant.Cluster != nil {
		m.cluster = m.clusterStage(m.variant.pass(1)) // links are alike in all passes
		plan = append(plan, m.cluster)
	}
	var simulates []*engine.Stage
	var observed []engine.Output // after the last pass
	needed := m.relevanceOf(generate)
	uplinks := m.uplinkStage()
	nicWaits := m.uplinkFeedbackStage(generate, uplinks, needed)
	plan = append(plan, uplinks, nicWaits)
	given := nicWaits.Output(schema.UplinkFeedback) // to the next pass
	var sent []engine.Output                        // what the next feedback stage reads of the pass before
	for n := 1; n <= m.variant.Passes; n++ {
		var before *engine.Stage // whose observations stand for the links that have settled
		if n > 1 {
			before = simulates[n-2]
		}
		simulate := m.passStage(n, given, before, needed)
		if before != nil && n < m.variant.Passes && stages.RenewsNICWaits(n) {
			renewed := m.nicWaitStage(n, given, needed)
			plan = append(plan, renewed)
			observed = append([]engine.Output{renewed.Output(schema.UplinkObservations)}, observed...)
		}
		simulates = append(simulates, simulate)
		plan = append(plan, simulate)
		if before == nil && needed != nil { // uplinks whose cases are left out
			observed = []engine.Output{uplinks.Output(schema.UplinkObservations)}
		}
		observed = append([]engine.Output{simulate.Output(schema.HopObservations)}, observed...) // the newest first
		if m.cluster != nil {
			impute := m.imputeStage(n, simulate, before)
			plan = append(plan, impute)
			observed = append([]engine.Output{impute.Output(schema.ImputedObservations)}, observed...)
		}
		// barrier: a flow needs all of its hops
		if n < m.variant.Passes {
			feedback := m.feedbackStage(n, generate, observed, sent, simulate, needed)
			plan = append(plan, feedback)
			given = feedback.Output(schema.Feedback)
			if sent = observed; n > 1 {
				sent = []engine.Output{feedback.Output(schema.SentObservations)}
			}
		}
	}
	sender := m.senderFeedbackStage(generate, observed, needed.silent())
	replay := m.replayStage(sender, needed.silent())
	sample := m.sampleReplaysStage(generate, observed, replay)
	plan = append(plan, sender, replay, sample)
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(generate, sample, sample, simulates))
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
	exact := m.exactStage(generate, Exact{Workers: m.ExactWorkers})
	sample := m.sampleExactStage(generate, exact)
	plan := engine.Plan{generate, m.route, exact, sample}
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(generate, sample, sample, []*engine.Stage{exact}))
	}
	return plan
}

// generated is stage generate of a scenario, for reading what it wrote.
func generated(l *lake.Lake, id lake.ScenarioID) *engine.Stage {
	m := &method{Model: &Model{Lake: l, Spec: Spec{ScenarioID: id}}}
	return m.generateStage()
}
