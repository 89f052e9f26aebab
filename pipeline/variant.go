package pipeline

import (
	"fmt"
	"strconv"
	"strings"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// Passes of estimator flow.
const (
	// DefaultPasses is used where the number must be known beforehand: sweeps, estimates from windows, single stages,
	// Beam. parsimon run uses AutoPasses.
	DefaultPasses = 3
	// AutoPasses makes as many passes as the estimate asks for: autoPasses.
	AutoPasses = -1
	// MaxPasses is the most that can be asked for.
	MaxPasses = 99
)

// methodVersion changes whenever the same scenario would get other numbers than before. Results of another version do
// not count.
const methodVersion = 19

// A Variant says how an estimate is made: everything but the scenario that its rows depend on.
type Variant struct {
	Estimator stages.Estimator
	Passes    int             // of estimator flow; AutoPasses until the number is known
	Ablation  stages.Ablation // parts of estimator flow that are left out
	Cluster   *stages.Clustering
	Backend   stages.Backend // what simulates the link cases
	Warm      *WarmStart     // nil: from nothing
	// Auto is set while it is not known whether the estimate is by estimator Flow, with AutoPasses, or WholeNetwork: the
	// estimate chooses.
	Auto bool
}

// Names of variants: "exact", and "flow-3", "flow-2-ablate-waits+marks", "independent", "independent-ns3", each with
// "-cluster-10%" where links were clustered; "flow-3-warm-ID-2", in two steps from what scenario ID observed in three passes. What N
// passes found is the same whatever follows: a run with more passes begins where one with fewer ended.
const (
	flowPrefix  = "flow-"
	warmPart    = "-warm-"
	ablatePart  = "-ablate-"
	clusterPart = "-cluster-"
)

// SampledPart marks the names of estimates from windows (package sampled): the variant of the windows, SampledPart, how
// many windows, and their warm-up.
const SampledPart = "-sampled-"

// CombineStage is the stage that writes the tables of an estimate from windows, without what it does.
func CombineStage(id lake.ScenarioID, variant string) *engine.Stage {
	return &engine.Stage{
		Name: "combine", Place: lake.Place{Scenario: id, Variant: variant}, Unit: "flows",
		Command: "parsimon run --within",
		Writes:  []schema.Table{schema.Intervals, schema.Windows, schema.SampledSlowdowns, schema.SampledIntervals},
	}
}

// String is the name of the variant's directory in the lake.
func (v Variant) String() string {
	name := v.Estimator.String()
	if v.Estimator == stages.Flow {
		name = flowPrefix + strconv.Itoa(v.Passes)
	}
	if v.Warm != nil {
		name += fmt.Sprintf("%s%s-%d", warmPart, v.Warm.Base, v.Warm.Steps)
	}
	if v.Ablation != 0 {
		name += ablatePart + v.Ablation.String()
	}
	if v.Backend != stages.Kernel {
		name += "-" + v.Backend.String()
	}
	if v.Cluster != nil {
		name += clusterPart + v.Cluster.String()
	}
	return name
}

// pass is the variant of the same settings with n passes, where the tables of pass n are stored.
func (v Variant) pass(n int) Variant {
	v.Passes = n
	return v
}

// step is the variant of the same settings with n steps from a warm start, where the tables of step n are stored.
func (v Variant) step(n int) Variant {
	v.Warm = &WarmStart{v.Warm.Base, n}
	return v
}

// Cold is the variant that a warm estimate starts from.
func (v Variant) Cold() Variant {
	v.Warm = nil
	return v
}

// sweeps is how often the variant's plan simulates links: its passes or steps.
func (v Variant) sweeps() int {
	if v.Warm != nil {
		return v.Warm.Steps
	}
	return v.Passes
}

// longer is the variant of the same settings with one sweep more, which begins where this one ends.
func (v Variant) longer() Variant {
	if v.Warm != nil {
		return v.step(v.Warm.Steps + 1)
	}
	return v.pass(v.Passes + 1)
}

// place is where the variant's tables of a scenario are stored.
func (v Variant) place(id lake.ScenarioID) lake.Place {
	return lake.Place{Scenario: id, Variant: v.String()}
}

// ParseVariant is the inverse of String. Names of whole-network simulations of windows or with switch buffers, and of
// estimates from windows, are no variants, and errors.
func ParseVariant(name string) (v Variant, err error) {
	whole, setting, clustered := strings.Cut(name, clusterPart)
	if clustered {
		if v.Cluster, err = stages.ParseClustering(setting); err != nil {
			return v, err
		}
	}
	rest, ok := strings.CutPrefix(whole, flowPrefix)
	if !ok {
		estimator, byNS3 := strings.CutSuffix(whole, "-"+stages.NS3Backend.String())
		if byNS3 {
			v.Backend = stages.NS3Backend
		}
		v.Estimator, err = stages.ParseEstimator(estimator)
		if err != nil || v.Estimator == stages.Flow || checkVariant(v) != nil {
			return v, fmt.Errorf("no variant %q", name)
		}
		return v, nil
	}
	number, ablation, _ := strings.Cut(rest, ablatePart)
	v.Estimator = stages.Flow
	number, warm, isWarm := strings.Cut(number, warmPart)
	if isWarm {
		if v.Warm, err = parseWarmStart(warm); err != nil {
			return v, fmt.Errorf("no variant %q: %w", name, err)
		}
	}
	if v.Passes, err = strconv.Atoi(number); err != nil || v.Passes < 1 || v.Passes > MaxPasses {
		return v, fmt.Errorf("no variant %q", name)
	}
	v.Ablation, err = stages.ParseAblation(ablation)
	return v, err
}

// parseWarmStart reads ID-STEPS.
func parseWarmStart(text string) (*WarmStart, error) {
	base, steps, _ := strings.Cut(text, "-")
	id, err := lake.ParseScenarioID(base)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(steps)
	if err != nil || n < 1 || n > MaxPasses {
		return nil, fmt.Errorf("%q is not a number of steps", steps)
	}
	return &WarmStart{id, n}, nil
}

// Flags are the command-line flags that name the variant.
func (v Variant) Flags() string {
	flags := "--estimator " + v.Estimator.String()
	if v.Estimator == stages.Flow {
		flags += fmt.Sprintf(" --passes %d", v.Passes)
	}
	if v.Ablation != 0 {
		flags += " --ablate " + v.Ablation.String()
	}
	if v.Backend != stages.Kernel {
		flags += " --link-backend " + v.Backend.String()
	}
	if v.Cluster != nil {
		flags += " --cluster=" + v.Cluster.String()
	}
	return flags
}

// better reports whether a variant is to be preferred to another for answering questions: the whole network, estimator
// flow, not from a warm start, more passes, no clustering.
func (v Variant) better(than Variant) bool {
	switch {
	case v.Estimator != than.Estimator:
		return v.Estimator > than.Estimator
	case (v.Warm == nil) != (than.Warm == nil):
		return v.Warm == nil
	case v.Estimator == stages.Flow && v.Passes != than.Passes:
		return v.Passes > than.Passes
	}
	return v.Cluster == nil && than.Cluster != nil
}

// stageOf finds the stage that a command runs alone, and the plan that has it: of the variant or, for a stage of its
// last pass that only further passes read, of one pass more. The stage is nil if the variant has none of that name.
func stageOf(of func(Variant) *method, v Variant, name string) (engine.Plan, *engine.Stage) {
	plan := of(v).plan()
	if s := plan.Find(name, 0); s != nil && (s.Pass == 0 || s.Pass == v.sweeps()) {
		return plan, s
	}
	if v.Estimator != stages.Flow {
		return nil, nil
	}
	plan = of(v.longer()).plan()
	return plan, plan.Find(name, v.sweeps())
}
