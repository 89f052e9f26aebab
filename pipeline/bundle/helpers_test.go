package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

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
type entry struct {
	header *tar.Header
	data   []byte
}

// entries returns the files of an archive.
func entries(t testing.TB, file string) (all []entry) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := zstd.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	archive := tar.NewReader(plain)
	for {
		h, err := archive.Next()
		if err != nil {
			return all
		}
		var content bytes.Buffer
		if _, err := content.ReadFrom(archive); err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{h, content.Bytes()})
	}
}

// packed returns an archive of files, compressed with a window.
func packed(t testing.TB, all []entry, window int) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, e := range all {
		h := *e.header
		h.Size = int64(len(e.data))
		if err := archive.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return compressedBytes(t, out.Bytes(), window)
}

// compressedBytes compresses bytes with a window.
func compressedBytes(t testing.TB, data []byte, window int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err == nil {
		_, err = w.Write(data)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
