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

// MaxPasses are the passes of estimator flow, unless one is asked for to see what feedback is worth.
const MaxPasses = 2

// methodVersion changes whenever the same scenario would get other numbers than before. Results of another version do
// not count.
const methodVersion = 24

// A Variant says how an estimate is made: everything but the scenario that its rows depend on.
type Variant struct {
	Estimator stages.Estimator
	Passes    int // of estimator flow: 1 or 2; 0: 2
	Cluster   *stages.Clustering
	// Auto is set while it is not known whether the estimate is by estimator Flow or WholeNetwork: the estimate chooses.
	Auto bool
}

// Names of variants: "exact", "flow-2" and "flow-1", "independent", the latter with
// "-cluster-10%" where links were clustered. The first pass of flow-2 is stored as, and shared with, that of flow-1.
const clusterPart = "-cluster-"

// SampledPart marks the names of estimates from windows (package sampled): the variant of the windows, SampledPart, how
// many windows, and their warm-up.
const SampledPart = "-sampled-"

// CombineStage is the stage that writes the tables of an estimate from windows, without what it does.
func CombineStage(id lake.ScenarioID, variant string) *engine.Stage {
	return &engine.Stage{
		Name: "combine", Place: lake.Place{Scenario: id, Variant: variant}, Unit: "flows",
		Command: "parsimon run --within",
		Writes:  []schema.Table{schema.Intervals, schema.Windows, schema.SampledSlowdowns},
	}
}

// String is the name of the variant's directory in the lake.
func (v Variant) String() string {
	name := v.Estimator.String()
	if v.Estimator == stages.Flow {
		name += "-" + strconv.Itoa(v.Passes)
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
	estimator, passes, _ := strings.Cut(whole, "-")
	v.Estimator, err = stages.ParseEstimator(estimator)
	v.Passes, _ = strconv.Atoi(passes) // 0 where there are none
	unknown := v.Estimator == stages.Flow && (v.Passes < 1 || v.Passes > MaxPasses)
	if err != nil || unknown || v.String() != name || checkVariant(v) != nil {
		return v, fmt.Errorf("no variant %q", name)
	}
	return v, nil
}

// Flags are the command-line flags that name the variant.
func (v Variant) Flags() string {
	flags := "--estimator " + v.Estimator.String()
	if v.Estimator == stages.Flow {
		flags += fmt.Sprintf(" --passes %d", v.Passes)
	}
	if v.Cluster != nil {
		flags += " --cluster=" + v.Cluster.String()
	}
	return flags
}

// withDefaults completes a variant whose settings leave the passes open.
func (v Variant) withDefaults() Variant {
	if v.Passes == 0 && v.Estimator == stages.Flow {
		v.Passes = MaxPasses
	}
	return v
}
