package queries

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/queries/duckdb"
	"parsimon/schema/daily"
)

// ids lists the ids of the rows of slowdowns, with the number of rows.
const ids = "SELECT scenario, variant, count(*) AS n FROM slowdowns_all GROUP BY ALL ORDER BY ALL"

const knownIDs = "scenario,variant,n\n007,own,4\naaa,own,7\naaa,paper,7\n"

// The ids of a row are those of its file in the manifest. A folder above the lake that looks like a hive
// partition must not change them, neither in a query nor in the catalog. Short tests try one a day.
func TestFoldersAboveTheLake(t *testing.T) {
	parents := []string{"scenario=x", "variant=x", "workload=x", "scenario=x/variant=y/workload=z", "SCENARIO=x"}
	if testing.Short() {
		parents = daily.Today(len(parents), parents...)
	}
	for _, parent := range parents {
		lake := filepath.Join(t.TempDir(), parent, "lake")
		if err := os.MkdirAll(filepath.Dir(lake), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(makeKnownLake(t), lake); err != nil {
			t.Fatal(err)
		}
		raw := rawDB(t)
		writePart(t, raw, lake, "nodes", "workload=w1", "VALUES (9, 'h9', 'host', 0, 0, NULL)")
		db := open(t, lake, Options{})
		got := sqlCSV(t, db, ids)
		if got != knownIDs {
			t.Errorf("below %s: got\n%s", parent, got)
		}
		got = sqlCSV(t, db, "SELECT workload, node_id FROM workload_nodes")
		if got != "workload,node_id\nw1,9\n" {
			t.Errorf("below %s: got\n%s", parent, got)
		}
		got = answer(t, db, "slowdown_by", "csv", map[string]string{"scenario": "007"})
		if strings.Count(got, "007,own,") != 1 {
			t.Errorf("below %s: got\n%s", parent, got)
		}
		if err := writeCatalog(lake); err != nil {
			t.Fatal(err)
		}
		catalog := openCatalog(t, filepath.Join(lake, CatalogFile))
		n := count(t, catalog, "SELECT count(*) FROM slowdowns WHERE scenario = 'aaa' AND variant = 'own'")
		if n != 7 {
			t.Errorf("below %s: the catalog has %d rows", parent, n)
		}
		n = count(t, catalog, "SELECT count(*) FROM workload_nodes WHERE workload = 'w1'")
		if n != 1 {
			t.Errorf("below %s: the catalog has %d nodes of the workload", parent, n)
		}
		if err := catalog.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Files that are not listed must not be read, and one file can belong to two scenarios.
func TestListedFiles(t *testing.T) {
	lake := makeKnownLake(t)
	shared := "slowdowns/scenario=007/variant=own/part-00000.parquet"
	files := []File{
		{Table: "slowdowns", Scenario: "one", Variant: variantOf("own"), Answer: true, Path: shared},
		{Table: "slowdowns", Scenario: "two", Variant: variantOf("flow'2"), Answer: true, Path: shared},
		{Table: "scenarios", Scenario: "one", Path: "scenarios/scenario=007/part-00000.parquet"},
	}
	db := open(t, lake, Options{Files: files})
	want := "scenario,variant,n\none,own,4\ntwo,flow'2,4\n"
	got := sqlCSV(t, db, ids)
	if got != want {
		t.Errorf("got\n%s", got)
	}
	got = sqlCSV(t, db, "SELECT count(*) AS n FROM flows")
	if got != "n\n0\n" {
		t.Errorf("flows that are not listed: %s", got)
	}
	if err := writeCatalogOf(lake, files); err != nil {
		t.Fatal(err)
	}
	catalog := openCatalog(t, filepath.Join(lake, CatalogFile))
	defer catalog.Close()
	n := count(t, catalog, "SELECT 100 * count(*) + count(*) FILTER (WHERE scenario = 'two') FROM slowdowns")
	if n != 804 {
		t.Errorf("the catalog has %d", n)
	}
}

func TestListedFilesAreChecked(t *testing.T) {
	lake := makeKnownLake(t)
	for path, want := range map[string]string{
		"../outside.parquet": "clean path inside", "/etc/passwd": "clean path inside", "": "clean path inside",
		"slowdowns/./x.parquet": "clean path inside", "slowdowns/*.parquet": "must not have",
		"s3://x/y": "clean path inside",
		"s3:x":     "must not have", "a\nb": "must not have", "a[b]": "must not have",
	} {
		files := []File{{Table: "slowdowns", Scenario: "a", Variant: variantOf("b"), Path: path}}
		if _, err := NewCatalog(lake, files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("catalog of %q: want %q, got %v", path, want, err)
		}
		if _, err := Open(t.Context(), lake, Options{Files: files}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("database of %q: want %q, got %v", path, want, err)
		}
	}
	unknown := []File{{Table: "no_table", Scenario: "a", Variant: variantOf("b"), Path: "x.parquet"}}
	if _, err := Open(t.Context(), lake, Options{Files: unknown}); err == nil {
		t.Error("a file of an unknown table was accepted")
	}
}

// Thousands of files and scenarios must work, in a query and in the catalog. Short tests have hundreds.
func TestThousandsOfFiles(t *testing.T) {
	lake := makeKnownLake(t)
	scenarios := 500
	if testing.Short() {
		scenarios = 50
	}
	const parts = 6
	var files []File
	for i := range scenarios {
		for range parts {
			files = append(files, File{
				Table: "slowdowns", Scenario: fmt.Sprintf("s%04d", i), Variant: variantOf("own"), Answer: true,
				Path: "slowdowns/scenario=007/variant=own/part-00000.parquet",
			})
		}
	}
	db := open(t, lake, Options{Files: files})
	got := sqlCSV(t, db, "SELECT count(*) AS n, count(DISTINCT scenario) AS s FROM slowdowns")
	if got != fmt.Sprintf("n,s\n%d,%d\n", scenarios*parts*4, scenarios) {
		t.Errorf("got %s", got)
	}
	got = answer(t, db, "slowdown_by", "csv", map[string]string{"scenario": "s0023"})
	if !strings.Contains(got, `s0023,own,"",24,2.5,`) || strings.Count(got, "\n") != 2 {
		t.Errorf("got %s", got)
	}
	if err := writeCatalogOf(lake, files); err != nil {
		t.Fatal(err)
	}
	catalog := openCatalog(t, filepath.Join(lake, CatalogFile))
	defer catalog.Close()
	last := files[len(files)-1].Scenario
	n := count(t, catalog, "SELECT count(*) FROM slowdowns WHERE scenario = "+duckdb.Quote(last))
	if n != parts*4 {
		t.Errorf("the catalog has %d rows", n)
	}
}

// The error for an unknown scenario or variant lists those of the lake, the most similar first.
func TestUnknownIDs(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	for _, c := range []struct{ scenario, variant, want string }{
		{"aab", "", `no scenario "aab" in the lake; it has aaa, 007, `},
		{"\x1b[2J", "", `no scenario "\x1b[2J" in the lake`},
		{"aaa", "papr", `no variant "papr" of scenario aaa; it has paper, exact, own`},
		{"007", "paper", `no variant "paper" of scenario 007; it has exact, own`},
		{"", "flow-9", `no variant "flow-9" in the lake; it has flow-1, flow-2, own, exact, paper`},
	} {
		q, err := Get("slowdown_by_size")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Run(t.Context(), q, map[string]string{"scenario": c.scenario, "variant": c.variant})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("scenario %q, variant %q: want %q, got %v", c.scenario, c.variant, c.want, err)
		}
	}
}

// An error of a statement is returned unchanged.
func TestErrorsOfTheStatement(t *testing.T) {
	db := open(t, makeKnownLake(t), limits(1, duckdb.MinMemoryBytes))
	for text, want := range map[string]string{
		"SELECT error('mine') FROM slowdowns":        "mine",
		"SELECT CAST(service AS INT) FROM slowdowns": "Could not convert",
		"SELECT nothing FROM slowdowns":              `column "nothing" not found`,
	} {
		_, err := db.SQL(t.Context(), text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
