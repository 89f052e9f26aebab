package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/stages/estimators"
)

// A changed archive is an error that names the changed file in it. Nothing is written outside of the
// directory, and only files of input tables are written.
func TestChangedArchivesAreErrors(t *testing.T) {
	file, _ := bundled(t)
	const nodes = "inputs/nodes/part-00000.parquet"
	for name, c := range map[string]struct {
		change func(all []entry) []entry
		want   []string // parts of the error
	}{
		"a byte of a file": {func(all []entry) []entry {
			all[1].Data[100] ^= 1
			return all
		}, []string{nodes, "the bundle was changed"}},
		"a longer file": {func(all []entry) []entry {
			all[1].Data = append(all[1].Data, 0)
			return all
		}, []string{nodes, "bytes, and bundle.json states"}},
		"another order": {func(all []entry) []entry {
			all[1], all[2] = all[2], all[1]
			return all
		}, []string{nodes, "has \"inputs/links/part-00000.parquet\" in its place"}},
		"a missing file": {func(all []entry) []entry { return all[:len(all)-1] },
			[]string{"inputs/flows/part-00000.parquet", "cut"}},
		"a file twice": {func(all []entry) []entry { return append(all, all[len(all)-1]) },
			[]string{"inputs/flows/part-00000.parquet", "does not list"}},
		"a file more": {func(all []entry) []entry {
			return append(all, entry{Header: header("../../evil", 0), Data: []byte("x")})
		}, []string{"../../evil", "does not list"}},
		"a link": {func(all []entry) []entry {
			all[1].Header.Typeflag = tar.TypeSymlink
			all[1].Header.Linkname = "/etc/passwd"
			all[1].Data = nil
			return all
		}, []string{nodes, "not a plain file"}},
		"extended headers": {func(all []entry) []entry {
			all[1].Header.Format = tar.FormatPAX
			all[1].Header.PAXRecords = map[string]string{"x.y": "z"}
			return all
		}, []string{nodes, "not a plain file"}},
		"no manifest": {func(all []entry) []entry { return all[1:] },
			[]string{"bundle.json", "no bundle of parsimon export", nodes}},
		"nothing":         {func([]entry) []entry { return nil }, []string{"bundle.json", "cut"}},
		"text, no JSON":   {manifest(func(m map[string]any) { clear(m) }), []string{"bundle.json", "format 0"}},
		"a later format":  {manifest(func(m map[string]any) { m["parsimon_bundle"] = 2 }), []string{"format 2"}},
		"a wrong type":    {manifest(func(m map[string]any) { m["files"] = 3 }), []string{"bundle.json", "files"}},
		"a listed path":   {listed("name", "../../evil"), []string{"bundle.json", "../../evil"}},
		"an absolute one": {listed("name", "/tmp/evil"), []string{"bundle.json", "/tmp/evil"}},
		"another table":   {listed("name", "inputs/slowdowns/part-00000.parquet"), []string{"slowdowns"}},
		"another number":  {listed("name", "inputs/nodes/part-00001.parquet"), []string{"part-00001"}},
		"a negative size": {listed("bytes", -1), []string{nodes, "-1 bytes"}},
		"a huge size":     {listed("bytes", int64(1)<<62), []string{nodes, "bytes: an archive of this size"}},
		"another digest":  {listed("sha256", strings.Repeat("0", 64)), []string{nodes, "the bundle was changed"}},
	} {
		data := fixture.Archive(t, c.change(fixture.ReadArchive(t, file)), window)
		checkRefused(t, name, data, c.want...)
	}
}

// manifest changes the manifest of an archive.
func manifest(change func(m map[string]any)) func(all []entry) []entry {
	return func(all []entry) []entry {
		var m map[string]any
		if err := json.Unmarshal(all[0].Data, &m); err != nil {
			panic(err)
		}
		change(m)
		text, err := json.Marshal(m)
		if err != nil {
			panic(err)
		}
		all[0].Data = text
		return all
	}
}

// listed changes a value of the first file in the manifest.
func listed(key string, value any) func(all []entry) []entry {
	return manifest(func(m map[string]any) { m["files"].([]any)[0].(map[string]any)[key] = value })
}

// checkRefused checks that an archive is refused with an error that has the given parts. Only data files of
// input tables may remain.
func checkRefused(t *testing.T, name string, data []byte, wants ...string) {
	t.Helper()
	outer := t.TempDir()
	dir := filepath.Join(outer, "in")
	_, err := unpack(t.Context(), bytes.NewReader(data), int64(len(data)), dir)
	if err == nil {
		t.Errorf("%s: not refused", name)
		return
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: no %q in %q", name, want, err)
		}
	}
	checkNames(t, name, outer)
}

// checkNames checks that all files below a directory are data files of input tables.
func checkNames(t *testing.T, name, dir string) {
	t.Helper()
	paths := slices.Concat(found(t, dir, "*"), found(t, dir, "in/*"), found(t, dir, "in/inputs/*/*"))
	for _, path := range paths {
		rest, _ := filepath.Rel(dir, path)
		ok := rest == "in" || rest == "in/inputs"
		for _, t := range pipeline.InputTables {
			ok = ok || rest == "in/"+fileName(t, 0)
		}
		if !ok {
			t.Errorf("%s: left %s", name, rest)
		}
	}
}

func found(t *testing.T, dir, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// An archive that is cut anywhere, or has bytes after its end, is an error. Otherwise, a bundle that was only
// partly copied would be repeated with fewer flows.
func TestCutArchivesAreErrors(t *testing.T) {
	file, _ := bundled(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += max(1, min(at, 997)) {
		checkRefused(t, "cut", whole[:at])
	}
	checkRefused(t, "without its last byte", whole[:len(whole)-1], "cut")
	longer := append(slices.Clone(whole), "more"...)
	checkRefused(t, "with other bytes behind it", longer, "after the last file")
	broken := slices.Clone(whole)
	broken[len(broken)-1] ^= 1
	checkRefused(t, "with another checksum", broken, "CRC")
}

// An archive must not need more memory or disk than its size allows.
func TestLargeArchivesAreErrors(t *testing.T) {
	large := []entry{{Header: header("other", 0), Data: make([]byte, 4*window)}}
	checkRefused(t, "a larger window", fixture.Archive(t, large, 2*window), "bundle.json", "window")
	checkRefused(t, "the window of bundles", fixture.Archive(t, large, window), "bundle.json", "other")
	zeros := entry{Header: header(manifestName, 0), Data: make([]byte, unpackedBytes+unpackedBytes/4)}
	bomb := fixture.Archive(t, []entry{zeros}, window)
	checkRefused(t, "a manifest of zeros", bomb, "bundle.json", "more than a bundle can have")
}

// If writing a bundle fails or is interrupted, it is an error: the caller must not keep what was written.
func TestFailedWritesAreErrors(t *testing.T) {
	_, from := bundled(t)
	model, err := pipeline.OpenModel(t.Context(), estimates.Open(t, from), "")
	if err != nil {
		t.Fatal(err)
	}
	e := pipeline.ReadOnly(model, pipeline.Variant{Estimator: estimators.Independent}, pipeline.Settings{})
	full := errors.New("disk full")
	if _, err := Write(t.Context(), &failing{full}, e, Program{}); !errors.Is(err, full) {
		t.Errorf("%v, want %v", err, full)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Write(stopped, io.Discard, e, Program{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	exact := pipeline.ReadOnly(model, pipeline.Variant{Estimator: estimators.Exact}, pipeline.Settings{})
	_, err = Write(t.Context(), io.Discard, exact, Program{})
	if err == nil || !strings.Contains(err.Error(), "exact") {
		t.Errorf("an estimate that the lake does not have: %v", err)
	}
}

// A failing writer fails.
type failing struct{ err error }

// Write implements io.Writer.
func (f *failing) Write([]byte) (int, error) { return 0, f.err }

// FuzzUnpack unpacks arbitrary bytes, as they are and as the tar archive in a valid compression. The result
// is an error, or files that have the names and sizes that the manifest states.
func FuzzUnpack(f *testing.F) {
	file, _ := bundled(f)
	whole, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range fixture.ReadArchive(f, file)[:1] {
		err = errors.Join(err, w.WriteHeader(e.Header))
		_, writeErr := w.Write(e.Data)
		err = errors.Join(err, writeErr)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(whole, false)
	f.Add(archive.Bytes(), true)
	f.Add([]byte("PK\x03\x04"), false)
	f.Fuzz(func(t *testing.T, data []byte, isTar bool) {
		if isTar {
			data = fixture.Compress(t, data, window)
		}
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		m, err := unpack(t.Context(), bytes.NewReader(data), int64(len(data)), dir)
		checkNames(t, "fuzz", outer)
		if err != nil {
			return
		}
		for _, file := range m.Files {
			info, err := os.Stat(filepath.Join(dir, file.Name))
			if err != nil || info.Size() != file.Bytes {
				t.Errorf("%s: %v", file.Name, err)
			}
		}
	})
}
