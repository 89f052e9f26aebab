package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/queries/duckdb"
	"parsimon/schema/names"
	"parsimon/stages/ingest/connections"
)

// The flows of one source are the same rows and counts with SQL and without. Otherwise files whose ids
// repeat, which SQL sorts, would give other estimates.
func TestFlowsOfSourceAreThoseOfSQL(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for trial := range 8 {
		in := mergerOf(t, false)
		var rows []connections.Row
		ids := random.Perm(4000)
		for i := range random.IntN(3000) {
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
		var direct, all rowsSink
		one := merged()
		done, err := one.flowsOfSource(t.Context(), Tables{Flows: &direct})
		if err != nil || !done || !one.isOneSource() {
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
		if !slices.Equal(direct.rows, all.rows) {
			t.Errorf("%d flows:\n%.1000s\nby SQL %d:\n%.1000s", len(direct.rows), fmt.Sprint(direct.rows),
				len(all.rows), fmt.Sprint(all.rows))
		}
	}
}

// The passes over the records end with the context, and records that start before 1970, which no source has,
// are an error: their order would be another than that of SQL.
func TestFlowsOfSourceEnd(t *testing.T) {
	in := mergerOf(t, false)
	source := sourceOf(t, in, 1, "a.csv", recordOf(1, 10, 5), recordOf(2, 10, -5))
	m := &merging{Ingester: in, sources: []MergeSource{source}, stats: &MergeStats{}}
	_, err := m.flowsOfSource(t.Context(), Tables{})
	if err == nil || !strings.Contains(err.Error(), "a.csv") {
		t.Errorf("a flow that starts at -5 ns: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	batches := 0
	cancel()
	err = m.eachRecords(ctx, func(arrow.Record) error {
		batches++
		return nil
	})
	if !errors.Is(err, context.Canceled) || batches > 0 {
		t.Errorf("%d batches are read after the end: %v", batches, err)
	}
}
