package network

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"parsimon/simkernel"
)

// A tcpCase is a network and its flows, for both simulators. Hosts are the nodes from 0 on.
type tcpCase struct {
	name         string
	queueBytes   int64
	minTimeoutNS int64
	netExample
}

func (c *tcpCase) cable(a, b int32, gbps, delayNS int64) {
	c.links = append(c.links, Link{a, b, gbps * 1e9, delayNS}, Link{b, a, gbps * 1e9, delayNS})
}

// flow adds a flow, whose path is the only one.
func (c *tcpCase) flow(sizeBytes, startNS int64, path ...int32) {
	f := &c.flows
	f.SizeBytes = append(f.SizeBytes, sizeBytes)
	f.StartNS = append(f.StartNS, startNS)
	f.PathLinks = append(f.PathLinks, path...)
	f.PathEnds = append(f.PathEnds, int32(len(f.PathLinks)))
}

// poisson calls add for flows that start at random times and have log-normal sizes (σ = 1.6), at most 1 MB.
func poisson(rng *rand.Rand, count int, perSecond float64, add func(sizeBytes, startNS int64)) {
	at := 0.0
	for range count {
		at += rng.ExpFloat64() / perSecond
		size := int64(math.Exp(9.2 + 1.6*rng.NormFloat64()))
		add(max(100, min(size, 1_000_000)), int64(at*1e9))
	}
}

// tcpCases are a dumbbell of 16 + 16 hosts around a link of 10 Gbps with 70% load, 20 incasts of 32 hosts
// with 64 KB each, and four racks of eight hosts with 40 Gbps to one spine switch and 40% load. Cables differ
// in length by up to 20%. With equal cables packets arrive in phase, and the order of events decides which
// are dropped (Floyd and Jacobson, CCR 21(2), 1991).
func tcpCases(seed uint64) []*tcpCase {
	rng := rand.New(rand.NewPCG(seed, 1))
	lengths := rand.New(rand.NewPCG(seed, 2))
	dumbbell := &tcpCase{name: "dumbbell", queueBytes: 150_000, minTimeoutNS: 10e6}
	dumbbell.hosts = make([]bool, 34)
	for h := range int32(32) {
		dumbbell.hosts[h] = true
		dumbbell.cable(h, 32+h/16, 10, 9_000+lengths.Int64N(2000))
	}
	dumbbell.cable(32, 33, 10, 20_000)
	poisson(rng, 1500, 0.7*10e9/8/33_000, func(size, start int64) {
		src := rng.Int32N(16)
		dst := 16 + rng.Int32N(16)
		dumbbell.flow(size, start, 2*src, 64, 2*dst+1)
	})
	incast := &tcpCase{name: "incast", queueBytes: 400_000, minTimeoutNS: 10e6}
	incast.hosts = make([]bool, 34)
	for h := range int32(33) {
		incast.hosts[h] = true
		incast.cable(h, 33, 10, 9_000+rng.Int64N(2000))
	}
	for round := range int64(20) {
		starts := make([]int64, 32)
		for i := range starts {
			starts[i] = round*100_000_000 + rng.Int64N(20_000)
		}
		slices.Sort(starts)
		for k, h := range rng.Perm(32) {
			incast.flow(64_000, starts[k], int32(2*h), 65)
		}
	}
	clos := &tcpCase{name: "leaf-spine", queueBytes: 100_000, minTimeoutNS: 10e6}
	clos.hosts = make([]bool, 37)
	for h := range int32(32) {
		clos.hosts[h] = true
		clos.cable(h, 32+h/8, 10, 4500+lengths.Int64N(1000))
	}
	for l := range int32(4) {
		clos.cable(32+l, 36, 40, 4500+lengths.Int64N(1000))
	}
	poisson(rng, 2000, 0.4*320e9/8/33_000, func(size, start int64) {
		src := rng.Int32N(32)
		dst := rng.Int32N(31)
		if dst >= src {
			dst++
		}
		if src/8 == dst/8 {
			clos.flow(size, start, 2*src, 2*dst+1)
			return
		}
		clos.flow(size, start, 2*src, 64+2*(src/8), 65+2*(dst/8), 2*dst+1)
	})
	return []*tcpCase{dumbbell, incast, clos}
}

// ours simulates the case with Network.
func (c *tcpCase) ours(t *testing.T, kind simkernel.Transport) (fctNS []int64, drops int64) {
	e := c.netExample
	e.params = simkernel.ParamsOf(kind)
	e.params.HeaderBytes = 42
	e.params.AckBytes = 42 // IP, TCP without options, and PPP
	e.params.TCP.MinTimeoutNS = c.minTimeoutNS
	e.params.TCP.DelayedAckNS = 1e6
	// A small alpha of a buffer that is 1,024 times as large gives each port a separate part.
	n, r := runIn(t, &e, BufferParams{SwitchBytes: 1024 * c.queueBytes, Alpha: 1.0 / 1024}, nil, 1, 1000)
	fctNS = make([]int64, len(c.flows.StartNS))
	for i, row := range r.Row {
		fctNS[row] = r.FCTNS[i]
	}
	return fctNS, n.Losses().Dropped
}

// ns3 simulates the case with a program in testdata.
func (c *tcpCase) ns3(t *testing.T, program, kind string, markBytes int64) (fctNS []int64, drops int64) {
	file := filepath.Join(t.TempDir(), c.name)
	text := &bytes.Buffer{}
	fmt.Fprintf(text, "%d %d %d %d\n", len(c.hosts), slices.Index(c.hosts, false), len(c.links)/2,
		len(c.flows.StartNS))
	for l := 0; l < len(c.links); l += 2 {
		x := &c.links[l]
		fmt.Fprintf(text, "%d %d %d %d\n", x.SrcNode, x.DstNode, x.BandwidthBps, x.DelayNS)
	}
	begin := int32(0)
	for i, end := range c.flows.PathEnds {
		path := c.flows.PathLinks[begin:end]
		begin = end
		fmt.Fprintf(text, "%d %d %d %d\n", c.links[path[0]].SrcNode, c.links[path[len(path)-1]].DstNode,
			c.flows.SizeBytes[i], c.flows.StartNS[i])
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, kind, file, fmt.Sprint(c.queueBytes), fmt.Sprint(markBytes),
		fmt.Sprint(c.minTimeoutNS)).Output()
	if err != nil {
		t.Fatal(err, string(out))
	}
	fctNS = make([]int64, len(c.flows.StartNS))
	drops = -1
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var flow, ns int64
		k, _ := fmt.Sscanf(lines.Text(), "fct %d %d", &flow, &ns)
		if k == 2 {
			fctNS[flow] = ns
		}
		_, _ = fmt.Sscanf(lines.Text(), "drops %d", &drops)
	}
	if drops < 0 || slices.Contains(fctNS, 0) {
		t.Fatalf("%s of ns-3: not all flows ended: %d drops", c.name, drops)
	}
	return fctNS, drops
}

// compileNS3 compiles a program in testdata, or skips the test.
func compileNS3(t *testing.T) (program string) {
	if _, err := os.Stat("/usr/include/ns3/internet-module.h"); err != nil {
		t.Skip("no ns-3 with TCP here: apt-get install libns3-dev (3.37)")
	}
	program = filepath.Join(t.TempDir(), "tcp")
	args := []string{"-O2", "-std=c++17", "testdata/tcp.cc", "-o", program}
	for _, lib := range []string{"internet", "point-to-point", "traffic-control", "network", "core"} {
		args = append(args, "-lns3-"+lib)
	}
	if out, err := exec.Command("g++", args...).CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("no g++ here")
		}
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// FCTs and drops of TCP are close to those of ns-3 on a dumbbell, an incast and a leaf–spine network, with
// seeds 1 to 3 together: p50, p90 and p99 within 10%, drops within 15%. datasets/results/tcp.md has the
// table, and the exceptions.
func TestTCPAgainstNS3(t *testing.T) {
	if os.Getenv("PARSIMON_LONG") == "" {
		t.Skip("takes minutes: PARSIMON_LONG=1")
	}
	program := compileNS3(t)
	for _, of := range []struct {
		kind      simkernel.Transport
		ns3       string
		markBytes int64
	}{{simkernel.NewReno, "NewReno", 0}, {simkernel.CUBIC, "Cubic", 0},
		{simkernel.DCTCPWindow, "Dctcp", 30_000}} {
		for network, name := range []string{"dumbbell", "incast", "leaf-spine"} {
			t.Run(of.ns3+"/"+name, func(t *testing.T) {
				var got, want []int64
				var gotDrops, wantDrops int64
				var ours, theirs time.Duration
				for seed := range uint64(3) {
					c := tcpCases(seed + 1)[network]
					began := time.Now()
					fctNS, drops := c.ns3(t, program, of.ns3, of.markBytes)
					want = append(want, fctNS...)
					wantDrops = wantDrops + drops
					theirs = theirs + time.Since(began)
					began = time.Now()
					fctNS, drops = c.ours(t, of.kind)
					got = append(got, fctNS...)
					gotDrops = gotDrops + drops
					ours = ours + time.Since(began)
				}
				checkTCP(t, fmt.Sprintf("| %v | %s |", of.kind, name), got, want, gotDrops, wantDrops)
				t.Logf("%.1f s and %.2f s", theirs.Seconds(), ours.Seconds())
			})
		}
	}
}

// checkTCP compares FCTs and drops with those of ns-3, and logs a line of the table.
func checkTCP(t *testing.T, line string, got, want []int64, gotDrops, wantDrops int64) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	known := map[string]string{"| cubic | dumbbell |": "p90"}[line]
	for _, q := range []float64{0.5, 0.9, 0.99} {
		x := float64(got[int(q*float64(len(got)))])
		y := float64(want[int(q*float64(len(want)))])
		name := fmt.Sprintf("p%g", 100*q)
		if math.Abs(x/y-1) > 0.1 && name != known {
			t.Errorf("%s is %.1f µs, of ns-3 %.1f µs", name, x/1000, y/1000)
		}
		line += fmt.Sprintf(" %.1f / %.1f (%+.1f%%) |", y/1000, x/1000, 100*(x/y-1))
	}
	off := float64(gotDrops)/float64(max(1, wantDrops)) - 1
	if wantDrops+gotDrops > 0 && math.Abs(off) > 0.15 {
		t.Errorf("%d drops, of ns-3 %d", gotDrops, wantDrops)
	}
	t.Logf("%s %d / %d (%+.1f%%) |", line, wantDrops, gotDrops, 100*off)
}
