package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A loggedTruth is what validate --truth log prints as JSON.
type loggedTruth struct {
	Links struct {
		Flows struct {
			Log       int64 `json:"log_bytes"`
			Simulated int64 `json:"simulated_bytes"`
			Earlier   int64 `json:"earlier_bytes"`
			After     int64 `json:"after_bytes"`
		}
		Near  float64 `json:"within_1_percent"`
		Worst []struct {
			Log       int64 `json:"log_bytes"`
			Misplaced int64 `json:"misplaced_bytes"`
		} `json:"worst_links"`
		Differ []struct {
			Link    string
			Log     int64 `json:"log_bytes"`
			Counted int64 `json:"counted_bytes"`
		} `json:"links_that_differ"`
		EarlierLinks int `json:"links_with_earlier_bytes"`
	}
	Counters struct {
		Rows, Used, Wraps int64
		Unsorted          int64 `json:"unsorted_rows"`
		SetAside          []struct {
			Reason string
			Rows   int64
		} `json:"set_aside"`
	}
	Durations struct {
		Services []struct {
			Service string
			Bulk    bool
			Flows   int64
			LogNS   float64 `json:"log_ns"`
			Ratio   float64
		}
	}
}

// againstLog compares a scenario with its flow log.
func (c connectionLog) againstLog(t *testing.T, name string, flags ...string) (v loggedTruth) {
	t.Helper()
	args := []string{"validate", "--truth", "log", "--scenario", name, "--lake", c.lake, "--format", "json"}
	out := must(t, append(args, flags...)...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return v
}

// withRecords ingests a log with the given records as a new workload, or adds it to one.
func (c connectionLog) withRecords(t *testing.T, workload string, records ...string) connectionLog {
	t.Helper()
	c.write(t, workload+".log", "version account-id interface-id srcaddr dstaddr srcport dstport protocol "+
		"packets bytes "+
		"start end action log-status\n"+strings.Join(records, "\n")+"\n")
	must(t, "ingest", c.path(workload+".log"), "--format", "vpc", "--hosts", c.path("hosts.csv"), "--labels",
		c.path("labels.csv"), "--topology", c.path("cables.csv"), "--workload", workload, "--lake", c.lake)
	return c
}

// record is a record of a log: bytes from web1 to db1 between two seconds, of which 0 is midnight.
func record(srcPort, dstPort, bytes, from, to int) string {
	const midnight = 1769817600
	return fmt.Sprintf("2 1 e 10.0.0.1 10.0.0.2 %d %d 6 %d %d %d %d ACCEPT "+
		"OK", srcPort, dstPort, 1+bytes/1500, bytes,
		midnight+from, midnight+to)
}

// In every interval of the log, each link is offered the bytes that the log has there. Only this comparison
// shows a run that violates this.
func TestRunCarriesTheBytesOfTheLog(t *testing.T) {
	everyThirdDay(t, 2)
	t.Parallel()
	c := newConnectionLog(t)
	c.run(t, "all", "--traffic", "db=messages:100KB")
	v := c.againstLog(t, "all")
	b := v.Links.Flows
	if v.Links.Near != 1 || b.Log != 5*75e6+50*2_500 || b.Simulated+b.After != b.Log || b.Earlier != 0 {
		t.Errorf("%+v", v.Links)
	}
	minutes := strings.TrimSpace(ask(t, c.lake, "SELECT count(*), min(log_bytes), max(log_bytes), "+
		"max(abs(simulated_bytes "+
		"- log_bytes) / log_bytes) <= 0.01 FROM validation_links AS v JOIN links AS l USING (scenario, link_id) "+
		"WHERE tier = 'host-tor'"))
	if !strings.HasSuffix(minutes, "\n5,75025000,75025000,true") {
		t.Errorf("minutes of the link of web1: %s", minutes)
	}
	// The log is not a simulation of the network.
	must(t, "report", "all", "--lake", c.lake, "--output", c.path("report.html"))
	page, err := os.ReadFile(c.path("report.html"))
	if err != nil || strings.Contains(string(page), "Compared with the truth") {
		t.Errorf("the report treats the flow log as a simulation, or %v", err)
	}
	for _, want := range []string{"Against the flow log", "the bytes of links differ by 0.0%"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in the report", want)
		}
	}
}

// A persistent connection is not a bulk transfer. The comparison shows this by the duration of transfers. In
// slots that are shorter than the intervals of the log, it also shows it by the bytes of the links.
func TestWrongTrafficModelIsSeen(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	c := newConnectionLog(t)
	c.run(t, "bulk", "--traffic", "db=bulk", "--from", "00:02", "--to", "00:04")
	v := c.againstLog(t, "bulk")
	s := v.Durations.Services
	if len(s) != 1 || s[0].Service != "db" || !s[0].Bulk || s[0].Flows != 2 ||
		s[0].LogNS != 59e9 || s[0].Ratio > 0.2 {
		t.Errorf("durations %+v: want 2 of 59 s; 75 MB take 6.3 s and more on a link of 100 Mbps", s)
	}
	contains(t, must(t, "validate", "--truth", "log", "--scenario", "bulk", "--lake", c.lake),
		`warning: bulk transfers of service "db" take 0.1`)
	for model, most := range map[string]float64{"bulk": 2, "messages:10KB": 0.03} {
		c.run(t, model, "--traffic", "db="+model, "--from", "00:02", "--to", "00:04")
		v := c.againstLog(t, model, "--slot", "10s").Links
		misplaced := float64(v.Worst[0].Misplaced) / float64(v.Worst[0].Log)
		if len(v.Worst) != 4 || misplaced > most || misplaced < most/20 {
			t.Errorf("%s: %v of the bytes are misplaced in slots of 10 s, want at most %v", model, misplaced, most)
		}
	}
	truths := ask(t, c.lake, "SELECT DISTINCT truth FROM validations")
	if truths != "truth\nlog\n" {
		t.Errorf("truths %q", truths)
	}
}

// A run of a part of the log leaves out transfers that began before. If they are a large share of the bytes
// of a link, the comparison names the link. Otherwise, a gate on these bytes could pass by mistake.
func TestTransfersThatBeganBeforeThePartAreNamed(t *testing.T) {
	everyThirdDay(t, 1)
	t.Parallel()
	c := newConnectionLog(t).withRecords(t, "part",
		record(50000, 443, 12_000_000, 150, 209), // stays whole: it is a single record
		record(50001, 443, 3_000_000, 190, 219), record(50002, 443, 100_000, 200, 200))
	out := must(t, "run", "--workload", "part", "--lake", c.lake, "--name", "part", "--estimator", "independent",
		"--from", "00:03", "--to", "00:04")
	contains(t, out, "warning: flows: transfers that began before the run's part of the log have 6 MB of it, ",
		"66%, and", "what the links of 2 hosts carry, such as 65.9% of what db1 receives")
	v := c.againstLog(t, "part")
	b := v.Links.Flows
	if b.Log != 9_100_000 || b.Earlier != 6_000_000 || b.Simulated != 3_100_000 || v.Links.EarlierLinks != 4 {
		t.Errorf("%+v, want 9.1 MB in the log, of which 6 MB began before", v.Links)
	}
	contains(t, must(t, "validate", "--truth", "log", "--scenario", "part", "--lake", c.lake),
		"warning: at least 5% of the bytes of 4 links belong to transfers that began before", "65.9%")
	// The duration of the 3 MB is 29 s ± 1 s. The transfer within one second is not compared.
	s := v.Durations.Services
	if len(s) != 1 || s[0].Bulk || s[0].Flows != 1 || s[0].LogNS != 29e9 {
		t.Errorf("durations %+v: want one of 29 s", s)
	}
}

// Flows are only compared with the log from which they come.
func TestOnlyRunsOfALogAreComparedWithIt(t *testing.T) {
	everyThirdDay(t, 2)
	t.Parallel()
	c := newConnectionLog(t)
	c.run(t, "base", "--traffic", "db=messages:1MB", "--from", "00:02")
	must(t, "what-if", "base", "--lake", c.lake, "--scale", "db=1.5", "--name", "more", "--estimator",
		"independent")
	must(t, "run", "small", "--duration", "1ms", "--lake", c.lake, "--estimator", "independent", "--name",
		"drawn")
	validate := []string{"validate", "--lake", c.lake, "--truth", "log", "--scenario"}
	mustFail(t,
		failure{exitFailed, "drawn does not come from a flow log", append(validate, "drawn")},
		failure{exitFailed, "a change scaled or moved them", append(validate, "more@independent")},
		failure{exitUsage, "--slot", append(validate, "base", "--slot", "0")},
		failure{exitUsage, "--slot goes with --truth", []string{"validate", "--lake", c.lake, "--slot", "1s"}},
		failure{exitFailed, "take longer slots", append(validate, "base", "--slot", "1ms")})
	must(t, "run", "--workload", "p", "--lake", c.lake, "--name", "windows", "--from", "00:02", "--to", "00:03",
		"--traffic", "db=messages:1KB", "--within", "40%", "--of", "p50")
	mustFail(t, failure{exitFailed, "run it without --within", append(validate, "windows")})
	c.withRecords(t, "p", record(1, 443, 1000, 0, 0))
	mustFail(t, failure{exitFailed, "was removed, or more was added to it", append(validate, "base")})
}

// Counters of interfaces are a second truth: the link on which flows explain less than 90% of what the port
// counted is named, and each row of the file is used or set aside for a stated reason.
func TestCountersNameTheLinksThatFlowsDoNotExplain(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	c := newConnectionLog(t)
	c.run(t, "all", "--traffic", "db=messages:1MB")
	const halfMinute = 37_512_500 // bytes of each link of the path
	var rows []string
	add := func(at, device, port, direction string, bytes int64) {
		rows = append(rows, fmt.Sprintf("%s,%s,%s,%s,%d", at, device, port, direction, bytes))
	}
	for i := range int64(11) { // every 30 s of the log
		at := fmt.Sprint(1769817600 + 30*i)
		add(at, "LEAF1", "e1", "rx", (1<<32-1e8+i*halfMinute)%(1<<32))
		add(fmt.Sprintf("2026-01-31T00:%02d:%02dZ", i/2, i%2*30), "leaf1", "E49", "tx", 1<<40+i*halfMinute*5/4)
		add(at, "spine1", "E1", "in", 1<<50+i*halfMinute*5/4)
		add(at+"000", "spine1", "E2", "out", 1<<40+i*halfMinute)
	}
	rows = append(rows, "1769817660,leaf9,E1,out,5", "1769817660,leaf1,E7,out,5", "noon,leaf1,E1,out,5",
		"1769817660,leaf1,E1,out,-5", "1769817660,leaf1,E1,up,5", rows[8], "1769817000,spine1,E2,out,5")
	c.write(t, "counters.csv", "ts,sysName,ifName,Direction,octets\n"+strings.Join(rows, "\n")+"\n")
	flags := []string{"--counters", c.path("counters.csv"), "--counter-bytes", "cumulative"}
	v := c.againstLog(t, "all", flags...)
	differ := v.Links.Differ
	if len(differ) != 1 || differ[0].Link != "leaf1 → spine1" || differ[0].Log != 10*halfMinute ||
		differ[0].Counted != 10*halfMinute*5/4 {
		t.Errorf("links that differ: %+v", differ)
	}
	sum := v.Counters.Used
	for _, s := range v.Counters.SetAside {
		sum += s.Rows
	}
	if v.Counters.Rows != int64(len(rows)) || sum != v.Counters.Rows || v.Counters.Wraps != 1 {
		t.Errorf("%+v: %d rows, want %d, all of them used or set aside", v.Counters, sum, len(rows))
	}
	counted := ask(t, c.lake, "SELECT count(*), sum(counted_bytes) FROM validation_links WHERE link_id = 0")
	if !strings.HasSuffix(counted, "\n5,375125000\n") {
		t.Errorf("slots of the link of web1: %s", counted)
	}
	args := []string{"validate", "--truth", "log", "--scenario", "all", "--lake", c.lake}
	contains(t, must(t, append(args, flags...)...), "the flows explain 92.3% of the bytes",
		"1 link where the flows differ", "1 set aside: device that the network does not have (first: line 46)",
		"11 set aside: receiving end of a link whose sender has counters")
	mustFail(t,
		failure{exitUsage, "--counters needs --counter-bytes", append(args, flags[:2]...)},
		failure{exitUsage, "--counter-column", append(args, append(flags, "--counter-column", "size=x")...)},
		failure{exitFailed, "has no column x", append(args, append(flags, "--counter-column", "time=x")...)},
		failure{exitUsage, "want cumulative or " +
			"interval", append(args, "--counters", "x", "--counter-bytes", "delta")})
}
