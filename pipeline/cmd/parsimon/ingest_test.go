package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const vpcHeader = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes " +
	"start end action log-status\n"

// vpcDay writes a day of VPC flow logs: 200 flows that both ends logged, and two rows without a flow.
func vpcDay(t *testing.T, dir string, day int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(vpcHeader)
	for i := range 200 {
		start := 1769817600 + day*86400 + i
		for eni := range 2 {
			fmt.Fprintf(&b, "2 1 eni-%d 10.0.0.%d 10.0.0.%d %d 443 6 10 %d %d %d ACCEPT OK\n",
				eni, 1+i%3, 1+(i+1)%3, 40000+i, 5000+i, start, start+1)
		}
	}
	b.WriteString("2 1 eni-1 - - - - - - - 1769817600 1769817660 - NODATA\n")
	b.WriteString("2 1 eni-1 10.9.9.9 10.0.0.1 1 2 6 1 60 1769817600 1769817660 ACCEPT OK\n")
	file := filepath.Join(dir, fmt.Sprintf("day%d.log", day))
	writeFiles(t, map[string]string{file: b.String()})
	return file
}

// files are the contents of all files of a directory, by path.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A trace is two days of logs with the tables that go with them, and a lake for them.
type trace struct{ dir, topology, hosts, labels, lake, first, second string }

func newTrace(t *testing.T) trace {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	tr := trace{dir: dir, topology: at("net"), hosts: at("hosts.csv"), labels: at("labels.csv"),
		lake: at("lake")}
	writeRack(t, tr.topology)
	writeFiles(t, map[string]string{
		tr.hosts:  "address,node_id\n10.0.0.1,0\n10.0.0.2,1\n10.0.0.3,2\n",
		tr.labels: "cidr,port,service,vnet\n10.0.0.3,443,api,blue\n10.0.0.0/24,,web,green\n",
	})
	tr.first, tr.second = vpcDay(t, dir, 0), vpcDay(t, dir, 1)
	return tr
}

// args are a command line that ingests sources into a lake.
func (tr trace) args(lake string, sources ...string) []string {
	return append([]string{"ingest", "--topology", tr.topology, "--hosts", tr.hosts, "--labels", tr.labels,
		"--format", "vpc", "--lake", lake, "-q"}, sources...)
}

var workloadLine = regexp.MustCompile(`^workload ([0-9a-f]{16}):`)

// ingest ingests both days and returns the workload's id.
func (tr trace) ingest(t *testing.T) string {
	t.Helper()
	return workloadLine.FindStringSubmatch(must(t, tr.args(tr.lake, tr.first, tr.second)...))[1]
}

func ask(t *testing.T, lake, sql string) string {
	t.Helper()
	return must(t, "query", "--lake", lake, "--sql", sql, "--format", "csv")
}

// The report accounts for every row. Ingesting the same file again changes nothing. Two days in two steps
// yield the flows of both days in one step.
func TestIngestInSteps(t *testing.T) {
	t.Parallel()
	tr := newTrace(t)
	contains(t, must(t, tr.args(tr.lake, tr.first)...),
		"402 rows in = 200 flows + 200 merged + 2 rejected (1 of them", "log-status is NODATA", "src is not a host",
		"\n    most bytes: 10.9.9.9 with 60 bytes. ", "To keep their flows",
		"100.0% of the flows have a synthetic start", "api", "blue", "packet-hops to simulate", " above 100%)")
	before := files(t, tr.lake)
	contains(t, must(t, tr.args(tr.lake, tr.first)...), "0 files added, 1 in it before")
	after := files(t, tr.lake)
	if len(before) != len(after) {
		t.Errorf("%d files, %d before", len(after), len(before))
	}
	for path, data := range before {
		if after[path] != data && !strings.HasSuffix(path, "parsimon.duckdb") {
			t.Errorf("%s has changed", path)
		}
	}
	contains(t, must(t, tr.args(tr.lake, tr.first, tr.second)...),
		"1 file added, 1 in it before", "804 rows in = 400 flows + 400 merged + 4 rejected")
	once := filepath.Join(tr.dir, "once")
	must(t, tr.args(once, tr.first, tr.second)...)
	const all = "SELECT * EXCLUDE (workload) FROM workload_flows ORDER BY flow_id"
	a := ask(t, tr.lake, all)
	b := ask(t, once, all)
	if a != b || strings.Count(a, "\n") != 401 {
		t.Error("two days in two steps are not what they are in one")
	}
}

// The tables of a workload agree with each other.
func TestWorkloadTables(t *testing.T) {
	t.Parallel()
	tr := newTrace(t)
	tr.ingest(t)
	for sql, want := range map[string]string{
		"SELECT service, vnet, count(*) AS n FROM workload_flows GROUP BY ALL ORDER BY ALL": "service,vnet,n\n" +
			"api,blue,134\nweb,green,266\n",
		"SELECT sum(rows) = (SELECT count(*) FROM records) + (SELECT count(*) FROM workload_rejects) AS same " +
			"FROM workloads": "same\ntrue\n",
		"SELECT count(*) AS n, sum(bytes) = 2 * (SELECT sum(size_bytes) FROM workload_flows) AS same " +
			"FROM workload_link_loads": "n,same\n6,true\n",
	} {
		got := ask(t, tr.lake, sql)
		if got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

// A workload is run in part or in whole, also from a copy of its lake.
func TestRunWorkload(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	tr := newTrace(t)
	id := tr.ingest(t)
	run := []string{"run", "--topology", tr.topology, "-q", "--passes", "1"}
	day := append(run, "--from", "2026-01-31T00:00:00Z", "--to", "2026-02-01T00:00:00Z")
	contains(t, must(t, append(day, "--lake", tr.lake, "--workload", id[:6])...),
		"200 flows over", "100.0% of the flows have a synthetic start")
	out := must(t, "query", "synthetic_share", "--lake", tr.lake, "--format", "csv")
	if strings.Count(out, "\n") != 3 {
		t.Errorf("synthetic_share:\n%s", out)
	}
	must(t, append(run, "--lake", tr.lake, "--workload", id, "--fail", "0:3", "--allow-unreachable")...)

	moved := filepath.Join(tr.dir, "moved")
	if err := os.CopyFS(moved, os.DirFS(tr.lake)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(tr.lake); err != nil {
		t.Fatal(err)
	}
	contains(t, must(t, tr.args(moved, tr.second)...), "0 files added, 1 in it before")
	contains(t, must(t, append(day, "--lake", moved, "--workload", id)...), "200 flows")
	contains(t, must(t, "status", "--lake", moved),
		"workload "+id+"  complete  vpc, 2 files: 804 rows = 400 flows + 400 merged + 4 rejected")
}

// Damaged flows are refused, and an ingest of known sources recomputes them from the records.
func TestDamagedWorkload(t *testing.T) {
	everyThirdDay(t, 1)
	t.Parallel()
	tr := newTrace(t)
	id := tr.ingest(t)
	const all = "SELECT * FROM workload_flows ORDER BY flow_id"
	good := ask(t, tr.lake, all)
	flows, err := filepath.Glob(filepath.Join(tr.lake, "workload_flows", "workload="+id, "part-*.parquet"))
	if err != nil || len(flows) == 0 {
		t.Fatalf("no flows: %v", err)
	}
	writeFiles(t, map[string]string{flows[0]: "PAR1"})
	mustFail(t, failure{exitDamaged, "ingest it again",
		[]string{"run", "--workload", id, "--topology", tr.topology, "--lake", tr.lake, "-q"}})
	code, _, log := parsimon(t, "status", "--lake", tr.lake)
	if code != exitDamaged || !strings.Contains(log, "workload "+id+" is damaged") {
		t.Errorf("status of a damaged workload: exit %d, %s", code, log)
	}
	must(t, tr.args(tr.lake, tr.second)...)
	got := ask(t, tr.lake, all)
	if got != good {
		t.Error("damaged flows are not made again")
	}
	contains(t, must(t, "status", "--lake", tr.lake), "workload "+id+"  complete")
}

// Wrong command lines of ingest, and of run with a workload.
func TestIngestUsage(t *testing.T) {
	const file = "day.log"
	mustFail(t, []failure{
		{exitUsage, "no source", []string{"ingest", "--topology", "net", "--lake", "l"}},
		{exitUsage, "--topology is required", []string{"ingest", file, "--lake", "l"}},
		{exitUsage, "no format", []string{"ingest", file, "--topology", "net", "--lake", "l", "--format", "pcap"}},
		{exitUsage, "no format", []string{"ingest", "--show-mapping", "pcap"}},
		{exitUsage, "exclude each other",
			[]string{"ingest", file, "--topology", "net", "--lake", "l", "--format", "vpc", "--mapping", "x.sql"}},
		{exitUsage, "--max-rejects", []string{"ingest", file, "--topology", "net", "--lake", "l",
			"--max-rejects", "2"}},
		{exitUsage, "--from goes with --workload", []string{"run", "small", "--lake", "l", "--from", "3"}},
		{exitUsage, "applies to a topology file", []string{"run", "small", "--lake", "l", "--repair", "doubled"}},
	}...)
}

// An ingest that fails reports the reason, and leaves no data files.
func TestIngestFailures(t *testing.T) {
	long(t)
	t.Parallel()
	tr := newTrace(t)
	id := tr.ingest(t)
	none := filepath.Join(tr.dir, "none")
	badHosts := filepath.Join(tr.dir, "bad-hosts.csv")
	writeFiles(t, map[string]string{badHosts: "address,node_id\n10.0.0.1,99\n"})
	bare := []string{"--topology", tr.topology, "--lake", tr.lake, "-q"}
	run := append([]string{"run", "--workload", id}, bare...)
	mustFail(t, []failure{
		{exitUsage, "--from, --to", append(run, "--from", "monday")},
		{exitUsage, "long before the first flow: times are in ns", append(run, "--from", "1769817600")},
		{exitFailed, "no flow in the part that was asked for: its flows start from 2", append(run, "--to", "0")},
		{exitFailed, "has no flow in the part", append(run, "--to", "5")},
		{exitUsage, "10 is not before 5", append(run, "--from", "10", "--to", "5")},
		{exitFailed, "no workload", append([]string{"run", "--workload", "nonsense"}, bare...)},
		{exitFailed, "does not identify the format", append([]string{"ingest", tr.first}, bare...)},
		{exitFailed, "matches no file", append([]string{"ingest", filepath.Join(tr.dir, "*.none")}, bare...)},
		{exitFailed, `row 1: node "99" is not a node of the topology`,
			append([]string{"ingest", tr.first, "--format", "vpc", "--hosts", badHosts}, bare...)},
		{exitFailed, "ingested with formats whose rows are records of flow logs, not whole flows",
			append([]string{"ingest", tr.first, "--format", "hpcc", "--workload", id}, bare...)},
		{exitFailed, "rows cannot be simulated, more than the accepted 0%",
			append(tr.args(none, tr.first), "--max-rejects", "0")},
	}...)
	for path := range files(t, none) {
		if strings.HasSuffix(path, ".parquet") {
			t.Errorf("a failed ingest has left %s", path)
		}
	}
}

// Files that shards have read take disk space before the workload exists: du shows them, and rm removes them.
func TestShardsWithoutAWorkload(t *testing.T) {
	t.Parallel()
	tr := newTrace(t)
	dir := filepath.Join(tr.dir, "shards")
	args := append(tr.args(dir, tr.first), "--workload", "day", "--shard", "0/1")
	contains(t, must(t, args...), "shard 0/1 of workload day: 1 file; ", "the same command without --shard")
	contains(t, must(t, "status", "--lake", dir), "workload day  partial  ")
	contains(t, must(t, "du", "--lake", dir), "day")
	contains(t, must(t, "rm", "--workload", "day", "--lake", dir), "day")
	for path := range files(t, dir) {
		if strings.Contains(path, "workload=day") {
			t.Errorf("%s is left", path)
		}
	}
}
