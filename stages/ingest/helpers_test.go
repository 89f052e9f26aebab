package ingest

import (
	"os"
	"path/filepath"
	"testing"

	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/schema/daily"
	"parsimon/stages/topology"
)

// leavesOut reports whether case i of a table of similar cases is left out, because each plans the statements
// of a mapping, which takes 0.3 s of processor time. Every second case runs today, the others tomorrow, and
// with PARSIMON_LONG=1 all of them. With -short those of inShort run.
func leavesOut(t *testing.T, i int, inShort bool) bool {
	t.Helper()
	runs := daily.Runs(i, 2)
	if testing.Short() {
		runs = inShort
	}
	if !runs {
		t.Logf("case %d is left out today", i)
	}
	return !runs
}

// tested is the result of a file, with the Parquet files of its tables.
type tested struct {
	Stats
	FlowsFile     string
	IntervalsFile string
}

// readFile calls File, with Parquet files for the tables in a temporary folder.
func readFile(t *testing.T, n *topology.Network, file string, o Options) (tested, error) {
	t.Helper()
	dir := t.TempDir()
	result := tested{
		FlowsFile: filepath.Join(dir, "flows.parquet"), IntervalsFile: filepath.Join(dir, "intervals.parquet"),
	}
	create := func(table schema.Table, path string) *parquet.Writer {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return parquet.NewWriter(table, f)
	}
	flows := create(schema.Flows, result.FlowsFile)
	intervals := create(schema.WorkloadIntervals, result.IntervalsFile)
	o.Files = Files{Open: parquet.OpenFile, Create: parquet.CreateFile}
	var err error
	result.Stats, err = File(t.Context(), n, file, o, Tables{Flows: flows, Intervals: intervals})
	for _, w := range []*parquet.Writer{flows, intervals} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return result, err
}
