package summary_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/newflows"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/stages"
)

// A scenario that ships, shortened, is estimated in a new lake, judged, and asked about a flow that it does not have.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lake")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	s, err := scenario.LoadWith("parking-lot/short", []scenario.Setting{{Key: "workload.duration", Value: "10ms"}})
	check(err)

	e, err := pipeline.Begin(ctx, dir, s, pipeline.Variant{Estimator: stages.Flow, Passes: 1}, pipeline.Settings{})
	check(err)
	defer e.Close()
	check(e.Estimate(ctx))

	r, err := summary.ReadResult(ctx, e)
	check(err)
	all := r.Percentiles[len(r.Percentiles)-1]
	fmt.Println(r.Name, r.Variant, all.SizeBin, all.Flows == r.Flows, 1 <= all.P50 && all.P50 <= all.P99)

	g, err := gate.Parse("p99_slowdown > 1000")
	check(err)
	verdicts, err := summary.Judge(ctx, e, []gate.Gate{g})
	check(err)
	fmt.Println(verdicts[0].Gate, verdicts[0].Failed)

	src, err := e.Network.FindHost("zero")
	check(err)
	dst, err := e.Network.FindHost("six")
	check(err)
	answer, err := newflows.Ask(ctx, e, newflows.Question{Src: src, Dst: dst, SizeBytes: 1000, N: 100, Seed: 1})
	check(err)
	fmt.Println(answer.Paths, "path,", len(answer.Quantiles), "quantiles")
	// Output:
	// short, workload.duration=10ms flow-1 all true true
	// p99_slowdown > 1000 false
	// 1 path, 4 quantiles
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
