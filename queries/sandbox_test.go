package queries

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parsimon/queries/duckdb"
	"parsimon/schema"
)

const secret = "the secret beside the lake"

// waysOut are statements that try to write, to change the database or to read outside the lake.
// LAKE, OUT and PARENT stand for the lake, a file beside it and the folder of both.
var waysOut = []string{
	// Writing, inside the lake and outside.
	`COPY (SELECT 1) TO 'OUT.csv'`,
	`COPY (SELECT 1) TO 'LAKE/new.csv'`,
	`COPY slowdowns TO 'LAKE/slowdowns' (FORMAT parquet, PARTITION_BY (scenario), OVERWRITE_OR_IGNORE)`,
	`COPY (SELECT 1 AS a, 2 AS b) TO 'LAKE/parts' (FORMAT csv, PARTITION_BY (a))`,
	`COPY (SELECT 1) TO '/dev/stdout'`,
	`EXPORT DATABASE 'LAKE/export'`,
	`EXPORT DATABASE 'OUT'`,
	`COPY FROM DATABASE memory TO other`,
	`ATTACH 'LAKE/new.duckdb'`,
	`ATTACH 'OUT.duckdb' AS other`,
	`ATTACH 'sqlite:OUT.sqlite' (TYPE sqlite)`,
	`ATTACH 'host=localhost' AS pg (TYPE postgres)`,
	`SELECT * FROM enable_logging(storage = 'file', storage_path = 'LAKE/log')`,
	`SELECT * FROM "ENABLE_LOGGING"('QueryLog', storage = 'file', storage_path = 'LAKE/log')`,
	`SELECT (SELECT count(*) FROM enable_logging(storage = 'file', storage_path = 'LAKE/log'))`,
	`WITH x AS (FROM main.enable_logging(storage = 'file', storage_path = 'OUT')) FROM x`,
	`CALL enable_logging(storage = 'file', storage_path = 'LAKE/log')`,
	`SELECT write_log('x')`,
	`SELECT TRY(coalesce(1 // a, 9)) FROM (VALUES (0), (1), (2)) AS t(a)`,
	`PRAGMA enable_profiling = 'json'`,
	`SET profiling_output = 'LAKE/profile'`,
	`EXPLAIN ANALYZE SELECT 1`,
	`IMPORT DATABASE 'LAKE/export'`,
	// Changing the database.
	`CREATE TABLE t (a INTEGER)`,
	`CREATE TEMP TABLE t AS SELECT 1`,
	`CREATE OR REPLACE VIEW slowdowns AS SELECT 1`,
	`CREATE MACRO m(p) AS TABLE SELECT * FROM read_text(p)`,
	`CREATE SECRET (TYPE s3)`,
	`CREATE SEQUENCE s`,
	`INSERT INTO slowdowns SELECT * FROM slowdowns`,
	`WITH x AS (INSERT INTO nodes VALUES (1) RETURNING *) SELECT * FROM x`,
	`UPDATE slowdowns SET slowdown = 1`,
	`DELETE FROM slowdowns`,
	`TRUNCATE slowdowns`,
	`MERGE INTO nodes USING nodes AS n ON true WHEN MATCHED THEN DELETE`,
	`DROP VIEW slowdowns`,
	`ALTER VIEW slowdowns RENAME TO x`,
	`COMMENT ON VIEW slowdowns IS 'x'`,
	`VACUUM`,
	`ANALYZE`,
	`CHECKPOINT`,
	`SELECT * FROM force_checkpoint()`,
	`BEGIN TRANSACTION`,
	`USE temp`,
	`DETACH memory`,
	`PREPARE p AS SELECT 1`,
	`EXECUTE p`,
	`DEALLOCATE p`,
	`PIVOT slowdowns ON service`, // makes a type
	// Settings and extensions.
	`SET enable_external_access = true`,
	`SET lock_configuration = false`,
	`SET allowed_directories = ['/']`,
	`SET VARIABLE x = 1`,
	`RESET threads`,
	`PRAGMA threads = 1`,
	`PRAGMA version`,
	`CALL pragma_version()`,
	`INSTALL httpfs`,
	`LOAD httpfs`,
	`FORCE INSTALL sqlite FROM community`,
	`LOAD 'LAKE/x.duckdb_extension'`,
	// Several statements, and comments that try to hide them.
	`SELECT 1; SELECT 2`,
	`SELECT 1; DROP VIEW slowdowns`,
	`SET threads = 1; SELECT 1`,
	`SELECT 1 /* ; */ ; -- only this
	COPY (SELECT 1) TO 'OUT.csv'`,
	`SELECT 1 -- ; harmless
	; CREATE TABLE t (a INTEGER)`,
	`/* SELECT 1 */ CREATE TABLE t (a INTEGER)`,
	`SELECT 1) TO 'OUT.csv'; --`,
	`SELECT 1 /*`,
	"SELECT 1;\x00 DROP VIEW slowdowns",
	``,
	`;`,
	`-- nothing`,
	// Reading outside.
	`SELECT * FROM read_csv('/etc/passwd')`,
	`SELECT * FROM '/etc/passwd'`,
	`FROM "OUT.csv"`,
	`FROM "OUT"."csv"`,
	`FROM "LAKE/./../outside"."csv"`,
	`FROM 'LAKE/./../outside.csv'`,
	`SELECT * FROM read_text('OUT.csv')`,
	`SELECT * FROM read_blob('OUT.csv')`,
	`SELECT * FROM read_json('OUT.csv')`,
	`SELECT * FROM read_parquet('OUT.csv')`,
	`SELECT * FROM parquet_metadata('OUT.csv')`,
	`SELECT * FROM sniff_csv('OUT.csv')`,
	`SELECT * FROM glob('/**')`,
	`SELECT * FROM glob('PARENT/*')`,
	`SELECT * FROM glob('../*')`,
	`SELECT * FROM read_text('../outside.csv')`,
	`SELECT * FROM read_text('LAKE/../outside.csv')`,
	`SELECT * FROM read_text('LAKE/./../outside.csv')`, // DuckDB 1.4.1 itself lets this through
	`SELECT * FROM read_text('LAKE/nodes/./../../outside.csv')`,
	`SELECT * FROM read_text('LAKE//../outside.csv')`,
	`SELECT * FROM read_text('LAKE/*/../../outside.csv')`,
	`SELECT * FROM read_text('LAKE/[.][.]/outside.csv')`,
	`SELECT * FROM read_text(['LAKE/_state/x.json', 'OUT.csv'])`,
	`SELECT * FROM read_text('LAKE/./' || '../outside.csv')`,
	`SELECT * FROM read_text(getvariable('x'))`,
	`SELECT * FROM nodes AS n, read_text(n.name)`,
	`SELECT * FROM read_text('LAKEside/x')`,
	`SELECT * FROM read_text('/proc/self/environ')`,
	`SELECT * FROM read_text('file://OUT.csv')`,
	`SELECT (SELECT content FROM read_text('OUT.csv'))`,
	`SELECT * FROM nodes WHERE name IN (SELECT content FROM read_text('OUT.csv'))`,
	`SELECT 1 ORDER BY (SELECT content FROM read_text('LAKE/./../outside.csv'))`,
	`SELECT 1 UNION ALL SELECT 2 FROM read_text('LAKE/./../outside.csv')`,
	`WITH RECURSIVE x AS (SELECT content FROM read_text('LAKE/./../outside.csv')) SELECT * FROM x`,
	`DESCRIBE FROM read_csv('LAKE/./../outside.csv')`,
	`SUMMARIZE FROM read_csv('LAKE/./../outside.csv')`,
	`SELECT * FROM query('SELECT * FROM read_text(''LAKE/./../outside.csv'')')`,
	`SELECT * FROM query_table('LAKE/./../outside.csv')`,
	`SELECT json_serialize_plan('SELECT * FROM read_csv(''LAKE/./../outside.csv'')')`,
	`SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''LAKE/./../outside.csv'')'))`,
	`PRAGMA json_execute_serialized_sql(json_serialize_sql('SELECT 1'))`,
	`SELECT * FROM histogram('LAKE/./../outside.csv', a)`,
	`SELECT * FROM read_csv('https://example.com/x.csv')`,
	`SELECT * FROM read_parquet('s3://bucket/x.parquet')`,
	`SELECT * FROM sqlite_scan('OUT.sqlite', 't')`,
	`SELECT * FROM postgres_scan('host=localhost', 's', 't')`,
	`SELECT * FROM arrow_scan(1::UBIGINT::POINTER, 1::UBIGINT::POINTER, 1::UBIGINT::POINTER)`,
	`SELECT * FROM duckdb_secrets()`,
	`SELECT * FROM which_secret('s3://x', 's3')`,
	`SELECT getenv('HOME')`,
	`SELECT content FROM read_text('LAKE/_state/x.json')`,
	// Common table expressions with the names of files.
	`WITH "OUT.csv" AS (SELECT * FROM "OUT.csv") SELECT * FROM "OUT.csv"`,
	`WITH "outside.csv" AS (SELECT * FROM "outside.csv") SELECT * FROM "outside.csv"`,
	`WITH "LAKE/./../outside.csv" AS (SELECT * FROM "LAKE/./../outside.csv") SELECT * FROM "LAKE/./../outside.csv"`,
	`WITH "PARENT/*.csv" AS (SELECT * FROM "PARENT/*.csv") SELECT * FROM "PARENT/*.csv"`,
	`WITH a AS (SELECT * FROM "OUT.csv"), "OUT.csv" AS (SELECT 1) SELECT * FROM a`,
	`SELECT (WITH "OUT.csv" AS (SELECT 1) SELECT 2), * FROM "OUT.csv"`,
	`FROM "LAKE/_state/x.json"`,
}

// fingerprint hashes every name, size, time and content below a folder.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(h, path, info.Mode(), info.ModTime().UnixNano())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			h.Write(data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// lakeWithSecret returns a lake with a secret beside it, which is also the working directory.
func lakeWithSecret(t *testing.T) (db *DB, lake string, fill func(string) string) {
	t.Helper()
	lake, err := filepath.EvalSymlinks(makeKnownLake(t))
	if err != nil {
		t.Fatal(err)
	}
	parent := filepath.Dir(lake)
	if err := os.WriteFile(filepath.Join(parent, "outside.csv"), []byte(secret+"\n1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(parent)
	r := strings.NewReplacer("LAKE", lake, "OUT", filepath.Join(parent, "outside"), "PARENT", parent)
	return open(t, lake, Options{}), lake, r.Replace
}

func TestWaysOut(t *testing.T) {
	db, lake, fill := lakeWithSecret(t)
	before := fingerprint(t, filepath.Dir(lake))
	if len(waysOut) < 100 {
		t.Errorf("only %d ways out", len(waysOut))
	}
	for _, text := range waysOut {
		text = fill(text)
		out, err := written(db, text, "csv")
		if err == nil {
			t.Errorf("%q ran: %.200s", text, out)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q reveals the secret: %v", text, err)
		}
		after := fingerprint(t, filepath.Dir(lake))
		if after != before {
			t.Errorf("%q changed files", text)
			before = after
		}
	}
	// The database has not changed.
	got := sqlCSV(t, db, "SELECT count(*) AS n FROM slowdowns_all")
	if got != "n\n18\n" {
		t.Error(got)
	}
	got = sqlCSV(t, db, "SELECT count(*) AS n FROM duckdb_tables()")
	if got != "n\n0\n" {
		t.Error(got)
	}
}

// DuckDB's lock protects files even without InspectSelect and checkType.
func TestLockWithoutChecks(t *testing.T) {
	db, lake, fill := lakeWithSecret(t)
	before := fingerprint(t, filepath.Dir(lake))
	for _, text := range []string{
		`COPY (SELECT 1) TO 'OUT2.csv'`, `SELECT * FROM read_text('OUT.csv')`, `SELECT * FROM glob('PARENT/*')`,
		`SELECT * FROM read_text('LAKE/../outside.csv')`, `EXPORT DATABASE 'OUT'`, `ATTACH 'OUT.duckdb'`,
		`INSTALL httpfs`,
		`LOAD httpfs`, `SET enable_external_access = true`, `SET allowed_directories = ['/']`,
		`SET lock_configuration = false`,
		`RESET lock_configuration`, `SET temp_directory = 'OUT'`,
	} {
		if _, err := db.sql.Exec(fill(text)); err == nil {
			t.Errorf("%s ran", text)
		}
	}
	if fingerprint(t, filepath.Dir(lake)) != before {
		t.Error("files changed")
	}
}

// The sandbox must not refuse ordinary statements.
func TestSelectsRun(t *testing.T) {
	tableViews := 0
	for _, table := range schema.Tables() {
		tableViews += len(table.Views())
	}
	db, _, fill := lakeWithSecret(t)
	for text, want := range map[string]string{
		`SELECT 1 AS a`:                               "a\n1\n",
		`SELECT 1 AS a;`:                              "a\n1\n",
		`SELECT 1 AS a; -- the end`:                   "a\n1\n",
		`/* first */ SELECT ';' AS a`:                 "a\n;\n",
		`VALUES (1)`:                                  "col0\n1\n",
		`FROM nodes SELECT count(*) AS n`:             "n\n4\n",
		`SELECT count(*) AS n FROM (TABLE nodes)`:     "n\n4\n",
		`WITH x AS (SELECT 2 AS a) FROM x`:            "a\n2\n",
		`SELECT count(*) AS n FROM (DESCRIBE nodes)`:  "n\n7\n",
		`SELECT count(*) AS n FROM (SUMMARIZE nodes)`: "n\n7\n",
		`SELECT count(*) AS n FROM (SHOW TABLES)`:     fmt.Sprintf("n\n%d\n", tableViews+7+len(listed(t))),
		`FROM (PIVOT nodes ON kind IN ('host', 'tor') USING count(*)) SELECT sum(host) AS host`: "host\n2\n",
		`SELECT count(*) AS n FROM range(3)`:                                                    "n\n3\n",
		`SELECT unnest([1, 2]) AS a`:                                                            "a\n1\n2\n",
		`SELECT count(*) AS n FROM 'LAKE/nodes/scenario=aaa/part-00000.parquet'`:                "n\n4\n",
		`SELECT name FROM scenarios WHERE scenario = '007'`:                                     "name\nties\n",
		`SELECT a, a FROM (SELECT 1 AS a)`:                                                      "a,a_1\n1,1\n",
	} {
		got := sqlCSV(t, db, fill(text))
		if got != want {
			t.Errorf("%s gives %q, want %q", text, got, want)
		}
	}
}

func TestRefusalIsNamed(t *testing.T) {
	db, _, fill := lakeWithSecret(t)
	for _, text := range []string{`COPY (SELECT 1) TO 'OUT.csv'`, `SELECT 1; SELECT 2`, `PRAGMA version`,
		`FROM read_text('OUT.csv')`} {
		if _, err := db.SQL(context.Background(), fill(text)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{`SELEC 1`: "syntax error", `FROM slowdown`: "slowdowns",
		`SELECT $1`: "parameters"} {
		if _, err := db.SQL(context.Background(), text); err == nil || errors.Is(err, ErrRefused) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestLinks(t *testing.T) {
	_, lake, _ := lakeWithSecret(t)
	link := filepath.Join(lake, "nodes", "scenario=link")
	if err := os.Symlink(filepath.Join(lake, "nodes", "scenario=aaa"), link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	db := open(t, lake, Options{}) // a link within the lake is fine
	got := sqlCSV(t, db, "SELECT count(*) AS n FROM nodes")
	if got != "n\n8\n" {
		t.Error(got)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(filepath.Dir(lake), "elsewhere")
	if err := os.CopyFS(outside, os.DirFS(filepath.Join(lake, "nodes", "scenario=aaa"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, lake, Options{}).SQL(t.Context(), "FROM nodes"); err == nil ||
		!strings.Contains(err.Error(), "leads out of the lake over a symbolic link") {
		t.Error(err)
	}
	// The lake itself may be a link.
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other name")
	if err := os.Symlink(lake, other); err != nil {
		t.Fatal(err)
	}
	got = sqlCSV(t, open(t, other, Options{}), "SELECT count(*) AS n FROM nodes")
	if got != "n\n4\n" {
		t.Error(got)
	}
}

func TestOpenErrors(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(empty, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(empty, "a*b")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(empty, "missing"): "no such directory", empty: "holds no tables yet",
		file: "is not a directory", odd: "pattern",
	} {
		if _, err := tryOpen(t, path, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", path, want, err)
		}
	}
	_, err := tryOpen(t, makeKnownLake(t), limits(1, 1))
	if err == nil || !strings.Contains(err.Error(), "at least 64 MiB") {
		t.Error(err)
	}
}

// A query that exceeds the memory limit fails with DuckDB's error, or spills if there is a directory for it.
func TestMemoryLimit(t *testing.T) {
	lake := makeKnownLake(t)
	spill := t.TempDir()
	before := fingerprint(t, lake)
	const text = "SELECT count(*) AS n FROM (SELECT i, row_number() OVER (ORDER BY hash(i)) AS r FROM " +
		"range(3000000) AS t(i)) WHERE r % 2 = 0"
	tight := open(t, lake, limits(1, duckdb.MinMemoryBytes))
	if _, err := tight.SQL(context.Background(), text); err == nil {
		t.Error("ran within 64 MiB")
	} else if !strings.Contains(err.Error(), "Out of Memory") {
		t.Error(err)
	}
	spilling := open(t, lake,
		Options{Options: duckdb.Options{MemoryBytes: duckdb.MinMemoryBytes, Threads: 1, SpillDir: spill}})
	got := sqlCSV(t, spilling, text)
	if got != "n\n1500000\n" {
		t.Error(got)
	}
	if fingerprint(t, lake) != before {
		t.Error("the lake changed")
	}
}

func TestCancel(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := db.SQL(ctx, "SELECT count(*) FROM range(1000000000000) AS a(i) WHERE hash(i) = 7"); err == nil {
		t.Fatal("counted to 1e12")
	}
	// The database can be used again.
	got := sqlCSV(t, db, "SELECT 1 AS a")
	if got != "a\n1\n" {
		t.Error(got)
	}
}

// Statements may run concurrently, even if each is the first to read a view.
func TestConcurrent(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			a, err := db.SQL(t.Context(), "FROM slowdowns ORDER BY ALL")
			if err != nil || a.Rows[0][0] != int64(0) || !slices.Contains(a.Columns, "slowdown") {
				t.Errorf("%v %v", a, err)
			}
		})
	}
	all.Wait()
}
