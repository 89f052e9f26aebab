package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/stages/topology/topologytest"
)

// Flows that wait for each other never start, so they are an error that names them. Flows that several others
// wait for, directly or not, are none.
func TestFlowsThatWaitForEachOther(t *testing.T) {
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, c := range []struct {
		waits [][2]int
		want  string
	}{
		{[][2]int{{1, 2}, {2, 3}, {3, 4}}, ""},
		{[][2]int{{1, 2}, {1, 3}, {2, 4}, {3, 4}, {5, 1}, {5, 4}}, ""},
		{[][2]int{{1, 1}}, "1 flows wait for each other: 1 after 1"},
		{[][2]int{{1, 2}, {2, 3}, {3, 1}}, "3 flows wait for each other: 1 after 2 after 3 after 1"},
		{[][2]int{{9, 1}, {1, 5}, {1, 2}, {2, 1}}, "2 flows wait for each other: 1 after 2 after 1"},
		{[][2]int{{3, 4}, {1, 4}, {5, 6}, {6, 5}}, "2 flows wait for each other: 5 after 6 after 5"},
	} {
		var rows []string
		for i, w := range c.waits {
			rows = append(rows, fmt.Sprintf("(%d, %d, %d, 0)", w[0], w[1], i))
		}
		data := parquetOf(t, "FROM (VALUES "+strings.Join(rows, ", ")+
			") v(flow_id, after_flow_id, flow_row, after_row)")
		file := filepath.Join(t.TempDir(), "waits.parquet")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		err := in.checkCycles(t.Context(), file)
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "column after: ")
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.waits, got, c.want)
		}
	}
}

// Column after names flows of the same file by their ids, or by the numbers of their rows if they have none.
func TestColumnAfter(t *testing.T) {
	const header = "flow_id,src,dst,size_bytes,start_ns,after,delay_ns\n"
	for text, want := range map[string]string{
		header + "7,0,1,100,5,,\n8,1,2,100,6,7,250\n":    "",
		header + "7,0,1,100,5,8,\n8,1,2,100,6,7,\n":      "2 flows wait for each other: 7 after 8 after 7",
		header + "7,0,1,100,5,,\n8,1,2,100,6,9,\n":       "(the first of 1)",
		"src,dst,size_bytes,start_ns,after\n0,1,9,5,3\n": "ids are the numbers of the rows, from 0",
	} {
		stats, err := ingestText(t, text, 0)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		if err != nil || stats.Dependencies != 1 {
			t.Fatalf("%q: %+v, %v", text, stats, err)
		}
		got := askParquet(t, "SELECT concat_ws(' ', flow_id, after_flow_id, flow_row, after_row, delay_ns) "+
			"FROM read_parquet(%s)", stats.DependenciesFile)
		if got != "8 7 1 0 250" {
			t.Errorf("dependencies %s", got)
		}
	}
}

// Notes of one kind about more than three files are one note that counts the others.
func TestNotesOfManyFiles(t *testing.T) {
	for files, want := range map[int]string{
		1: "file 0 may be cut; table of hosts",
		3: "file 0 may be cut; table of hosts; file 1 may be cut; file 2 may be cut",
		4: "file 0 (and in 3 more files) may be cut; table of hosts",
	} {
		in := &Ingester{}
		for i := range files {
			in.note("end", fmt.Sprint("file ", i), " may be cut")
			if i == 0 {
				in.note("hosts", "table", " of hosts")
			}
		}
		got := strings.Join(in.Notes(), "; ")
		if got != want {
			t.Errorf("%d files: %q, want %q", files, got, want)
		}
		taken := in.TakeNotes()
		if len(in.Notes()) != 0 {
			t.Errorf("%d files: notes remain", files)
		}
		in.AddNotes(taken)
		if !slices.Equal(in.Notes(), strings.Split(want, "; ")) {
			t.Errorf("%d files: %q after they were added again", files, in.Notes())
		}
	}
}

// A workload lasts 15 days at most, and a repeated record is found in as many passes as the memory requires.
func TestLimitsOfAWorkload(t *testing.T) {
	const day = int64(86400e9)
	for span, ok := range map[int64]bool{15 * day: true, 15*day + 1: false} {
		err := CheckSpan("flow file x", 7, 7+span)
		const fault = "flow file x: starts span 15.0 days, the simulator can represent 15:"
		if (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), fault) {
			t.Errorf("%d ns: %v", span, err)
		}
	}
	for rows, want := range map[int64]int64{0: 1, 99_999: 1, 100_000: 2, 250_000: 3} {
		in := &Ingester{o: Options{MemoryBytes: 100_000 * 1024}}
		if in.passes(rows) != want {
			t.Errorf("%d rows: %d passes, want %d", rows, in.passes(rows), want)
		}
		in.o.MemoryBytes = 0
		if in.passes(rows) != 1+rows/10_000 {
			t.Errorf("%d rows in little memory: %d passes", rows, in.passes(rows))
		}
	}
}

// The limit of memory is in bytes. In another unit, DuckDB would use all memory, or none.
func TestMemoryLimitIsInBytes(t *testing.T) {
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.setMemory(t.Context(), 300<<20); err != nil {
		t.Fatal(err)
	}
	var limit string
	err = in.query(t.Context(), "SELECT current_setting('memory_limit')", &limit)
	if err != nil || limit != "300.0 MiB" {
		t.Errorf("%q, %v", limit, err)
	}
}
