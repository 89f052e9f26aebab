package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/workloads"
	"parsimon/schema"
	"parsimon/stages/ingest"
)

// The flows of a whole workload are its data files. Full files are shared, not written again. If only a part
// of the workload's time is used, its flows are written.
func TestIngestedFlows(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "flows.csv")
	var text strings.Builder
	text.WriteString("src,dst,size_bytes,start_ns\n")
	const flows = 40_000
	for i := range flows {
		fmt.Fprintf(&text, "%d,%d,%d,%d\n", i%200, 201+i%50, 1+i%9000, 1000*i)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	mapping, err := ingest.FormatMapping("csv")
	if err != nil {
		t.Fatal(err)
	}
	lakeDir := filepath.Join(dir, "lake")
	trace := workloads.Trace{Sources: []string{file}, Topology: "small-2to1", Workload: "day",
		Mappings: []*ingest.Mapping{mapping}, Options: ingest.Options{Seed: 1}}
	if _, err := workloads.Ingest(t.Context(), trace, workloads.Settings{Lake: lakeDir}); err != nil {
		t.Fatal(err)
	}
	l, err := lake.Open(lakeDir, false)
	if err != nil {
		t.Fatal(err)
	}
	state, err := workloads.Resolve(l, "day")
	if err != nil {
		t.Fatal(err)
	}
	generate := func(from, to string) ([]lake.DataFile, Generated) {
		t.Helper()
		s, err := scenario.FromWorkload("small-2to1", state.Ingested())
		if err != nil {
			t.Fatal(err)
		}
		if from+to != "" {
			if err := s.SetWindow(from, to); err != nil {
				t.Fatal(err)
			}
		}
		e, err := Begin(t.Context(), lakeDir, s, Variant{}, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Generate(t.Context()); err != nil {
			t.Fatal(err)
		}
		files, err := e.Files(schema.Flows)
		if err != nil {
			t.Fatal(err)
		}
		g, err := e.Generated()
		if err != nil {
			t.Fatal(err)
		}
		return files, g
	}
	held, _, err := workloads.FlowFiles(l, state.Ingested())
	if err != nil {
		t.Fatal(err)
	}
	whole, g := generate("", "")
	if !slices.EqualFunc(whole, held, func(a, b lake.DataFile) bool { return a.Digest == b.Digest }) ||
		len(held) != 2 {
		t.Errorf("data files %v of the workload's %v", whole, held)
	}
	same := func(a, b lake.DataFile) bool {
		infos := [2]os.FileInfo{}
		for i, f := range []lake.DataFile{a, b} {
			var err error
			if infos[i], err = os.Stat(filepath.Join(lakeDir, f.Path)); err != nil {
				t.Fatal(err)
			}
		}
		return os.SameFile(infos[0], infos[1])
	}
	if !same(whole[0], held[0]) {
		t.Error("the first data file was written again")
	}
	if g.Flows != flows || g.FirstStartNS != 0 || g.LastStartNS != 1000*(flows-1) {
		t.Errorf("%+v of the whole workload", g)
	}
	part, g := generate("5", "39000000")
	if g.Flows != 38_999 || g.FirstStartNS != 1000 || g.LastStartNS != 38_999_000 || same(part[0], held[0]) {
		t.Errorf("%+v from 5 to 39,000,000 ns", g)
	}
}
