package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/schema"
)

// "parsimon schema" prints every table with every view and column.
func TestSchemaCommand(t *testing.T) {
	text := must(t, "schema")
	for _, table := range schema.Tables() {
		for _, v := range table.Views() {
			contains(t, text, "  view "+v.Name+": "+folderOf(v)+"/")
		}
		for _, c := range table.Columns {
			contains(t, text, c.Doc)
		}
	}
	var printed struct {
		Version int `json:"schema_version"`
		Tables  []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(must(t, "schema", "--format", "json")), &printed); err != nil {
		t.Fatal(err)
	}
	if printed.Version != schema.Version || len(printed.Tables) != len(schema.Tables()) {
		t.Errorf("%+v", printed)
	}
	out := must(t, "schema", "links")
	if strings.Contains(out, "\nslowdowns:") || !strings.Contains(out, "bandwidth_bps") {
		t.Errorf("one table:\n%s", out)
	}
	mustFail(t, failure{exitUsage, "nonsense", []string{"schema", "nonsense"}})
}

// Every file of a lake conforms to its table: names, types, nulls, keys, sort order, metadata.
func TestFilesKeepToSchema(t *testing.T) {
	withViews(t)
	long(t)
	t.Parallel()
	lake := filepath.Join(t.TempDir(), "lake")
	must(t, "run", tinyScenario(t, ""), "--lake", lake, "--passes", "1", "--quiet", "--exact")
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, `{"flow_id": %d, "src": %d, "dst": %d, "size_bytes": %d, "start_ns": %d}`+"\n",
			1000-i, i%3, 3+i%5, 100+i, 5000-i)
	}
	flows := filepath.Join(t.TempDir(), "f.jsonl")
	writeFiles(t, map[string]string{flows: b.String() + "{}\n"}) // the last row is rejected
	must(t, "ingest", flows, "--topology", "small-2to1", "--lake", lake, "-q")
	db := openDuckDB(t)
	checked := 0
	for _, table := range schema.Tables() {
		for _, v := range table.Views() {
			pattern := filepath.Join(lake, folderOf(v), strings.Join(v.Hive, "=*/")+"=*", "part-*.parquet")
			found, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range found {
				checked++
				db.checkFile(t, table, v, file)
			}
			if len(found) > 0 {
				db.checkKey(t, table, v, pattern)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d files", checked)
	}
}

// A duck is DuckDB without a lake, which reads files as they are.
type duck struct{ db *sql.DB }

func openDuckDB(t *testing.T) duck {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return duck{db}
}

// ask returns the only column of an answer, one line per row.
func (d duck) ask(t *testing.T, query string) string {
	t.Helper()
	rows, err := d.db.Query("SELECT CAST(a AS VARCHAR) FROM (" + query + ") AS t(a)")
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	out := ""
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		out += line + "\n"
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// folderOf returns the folder of the files of a view.
func folderOf(v schema.View) string { return strings.TrimSuffix(v.Name, schema.AllVariants) }

// derivedColumns returns the columns of a file that are not columns of its table, with their types.
func derivedColumns(table schema.Table, v schema.View) (columns string) {
	var keys []string
	switch {
	case table.Shared || table.Name == schema.Scenarios.Name:
	case v.Hive[0] == "workload":
		keys = []string{schema.WorkloadKey}
	case table.Variant:
		keys = []string{schema.ScenarioKey, schema.VariantKey}
	default:
		keys = []string{schema.ScenarioKey}
	}
	for _, key := range keys {
		columns += key + ",VARCHAR\n"
	}
	if table.HasStart() {
		columns += schema.StartTime + ",TIMESTAMP WITH TIME ZONE\n" + schema.StartDay + ",DATE\n"
	}
	return columns
}

func (d duck) checkKey(t *testing.T, table schema.Table, v schema.View, pattern string) {
	t.Helper()
	key := strings.Join(append(append([]string{}, v.Hive...), table.Key...), ", ")
	query := fmt.Sprintf("SELECT count(*) - count(DISTINCT (%s)) FROM read_parquet('%s', hive_partitioning = "+
		"true)",
		key, pattern)
	got := d.ask(t, query)
	if got != "0\n" {
		t.Errorf("%s: key %s repeats %s times", v.Name, key, strings.TrimSpace(got))
	}
}

var duckTypes = map[string]string{"bool": "BOOLEAN", "int16": "SMALLINT", "int32": "INTEGER",
	"int64": "BIGINT", "float64": "DOUBLE", "utf8": "VARCHAR", "binary": "BLOB"}

func (d duck) checkFile(t *testing.T, table schema.Table, v schema.View, file string) {
	t.Helper()
	query := fmt.Sprintf("SELECT decode(key) || '=' || decode(value) AS kv FROM parquet_kv_metadata('%s') "+
		"WHERE decode(key) LIKE 'parsimon.%%' ORDER BY 1", file)
	want := fmt.Sprintf("%s=%d\n%s=%s\n", schema.VersionKey, schema.Version, schema.TableKey, table.Name)
	got := d.ask(t, query)
	if got != want {
		t.Errorf("%s: metadata %s", file, got)
	}
	want = ""
	nulls := []string{"false"}
	for _, c := range table.Columns {
		typ := duckTypes[c.Type.String()]
		if typ == "" {
			typ = "DOUBLE[]"
		}
		want += c.Name + "," + typ + "\n"
		if !c.Nullable {
			nulls = append(nulls, c.Name+" IS NULL")
		}
	}
	want += derivedColumns(table, v)
	query = fmt.Sprintf("SELECT column_name || ',' || column_type AS c FROM "+
		"(DESCRIBE SELECT * FROM read_parquet('%s', hive_partitioning = false))", file)
	if got := d.ask(t, query); got != want {
		t.Errorf("%s has\n%swant\n%s", file, got, want)
	}
	query = fmt.Sprintf("SELECT count(*) FROM read_parquet('%s') WHERE %s", file, strings.Join(nulls, " OR "))
	if got := d.ask(t, query); got != "0\n" {
		t.Errorf("%s: %s rows with nulls where there may be none", file, strings.TrimSpace(got))
	}
	if len(table.Sort) == 0 {
		return
	}
	row := strings.Join(table.Sort, ", ")
	query = fmt.Sprintf("SELECT count(*) FROM (SELECT row(%s) < lag(row(%[1]s)) OVER (ORDER BY "+
		"file_row_number) AS back FROM read_parquet('%[2]s', file_row_number = true)) WHERE back", row, file)
	if got := d.ask(t, query); got != "0\n" {
		t.Errorf("%s is not sorted by %s", file, row)
	}
}
