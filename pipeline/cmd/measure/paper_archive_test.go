package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// archivePaper returns a measurement with an empty folder of runs.
func archivePaper(t *testing.T) *paper {
	t.Helper()
	b := &bench{program: "false", records: t.TempDir(), minutes: 0, tmp: t.TempDir()}
	return &paper{bench: b, folder: b.recordsOf("paper"), method: "method 2"}
}

// Another machine continues from the archive. What it has measured itself stays, and runs of another method
// are not taken.
func TestArchiveContinuesOnAnotherMachine(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(archiveFile), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(seed uint64, method string, flows int64) paperRun {
		item := paperItem{Section: "parking", Name: "short"}
		return paperRun{Item: item, Way: byExact, Seed: seed, Length: time.Second, Method: method, Flows: flows}
	}
	first := archivePaper(t)
	for _, r := range []paperRun{run(1, "method 2", 7), run(2, "method 2", 8), run(3, "method 1", 9)} {
		first.store(first.runFile(r), r)
	}
	first.pack()
	second := archivePaper(t)
	own := run(2, "method 2", 80)
	second.store(second.runFile(own), own)
	second.unpack()
	for seed, want := range map[uint64]int64{1: 7, 2: 80, 3: 0} {
		got, stored := second.stored(run(seed, "", 0))
		if stored != (want > 0) || stored && got.Flows != want {
			t.Errorf("seed %d: stored: %v, %d flows, want %d", seed, stored, got.Flows, want)
		}
	}
	if first.err != nil || second.err != nil {
		t.Error(first.err, second.err)
	}
}

// A damaged archive is an error that names the line. It writes no file outside the folder of runs.
func TestDamagedArchive(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"file": "a.json", "value": `, "line 2: "},
		{`{"file": "../a.json", "value": {"method": "method 2"}}`, "not the name of a JSON file"},
		{`{"file": "a.yaml", "value": {"method": "method 2"}}`, "not the name of a JSON file"},
		{`{"file": "a.json", "value": 3}`, "a.json: "},
		{`{"file": "a.json"}`, "a.json: "},
	} {
		t.Chdir(t.TempDir())
		p := archivePaper(t)
		good := `{"file": "b.json", "value": {"method": "method 1"}}` + "\n"
		if err := os.MkdirAll(filepath.Dir(archiveFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(archiveFile, []byte(good+c.line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		p.unpack()
		if p.err == nil || !strings.Contains(p.err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.line, p.err, c.want)
		}
		outside := filepath.Join(p.folder, "..", "a.json")
		if _, err := os.Stat(outside); err == nil {
			t.Errorf("%s: wrote %s", c.line, outside)
		}
	}
}
