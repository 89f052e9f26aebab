package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeTrial writes the files of a newcomer to the working directory: a cabling list of 81 cables, one of
// them planned, VPC flow logs of three services, and the tables of hosts and labels, with headers as people
// name them.
func writeTrial(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	cables := "Device A,Port A,Device B,Port B,Speed,Length,Status\n"
	hosts := "ip,hostname\n"
	labels := "subnet,port,application,network\n"
	kinds := []string{"web", "web", "web", "db", "db", "storage", "storage", "storage"}
	ports := map[string]int{"web": 443, "db": 5432, "storage": 9000}
	of := map[string][]string{}
	for rack, kind := range kinds {
		for host := range 8 {
			address := fmt.Sprintf("10.0.%d.%d", rack, 10+host)
			name := fmt.Sprintf("%s%d", kind, len(of[kind])+1)
			of[kind] = append(of[kind], address)
			cables += fmt.Sprintf("%s,eth0,leaf%d,Ethernet%d,25G,3m,connected\n", name, rack+1, host)
			hosts += address + "," + name + "\n"
		}
		for spine := range 2 {
			cables += fmt.Sprintf("leaf%d,Ethernet%d,spine%d,Ethernet%d,100G,30m,connected\n", rack+1, 48+spine,
				spine+1, rack)
		}
		labels += fmt.Sprintf("10.0.%d.0/24,%d,%s,%s\n", rack, ports[kind], kind,
			map[bool]string{true: "infra", false: "prod"}[kind == "storage"])
	}
	cables += "leaf7,Ethernet60,leaf8,Ethernet60,100G,5m,planned\n"
	writeFiles(t, map[string]string{"cables.csv": cables, "hosts.csv": hosts, "labels.csv": labels,
		"logs/flows.log": trialLog(of, ports)})
}

// trialLog writes 2 s of flows from the web servers to all three services. 203.0.113.9 is in no table.
func trialLog(of map[string][]string, ports map[string]int) string {
	var b strings.Builder
	b.WriteString("version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes " +
		"start end action log-status\n")
	random := rand.New(rand.NewPCG(1, 2))
	services := []string{"web", "db", "storage"}
	sizes := map[string]int{"web": 20_000, "db": 60_000, "storage": 2_000_000}
	for i := range 1500 {
		service := services[random.IntN(3)]
		src := of["web"][random.IntN(12)]
		dst := of[service][random.IntN(len(of[service])/2)]
		if service == "web" {
			dst = of["web"][12+random.IntN(12)]
		}
		if i%50 == 0 {
			src = "203.0.113.9"
		}
		start := 1769850000 + random.IntN(2)
		fmt.Fprintf(&b, "2 123456789010 eni-%s %s %s %d %d 6 10 %d %d %d ACCEPT OK\n",
			strings.ReplaceAll(src, ".", ""), src, dst, 32768+i, ports[service], 100+random.IntN(sizes[service]),
			start, start+1)
	}
	return b.String()
}

// The first hour of a newcomer uses the commands of the README without an id. It leads from a cabling list
// and flow logs to slow services and links, what-ifs by name, and an empty lake.
func TestFirstHour(t *testing.T) {
	everyThirdDay(t, 1)
	writeTrial(t)
	contains(t, must(t, "topology", "cables.csv"), "64 hosts, 10 switches, 80 cables",
		"planned: 1 cable not part of the network")
	ingest := []string{"ingest", "logs", "--format", "vpc", "--hosts", "hosts.csv", "--labels", "labels.csv",
		"--topology", "cables.csv", "--workload", "day", "--lake", "lake"}
	advice := "(parsimon ingest --hosts TABLE, then parsimon run --workload) that says at which host NODE of " +
		"the topology they enter, such as a gateway: line 203.0.113.0/24,NODE"
	mustFail(t, failure{exitFailed, advice, ingest})
	text, err := os.ReadFile("hosts.csv")
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, map[string]string{"hosts.csv": string(text) + "203.0.113.0/24,web24\n"})
	contains(t, must(t, ingest...), "1500 rows in = ", "storage", "infra", "run --workload day --lake")
	mustFail(t,
		failure{exitFailed, "day is a workload: parsimon rm --workload day",
			[]string{"rm", "day", "--lake", "lake"}},
		failure{exitFailed, "holds no scenario yet; parsimon run --workload day",
			[]string{"rm", "dya", "--lake", "lake"}})

	summary := must(t, "run", "--workload", "day", "--lake", "lake", "--passes", "1", "-q")
	contains(t, summary, "(day), variant flow-1", "p99_fct_ms")
	if strings.Contains(summary, "too early") || strings.Contains(summary, "too late") {
		t.Errorf("an estimate contradicts the conservation laws at the times of a log:\n%s", summary)
	}
	contains(t, must(t, "query", "slowdown_by_service", "--lake", "lake", "--param", "scenario=day"), "storage",
		"p99_fct_ms")
	contains(t, must(t, "query", "slowdown_by_service_vnet", "--lake", "lake", "--param", "scenario=day"),
		"infra")
	contains(t, must(t, "query", "p99_links", "--lake", "lake", "--param", "scenario=day",
		"--param", "service=storage"), " → ")
	contains(t, must(t, "query", "tail_by_tier", "--lake", "lake", "--param", "scenario=day",
		"--param", "vnet=infra"), "tor-host")

	change := func(flags ...string) []string {
		return append([]string{"what-if", "day", "--lake", "lake", "--passes", "1", "-q"}, flags...)
	}
	contains(t, must(t, change("--fail", "leaf8:spine1")...), "(day, leaf8:spine1 down)")
	contains(t, must(t, change("--add-cable", "leaf1:leaf2=100G", "--bandwidth", "leaf3:spine1=40000")...),
		"(day, leaf1:leaf2 added at 100 Gbps, leaf3:spine1 at 40 Gbps)")
	contains(t, must(t, change("--scale", "db=1.5,storage=+50%", "--add-cable", "leaf7:leaf8=100G")...),
		"(day, leaf7:leaf8 added at 100 Gbps, db ×1.5, storage ×1.5)")
	contains(t, must(t, "compare", "day", "day, leaf8:spine1 down", "--lake", "lake"), "flows are in both")
	mustFail(t,
		failure{exitFailed, `did you mean "spine1"`, change("--fail", "leaf8:spin1")},
		failure{exitFailed, `did you mean "storage"`, change("--scale", "storge=2")},
		failure{exitFailed, "the cables of leaf8 go to ", change("--fail", "leaf8:web1")},
		failure{exitFailed, `it holds `, []string{"what-if", "dya", "--lake", "lake", "--fail", "leaf8:spine1"}},
		failure{exitUsage, "want A:B=100G", change("--add-cable", "leaf1:leaf2")},
		failure{exitUsage, "want a factor", change("--scale", "db=much")})

	must(t, "rm", "day", "day, leaf8:spine1 down", "--workload", "day", "--lake", "lake")
	contains(t, must(t, "status", "--lake", "lake"), "complete  day, leaf7:leaf8 added")
}

// A scenario keeps its first name. A later one is an alias that every command accepts.
func TestAliases(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	r := copiedLake(t)
	must(t, "run", r.scenario, "--lake", r.lake, "--passes", "2", "--name", "second", "-q")
	contains(t, must(t, "status", "--lake", r.lake), r.id+"  complete  tiny\n")
	contains(t, must(t, "query", "slowdown_by_size", "--lake", r.lake, "--param", "scenario=second"), r.id)
	contains(t, must(t, "rm", "second", "--lake", r.lake), "removed "+r.id+" tiny")
}

// The notes of a topology are log lines of a run. Its options are flags and keys of scenario files, and other
// options make another scenario.
func TestTopologyOptionsOfRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeFiles(t, map[string]string{
		in("net/cables.csv"): "a,port_a,b,port_b\nh1,eth1,sw,e1\nh2,eth1,sw,e2\n",
		in("flows.csv"):      "src,dst,size_bytes,start_ns\nh1,h2,10000,0\nh2,h1,20000,500\n",
		in("s.yaml"): `topology: {file: net/cables.csv, host_patterns: ["h*"], speeds: ["*=10G"], default_delay: 2us}
workload: {flows: flows.csv}
`,
	})
	run := func(args ...string) string {
		code, out, log := parsimon(t, append([]string{"stage", "generate", "--lake", in("lake")}, args...)...)
		if code != exitOK {
			t.Fatalf("%v: exit %d: %s", args, code, log)
		}
		contains(t, log, `"message":"topology: hosts: `, `"run":"`)
		return out
	}
	files := []string{"--topology", in("net/cables.csv"), "--flows", in("flows.csv"), "--speed", "*=10G"}
	plain := run(files...)
	again := run(append(files, "--default-delay", "1us")...)
	if again != plain {
		t.Errorf("the default said aloud makes %s, not %s", again, plain)
	}
	options := run(append(files, "--host-pattern", "h*", "--default-delay", "2us")...)
	file := run(in("s.yaml"))
	if options == plain || file != options {
		t.Errorf("scenarios %s %s %s: the second and the third are one", plain, options, file)
	}
}
