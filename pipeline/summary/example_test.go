package summary_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/stages/estimators"
)

// A shortened built-in scenario is estimated in a new lake, and gates are evaluated.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lake")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	s, err := scenario.LoadWith("parking-lot/short",
		[]scenario.Setting{{Key: "workload.duration", Value: "10ms"}})
	check(err)

	e, err := pipeline.Begin(ctx, dir, s, pipeline.Variant{Estimator: estimators.Flow, Passes: 1},
		pipeline.Settings{})
	check(err)
	defer e.Close()
	check(e.Estimate(ctx))

	g, err := gate.Parse("p99_slowdown > 1000")
	check(err)
	r, err := summary.Read(ctx, e, summary.Options{Gates: []gate.Gate{g}})
	check(err)
	all := r.Percentiles[len(r.Percentiles)-1]
	fmt.Println(r.Name, r.Variant, all.SizeBin, all.Flows == r.Flows, 1 <= all.P50 && all.P50 <= all.P99)
	fmt.Println(r.Gates[0].Gate, r.Gates[0].Failed)
	// Output:
	// short, workload.duration=10ms flow-1 all true true
	// p99_slowdown > 1000 false
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
