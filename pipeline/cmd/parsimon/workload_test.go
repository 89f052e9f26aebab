package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/schema/daily"
)

// burstFiles writes a network of three hosts on one switch, and flow files.
func burstFiles(t *testing.T, flows map[string]string) (at func(name string) string) {
	t.Helper()
	dir := t.TempDir()
	at = func(name string) string { return filepath.Join(dir, name) }
	flows["net.yaml"] = "graph: {hosts: [h0, h1, h2], switches: [s], bandwidth: 10Gbps, delay: 1us, " +
		"cables: [\"h0:s\", \"h1:s\", \"h2:s\"]}\n"
	for name, text := range flows {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// A flow of 50 MB over 10G lasts 42 ms. An event in that time counts, although no flow starts after it: at
// half the bandwidth for 10 ms the flow takes 5 ms more.
func TestEventAfterTheLastStart(t *testing.T) {
	t.Parallel()
	at := burstFiles(t, map[string]string{"flows.csv": "src,dst,size_bytes,start_ns\nh0,h1,50000000,0\n"})
	run := func(event string) string {
		return must(t, "run", "--topology", at("net.yaml"), "--flows", at("flows.csv"), "--lake", at("lake"),
			"--event", event, "--name", event)
	}
	run("h0:s rate 5G 10ms..20ms")
	fct := must(t, "query", "--lake", at("lake"), "--format", "csv", "--sql",
		"SELECT count(*) FILTER (fct_ns BETWEEN 46.9e6 AND 46.95e6), count(*) FROM slowdowns")
	if !strings.Contains(fct, "1,1") {
		t.Errorf("the event in the last flow's time: %s", fct)
	}
	out := run("h0:s rate 5G 100ms..200ms")
	if !strings.Contains(out, "changes nothing: the last flow has finished at") {
		t.Errorf("no remark on an event after the last flow:\n%s", out)
	}
	mustFail(t, failure{exitFailed, "outside the trace", []string{"run", "--topology", at("net.yaml"), "--flows",
		at("flows.csv"), "--lake", at("lake"), "--event", "h0:s rate 5G 10s..20s"}})
}

// Two flows of 50 MB that start at the same time keep a link busy for 84 ms. Its load is not 0, and a gate on
// it fails. The short form has one estimator each day.
func TestLoadOfABurst(t *testing.T) {
	t.Parallel()
	at := burstFiles(t, map[string]string{
		"flows.csv": "src,dst,size_bytes,start_ns\nh0,h1,50000000,0\nh2,h1,50000000,0\n"})
	for i, estimator := range []string{"exact", "flow", "independent"} {
		if daily.Skips(i, 3) {
			continue
		}
		lake := at(estimator)
		args := []string{"run", "--topology", at("net.yaml"), "--flows", at("flows.csv"), "--lake", lake,
			"--estimator", estimator, "--fail-if", "link=s:h1 load > 80%"}
		code, _, log := parsimon(t, args...)
		if code != exitGate || !strings.Contains(log, "the value is 95.4198%") {
			t.Errorf("%s: exit %d\n%s", estimator, code, log)
		}
		load := must(t, "query", "--lake", lake, "--format", "csv", "--sql",
			"SELECT count(*) FROM link_stats WHERE load BETWEEN 0.95 AND 0.96")
		if load != "count_star()\n1\n" {
			t.Errorf("%s: links with a load of 95%%: %q, want 1", estimator, load)
		}
	}
}

// A TCP flow of 100 MB over a round trip of 40 ms at 10G needs 50 MB in flight. With a receive window of 1 MB
// it takes a round trip for each MB: the answer reports this, and column window_ns has nearly all of the
// delay. A stated window of another transport does not apply to TCP.
func TestReceiveWindowOfTCP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(name, keys string) string {
		file := filepath.Join(dir, name+".yaml")
		text := "topology: {graph: {hosts: [h0, h1], switches: [s], bandwidth: 10Gbps, delay: 10ms, cables: " +
			"[\"h0:s\", \"h1:s\"]}}\nworkload: {max_load: 10%, flows_count: 1, services: [{name: a, sizes: 100MB, " +
			"pairs: [\"h0:h1\"]}]}\ntransport: {kind: cubic, window: 18KB" + keys + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return must(t, "run", file, "--lake", filepath.Join(dir, name))
	}
	out := run("small", ", receive_window: 1MB")
	if !strings.Contains(out, "transport.receive_window") {
		t.Errorf("no warning:\n%s", out)
	}
	share := must(t, "query", "--lake", filepath.Join(dir, "small"), "--format", "csv", "--sql",
		"SELECT window_ns BETWEEN 0.85 * (fct_ns - ideal_ns) AND fct_ns - ideal_ns AS most FROM slowdowns")
	if share != "most\ntrue\n" {
		t.Errorf("window_ns is most of the delay: %s", share)
	}
	if out := run("large", ", receive_window: 100MB"); strings.Contains(out, "transport.receive_window") {
		t.Errorf("a warning without a reason:\n%s", out)
	}
}
