package step

// An Estimator is a method to compute the slowdowns of flows.
type Estimator struct {
	// Name is the name in --estimator and in the lake.
	Name string
	// Summary describes the estimator in one line of help.
	Summary string
	// Steps returns the steps after the flows, in order. The last step that writes table slowdowns has the
	// estimate.
	Steps func(m *Model, o Options, flows *Step) []*Step
	// Cost predicts the cost of the steps on a number of cores. See pipeline/PERFORMANCE.md for measured ones.
	Cost func(w *WorkloadSize, cores int) PredictedCost
	// Passes is the default number of passes, or 0 if the number cannot be chosen.
	Passes int
	// Clusters says whether the estimator can simulate one link of each cluster.
	Clusters bool
	// WholeNetwork says that the estimator has no link cases, so it models what these do not.
	WholeNetwork bool
}

// Plan returns the steps of an estimate after the flows. Each step comes after those whose tables it reads.
func (e *Estimator) Plan(m *Model, o Options, flows *Step) []*Step {
	if o.Passes == 0 {
		o.Passes = e.Passes
	}
	steps := e.Steps(m, o, flows)
	for _, s := range steps {
		if s.Owner == nil {
			s.Owner = &Owner{e.Name, o}
		}
	}
	return steps
}

// An Owner is the estimator that a step belongs to, with its options. An estimator may use steps of another
// one. These keep their owner, so both estimates share what they write.
type Owner struct {
	Estimator string
	Options   Options
}
