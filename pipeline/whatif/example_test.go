package whatif_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"parsimon/pipeline"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/whatif"
	"parsimon/stages/estimators"
)

// Service three sends twice as much data. Its flows become slower, and so do the flows of main, which share a
// link with them.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lake")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	s, err := scenario.LoadWith("parking-lot/short", []scenario.Setting{
		{Key: "workload.duration", Value: "4ms"}, {Key: "workload.max_load", Value: "30%"}})
	check(err)
	v := pipeline.Variant{Estimator: estimators.Flow, Passes: 1}
	e, err := pipeline.Begin(ctx, dir, s, v, pipeline.Settings{})
	check(err)
	check(e.Estimate(ctx))
	e.Close()

	twice, err := scenario.ParseChange("scale", "three=2")
	check(err)
	answer, err := whatif.WhatIf(ctx, string(e.ID()), scenario.Changes{Do: []scenario.Change{twice}},
		whatif.Settings{Lake: dir, Variant: v}, whatif.CompareOptions{By: []string{"service"}})
	check(err)
	for _, r := range answer.Rows {
		if r.Quantile == 0.9 {
			fmt.Println(r.Group[0], "slower:", r.Lo > 0)
		}
	}
	// Output:
	// five slower: false
	// main slower: true
	// one slower: false
	// three slower: true
	// all slower: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
