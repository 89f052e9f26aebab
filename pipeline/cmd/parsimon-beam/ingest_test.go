package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/workloads"
	"parsimon/stages/ingest"
)

// flowLogs returns a trace of five VPC flow logs.
func flowLogs(t *testing.T) workloads.Trace {
	t.Helper()
	m, err := ingest.FormatMapping("vpc")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tr := workloads.Trace{Topology: "small-2to1", Workload: "hours", Mappings: []*ingest.Mapping{m},
		Options: ingest.Options{Seed: 1, MaxRejects: 0.1,
			Hosts: write("hosts.csv", "address,node_id\n10.0.0.1,0\n10.0.0.2,1\n10.0.0.3,2\n")}}
	for hour := range 5 {
		var b strings.Builder
		b.WriteString("version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes " +
			"start end action log-status\n")
		for i := range 100 {
			start := 1769817600 + hour*3600 + i
			for eni := range 2 {
				fmt.Fprintf(&b, "2 1 eni-%d 10.0.0.%d 10.0.0.%d %d 443 6 10 %d %d %d ACCEPT OK\n",
					eni, 1+i%3, 1+(i+1)%3, 40000+i, 5000+i, start, start+1)
			}
		}
		b.WriteString("2 1 eni-1 10.0.0.9 10.0.0.1 1 443 6 10 5000 1769817600 1769817601 ACCEPT OK\n")
		tr.Sources = append(tr.Sources, write(fmt.Sprintf("hour%d.log", hour), b.String()))
	}
	return tr
}

// An ingest whose shards are read by a job on Prism has the rows of an ingest in one process.
func TestSameIngestOnPrism(t *testing.T) {
	tr := flowLogs(t)
	local := workloads.Settings{Lake: t.TempDir()}
	if _, err := workloads.Ingest(t.Context(), tr, local); err != nil {
		t.Fatal(err)
	}
	want := digests(t, local.Lake)
	lake := t.TempDir()
	_, err := beamJob(t, "--workload", "hours", "--lake", lake)
	if err == nil || !strings.Contains(err.Error(), "parsimon ingest --workload hours --shard 0/N") {
		t.Errorf("no shard was begun: %v", err)
	}
	first := workloads.Settings{Lake: lake}
	first.Shard = engine.Shard{Index: 0, Count: 3}
	if _, err := workloads.Ingest(t.Context(), tr, first); err != nil {
		t.Fatal(err)
	}
	out, err := beamJob(t, "--workload", "hours", "--lake", lake)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "workload hours: 5 files added") ||
		!strings.Contains(out, "5 of the files were read before") {
		t.Errorf("the report:\n%s", out)
	}
	sameRows(t, "on Prism", lake, want)
	for _, table := range []string{"workload_flows", "workload_intervals", "records", "workload_rejects"} {
		if want[table] == "" {
			t.Errorf("no table %s: %v", table, want)
		}
	}
}
