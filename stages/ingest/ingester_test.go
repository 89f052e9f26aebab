package ingest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/daily"
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
		{ring(20),
			"20 flows wait for each other: 1 after 2 after 3 after 4 after 5 after 6 after 7 after 8 after 9 after " +
				"10 after 11 after 12 after 13 after 14 after 15 after 16 after 17 after 18 after 19 after 20 after 1"},
		{ring(22),
			"22 flows wait for each other: 1 after 2 after 3 after 4 after 5 after 6 after 7 after 8 after 9 after " +
				"10 after 11 after 12 after 13 after 14 after 15 after 16 after 17 after 18 after 19 after 20 after 1"},
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

// ring returns flows, each of which waits for the next.
func ring(n int) (waits [][2]int) {
	for i := range n {
		waits = append(waits, [2]int{1 + i, 1 + (i+1)%n})
	}
	return waits
}

// Column after names flows of the same file by their ids, or by the numbers of their rows if they have none.
func TestColumnAfter(t *testing.T) {
	const header = "flow_id,src,dst,size_bytes,start_ns,after,delay_ns\n"
	for i, c := range [][2]string{
		{header + "7,0,1,100,5,8,\n8,1,2,100,6,7,\n", "2 flows wait for each other: 7 after 8 after 7"},
		{header + "7,0,1,100,5,,\n8,1,2,100,6,9,\n", "(the first of 1)"},
		{"src,dst,size_bytes,start_ns,after\n0,1,9,5,3\n", "ids are the numbers of the rows, from 0"},
		{header + "7,0,1,100,5,,\n7,1,2,100,6,7,\n", "flow ids are in several rows, which one is meant?"},
		{header + "7,0,1,100,5,,\n8,1,2,100,6,7,250\n", ""},
	} {
		text := c[0]
		want := c[1]
		if want != "" {
			if daily.Skips(i, 4) {
				continue
			}
			_, err := ingestText(t, text, 0)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		stats, err := ingestText(t, text, 0)
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

// The limits of an Ingester are those of the options, with defaults: at least 128 MiB and a thread, a minute
// between flows, and the paper's smaller shape of gaps.
func TestDefaultsOfIngesters(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	for _, c := range []struct{ o, want Options }{
		{Options{}, Options{MemoryBytes: 134_217_728, Threads: 1, IdleNS: 60_000_000_000, GapSigma: 1}},
		{Options{MemoryBytes: 134_217_729, Threads: 2, IdleNS: 5, GapSigma: 2},
			Options{MemoryBytes: 134_217_729, Threads: 2, IdleNS: 5, GapSigma: 2}},
		{Options{MemoryBytes: 134_217_727}, Options{MemoryBytes: 134_217_728, Threads: 1, IdleNS: 60_000_000_000,
			GapSigma: 1}},
	} {
		c.o.TmpDir = t.TempDir()
		in, err := NewIngester(t.Context(), n, c.o)
		if err != nil {
			t.Fatal(err)
		}
		limits := in.limits("spill")
		if limits.MemoryBytes != c.want.MemoryBytes || limits.Threads != c.want.Threads ||
			in.o.IdleNS != c.want.IdleNS ||
			in.o.GapSigma != c.want.GapSigma || limits.SpillDir != filepath.Join(c.o.TmpDir, "spill") {
			t.Errorf("%+v: %+v, %+v", c.o, limits, in.o)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The hosts and the labels table have columns of several names. Of the labels table, only the address and one
// other column are needed. All faults are listed, up to twenty.
func TestColumnsOfTables(t *testing.T) {
	dir := t.TempDir()
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	read := func(hosts, labels string) error {
		t.Helper()
		in.book = newAddressBook(in.net, nil)
		in.notes = nil
		in.o.Hosts = ""
		in.o.Labels = ""
		for text, option := range map[string]*string{hosts: &in.o.Hosts, labels: &in.o.Labels} {
			if text == "" {
				continue
			}
			*option = filepath.Join(dir, "table.csv")
			if err := os.WriteFile(*option, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return in.readBook(t.Context())
	}
	err = read("name,ip,x\n1,10.0.0.1,y\n2,10.0.0.2,z", "")
	if err != nil || in.book.find("10.0.0.1") != 1 || in.book.find("10.0.0.2") != 2 || len(in.Notes()) != 1 ||
		!strings.HasSuffix(in.Notes()[0],
			"table.csv does not end with a line end: its last row may have been cut") {
		t.Errorf("hosts %v, notes %q, %v", in.book.hosts, in.Notes(), err)
	}
	err = read("", "traffic_model,tenant,app,ports,subnet\npoisson,red,web,80-81,10.0.0.0/8\n")
	want := label{lo: 80, hi: 81, service: "web", vnet: "red"}
	got, _ := in.book.labels.get("10.0.0.0/8")
	if err != nil || len(got) != 1 || got[0] != want || in.Traffic()["web"] != "poisson" ||
		len(in.Notes()) != 0 {
		t.Errorf("labels %+v, models %v, notes %q, %v", got, in.Traffic(), in.Notes(), err)
	}
	err = read("", "cidr,service\n10.0.0.0/8,web\n")
	got, _ = in.book.labels.get("10.0.0.0/8")
	if err != nil || len(got) != 1 || got[0] != (label{hi: 65_535, service: "web"}) {
		t.Errorf("labels %+v, %v", got, err)
	}
	if err := read("", "cidr\n10.0.0.0/8\n"); err == nil || !strings.Contains(err.Error(),
		"no column port or ports or") {
		t.Error(err)
	}
	if err := read("ip\n10.0.0.1\n", ""); err == nil || !strings.Contains(err.Error(),
		"no column node or node_id or") {
		t.Error(err)
	}
	if err := read("node\n1\n", ""); err == nil || !strings.Contains(err.Error(), "no column address or ip or") {
		t.Error(err)
	}
	for faults, end := range map[int]string{
		20: "row 20: node \"x\" is not a node of the topology", 21: "of the topology; and 1 fault more",
		25: "of the topology; and 5 faults more",
	} {
		err := read("ip,node\n"+strings.Repeat("10.0.0.1,x\n", faults), "")
		if err == nil || !strings.HasSuffix(err.Error(), end) || strings.Count(err.Error(), "row ") != 20 {
			t.Errorf("%d faults: %v", faults, err)
		}
	}
}

// A row of a table that is broken, or has different values of one column, is an error.
func TestRowsOfTables(t *testing.T) {
	want := [][]string{{"a", "b"}, {"c"}}
	for i, c := range []struct {
		broken string
		cells  [][]string
		fault  string
	}{
		{"", [][]string{{"1"}, {"2"}}, ""}, {"broken line: x", nil, "broken line: x"},
		{"", [][]string{{"1", "2"}, {"3"}},
			`is both "1" and "2", by columns that mean the same (a, b): leave one out`},
		{"", [][]string{{}, {"1", "2", "3"}},
			`is both "1" and "2", by columns that mean the same (c): leave one out`},
	} {
		called := ""
		err := tableRow("row 7", c.broken, c.cells, want, func(at string, row []string) error {
			called = at + " " + strings.Join(row, "|")
			return nil
		})
		if (err == nil) != (c.fault == "") || err != nil && err.Error() != c.fault ||
			(called == "row 7 1|2") != (err == nil) {
			t.Errorf("%d: %q, %v", i, called, err)
		}
	}
}

// DuckDB compares each row with each row for an inner join (see scansRead). The dependencies of 40,000 flows
// took 60 s.
func TestStepsHaveNoInnerJoins(t *testing.T) {
	join := regexp.MustCompile(`(\w+)\s+JOIN\b`)
	err := fs.WalkDir(steps, "steps", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := steps.ReadFile(path)
		for _, found := range join.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains([]string{"LEFT", "SEMI", "ANTI"}, found[1]) {
				t.Errorf("%s: %s", path, found[0])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
