package ingest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"parsimon/queries/duckdb"
	"parsimon/schema/names"
	"parsimon/stages/ingest/connections"
)

// Few flows are the same rows and counts with SQL and without. Otherwise a flow file would give other
// estimates when it grows.
func TestFewFlowsAreThoseOfSQL(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for trial := range 8 {
		in := mergerOf(t, false)
		var rows []connections.Row
		ids := random.Perm(1000)
		for i := range random.IntN(300) {
			row := recordOf(int64(i+1), random.Int64N(10_000), random.Int64N(100))
			row.Service = []string{"", "web", "db"}[random.IntN(3)]
			row.VNet = []string{"", "blue"}[random.IntN(2)]
			row.DSCP = int16(random.IntN(65) - 1)
			row.ResolutionNS = max(0, random.Int64N(5)-2)
			row.Samples = max(-1, random.Int64N(4)-2)
			if trial%2 == 1 {
				row.FlowID = int64(ids[i])
			}
			rows = append(rows, row)
		}
		source := sourceOf(t, in, 1, "a.csv", rows...)
		source.AnyFlowID = trial%2 == 1
		merged := func() *merging {
			m := &merging{Ingester: in, sources: []MergeSource{source}, stats: &MergeStats{}}
			m.all = duckdb.ScanParquet(names.Of(m.sources, func(s MergeSource) string { return s.RecordsFile })...)
			return m
		}
		var few, all rowsSink
		one := merged()
		done, err := one.fewFlows(Tables{Flows: &few})
		if err != nil || !done || !one.isFew() {
			t.Fatal(done, err)
		}
		two := merged()
		if err := two.sortedFlows(t.Context(), Tables{Flows: &all}); err != nil {
			t.Fatal(err)
		}
		two.stats.flowsFile = ""
		if !reflect.DeepEqual(one.stats, two.stats) {
			t.Errorf("counts %+v, by SQL %+v", one.stats, two.stats)
		}
		if !slices.Equal(few.rows, all.rows) {
			t.Errorf("%d flows:\n%.1000s\nby SQL %d:\n%.1000s", len(few.rows), fmt.Sprint(few.rows), len(all.rows),
				fmt.Sprint(all.rows))
		}
	}
}
