package ingest

import (
	"os"
	"path/filepath"
	"testing"

	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/stages/topology"
)

// leavesOut reports whether case i of a table is left out. With -short one case in parts runs, because each
// plans the statements of a mapping, which takes 0.3 s. Without it all of them run.
func leavesOut(t *testing.T, i, parts int) bool {
	t.Helper()
	if !testing.Short() || i%parts == 0 {
		return false
	}
	t.Logf("case %d is left out with -short", i)
	return true
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
	o.Open = parquet.OpenFile
	var err error
	result.Stats, err = File(t.Context(), n, file, o, Tables{Flows: flows, Intervals: intervals})
	for _, w := range []*parquet.Writer{flows, intervals} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return result, err
}
