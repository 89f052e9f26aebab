package duckdb

import (
	"context"
	"database/sql"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestInspectSelect(t *testing.T) {
	db, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, text := range []string{
		"SELECT a + 1 AS b FROM source WHERE c = 'x; -- y'",
		"WITH s AS (SELECT * FROM Source) SELECT x FROM s, unnest([1, 2]) AS u(x)",
		"SELECT * FROM source UNION ALL SELECT * FROM source -- twice",
	} {
		if _, err := InspectSelect(t.Context(), conn, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"SELECT (SELECT content FROM read_text('/etc/hostname')) FROM source":      `"read_text" is not allowed`,
		"SELECT * FROM source, enable_logging(storage := 'file')":                  `"enable_logging" is not allowed`,
		"SELECT * FROM source WHERE EXISTS (FROM glob('*'))":                       `"glob" is not allowed`,
		"WITH s AS (FROM read_csv('/etc/passwd')) SELECT * FROM s":                 `"read_csv" is not allowed`,
		"SELECT json_execute_serialized_sql('{}') FROM source":                     "is not allowed",
		"SELECT 1 FROM source; COPY (SELECT 1) TO '/tmp/x.csv'":                    "",
		"SELECT 1) FROM source UNION ALL (SELECT content FROM read_text('/etc/x')": "syntax error",
		"COPY (SELECT 1) TO '/tmp/x.csv'":                                          "",
		"SELECT 1\x00 FROM source":                                                 "zero byte",
	} {
		if _, err := InspectSelect(t.Context(), conn, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	const text = "WITH Mine AS (FROM Theirs) SELECT * FROM mine, main.Other, m(Third), m('fourth'), range(3) " +
		"ORDER BY (FROM fifth)"
	s, err := InspectSelect(t.Context(), conn, text, "m")
	want := []string{"fifth", "fourth", "m", "mine", "other", "theirs", "third"}
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(s.Relations)), want) || !s.Defined["mine"] ||
		s.Metadata {
		t.Errorf("%s reads %+v, %v", text, s, err)
	}
}

// For any name of a file in a SELECT, DuckDB opens only the files of Lock and writes nothing.
func FuzzLock(f *testing.F) {
	dir := f.TempDir()
	const secret = "a secret of the house"
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"s.csv", "s.txt", "s", "s.json"} {
		if err := os.WriteFile(at(name), []byte("a,b\n"+secret+",1\n"), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	db, err := Open(f.Context(), Options{Threads: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	for name, text := range map[string]string{"open.parquet": "open", "s.parquet": secret} {
		if _, err := db.ExecContext(f.Context(), "COPY (SELECT "+Quote(text)+" AS a) TO "+
			Quote(at(name))); err != nil {
			f.Fatal(err)
		}
	}
	if err := Lock(f.Context(), db, at("open.parquet")); err != nil {
		f.Fatal(err)
	}
	conn, err := db.Conn(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Chdir(dir)
	for _, name := range []string{"s.csv", "s.*", "s.parquet", "open.parquet/../s.csv", "./s.csv", "s.json",
		"[s].csv", "*"} {
		for _, shape := range lockShapes {
			f.Add(strings.ReplaceAll(shape, "FILE", at(name)))
			f.Add(strings.ReplaceAll(shape, "FILE", name))
		}
	}
	before, _ := os.ReadDir(dir)
	long := func(text string) bool {
		return slices.ContainsFunc([]string{"range", "repeat", "generate", "recursive"},
			func(s string) bool { return strings.Contains(strings.ToLower(text), s) })
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := InspectSelect(t.Context(), conn, text); err == nil && !long(text) {
			var found string // the first row, all columns
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = conn.QueryRowContext(ctx, "SELECT CAST(t AS VARCHAR) FROM ("+text+"\n) AS t LIMIT 1").Scan(&found)
			if strings.Contains(found, secret) && !strings.Contains(text, secret) {
				t.Errorf("%q reads %q", text, found)
			}
		}
		after, _ := os.ReadDir(dir)
		if len(after) != len(before) {
			t.Fatalf("%q wrote a file", text)
		}
	})
}

// lockShapes are statements that name files in all known ways.
var lockShapes = []string{
	`SELECT * FROM "FILE"`, `SELECT * FROM 'FILE'`, `FROM "FILE" AS x SELECT x.*`, `TABLE "FILE"`,
	`WITH "FILE" AS (SELECT * FROM "FILE") SELECT * FROM "FILE"`,
	`WITH "FILE" AS MATERIALIZED (SELECT * FROM "FILE") SELECT * FROM "FILE"`,
	`WITH a AS (SELECT * FROM "FILE"), "FILE" AS (SELECT 1) SELECT * FROM a`,
	`WITH "FILE" AS (SELECT 1), b AS (WITH "FILE" AS (SELECT * FROM "FILE") FROM "FILE") SELECT * FROM b`,
	`SELECT (WITH "FILE" AS (SELECT 1) SELECT 2), * FROM "FILE"`,
	`SELECT * FROM main."FILE"`, `SELECT * FROM "FILE"."FILE"`, `SELECT * FROM memory.main."FILE"`,
	`SELECT * FROM read_csv('FILE')`, `SELECT * FROM read_text('FILE')`, `SELECT * FROM read_blob(['FILE'])`,
	`SELECT * FROM read_parquet('FILE')`, `SELECT * FROM read_json_auto('FILE')`, `SELECT * FROM glob('FILE')`,
	`SELECT * FROM sniff_csv('FILE')`, `SELECT * FROM parquet_metadata('FILE')`,
	`SELECT * FROM query_table('FILE')`,
	`SELECT * FROM query('FROM ''FILE''')`, `SELECT * FROM (SUMMARIZE "FILE")`,
	`SELECT * FROM (DESCRIBE "FILE")`,
	`SELECT 1 WHERE EXISTS (FROM "FILE")`, `SELECT 1 UNION ALL BY NAME FROM "FILE"`,
	`VALUES ((FROM "FILE" SELECT a))`,
	`SELECT * FROM (PIVOT "FILE" ON a IN ('x') USING count(*))`, `SELECT * FROM (UNPIVOT "FILE" ON COLUMNS(*))`,
	`SELECT * FROM (SELECT 1) AS x ASOF JOIN "FILE" ON true`, `SELECT * FROM unnest([1]), LATERAL (FROM "FILE")`,
	`COPY (SELECT 1) TO 'FILE.new'`, `ATTACH 'FILE.db'`, `INSTALL 'FILE'`, `LOAD 'FILE'`,
	`PRAGMA import_database('FILE')`,
	`EXPORT DATABASE 'FILE'`, `SET temp_directory = 'FILE'`,
	`CALL enable_logging(storage = 'file', storage_path = 'FILE')`,
	`SELECT json_serialize_plan('FROM ''FILE''')`,
	`SELECT json_execute_serialized_sql(json_serialize_sql('FROM ''FILE'''))`,
	`SELECT getenv('FILE')`, `SELECT * FROM 'https://FILE'`, `SELECT * FROM 's3://FILE'`,
	`SELECT * FROM 'file://FILE'`,
}

// More common table expressions of a statement come before its own ones, which may read them.
func TestWithExpressions(t *testing.T) {
	views := []string{"a AS (SELECT 1)", "b AS (FROM a)"}
	const with = "a AS (SELECT 1), b AS (FROM a)"
	for text, want := range map[string]string{
		"SELECT * FROM b": "WITH " + with + "\nSELECT * FROM b",
		"-- about WITH\n\n-- b\nWITH c AS (FROM b) FROM c": "WITH " + with + ", c AS (FROM b) FROM c",
		"WITH RECURSIVE c AS (FROM c) FROM c":              "WITH RECURSIVE " + with + ", c AS (FROM c) FROM c",
	} {
		got := WithExpressions(text, views...)
		if got != want {
			t.Errorf("%s: got %s", text, got)
		}
		got = WithExpressions(text)
		if got != text {
			t.Errorf("%s without views: got %s", text, got)
		}
	}
}

// prepare prepares a statement and does not run it.
func prepare(ctx context.Context, db *sql.DB, text string) error {
	statement, err := db.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer statement.Close()
	return nil
}

// Planning a small question takes longer than answering it. If the driver's preparation planned it, too, each
// question would take longer. A statement that reads a missing file shows when it is planned.
func TestPlanOnce(t *testing.T) {
	db, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const text = "WITH rows AS (FROM 'missing.parquet') FROM rows"
	once, _ := PlanOnce(text)
	for _, c := range []struct {
		text    string
		planned bool
	}{{text, true}, {once, false}} {
		err := prepare(t.Context(), db, c.text)
		if (err != nil) != c.planned {
			t.Errorf("%s: prepared with error %v", c.text, err)
		}
	}
	sum, value := PlanOnce("SELECT sum(n) FROM (SELECT 7 AS n UNION ALL SELECT 8)")
	var got int
	err = db.QueryRowContext(t.Context(), sum, value).Scan(&got)
	if err != nil || got != 15 {
		t.Errorf("%d, %v, want 15", got, err)
	}
}
