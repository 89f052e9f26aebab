// Package estimates makes estimates for tests of the packages that read them, and queries lakes.
package estimates

import (
	"fmt"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/queries"
	"parsimon/queries/duckdb"
)

// Trace is the scenario of a topology and a flow file.
func Trace(t testing.TB, topology, flows string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.FromFiles(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Of estimates a scenario in the lake in a directory. The result is closed, and can be read.
func Of(t testing.TB, dir string, s *scenario.Scenario, v pipeline.Variant,
	o pipeline.Settings) *pipeline.Estimation {
	t.Helper()
	e, err := pipeline.Begin(t.Context(), dir, s, v, o)
	if err == nil {
		defer e.Close()
		err = e.Estimate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Open opens a lake that exists.
func Open(t testing.TB, dir string) *lake.Lake {
	t.Helper()
	l, err := lake.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Ask returns the first row of a SELECT over the views of a lake, in brackets, with values separated by
// spaces.
func Ask(t testing.TB, dir, text string) string {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	o, err := catalog.Options(Open(t, dir), duckdb.Options{})
	check(err)
	db, err := queries.Open(t.Context(), dir, o)
	check(err)
	answer, err := db.SQL(t.Context(), text)
	check(err)
	check(db.Close())
	return fmt.Sprint(answer.Rows[0])
}
