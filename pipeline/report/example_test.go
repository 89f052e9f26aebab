package report_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/report"
	"parsimon/pipeline/scenario"
	"parsimon/queries/duckdb"
	"parsimon/stages/estimators"
)

// A report is a single HTML file that makes no requests.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lake")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	s, err := scenario.LoadWith("parking-lot/short",
		[]scenario.Setting{{Key: "workload.duration", Value: "10ms"}})
	check(err)
	e, err := pipeline.Begin(ctx, dir, s, pipeline.Variant{Estimator: estimators.Independent},
		pipeline.Settings{})
	check(err)
	check(e.Estimate(ctx))
	e.Close()

	files, err := catalog.Options(e.Lake, duckdb.Options{})
	check(err)
	var page bytes.Buffer
	check(report.Write(ctx, &page, dir, report.Options{Query: files,
		Estimate: report.Estimate{Scenario: string(e.ID()), Variant: e.Variant().Stored()}}))
	text := page.String()
	fmt.Println(strings.HasPrefix(text, "<!DOCTYPE html>"), strings.Contains(text, string(e.ID())),
		strings.Contains(text, `src="http`))
	// Output:
	// true true false
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
