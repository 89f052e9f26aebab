package whatif

import (
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/queries/duckdb"
	"parsimon/schema/names"
)

// A sweep compares its percentiles with those of other answers, which DuckDB computes. If they differed in
// the last bit, a cable without an effect would seem to have one. A service may have the name of all flows.
func TestServicePercentilesAreThoseOfDuckDB(t *testing.T) {
	db, err := duckdb.Open(t.Context(), duckdb.Options{MemoryBytes: 128 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 3, 101, 1000} {
		var flows []sweptFlow
		for i := range n {
			flows = append(flows, sweptFlow{Row: int64(i), Service: []string{"a", "b", AllFlows}[r.IntN(3)],
				FCTNS: 1 + r.Int64N(1e9), Slowdown: math.Exp(3 * r.Float64())})
		}
		want := duckDBPercentiles(t, db, flows)
		got := servicePercentiles(flows)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d flows: %v, want %v", n, got, want)
		}
	}
}

// duckDBPercentiles is servicePercentiles in SQL.
func duckDBPercentiles(t *testing.T, db *sql.DB, flows []sweptFlow) percentilesOf {
	t.Helper()
	values := names.Of(flows, func(f sweptFlow) string {
		return fmt.Sprintf("('%s', %v::DOUBLE, %d::BIGINT)", f.Service, f.Slowdown, f.FCTNS)
	})
	text := `SELECT CASE grouping(service) WHEN 1 THEN 'all' ELSE service END, count(*)`
	for _, value := range []string{"slowdown", "fct_ns / 1e6"} {
		for _, q := range pipeline.Quantiles {
			text += fmt.Sprintf(", quantile_cont(%s, %v)", value, q)
		}
	}
	text += fmt.Sprintf(" FROM (VALUES %s) AS t(service, slowdown, fct_ns)", strings.Join(values, ", ")) +
		" GROUP BY GROUPING SETS ((service), ())"
	out := percentilesOf{}
	err := duckdb.Each(t.Context(), db, text, func(rows *sql.Rows) error {
		var service string
		var flows int64
		s := make([]float64, len(pipeline.Quantiles))
		f := make([]float64, len(pipeline.Quantiles))
		err := rows.Scan(&service, &flows, &s[0], &s[1], &s[2], &s[3], &f[0], &f[1], &f[2], &f[3])
		if flows > out[service].Flows {
			out[service] = newPercentiles(flows, s, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A flow without an estimate in one of the scenarios is in no pair.
func TestPairsOfASweep(t *testing.T) {
	flows := func(slowdown float64, rows ...int64) (all []sweptFlow) {
		for _, r := range rows {
			all = append(all, sweptFlow{Row: r, Service: "a", FCTNS: 2_000_000 * (r + 1), Slowdown: slowdown})
		}
		return all
	}
	var got []pair
	err := eachPair(flows(1, 0, 2, 3, 7), flows(2, 0, 1, 3, 8), func(p *pair) error {
		got = append(got, *p)
		return nil
	})
	want := []pair{
		{Row: 0, Service: "a", Base: 1, Other: 2, BaseFCT: 2, OtherFCT: 2},
		{Row: 3, Service: "a", Base: 1, Other: 2, BaseFCT: 8, OtherFCT: 8},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
