package ns3

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// fakeNS3 returns a simulator that runs a shell script in place of ns-3.
func fakeNS3(t *testing.T, script string) *Simulator {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fake-ns3")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Simulator{Path: path, Timeout: time.Minute, Scratch: t.TempDir()}
}

// answerAll is a script that writes an FCT of 1 s plus 1 ns per byte for every flow.
const answerAll = `awk 'NR > 1 { print $1, "a", "b", 1, 2, $6, 0, 1000000000 + $6, 1 }' flows.txt > fct.txt` + "\n"

// answer is answerAll with its output piped through a filter.
func answer(filter string) string {
	return strings.TrimSuffix(answerAll, "> fct.txt\n") + "| " + filter + " > fct.txt\n"
}

// smallCase has two sources and three flows, to destinations 1 µs and 3 µs behind a target of 1 µs.
func smallCase() *linkcase.Case {
	return &linkcase.Case{
		Kind: linkcase.Behind, TargetBps: 40e9, MarkBytes: 120_000, MaxMarkBytes: 120_000,
		SourceBps: []int64{10e9, 9_970_000_000}, SourceDelayNS: []int64{1000, 2000},
		Source: []int32{0, 1, 1}, SizeBytes: []int64{500, 1000, 2500},
		StartNS:     []int64{5_000_000_000, 5_000_000_001, 5_000_001_000},
		PathDelayNS: []int64{3000, 4000, 6000},
	}
}

// The files of a case, for each position of its link on the path.
func TestNS3Files(t *testing.T) {
	middle, last, first := smallCase(), smallCase(), smallCase()
	last.PathDelayNS = []int64{2000, 3000, 3000}
	first.Kind, first.TargetBps = linkcase.FirstHop, 0
	first.SourceBps, first.SourceDelayNS, first.Source = first.SourceBps[1:], []int64{0}, []int32{0, 0, 0}
	for _, c := range []struct {
		name            string
		c               *linkcase.Case
		topology, flows string
	}{
		{"middle", middle, `
6 2 5
2 3
0 2 10000000000bps 1000ns 0
1 2 9970000000bps 2000ns 0
2 3 40000000000bps 1000ns 0
3 4 400000000000bps 1000ns 0
3 5 400000000000bps 3000ns 0
`, `
3
0 0 4 3 100 500 0.0000000005
1 1 4 3 100 1000 0.0000000015
2 1 5 3 100 2500 0.0000010005
`},
		{"last", last, `
4 1 3
2
0 2 10000000000bps 1000ns 0
1 2 9970000000bps 2000ns 0
2 3 40000000000bps 1000ns 0
`, `
3
0 0 3 3 100 500 0.0000000005
1 1 3 3 100 1000 0.0000000015
2 1 3 3 100 2500 0.0000010005
`},
		{"first", first, `
5 1 4
1
0 1 9970000000bps 1000ns 0
1 2 99700000000bps 2000ns 0
1 3 99700000000bps 3000ns 0
1 4 99700000000bps 5000ns 0
`, `
3
0 0 2 3 100 500 0.0000000005
1 0 3 3 100 1000 0.0000000015
2 0 4 3 100 2500 0.0000010005
`},
	} {
		p := simkernel.DefaultParams()
		n, err := newNetCase(c.c, 1000, &p)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := n.write(dir); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{topologyFile: c.topology, flowsFile: c.flows} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if got := strings.ReplaceAll(string(text), " \n", "\n"); err != nil || got != want[1:] {
				t.Errorf("%s, %s: %v\n%s", c.name, file, err, got)
			}
		}
		config, err := os.ReadFile(filepath.Join(dir, configFile))
		if err != nil || !strings.Contains(string(config), "\nCC_MODE 8\n") ||
			!strings.Contains(string(config), "\nDCTCP_RATE_AI 615000000bps\n") {
			t.Errorf("%s: %v\n%s", c.name, err, config)
		}
		if c.name == "middle" && !strings.Contains(string(config),
			"\nKMIN_MAP 4 40000000000 120 10000000000 1000000 9970000000 1000000 400000000000 1000000\n") {
			t.Errorf("%s", config)
		}
	}
}

// The FCTs in the program's file are the result, in any order, also if the program then continues or is killed. The
// case's directory is removed.
func TestNS3Answers(t *testing.T) {
	for name, script := range map[string]string{
		"plain":    answerAll,
		"reversed": answer("sort -r"),
		"lingers":  answerAll + "sleep 1000",
		"dies":     answerAll + "kill -9 $$",
	} {
		n := fakeNS3(t, script)
		p, c := simkernel.DefaultParams(), smallCase()
		var r linkcase.Result
		began := time.Now()
		if err := n.Simulate(context.Background(), c, 1000, &p, &r); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if time.Since(began) > 30*time.Second {
			t.Errorf("%s: took %v", name, time.Since(began))
		}
		for i, fct := range r.FCTNS {
			if fct != 1e9+c.SizeBytes[i] || r.IdealNS[i] < c.PathDelayNS[i] || r.IdealNS[i] > c.PathDelayNS[i]+5000 ||
				r.WaitNS[i] != 0 {
				t.Errorf("%s: flow %d: FCT %d, ideal %d, wait %d", name, i, fct, r.IdealNS[i], r.WaitNS[i])
			}
		}
		empty(t, n.Scratch)
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files remain: %v, %v", left, err)
	}
}

// Failures are reported, and the case's directory is removed.
func TestNS3Failures(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"crash", "echo 'assert failed. cond=\"x\"' >&2; exit 3",
			`failed (exit status 3) with 0 of 3 flows finished; last output: "assert failed. cond=\"x\""`},
		{"killed", "head -c 100000 /dev/zero | tr '\\0' 'x'; echo; echo last words; echo 't = 5 ms'; kill -9 $$",
			`(signal: killed) with 0 of 3 flows finished; last output: "last words"`},
		{"short", answer("head -n 2"), "ended with 2 of 3 flows finished"},
		{"torn", answer("head -c -2"), "ended with 2 of 3 flows finished"},
		{"nothing", "", "ended with 0 of 3 flows finished"},
		{"time-out", "sleep 1000", "took longer than 100ms"},
		{"text", answer("sed 's/^1 .*/1 a b/'"), "line 2: 3 fields"},
		{"no number", answer("sed 's/10000.0.00/oh/'"), `FCT "oh`},
		{"another flow", answer("sed 's/^2 /3 /'"), `line 3: flow "3" is not one of the 3 of the case`},
		{"twice", answer("sed 's/^2 /1 /'"), `flow "1" is not one of the 3 of the case, or is listed twice`},
		{"too fast", answer("sed 's/1000001000/17/'"), "another case was simulated"},
		{"paused", "echo 5 1 1 0 1 > pfc.txt\n" + answerAll, "paused a link"},
	} {
		n := fakeNS3(t, c.script)
		if c.name == "time-out" {
			n.Timeout = 100 * time.Millisecond
		}
		p := simkernel.DefaultParams()
		err := n.Simulate(context.Background(), smallCase(), 1000, &p, &linkcase.Result{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		empty(t, n.Scratch)
	}
	missing := &Simulator{Path: filepath.Join(t.TempDir(), "nothing"), Scratch: t.TempDir()}
	if _, err := missing.Identity(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing program: %v", err)
	}
	p := simkernel.DefaultParams()
	if err := missing.Simulate(context.Background(), smallCase(), 1000, &p, &linkcase.Result{}); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing program: %v", err)
	}
	empty(t, missing.Scratch)
}

// Cancelling a case ends the program.
func TestNS3Stops(t *testing.T) {
	n := fakeNS3(t, "echo $$ > pid.txt; mv pid.txt ../pid; sleep 1000")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(n.Scratch, "pid")); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	p := simkernel.DefaultParams()
	if err := n.Simulate(ctx, smallCase(), 1000, &p,
		&linkcase.Result{}); err != context.Canceled { //nolint:errorlint // the cause itself, not wrapped
		t.Errorf("stopped: %v", err)
	}
}

// Cases that ns-3 cannot be configured for are errors before anything runs.
func TestNS3Refuses(t *testing.T) {
	n := fakeNS3(t, answerAll)
	for name, c := range map[string]struct {
		change func(p *simkernel.Params, c *linkcase.Case)
		want   string
	}{
		"swift": {func(p *simkernel.Params, _ *linkcase.Case) { *p = simkernel.ParamsOf(simkernel.Swift) },
			"no transport swift"},
		"header": {func(p *simkernel.Params, _ *linkcase.Case) { p.HeaderBytes = 40 }, "have headers of 48 bytes"},
		"timer": {func(p *simkernel.Params, _ *linkcase.Case) {
			*p = simkernel.ParamsOf(simkernel.DCQCN)
			p.DCQCN.AlphaNS = 50_001
		}, "in whole µs"},
		"timely": {func(p *simkernel.Params, _ *linkcase.Case) {
			*p = simkernel.ParamsOf(simkernel.TIMELY)
			p.TIMELY.LowNS = 1
		}, "timely's constants"},
		"hpcc": {func(p *simkernel.Params, _ *linkcase.Case) { *p = simkernel.ParamsOf(simkernel.HPCC) },
			"one of 40000000000 bps"},
		"size":     {func(_ *simkernel.Params, c *linkcase.Case) { c.SizeBytes[1] = 1 << 32 }, "flow row 1"},
		"sources":  {func(_ *simkernel.Params, c *linkcase.Case) { manySources(c) }, "the case has 300 sources"},
		"accepted": {func(*simkernel.Params, *linkcase.Case) {}, ""},
	} {
		p, lc := simkernel.DefaultParams(), smallCase()
		c.change(&p, lc)
		err := n.Simulate(context.Background(), lc, 1000, &p, &linkcase.Result{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func manySources(c *linkcase.Case) {
	for len(c.SourceBps) < 300 {
		c.SourceBps, c.SourceDelayNS = append(c.SourceBps, 10e9), append(c.SourceDelayNS, 1000)
	}
}

// realNS3 returns the paper's ns-3, if it is in ../shared. Without it the test is skipped.
func realNS3(t *testing.T) *Simulator {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "tools", "ns3-hpcc")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no ns-3 in ../shared: %v", err)
	}
	return &Simulator{Path: path, Timeout: 5 * time.Minute, Scratch: t.TempDir()}
}

// A flow alone takes its ideal FCT in ns-3 too, except for 1 ns that it can lose per packet.
func TestNS3LoneFlow(t *testing.T) {
	n := realNS3(t)
	rng := rand.New(rand.NewPCG(1, 21))
	for _, kind := range []simkernel.Transport{simkernel.DCTCP, simkernel.DCQCN, simkernel.TIMELY} {
		p := simkernel.ParamsOf(kind)
		for _, size := range []int64{1, 1000, 1001, 18_000, 1 + rng.Int64N(100_000), 1_000_000} {
			for place := range 3 {
				c := smallCase()
				c.Source, c.SizeBytes, c.StartNS, c.PathDelayNS = []int32{1}, []int64{size}, []int64{rng.Int64N(1e15)},
					[]int64{6000}
				c.SourceBps, c.SourceDelayNS = c.SourceBps[:2], c.SourceDelayNS[:2]
				switch place {
				case 1:
					c.PathDelayNS[0] = 3000 // ends at the target
				case 2:
					c.Kind = linkcase.FirstHop
					c.SourceBps, c.SourceDelayNS, c.Source[0] = c.SourceBps[1:], []int64{0}, 0
				}
				var r linkcase.Result
				if err := n.Simulate(context.Background(), c, 1000, &p, &r); err != nil {
					t.Fatalf("%v, %d bytes: %v", kind, size, err)
				}
				over := float64(r.FCTNS[0]-r.IdealNS[0]) / float64(r.IdealNS[0])
				if over > 0.001 {
					t.Errorf("%v, %d bytes, place %d: FCT %d, ideal %d", kind, size, place, r.FCTNS[0], r.IdealNS[0])
				}
			}
		}
	}
}

// Percentiles of FCTs from the link kernel and from ns-3 for the same case agree within 3%, for every transport;
// HPCC's on links that ns-3's telemetry supports.
func TestNS3AgainstKernel(t *testing.T) {
	n := realNS3(t)
	for _, kind := range []simkernel.Transport{simkernel.DCTCP, simkernel.DCQCN, simkernel.TIMELY, simkernel.HPCC} {
		rng := rand.New(rand.NewPCG(3, 22))
		p := simkernel.ParamsOf(kind)
		bps := int64(10e9)
		if kind == simkernel.HPCC {
			bps = 25e9
			p.SetWindow(45_000)
		}
		c := &linkcase.Case{Kind: linkcase.Behind, TargetBps: bps}
		c.MarkBytes, c.MaxMarkBytes = p.MarkBytes(c.TargetBps, 0)
		for s := range 8 {
			c.SourceBps, c.SourceDelayNS = append(c.SourceBps, bps), append(c.SourceDelayNS, 1000+1000*int64(s%2))
		}
		start := int64(0)
		for range 4000 {
			s := int32(rng.IntN(8))
			c.Source, c.StartNS = append(c.Source, s), append(c.StartNS, start)
			c.SizeBytes = append(c.SizeBytes, int64(100*math.Exp(7*rng.Float64()))) // up to 110 KB, 14 KB on average
			c.PathDelayNS = append(c.PathDelayNS, c.SourceDelayNS[s]+1000)
			start += int64(rng.ExpFloat64() * 25_000 * 10e9 / float64(bps)) // 50%
		}
		k, err := linkcase.NewKernel(p)
		if err != nil {
			t.Fatal(err)
		}
		var own, theirs linkcase.Result
		if err := k.Simulate(c, &own); err != nil {
			t.Fatal(err)
		}
		if err := n.Simulate(context.Background(), c, 1000, &p, &theirs); err != nil {
			t.Fatal(err)
		}
		percentiles := ""
		for _, q := range []float64{0.5, 0.9, 0.99} {
			a, b := percentile(own.FCTNS, q), percentile(theirs.FCTNS, q)
			percentiles += fmt.Sprintf(" p%g %d/%d %+.2f%%", 100*q, a, b, 100*(float64(a)/float64(b)-1))
			if e := float64(a)/float64(b) - 1; math.Abs(e) > 0.03 {
				t.Errorf("%v: p%g of FCT: %d ns, ns-3's %d: %+.1f%%", kind, 100*q, a, b, 100*e)
			}
		}
		t.Logf("%v:%s", kind, percentiles)
	}
}

func percentile(values []int64, q float64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1))]
}
