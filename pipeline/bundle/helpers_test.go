package bundle

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake/parquet"
	"parsimon/stages/estimators"
)

func TestMain(m *testing.M) {
	parquet.PoisonFreed = true // a reader of a released batch then finds wrong values
	code := m.Run()
	if made.dir != "" {
		_ = os.RemoveAll(made.dir)
	}
	os.Exit(code)
}

// made is the bundle that tests share: 300 flows of a trace, by estimator independent.
var made struct {
	once sync.Once
	dir  string
	file string
	lake string
}

// bundled returns the path of the shared bundle, and the lake that it was exported from.
func bundled(t testing.TB) (file, lake string) {
	t.Helper()
	made.once.Do(func() {
		dir, err := os.MkdirTemp("", "parsimon-test-*")
		if err != nil {
			t.Fatal(err)
		}
		made.dir = dir
		topology, flows := fixture.Trace(t, 300)
		by := pipeline.Variant{Estimator: estimators.Independent}
		lake := filepath.Join(dir, "lake")
		e := estimates.Of(t, lake, estimates.Trace(t, topology, flows), by, pipeline.Settings{})
		file := filepath.Join(dir, "bundle.tar.zst")
		if err := os.WriteFile(file, written(t, e), 0o644); err != nil {
			t.Fatal(err)
		}
		made.lake = lake
		made.file = file
	})
	if made.file == "" {
		t.Fatal("the shared bundle could not be made")
	}
	return made.file, made.lake
}

// written returns the bundle of an estimate.
func written(t testing.TB, e *pipeline.Estimation) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := Write(t.Context(), &out, e, Program{Version: "v0", Commit: "abc"}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// opened opens a bundle.
func opened(t testing.TB, file string) *Bundle {
	t.Helper()
	b, err := Open(t.Context(), file, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// repeated estimates the scenario of a bundle in the lake in a directory.
func repeated(t testing.TB, b *Bundle, dir string, o pipeline.Settings) *pipeline.Estimation {
	t.Helper()
	e, err := b.Begin(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Estimate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// An entry is a file of an archive.
type entry = fixture.ArchiveFile
