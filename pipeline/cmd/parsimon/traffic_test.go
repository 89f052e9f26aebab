package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"parsimon/schema/daily"
)

// A connectionLog is a flow log of a database connection that carries 10 Mbps of a 100 Mbps link for five
// minutes, and of short web flows on the same path.
type connectionLog struct{ dir, lake string }

// ingestedLog is a connection log that is ingested once. Tests work on copies.
var ingestedLog struct {
	once sync.Once
	connectionLog
}

func newConnectionLog(t *testing.T) connectionLog {
	t.Helper()
	ingestedLog.once.Do(func() { ingestedLog.connectionLog = makeConnectionLog(t, makeSharedDir(t)) })
	if ingestedLog.lake == "" {
		t.Fatal("the log could not be ingested")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(ingestedLog.dir)); err != nil {
		t.Fatal(err)
	}
	return connectionLog{dir: dir, lake: filepath.Join(dir, "lake")}
}

func makeConnectionLog(t *testing.T, dir string) connectionLog {
	t.Helper()
	c := connectionLog{dir: dir}
	c.lake = c.path("lake")
	var log strings.Builder
	log.WriteString("version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes " +
		"start end action log-status\n")
	const begin = 1769817600 // 2026-01-31, midnight
	for minute := range 5 {
		from := begin + 60*minute
		fmt.Fprintf(&log, "2 1 e 10.0.0.1 10.0.0.2 40000 5432 6 50000 75000000 %d %d ACCEPT OK\n", from, from+59)
		for web := range 10 {
			at := from + 6*web
			port := 41000 + 10*minute + web
			fmt.Fprintf(&log, "2 1 e 10.0.0.1 10.0.0.2 %d 443 6 2 2500 %d %d ACCEPT OK\n", port, at, at)
		}
	}
	c.write(t, "a.log", log.String())
	c.write(t, "hosts.csv", "address,node\n10.0.0.1,web1\n10.0.0.2,db1\n")
	c.write(t, "labels.csv", "cidr,port,service,vnet\n10.0.0.0/24,5432,db,p\n10.0.0.0/24,443,web,p\n")
	c.write(t, "cables.csv", "device_a,port_a,device_b,port_b,speed\nweb1,eth0,leaf1,E1,100M\n"+
		"db1,eth0,leaf2,E1,100M\nleaf1,E49,spine1,E1,1G\nleaf2,E49,spine1,E2,1G\n")
	must(t, "ingest", c.path("a.log"), "--format", "vpc", "--hosts", c.path("hosts.csv"), "--labels",
		c.path("labels.csv"), "--topology", c.path("cables.csv"), "--workload", "p", "--lake", c.lake)
	return c
}

func (c connectionLog) path(name string) string { return filepath.Join(c.dir, name) }

func (c connectionLog) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(c.path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a part of the workload, and returns the summary.
func (c connectionLog) run(t *testing.T, name string, flags ...string) string {
	t.Helper()
	args := []string{"run", "--workload", "p", "--lake", c.lake, "--name", name, "--estimator", "independent"}
	return must(t, append(args, flags...)...)
}

// values returns the answers of queries that each have one value, for the scenario of a name. One child
// process answers all of them.
func (c connectionLog) values(t *testing.T, name string, queries ...string) (values []float64) {
	t.Helper()
	of := "(SELECT scenario_id FROM scenarios WHERE name = '" + name + "')"
	sql := "SELECT (" + strings.Join(queries, "), (") + ")"
	_, answer, _ := strings.Cut(ask(t, c.lake, strings.ReplaceAll(sql, "$scenario", of)), "\n")
	for _, text := range strings.Split(strings.TrimSpace(answer), ",") {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		values = append(values, x)
	}
	return values
}

const (
	hostLoad      = "SELECT max(load) FROM link_stats WHERE scenario = $scenario"
	databaseBytes = "SELECT sum(size_bytes) FROM flows WHERE scenario = $scenario AND service = 'db'"
	// databaseOrigins counts the connections of the database that messages name.
	databaseOrigins = "SELECT count(DISTINCT f.connection_id) FROM flows AS f JOIN workload_flows AS w " +
		"ON w.flow_id = f.connection_id WHERE f.scenario = $scenario AND w.service = 'db' AND f.service = 'db'"
)

// In every interval of the log, each link is offered the bytes that the log has there. Otherwise, the first
// minutes of a long connection would be a storm, and later ones empty.
func TestLinksAreOfferedTheLoadOfTheLog(t *testing.T) {
	t.Parallel()
	c := newConnectionLog(t)
	rows := ask(t, c.lake, "SELECT count(*), sum(bytes), max(i.end_ns - i.start_ns) "+
		"FROM workload_intervals AS i JOIN workload_flows AS f USING (workload, flow_id) WHERE f.service = 'db'")
	if !strings.HasSuffix(rows, "\n5,375000000,60000000000\n") {
		t.Fatalf("intervals of the database: %s", rows)
	}
	for _, minute := range []int{0, 3} {
		name := fmt.Sprint("minute ", minute)
		c.run(t, name, "--traffic", "db=messages:100KB", "--from", fmt.Sprintf("00:%02d", minute), "--to",
			fmt.Sprintf("00:%02d", minute+1))
		got := c.values(t, name, hostLoad, databaseBytes, databaseOrigins)
		if math.Abs(got[0]-0.1) > 0.003 {
			t.Errorf("%s: load %v, want that of the log, 0.1", name, got[0])
		}
		if got[1] != 75e6 {
			t.Errorf("%s: %v bytes of the database, want 75 MB", name, got[1])
		}
		if got[2] != 1 {
			t.Errorf("%s: messages of %v connections of the database, want 1", name, got[2])
		}
	}
}

// --traffic states what connections of a service send. The short form has one model and one form of a burst
// each day.
func TestTrafficStatesTheModelOfAService(t *testing.T) {
	t.Parallel()
	c := newConnectionLog(t)
	part := []string{"--from", "00:03", "--to", "00:04", "--traffic"}
	for i, given := range []struct {
		model string
		want  float64
	}{{"db=messages:100KB", 750}, {"*=messages:1MB", 75}, {"db=bulk", 1}, {"db=paced", 0}} {
		if daily.Skips(i, 4) {
			continue
		}
		model := given.model
		out := c.run(t, model, append(part, model)...)
		const rows = "SELECT count(*) FROM slowdowns WHERE scenario = $scenario AND service = "
		got := c.values(t, model, rows+"'db'", rows+"'web'", hostLoad)
		if got[0] != given.want || got[1] != 10 {
			t.Errorf("%s: %v slowdowns of the database and %v of web flows, want %v and 10", model, got[0], got[1],
				given.want)
		}
		if model != "db=bulk" && math.Abs(got[2]-0.1) > 0.003 {
			t.Errorf("%s: load %v, want 0.1", model, got[2])
		}
		if strings.Contains(out, "guess") {
			t.Errorf("%s: the size is a guess: %s", model, out)
		}
	}
	// Messages of a burst start together, regardless of the form of the rule.
	for i, given := range []struct {
		name, flag, rule, note string
		starts                 float64
	}{
		{"flag", "--traffic", "db=messages:100KB:burst=8", "8 of them at a time", 94},
		{"key", "--set", "traffic.db=messages:100KB:burst=4", "4 of them at a time", 188},
	} {
		if daily.Skips(i, 2) {
			continue
		}
		out := c.run(t, given.name, append(slices.Clone(part[:4]), given.flag, given.rule)...)
		contains(t, out, "messages of 100 KB, "+given.note)
		got := c.values(t, given.name, "SELECT count(DISTINCT start_ns) FROM flows WHERE scenario = $scenario "+
			"AND service = 'db'")
		if got[0] != given.starts {
			t.Errorf("%s: 750 messages start at %v times, want %v", given.rule, got[0], given.starts)
		}
	}
	base := []string{"run", "--workload", "p", "--lake", c.lake, "--traffic"}
	mustFail(t,
		failure{exitUsage, `"db": want SERVICE=MODEL`, append(base, "db")},
		failure{exitUsage, `"db=burst": is "burst", want messages`, append(base, "db=burst")},
		failure{exitUsage, `"db=messages:0"`, append(base, "db=messages:0")},
		failure{exitUsage, `service "db" has two models`, append(base, "db=bulk", "--traffic", "db=paced")},
		failure{exitUsage, "--traffic", []string{"run", "small", "--lake", c.lake, "--traffic", "db=bulk"}})
}

// A client of a closed service sends a message after the delivery of the one before it, which only a
// simulation of the whole network finds. Other estimators refuse it.
func TestClosedConnectionsSendOneMessageAtATime(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	c := newConnectionLog(t)
	args := []string{"run", "--workload", "p", "--lake", c.lake, "--from", "00:03:00", "--to", "00:03:10",
		"--name"}
	for rule, overlap := range map[string]bool{"db=messages:100KB": true, "db=messages:100KB:closed": false} {
		out := must(t, append(args, rule, "--traffic", rule)...)
		if !overlap {
			contains(t, out, "variant exact", "as messages of 100 KB, at most 1 of a connection at a time")
		}
		got := c.values(t, rule, "SELECT count(*) FROM (SELECT start_ns, lag(start_ns + fct_ns) "+
			"OVER (ORDER BY start_ns) AS before_ns FROM slowdowns WHERE scenario = $scenario AND service = 'db') "+
			"WHERE start_ns < before_ns", "SELECT (SELECT count(*) FROM slowdowns "+
			"WHERE scenario = $scenario AND service = 'db') - (SELECT count(*) FROM dependencies "+
			"WHERE scenario = $scenario)")
		if overlap != (got[0] > 0) {
			t.Errorf("%s: %v messages begin before the one before them is delivered", rule, got[0])
		}
		if !overlap && got[1] != 1 {
			t.Errorf("%v messages wait for none, want the first one only", got[1])
		}
	}
	mustFail(t, failure{exitUsage, "use --estimator exact", append(args, "x", "--traffic", "db=messages:closed",
		"--estimator", "flow")})
}

// The labels table states the model of a service for all runs. --traffic replaces it. The short form has one
// way to replace it each day.
func TestLabelsStateTheModelOfAService(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	c := newConnectionLog(t)
	ingest := func(name, labels string) []string {
		c.write(t, name+".csv", labels)
		return []string{"ingest", c.path("a.log"), "--format", "vpc", "--hosts", c.path("hosts.csv"), "--labels",
			c.path(name + ".csv"), "--topology", c.path("cables.csv"), "--workload", name, "--lake", c.lake}
	}
	must(t, ingest("stated", "cidr,port,service,vnet,traffic_model\n"+
		"10.0.0.0/24,5432,db,p,messages:100KB:burst=4\n10.0.0.1,5433,db,p,\n10.0.0.0/24,443,web,p,\n")...)
	for i, given := range []struct{ flags, want string }{
		{"", "as messages of 100 KB, 4 of them at a time"},
		{"--traffic db=messages:50KB", "as messages of 50 KB, at independent times"},
		{"--set traffic.db=paced", "as background traffic"},
		{"--traffic *=messages:50KB", "as messages of 100 KB, 4 of them at a time"},
	} {
		if daily.Skips(i, 4) {
			continue
		}
		args := []string{"run", "--workload", "stated", "--lake", c.lake, "--estimator", "independent", "--from",
			"00:03:00", "--to", "00:03:10"}
		contains(t, must(t, append(args, strings.Fields(given.flags)...)...), given.want)
	}
	const header = "cidr,port,service,vnet,traffic_model\n"
	mustFail(t,
		failure{exitFailed, `traffic_model "db=messages:0": size of messages "0"`,
			ingest("zero", header+"10.0.0.0/24,5432,db,p,messages:0\n")},
		failure{exitFailed, `row 2: traffic_model of service "db" is "bulk", and an earlier row says "paced"`,
			ingest("two", header+"10.0.0.1,5432,db,p,paced\n10.0.0.2,5432,db,p,bulk\n")},
		failure{exitFailed, `row 1: traffic_model "paced" is that of one service, and the row has service ""`,
			ingest("none", header+"10.0.0.1,5432,,p,paced\n")},
		failure{exitFailed, `and the row has service "*"`, ingest("all", header+"10.0.0.1,5432,*,p,paced\n")})
}

// If a service is scaled, its connections send more messages, and the load grows in proportion.
func TestScaledServiceSendsMoreMessages(t *testing.T) {
	everyThirdDay(t, 1)
	t.Parallel()
	c := newConnectionLog(t)
	c.run(t, "base", "--from", "00:03", "--to", "00:04", "--traffic", "db=messages:100KB")
	must(t, "what-if", "base", "--lake", c.lake, "--scale", "db=1.5", "--name", "more", "--estimator",
		"independent")
	got := c.values(t, "more", hostLoad,
		"SELECT count(DISTINCT connection_id) FROM flows WHERE scenario = $scenario AND service = 'db'")
	if math.Abs(got[0]-0.15) > 0.006 {
		t.Errorf("load %v, want 0.15", got[0])
	}
	if got[1] != 1 {
		t.Errorf("messages of %v connections, want 1", got[1])
	}
}
