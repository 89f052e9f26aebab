package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"parsimon/schema/daily"
)

// mostOverLimit is the memory that a process may use beyond --memory-limit, in bytes. The limit is that of
// DuckDB, and does not include Go's heap, buffers of files and the program itself. Without a limit by bytes,
// these inputs took gigabytes.
const mostOverLimit = 384 << 20

// A compressed file of two megabytes can have a line of 300 MB, or 5,000 of 60 KB. A table can have one cell
// of 50 MB, a topology two million brackets, and an answer rows of 100 MB. A command that collects them
// without counting bytes is killed on a machine that runs others. A third of the commands runs each day, and
// all with PARSIMON_LONG=1 (make faults).
func TestPeakMemoryOnHostileSizes(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	cell := strings.Repeat("x", 300_000_000)
	compressed := func(parts ...string) string {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			_, err = z.Write([]byte(p))
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	writeFiles(t, map[string]string{
		"t.yaml": "graph: {hosts: [a, b, c], switches: [s], bandwidth: 10Gbps, delay: 1us, cables: [\"a:s\", " +
			"\"b:s\", \"c:s\"]}\n",
		"deep.yaml":   "graph: " + strings.Repeat("[", 2_000_000) + "\n",
		"wide.csv":    "device_a,device_b,speed\na,b," + cell[:50_000_000] + "\n",
		"hosts.csv":   "address,node\n10.0.0.1," + cell[:50_000_000] + "\n",
		"ok.csv":      "src,dst,size_bytes,start_ns\na,b,1000,0\n",
		"line.csv.gz": compressed("src,dst,size_bytes,start_ns,service\na,b,1000,0,", cell, "\n"),
		"rows.csv.gz": compressed("src,dst,size_bytes,start_ns,service\n",
			strings.Repeat("a,b,1000,0,"+cell[:60_000]+"\n", 5000)),
		"one.jsonl.gz": compressed(`{"src":"a","dst":"b","size_bytes":1,"start_ns":0,"service":"`, cell, "\"}\n"),
	})
	run := func(topology, flows string) []string {
		return []string{"run", "--topology", topology, "--flows", flows, "--lake", flows + "-lake"}
	}
	ingest := func(more ...string) []string {
		return append([]string{"ingest", "--topology", "t.yaml", "--lake", "traces"}, more...)
	}
	query := func(sql string) []string {
		return []string{"query", "--lake", "ok.csv-lake", "--format", "json",
			"--sql", sql}
	}
	hostile := daily.Today(3,
		run("t.yaml", "line.csv.gz"), run("t.yaml", "rows.csv.gz"), run("deep.yaml", "ok.csv"),
		run("wide.csv", "ok.csv"), ingest("line.csv.gz"), ingest("rows.csv.gz"), ingest("one.jsonl.gz"),
		ingest("ok.csv", "--hosts", "hosts.csv"), query("SELECT repeat('x', 100000000) FROM range(20)"),
		query("SELECT range % 9999999 AS a, count(*) AS n FROM range(10000000) GROUP BY a ORDER BY a"),
		query("SELECT repeat('x', 1000) AS a, range AS b FROM range(500000)"),
		[]string{"what-if", "ok", "--lake", "ok.csv-lake", "--scale", "x=2"},
		[]string{"report", "ok", "--lake", "ok.csv-lake"},
	)
	for _, args := range append([][]string{run("t.yaml", "ok.csv")}, hostile...) { // others read its lake
		peak, log := peakOf(t, append(args, "--memory-limit", "256MiB", "-q"))
		if peak > 256<<20+mostOverLimit {
			t.Errorf("parsimon %s: %d MiB\n%s", strings.Join(args, " "), peak>>20, log)
		}
		if strings.Contains(log, "panic") || strings.Contains(log, "fatal error") {
			t.Errorf("parsimon %s:\n%.2000s", strings.Join(args, " "), log)
		}
	}
}

// peakOf runs the program as a separate process. It returns the most memory, in bytes, that the process or
// one of its children had resident, and the beginning of its output. It reads these from /proc while the
// processes run, because the usage that the kernel reports at their end includes that of the test.
func peakOf(t *testing.T, args []string) (peak int64, log string) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(executable, args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // the tests of each command check whether it fails
	}()
	for {
		select {
		case <-ended:
			if peak == 0 {
				t.Fatalf("the memory of parsimon %s is not known", strings.Join(args, " "))
			}
			return peak, said.String()[:min(said.Len(), 2000)]
		case <-time.After(10 * time.Millisecond):
			peak = max(peak, residentPeak(c.Process.Pid))
		}
	}
}

// residentPeak returns the most memory that a process or one of its children has had resident; 0 if it has
// ended.
func residentPeak(pid int) (peak int64) {
	proc := fmt.Sprintf("/proc/%d", pid)
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			peak = kib << 10
		}
	}
	children, _ := os.ReadFile(filepath.Join(proc, "task", strconv.Itoa(pid), "children"))
	for _, child := range strings.Fields(string(children)) {
		id, _ := strconv.Atoi(child)
		peak = max(peak, residentPeak(id))
	}
	return peak
}
