package step

// An Estimator is one way to find the slowdowns of flows.
type Estimator struct {
	// Name is the name in --estimator and in the lake.
	Name string
	// Summary describes it in one line of help.
	Summary string
	// Steps are the steps after the flows, in order. The last step that writes table slowdowns has the estimate.
	Steps func(m *Model, o Options, flows *Step) []*Step
	// Passes is the number of passes that it makes by default; 0: it has no option for them.
	Passes int
	// Clusters says whether it simulates one link of each cluster, if asked.
	Clusters bool
	// WholeNetwork says that it has no link cases: what they do not model, it does.
	WholeNetwork bool
}

// Plan returns the steps of an estimate after the flows, in order: each comes after those whose tables it reads.
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

// An Owner is the estimator whose step this is, with its options. An estimator may use the steps of another one: they
// stay with that, so both estimates share what they write.
type Owner struct {
	Estimator string
	Options   Options
}
