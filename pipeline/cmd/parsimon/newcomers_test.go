package main

import (
	"os"
	"strings"
	"testing"
)

// These are problems of newcomers, on two sites whose routers r1 to r3 are 2 ms apart.
func TestNewcomers(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	writeFiles(t, map[string]string{
		"sites.csv": "device_a,device_b,speed,delay\nh1,s1,25G,500ns\nh2,s1,25G,500ns\nh3,s2,25G,500ns\nh4,s2,25G,500ns\n" +
			"s1,r1,100G,1us\ns2,r2,100G,1us\nr1,r2,10G,2ms\ns1,r3,100G,1us\nr3,r2,10G,2ms\n",
		"day.csv": "src,dst,size_bytes,start_ns,service\nh1,h3,100000,0,db\nh2,h4,100000,10,db\nh3,h1,1000,5000000,web\n" +
			"h1,h3,1000,9000000,web\n",
		"strange.csv": "src,dst,size_bytes,start_ns\nh1,h3,1000,0\n10.0.0.1,h3,1000,0\n",
	})
	run := []string{"run", "--topology", "sites.csv", "--flows", "day.csv", "--lake", "lake"}
	out := must(t, append(run, "--max-rejects", "0")...)
	contains(t, out, "p50", "Estimate a longer workload")
	_, _, none := parsimon(t, "query", "slowdown_around_event", "--lake", "lake", "--param", "scenario=day")
	contains(t, none, "no event is known")

	// Questions about an event use its time.
	must(t, append(run, "--event", "r1:r2 loss 1e-3 4ms..6ms", "--event", "r3:r2 loss 1e-3 4ms..7ms",
		"--name", "event")...)
	contains(t, must(t, "query", "slowdown_around_event", "--lake", "lake", "--param", "scenario=event",
		"--format", "csv"), ",during,4500000,5250000,1,", ",4000000,7000000")
	contains(t, must(t, "query", "recovery_after_event", "--lake", "lake", "--param", "scenario=event@exact",
		"--format", "csv"), ",4000000,7000000")

	// compare reports the factor by which a service has grown, and why ideal FCTs differ.
	contains(t, must(t, "what-if", "day", "--lake", "lake", "--scale", "db=2"), "flows with an estimate: db 2 "+
		"→ 4 flows (×2.00), ×2.00 bytes")
	contains(t, must(t, "what-if", "day", "--lake", "lake", "--transport", "hpcc"),
		"differs: the packets (now 1000 + 90 bytes of header",
		"settings that differ: transport (hpcc, in the base dctcp)")
	contains(t, must(t, "what-if", "day", "--lake", "lake", "--move", "db=s1,s1"), "(day, db to s1)")

	// The delay of a cable is reported, and called the default if its ends have much longer cables.
	change := []string{"what-if", "day", "--lake", "lake", "--add-cable"}
	contains(t, must(t, append(change, "r1:r3=10G")...), "delay 1µs by default, although both ends have cables "+
		"of 2ms")
	contains(t, must(t, append(change, "r1:r3=10G,2ms")...), "(day, r1:r3 added at 10 Gbps 2ms)",
		"10 Gbps, delay 2ms\n")

	// A scenario whose flows cannot be routed leaves nothing.
	before := must(t, "status", "--lake", "lake")
	mustFail(t,
		failure{exitFailed, "--allow-unreachable counts such flows", []string{"what-if", "day", "--lake", "lake",
			"--fail", "h3:s2"}},
		failure{exitFailed, "--allow-unreachable counts such flows", append(run, "--fail", "h3:s2")})
	after := must(t, "status", "--lake", "lake")
	if strings.Count(after, "complete  day") != strings.Count(before, "complete  day") ||
		strings.Contains(after, "partial") {
		t.Errorf("failed runs left\n%s\nbefore\n%s", after, before)
	}
	contains(t, must(t, "what-if", "day", "--lake", "lake", "--fail", "h3:s2", "--allow-unreachable"),
		"3 flows have no path and no estimate (0 in the base)", "web 2 → 0 flows (×0.00)")
	code, _, log := parsimon(t, "what-if", "day", "--lake", "lake", "--fail", "h3:s2",
		"--allow-unreachable", "--fail-if", "service=web p99_change > 10%")
	if code != exitGate || !strings.Contains(log, "'service=web p99_change > 10%': no flow that it selects has "+
		"a path") {
		t.Errorf("exit %d, %s", code, log)
	}

	// Wherever a bandwidth is given, it may be a share of the present one.
	half := []string{"what-if", "day", "--lake", "lake", "--bandwidth"}
	contains(t, must(t, append(half, "r1:r2=50%")...), "(day, r1:r2 at 50%)", "r1:r2 10 Gbps → 5 Gbps\n")
	contains(t, must(t, "what-if", "day", "--lake", "lake", "--event", "r1:r2 rate 25% 1ms..4ms"),
		"r1:r2 rate 2.5 Gbps 1ms..4ms")
	contains(t, must(t, "sweep", "day", "--lake", "lake", "--set", "bandwidth.r1:r2=50%,100%"),
		"compare the FCTs", "p99_lo",
		must(t, "query", "--lake", "lake", "--sql", "SELECT scenario FROM scenarios WHERE name = 'day'",
			"--format", "csv")[len("scenario\n"):])
	contains(t, must(t, "sweep", "day", "--lake", "lake", "--fail", "each:spine-spine", "--bandwidth", "50%"),
		"quantile 0.99 of FCT", "fct_change  ", "from  ")
	mustFail(t, failure{exitFailed, "nothing would change", append(half, "r1:r2=100%")},
		failure{exitFailed, "must be 10,000 to 10^14", append(half, "r1:r2=1e300%")})
	for _, bad := range []string{"0%", "-50%", "NaN%", "%", ""} {
		mustFail(t, failure{exitUsage, "want a", append(half, "r1:r2="+bad)})
	}

	contains(t, must(t, append(change, "r1:r3=10G,400km")...), "delay 2ms\n")
	contains(t, must(t, "what-if", "day", "--lake", "lake", "--fail", "r3:*"), "r3:* with 2 cables down")
	mustFail(t, failure{exitUsage, "use --sql for SQL", []string{"query", "SELECT 1", "--lake", "lake"}},
		failure{exitFailed, "--show-mapping csv", []string{"ingest", "sites.csv", "--topology", "sites.csv",
			"--lake", "lake"}})
	writeFiles(t, map[string]string{
		"sflow.csv": "unixSecondsUTC,srcIP,dstIP,sampledPacketSize,meanSkipCount\n1,10.0.0.1,10.0.0.2,9,9\n"})
	mustFail(t, failure{exitFailed, "the columns of --format sflowtool)",
		[]string{"ingest", "sflow.csv", "--topology", "sites.csv", "--lake", "lake"}})

	// A name of two scenarios means the newest, even if the other was used later. This part also covers
	// topics of the manual, and a list as a topology.
	writeFiles(t, map[string]string{"other.csv": "src,dst,size_bytes,start_ns\nh1,h3,1000,0\n",
		"list.json": "[]", "next.csv": "src,dst,size_bytes,start_ns,service\nh1,h3,200000,7,db\nh2,h4,1000,20000,db\n"})
	second := []string{"run", "--topology", "sites.csv", "--flows", "other.csv", "--lake", "lake", "--name"}
	contains(t, must(t, append(second, "day2")...), "scenario=day2")
	night := []string{"compare", "day", "day3", "--lake", "lake", "--by", "service", "--fail-if"}
	must(t, append(run[:len(run):len(run)], "--flows", "next.csv", "--name", "day3")...)
	contains(t, must(t, append(night, "service=db p50_change > 900%")...), "flows are not paired", "db",
		"base_slowdown")
	code, out, log = parsimon(t, append(night, "service=db p99_fct_change > -100%")...)
	contains(t, out, "No flow is in both (2 flows, 4 in the base)")
	if code != exitGate {
		t.Errorf("exit %d\n%s", code, log)
	}
	mustFail(t, failure{exitFailed, ": no flows have service \"web\"; there are db",
		append(night, "service=web p99_change > 1%")},
		failure{exitFailed, `no flows have service "bd"; there are db`,
			append(night, "service=bd p99_change > 1%")},
		failure{exitFailed, `no flows have service "bd"; there are db, web`,
			append(run, "--fail-if", "service=bd p99_slowdown > 1")})

	// Commands that fail their checks create no lake. Errors list the contents of the lake.
	for _, args := range [][]string{{"sweep", "small", "--set", "transport.window=x"},
		{"what-if", "day", "--fail", "r1:r2"}, {"sweep", "dya", "--set", "seed=1"}} {
		mustFail(t, failure{exitFailed, "", append(args, "--lake", "none")})
		if _, err := os.Stat("none"); err == nil {
			t.Errorf("%q makes a lake", args)
		}
	}
	mustFail(t, failure{exitFailed, `("day")`, []string{"run", "dya", "--lake", "lake"}},
		failure{exitFailed, "the lake holds a scenario of that name", []string{"run", "day", "--lake", "lake"}})
	contains(t, must(t, "what-if", "day", "--lake", "lake", "--bandwidth", "h1:s1=1G"),
		"senders also wait because of congestion at later links")
	contains(t, must(t, "query", "tail_by_tier", "--lake", "lake", "--param", "scenario=day"),
		"senders also wait here")
	mustFail(t, failure{exitFailed, "labels are not kept",
		[]string{"what-if", "day", "--lake", "lake", "--fail", "NB-17"}},
		failure{exitUsage, "of some traffic only: key pfc of switches.classes",
			append(run, "--switch-buffer", "1MB", "--pfc=tor")})
	_, _, log = parsimon(t, "query", "--lake", "lake", "--sql", "SELECT count(*) FROM slowdowns WHERE scenario "+
		"= 'day3'")
	contains(t, log, "column scenario holds ids", "which has that name")
	must(t, "report", "day3", "--compare", "day", "--lake", "lake", "-o", "days.html")
	page, err := os.ReadFile("days.html")
	contains(t, string(page), "flows are not paired")
	if err != nil {
		t.Error(err)
	}
	// no flow is left
	contains(t, must(t, "sweep", "day2", "--lake", "lake", "--fail", "each:host-tor"), "1  h1:s1         -")
	// another name of the same
	contains(t, must(t, append(second, "event")...), "scenario=day2")
	old := strings.Fields(must(t, append(second, "day2")...))[1]
	newest := strings.Fields(must(t, append(run, "--fail", "r1:r2", "--name", "day2")...))[1]
	must(t, "what-if", old, "--lake", "lake", "--bandwidth", "h1:s1=50%")
	for _, args := range [][]string{
		{"query", "slowdown_by_size", "--param", "scenario=day2@ex", "--format", "csv"},
		{"compare", "day", "day2"}, {"report", "day2"}, {"validate", "--scenario", "day2"},
		{"what-if", "day2", "--bandwidth", "r3:r2=50%"}, {"sweep", "day2", "--fail", "each:spine-spine"}} {
		code, out, log := parsimon(t, append(args, "--lake", "lake")...)
		if code != exitOK || strings.Count(log, "means the newest, "+newest) != 1 || strings.Contains(out, old) {
			t.Errorf("%q: %d\n%s\n%s", args, code, out, log)
		}
	}
	mustFail(t, failure{exitFailed, "give the whole id", []string{"rm", "day2", "--lake", "lake"}})
	must(t, "rm", "--lake", "lake",
		strings.Fields(must(t, append(run, "--fail", "r1:r2", "--name", "gone")...))[1])
	contains(t, must(t, "help", "flows"), "size_bytes", "after, delay_ns")
	contains(t, must(t, "help", "event"), "down 10ms..50ms")
	// A JSON list is a table of cables, here one without columns.
	mustFail(t, failure{exitFailed, "has no column device_a",
		[]string{"run", "--topology", "list.json", "--flows", "day.csv", "--lake", "lake"}})

	contains(t, must(t, "validate", "--lake", "lake", "--scenario", "day@exact"), "100 KB-1 MB",
		"(day)", "method version ")
	mustFail(t,
		failure{exitFailed, "a table (parsimon ingest --hosts TABLE",
			[]string{"run", "--topology", "sites.csv", "--flows", "strange.csv", "--lake", "lake"}},
		failure{exitFailed, `no variant "fast"`, []string{"validate", "--lake", "lake", "--scenario", "day@fast"}},
		failure{exitFailed, "has no estimate by independent: run it with --estimator independent first",
			[]string{"validate", "--lake", "lake", "--scenario", "day", "--estimator", "independent"}},
		failure{exitFailed, "is a network, which has no flows", []string{"run", "rail-128", "--lake", "lake"}},
		failure{exitUsage, "--loss, --bandwidth and --delay exclude each other", []string{
			"sweep", "day", "--lake", "lake", "--fail", "each:spine-spine", "--loss", "1e-4", "--delay", "5ms"}},
		failure{exitUsage, "--loss goes with --fail", []string{"sweep", "day", "--lake", "lake",
			"--set", "seed=1,2", "--loss", "1e-4"}})
}

// If a file is ingested again after a correction, it is named, with the rows that it no longer has. A file
// that has only grown, or that continues after its earlier rows, is not.
func TestCorrectedFile(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	rows := func(text string) string {
		writeFiles(t, map[string]string{"log.csv": "src,dst,size_bytes,start_ns\n" + text})
		return must(t, "ingest", "log.csv", "--topology", "net.csv", "--workload", "w", "--lake", "lake", "--quiet")
	}
	writeFiles(t, map[string]string{"net.csv": "device_a,device_b,speed\nh1,s1,25G\nh2,s1,25G\n"})
	const before = "h1,h2,100,5\nh1,h2,200,7\nh2,h1,300,9\n"
	grown := "h1,h2,900,12\n"
	next := "h2,h1,100,20\nh2,h1,100,25\n"
	for _, text := range []string{before, before + grown, next} {
		out := rows(text)
		if strings.Contains(out, "warning") {
			t.Errorf("%q: %s", text, out)
		}
	}
	const warning = "log.csv, which was ingested before it, with other content: 1 rows"
	for range 2 { // a job that ingests again sees it, too
		contains(t, rows(strings.Replace(before, "200", "2000", 1)), "warning: log.csv has rows of "+warning,
			"parsimon rm --workload w --lake", "7 flows")
	}
	if err := os.Rename("log.csv", "fixed.csv"); err != nil {
		t.Fatal(err)
	}
	again := []string{"ingest", "fixed.csv", "--topology", "net.csv", "--workload", "v", "--lake", "lake",
		"--quiet"}
	must(t, again...)
	writeFiles(t, map[string]string{"log.csv": "src,dst,size_bytes,start_ns\n" + before})
	must(t, append(again, "log.csv")...) // the files are sources 1 and 2
	contains(t, must(t, again...), "warning: log.csv has rows of fixed.csv, which was")
}

// If a job moves to the hosts of another one, the answer reports it.
func TestJobsShareHosts(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFiles(t, map[string]string{
		"jobs.yaml": `topology: {clos: {pods: 1, racks_per_pod: 2, hosts_per_rack: 2, planes: 1, spines_per_plane: 1,
  host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}}
workload:
  jobs:
    - {name: x, ranks: 2, hosts: contiguous, steps: [{collective: all-reduce, size: 9KB}]}
    - {name: y, ranks: 2, hosts: contiguous, steps: [{collective: all-reduce, size: 9KB}]}
`})
	out := must(t, "run", "jobs.yaml", "--lake", "lake")
	if strings.Contains(out, "share") {
		t.Errorf("jobs on separate hosts share some:\n%s", out)
	}
	contains(t, must(t, "what-if", "jobs", "--lake", "lake", "--move", "y=0"),
		"warning: jobs x and y share 2 hosts")
}

// If windows would cover most of a workload, all of it is estimated, because every question can use that
// estimate.
func TestWithinOfAll(t *testing.T) {
	dir := t.TempDir()
	flows := writeSteadyTrace(t, 2_000, 20)
	out := must(t, "run", "--topology", "small-2to1", "--flows", flows, "--lake", dir, "--within", "1%")
	contains(t, out, "all of it was estimated")
	if strings.Contains(out, "report") && strings.Contains(out[strings.Index(out, "Next:"):], "@") {
		t.Errorf("the report is of windows:\n%s", out)
	}
	contains(t, must(t, "query", "slowdown_by_service", "--lake", dir), "storage")
	contains(t, must(t, "query", "sampled_percentiles", "--lake", dir), "exact-sampled-", "not sampled")
}
