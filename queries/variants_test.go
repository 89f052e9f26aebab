package queries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/variant"
)

// Questions read the kind of a variant from this view, so that none of them parses a name.
func TestVariantsView(t *testing.T) {
	lake := makeKnownLake(t)
	const path = "slowdowns/scenario=007/variant=own/part-00000.parquet"
	file := func(table string, v variant.Variant) File {
		return File{Table: table, Scenario: "one", Variant: v, Path: path}
	}
	files := []File{
		file("slowdowns", variant.Variant{Estimator: "flow", Passes: 2}),
		file("link_stats", variant.Variant{Estimator: "flow", Passes: 2}),
		file("slowdowns", variant.Variant{Estimator: "independent", ClusterError: 0.05}),
		file("slowdowns", variant.Variant{Estimator: "exact"}),
		file("sampled_slowdowns", variant.Variant{Estimator: "exact"}.OfWindows(48, 90)),
		{Table: "scenarios", Scenario: "one", Path: "scenarios/scenario=007/part-00000.parquet"},
	}
	MarkAnswers(files, nil)
	got := sqlCSV(t, open(t, lake, Options{Files: files}), "SELECT * FROM variants ORDER BY variant")
	want := "scenario,variant,estimator,passes,cluster_error,windows,confidence_percent,whole_network,is_answer\n" +
		"one,exact,exact,,,,95.0,true,true\n" +
		"one,exact-sampled-48-confidence-90%,exact,,,48,90.0,true,false\n" +
		"one,flow-2,flow,2,,,95.0,false,false\n" +
		"one,independent-cluster-0.05,independent,,0.05,,95.0,false,false\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = sqlCSV(t, open(t, lake, Options{Files: files[5:]}), "SELECT count(*) AS n FROM variants")
	if got != "n\n0\n" {
		t.Errorf("without estimates: %s", got)
	}
}

// Answers of an older version are read if their columns suffice. Columns that are newer are empty.
func TestOldFilesLackNewColumns(t *testing.T) {
	lake := makeKnownLake(t)
	raw := rawDB(t)
	path := filepath.Join(lake, "workloads", "workload=old")
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := raw.Exec("COPY (SELECT 1::INTEGER AS source, 'a.log' AS file, 'd' AS digest, 7::BIGINT AS rows, " +
		"5::BIGINT AS records, 2::BIGINT AS rejects, 0::BIGINT AS set_aside) TO " +
		duckdb.Quote(filepath.Join(path, "part-00000.parquet")))
	if err != nil {
		t.Fatal(err)
	}
	file := File{Table: "workloads", Workload: "old", Path: "workloads/workload=old/part-00000.parquet"}
	for version, want := range map[int]string{15: "rows,second_directions\n7,0\n",
		schema.Version: "second_directions"} {
		file.Version = version
		db := open(t, lake, Options{Files: []File{file}})
		answer, err := db.SQL(t.Context(), "SELECT rows, second_directions FROM workloads")
		if err != nil {
			if version == schema.Version && strings.Contains(err.Error(), want) {
				continue
			}
			t.Fatalf("version %d: %v", version, err)
		}
		got := sqlCSV(t, db, "SELECT rows, second_directions FROM workloads")
		if got != want || len(answer.Rows) != 1 {
			t.Errorf("version %d: %s", version, got)
		}
	}
}
