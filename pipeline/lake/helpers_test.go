package lake

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
)

func TestMain(m *testing.M) {
	parquet.PoisonFreed = true
	os.Exit(m.Run())
}

// at is the place of the scenario that these tests use.
var at = Of("cafecafecafecafe")

func openLake(t *testing.T) *Lake {
	t.Helper()
	l, err := Open(filepath.Join(t.TempDir(), "lake"), true)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lock opens a session on a place. It is closed at the end of the test.
func lock(t *testing.T, l *Lake, p Place) *Session {
	t.Helper()
	s, err := l.Lock(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// rows returns n random rows of a table.
func rows(t schema.Table, seed uint64, n int) arrow.Record {
	return fixture.Batch(t, rand.New(rand.NewPCG(seed, 1)), n)
}

// write writes data file n of a table.
func write(t *testing.T, s *Session, p Place, table schema.Table, n, rowCount int) DataFile {
	t.Helper()
	rec := rows(table, uint64(n), rowCount)
	defer rec.Release()
	d, err := s.WriteFile(table, p, p.File(table, n), rec)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// count reads files to their end and returns the number of their rows.
func count(l *Lake, table schema.Table, files ...DataFile) (n int64, err error) {
	in := l.Read(table, files, nil)
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return n, in.Close()
		}
		if err != nil {
			return n, errors.Join(err, in.Close())
		}
		n += rec.NumRows()
		rec.Release()
	}
}

// there reports whether a lake-relative path exists.
func there(t *testing.T, l *Lake, path string) bool {
	t.Helper()
	_, err := os.Lstat(filepath.Join(l.Path(), path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// change rewrites a lake-relative file.
func change(t *testing.T, l *Lake, path string, how func(data []byte) []byte) {
	t.Helper()
	file := filepath.Join(l.Path(), path)
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, how(data), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
