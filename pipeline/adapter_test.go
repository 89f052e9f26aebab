package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
	"parsimon/stages/method"
	"parsimon/stages/workload"
)

// Run and the engine produce equal rows for any number of partitions, of which one runs each day. Without
// this property, the tests of the method, which use Run, would not cover what the program writes.
func TestRunAndEngineHaveEqualRows(t *testing.T) {
	topology, file := fixture.Trace(t, 800)
	variants := []Variant{{Estimator: estimators.Independent, Cluster: &linksim.Clustering{Error: 0.1}},
		flowOf(1)}
	for _, name := range estimators.All() {
		variants = append(variants, Variant{Estimator: name}.withDefaults())
	}
	for _, v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			for _, partitions := range daily.Today(2, 3, 5) {
				run := estimate(t, topology, file, options{Lake: t.TempDir(), Variant: v, Workers: 2,
					Partitions: partitions})
				p := run.planner(v)
				e := method.Estimate{Estimator: v.Estimator, Options: p.options(), Partitions: partitions + 2}
				found, err := method.Run(t.Context(), p.method(), e, flowsOf(t, run))
				if err != nil {
					t.Fatal(err)
				}
				for _, table := range []schema.Table{schema.Slowdowns, schema.HopContributions, schema.LinkStats,
					schema.Intervals, schema.Warnings} {
					in, err := run.Read(table)
					if err != nil {
						t.Fatal(err)
					}
					want := textRows(t, in)
					got := textRows(t, found.Table(table).Read())
					i := firstDifference(want, got)
					if i >= 0 || len(got) == 0 && table.Name != schema.Warnings.Name {
						t.Errorf("%d partitions, table %s: %d rows of the engine, %d of Run; row %d differs", partitions,
							table.Name, len(want), len(got), i)
					}
				}
			}
		})
	}
}

// flowsOf returns the flows of a scenario in the order in which its lake stores them.
func flowsOf(t *testing.T, e *Estimation) []workload.Row {
	t.Helper()
	in, err := e.Read(schema.Flows)
	if err != nil {
		t.Fatal(err)
	}
	var rows []workload.Row
	err = columns.Each(in, func(r *workload.Row) error {
		row := *r
		row.Labels = r.Labels.Clone()
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// textRows returns the rows of a stream as text, sorted, because their order in the files depends on the
// number of partitions.
func textRows(t *testing.T, in schema.Batches) []string {
	t.Helper()
	var rows []string
	err := columns.ForEach(in, func(rec arrow.Record) error {
		for i := range int(rec.NumRows()) {
			row := ""
			for n, c := range rec.Columns() {
				row += fmt.Sprintf("%s=%s ", rec.ColumnName(n), c.ValueStr(i))
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(rows)
	return rows
}

// firstDifference returns the first index at which two lists differ, or -1 if they are equal.
func firstDifference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}
