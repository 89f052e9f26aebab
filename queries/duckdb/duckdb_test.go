package duckdb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOpenSetsLimits(t *testing.T) {
	spill := t.TempDir()
	db, err := Open(t.Context(), Options{MemoryBytes: 100 << 20, Threads: 3, SpillDir: spill})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// Settings hold for every connection.
	for range 2 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var memory, threads, temp, load string
		err = conn.QueryRowContext(t.Context(),
			`SELECT current_setting('memory_limit'), CAST(current_setting('threads') AS VARCHAR),
			current_setting('temp_directory'), CAST(current_setting('autoload_known_extensions') AS VARCHAR)`).Scan(&memory, &threads, &temp, &load)
		if err != nil || memory != "100.0 MiB" || threads != "3" || temp != spill || load != "false" {
			t.Errorf("memory %s, threads %s, spill %s, autoload %s: %v", memory, threads, temp, load, err)
		}
	}
}

// Casts between times with and without a zone must not depend on the environment: the same file would give
// flows that start hours apart.
func TestSessionsAreInUTC(t *testing.T) {
	t.Setenv("TZ", "America/New_York")
	const cast = "SELECT CAST(epoch_ms(CAST(TIMESTAMP '2026-01-31 09:00:00' AS TIMESTAMPTZ)) AS VARCHAR)"
	const want = "1769850000000"
	db, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := Lock(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for range 2 { // settings hold for every connection
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var got string
		if err := conn.QueryRowContext(t.Context(), cast).Scan(&got); err != nil || got != want {
			t.Errorf("Open: %s, %v, want %s", got, err, want)
		}
	}
	err = Build(filepath.Join(t.TempDir(), "x.duckdb"), func(run Runner) error {
		return run("SELECT CASE WHEN (" + cast + ") <> '" + want + "' THEN error('not in UTC') END")
	})
	if err != nil {
		t.Errorf("Build: %v", err)
	}
}

func TestOpenRefusesLimits(t *testing.T) {
	for want, o := range map[string]Options{
		"at least 64 MiB": {MemoryBytes: 1}, "limit of -5 bytes": {MemoryBytes: -5}, "-1 threads": {Threads: -1},
	} {
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestLock(t *testing.T) {
	inside := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside.txt")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(inside, "it's.txt")
	if err := os.WriteFile(file, []byte("open"), 0o644); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := Lock(t.Context(), db, file); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := db.QueryRow("SELECT content FROM read_text(" + Quote(file) + ")").Scan(&text); err != nil ||
		text != "open" {
		t.Errorf("%q, %v", text, err)
	}
	for _, s := range []string{
		"SELECT content FROM read_text(" + Quote(outside) + ")", "SET threads = 1",
		"SET allowed_directories = ['/']",
		"COPY (SELECT 1) TO " + Quote(outside), "LOAD httpfs",
	} {
		if _, err := db.Exec(s); err == nil {
			t.Errorf("%s ran in a locked database", s)
		}
	}
}

func TestErrors(t *testing.T) {
	db, err := Open(t.Context(), Options{MemoryBytes: MinMemoryBytes, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec("SELECT count(*) FROM (SELECT i, row_number() OVER (ORDER BY hash(i)) AS r FROM " +
		"range(3000000) AS t(i)) WHERE r % 2 = 0")
	if !IsOutOfMemory(err) || !IsOutOfMemory(FirstLine(err)) {
		t.Errorf("sorting in little memory: %v", err)
	}
	_, err = db.Exec("SELECT nothing\nFROM nowhere")
	if err == nil || IsOutOfMemory(err) || !strings.Contains(err.Error(), "\n") ||
		strings.Contains(FirstLine(err).Error(), "\n") {
		t.Errorf("%v; first line %v", err, FirstLine(err))
	}
	if FirstLine(nil) != nil || OrCause(t.Context(), nil) != nil {
		t.Error("nil is not nil")
	}
	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, late)
	defer cancel()
	_, err = db.ExecContext(ctx, "SELECT count(*) FROM range(1000000000000) AS a(i) WHERE hash(i) = 7")
	if err = OrCause(ctx, err); !errors.Is(err, late) {
		t.Errorf("interrupted: %v", err)
	}
}

// A path names one file, even if it has characters of patterns.
func TestScanParquet(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var files []string
	for i, name := range []string{"a*.parquet", "ab.parquet", "a[b]?.parquet", "scenario=x.parquet",
		"it's.parquet"} {
		file := filepath.Join(dir, name)
		if _, err := db.Exec("COPY (SELECT " + string(rune('1'+i)) + " AS n) TO " + Quote(file) +
			" (FORMAT parquet)"); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	var digits, columns string
	scan := ScanParquet(files...)
	if err := db.QueryRow("SELECT string_agg(n, '' ORDER BY n) FROM " + scan).Scan(&digits); err != nil ||
		digits != "12345" {
		t.Errorf("%s: %q, %v", scan, digits, err)
	}
	if err := db.QueryRow("SELECT string_agg(column_name, ' ') FROM (DESCRIBE FROM " + scan + ")").Scan(
		&columns); err != nil || columns != "n" {
		t.Errorf("%s: columns %q, %v", scan, columns, err)
	}
	got := Ident(`a"b`)
	if got != `"a""b"` {
		t.Error(got)
	}
}
