package queries

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/queries/duckdb"
	"parsimon/schema/daily"
)

// percentileGroups are groups of values with different distributions.
var percentileGroups = map[string]string{
	"random": "SELECT 1 - ln(1 - (hash(i) % 1000003) / 1000003) FROM range(50000) AS r(i)",
	"near 1": "SELECT 1 + ((hash(i) % 1000003) / 1000003) ** 6 FROM range(50001) AS r(i)",
	"mostly tied": "SELECT CASE WHEN i % 10 < 8 THEN 1 ELSE 1 + (hash(i) % 977) / 97 END FROM range(30000) AS " +
		"r(i)",
	"few values":   "SELECT [1, 1.1, 1.3, 7][1 + i % 4] FROM range(10001) AS r(i)",
	"one cell":     "SELECT 7 + (hash(i) % 1000003) / 1e12 FROM range(30000) AS r(i)",
	"all the same": "SELECT 1.1 FROM range(12345)",
	"one":          "SELECT 3.7",
	"two":          "SELECT 1 + i / 3 FROM range(2) AS r(i)",
	"three":        "SELECT 1 + i / 3 FROM range(3) AS r(i)",
	"below 1":      "SELECT (hash(i) % 1000) / 500 - 0.7 FROM range(5000) AS r(i)",
	"large":        "SELECT (hash(i) % 1000003) * 1e6 FROM range(5000) AS r(i)",
	"":             "SELECT i % 17 FROM range(1000) AS r(i)", // stands for null
}

// lakeOfGroups writes a lake in which each of percentileGroups is a service, in two variants.
func lakeOfGroups(t *testing.T) (lake string) {
	t.Helper()
	raw := rawDB(t)
	lake = filepath.Join(t.TempDir(), "lake")
	for name, values := range percentileGroups {
		rows := fmt.Sprintf("SELECT i, i, 0, 1, %s, 'net', 1, 0, 2, 1, 1, 0, v, 0, 0 "+
			"FROM (SELECT row_number() OVER () AS i, v FROM (%s) AS t(v))", duckdb.Quote(name), values)
		writePart(t, raw, lake, "slowdowns", "scenario=a/variant=x", rows)
		writePart(t, raw, lake, "slowdowns", "scenario=a/variant=y", rows+" WHERE i <= 1000")
	}
	return lake
}

// The percentiles of the macros equal those of quantile_cont to the bit. Each number of threads asks for one
// of the lists of fractions, and on three days for all. Short tests have one list and number of threads a day.
func TestPercentilesAreQuantileCont(t *testing.T) {
	lake := lakeOfGroups(t)
	const with = "WITH picked AS NOT MATERIALIZED (SELECT scenario, variant, nullif(service, '') AS " +
		"flow_group, slowdown AS value FROM slowdowns_all) "
	const flows = "WITH few AS NOT MATERIALIZED (SELECT scenario, variant, nullif(service, '') AS flow_group, " +
		"slowdown, CAST(1000 * slowdown AS BIGINT) AS fct_ns FROM slowdowns_all) "
	const rows = `SELECT scenario, variant, %s AS whole, %s AS flow_group, count(*) AS flows, quantile_cont(value, %s) AS q, max(value) AS max_value FROM picked GROUP BY ALL`
	lists := []string{"[0.999, 0.5, 0.9, 0.99]", "[0.0, 0.3, 1.0]", "[CAST(0.123456789 AS DOUBLE)]"}
	parts := len(lists)
	if testing.Short() {
		parts *= len(lists)
	}
	for place, threads := range []int{1, 4, 2} {
		o := limits(threads, 0)
		o.Few = threads == 2
		db := open(t, lake, o)
		for i, fractions := range lists {
			if !daily.Runs(len(lists)*place+(i+place)%len(lists), parts) {
				continue
			}
			fcts := strings.Replace(fractions, "0.9", "0.8", 1)
			fct := ", quantile_cont(fct_ns, " + fcts + ") AS fct FROM few GROUP BY ALL"
			both := strings.Replace(fmt.Sprintf(rows, "false", "flow_group", fractions)+" UNION ALL "+
				fmt.Sprintf(rows, "true", "NULL", fractions), " FROM picked GROUP BY ALL", fct, 2)
			want := sqlCSV(t, db, flows+"FROM ("+strings.ReplaceAll(both, "(value", "(slowdown")+") ORDER BY ALL")
			got := sqlCSV(t, db, flows+"FROM flow_percentiles(few, "+fractions+", "+fcts+") ORDER BY ALL")
			if got != want {
				t.Errorf("%d threads, flow_percentiles of %s: got\n%s\nwant\n%s", threads, fractions, got, want)
			}
			groups := fmt.Sprintf(rows, "false", "flow_group", fractions)
			whole := fmt.Sprintf(rows, "true", "NULL", fractions)
			for query, want := range map[string]string{
				"FROM percentiles(picked, " + fractions + ")":             groups,
				"FROM percentiles_and_whole('picked', " + fractions + ")": groups + " UNION ALL " + whole,
			} {
				want := sqlCSV(t, db, with+"FROM ("+want+") ORDER BY ALL")
				got := sqlCSV(t, db, with+query+" ORDER BY ALL")
				if got != want || strings.Count(got, "\n") < 2*len(percentileGroups) {
					t.Errorf("%d threads, %s: got\n%s\nwant\n%s", threads, query, got, want)
				}
			}
		}
	}
}

// The number of a cell never decreases with the value. Otherwise the second scan would count the wrong
// values.
func TestPercentileCellRises(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	got := sqlCSV(t, db, `SELECT count(*) AS bad FROM (
		SELECT percentile_cell(v) AS cell, lag(percentile_cell(v)) OVER (ORDER BY v) AS before
		FROM (SELECT 1 + s * 10 ** (i / 500.0) AS v FROM range(-8000, 8000) AS r(i), (VALUES (-1), (0), (1)) AS signs(s))
	) WHERE cell < before`)
	if got != "bad\n0\n" {
		t.Error(got)
	}
}

// A report reads percentiles_of with either form of the macros, depending on the number of flows. Both forms
// must give equal percentiles of overlapping groups: each service, pairs of them, and all.
func TestPercentilesOfOverlappingGroups(t *testing.T) {
	lake := lakeOfGroups(t)
	const question = `WITH picked AS NOT MATERIALIZED (
			SELECT scenario, variant, CAST(hash(service) % 1000 AS BIGINT) AS flow_group, slowdown AS value
			FROM slowdowns_all
		), members AS MATERIALIZED (
			SELECT DISTINCT p.scenario, p.variant, p.flow_group, g.of_group
			FROM picked AS p, LATERAL (VALUES (0), (1 + p.flow_group), (2000 + p.flow_group // 300)) AS g(of_group)
		)
		FROM percentiles_of(picked, members, [0.5, 0.9, 0.123456789, 1.0]) ORDER BY ALL`
	answers := map[bool]string{}
	for _, few := range []bool{false, true} {
		o := limits(2, 0)
		o.Few = few
		answers[few] = sqlCSV(t, open(t, lake, o), question)
	}
	if answers[true] != answers[false] || strings.Count(answers[true], "\n") < 2*len(percentileGroups) {
		t.Errorf("with values in memory\n%s\nin bounded memory\n%s", answers[true], answers[false])
	}
}

// The memory of the macros must not grow with the number of values. Only with Options.Few, they may use
// quantile_cont. It keeps all values of a group outside of DuckDB's memory limit, so that the limit does not
// reveal it, but the plan does.
func TestPercentilesInLittleMemory(t *testing.T) {
	const n = 100_003
	text := fmt.Sprintf(`WITH picked AS NOT MATERIALIZED (
		SELECT 'a' AS scenario, 'x' AS variant, i %% 4 AS flow_group,
			1 + ((i * 7919 %% %[1]d) / %[1]d.0) ** 4 AS value FROM range(%[1]d) AS r(i)
	) SELECT whole, flow_group, flows, q[1] BETWEEN 1.0624 AND 1.0626 AS p50, q[2] BETWEEN 1.9604 AND 1.9608 AS p99
	FROM percentiles_and_whole(picked, [0.5, 0.99]) ORDER BY ALL`, n)
	want := fmt.Sprintf("whole,flow_group,flows,p50,p99\nfalse,0,%[1]d,true,true\nfalse,1,%[1]d,true,true\n"+
		"false,2,%[1]d,true,true\nfalse,3,%[2]d,true,true\ntrue,,%[3]d,true,true\n", n/4+1, n/4, n)
	for _, few := range []bool{false, true} {
		o := limits(2, duckdb.MinMemoryBytes)
		o.Few = few
		db := open(t, makeKnownLake(t), o)
		got := sqlCSV(t, db, text) // which creates the macro
		if got != want {
			t.Errorf("few: %v: got\n%s\nwant\n%s", few, got, want)
		}
		var key, plan string
		if err := db.sql.QueryRow("EXPLAIN "+text).Scan(&key, &plan); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(plan, "quantile_cont") != few {
			t.Errorf("few: %v: the plan must have quantile_cont only with few values:\n%s", few, plan)
		}
	}
}

// The relation of a macro is a name, never a file.
func TestPercentilesOfFilesAreRefused(t *testing.T) {
	lake := makeKnownLake(t)
	db := open(t, lake, Options{})
	for _, relation := range []string{"'/etc/passwd'", duckdb.Quote(lake + "/../x.parquet"),
		duckdb.Quote("x.parquet"), `"x.csv"`, `lake."x.csv"`, "'a' || 'b'", "(SELECT 'a')"} {
		if _, err := db.SQL(t.Context(), "FROM percentiles("+relation+", [0.5])"); err == nil {
			t.Errorf("%s was read", relation)
		}
	}
}
