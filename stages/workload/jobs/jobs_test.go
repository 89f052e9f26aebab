package jobs_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/workload/jobs"
)

// star runs a job on hosts that one switch joins, and returns when each iteration ends and how many flows it
// had.
func star(t *testing.T, j *jobs.Job, p simkernel.Params) (ends []int64, transfers int) {
	t.Helper()
	n := len(j.Hosts)
	var links []network.Link
	for h := range n {
		for _, ends := range [][2]int32{{int32(h), int32(n)}, {int32(n), int32(h)}} {
			links = append(links, network.Link{SrcNode: ends[0], DstNode: ends[1], BandwidthBps: starBps,
				DelayNS: starDelayNS})
		}
	}
	hosts := slices.Repeat([]bool{true}, n)
	f := network.Flows{}
	var iteration []int32
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	err := j.Generate(func(x *jobs.Flow) error {
		f.SizeBytes = append(f.SizeBytes, x.Bytes)
		f.StartNS = append(f.StartNS, j.StartNS)
		if x.Src != x.Dst {
			transfers++
			f.PathLinks = append(f.PathLinks, 2*x.Src, 2*x.Dst+1)
		}
		f.PathEnds = append(f.PathEnds, int32(len(f.PathLinks)))
		for _, a := range x.After {
			f.After = append(f.After, a)
			f.DelayNS = append(f.DelayNS, x.DelayNS)
		}
		f.AfterEnds = append(f.AfterEnds, int32(len(f.After)))
		iteration = append(iteration, x.Iteration)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	feed := []*network.Flows{&f, nil}
	net, err := network.New(p, network.BufferParams{}, links, append(hosts, false),
		func() (*network.Flows, error) {
			next := feed[0]
			feed = feed[1:]
			return next, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	net.WaitFor()
	ends = make([]int64, j.Iterations)
	err = net.Run(t.Context(), 1, func(r *network.Results) error {
		for i, row := range r.Row {
			k := iteration[row]
			ends[k] = max(ends[k], r.StartNS[i]+r.FCTNS[i])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ends, transfers
}

const (
	starBps     = 100e9
	starDelayNS = 500
)

func starParams() simkernel.Params {
	p := simkernel.DefaultParams()
	p.PayloadBytes = 9000
	p.SetWindow(1 << 20) // never binds
	return p
}

func hostList(n int) (hosts []int32) {
	for i := range n {
		hosts = append(hosts, int32(i))
	}
	return hosts
}

// transferNS is the time of one transfer over the star. If both directions of the cables send, ACKs of the
// other direction use part of each.
func transferNS(p *simkernel.Params, bytes int64, bothWays bool) float64 {
	packets := float64(p.Packets(bytes))
	wire := float64(p.PayloadBytes + p.HeaderBytes)
	first := wire
	if bothWays {
		wire += float64(p.AckBytes)
	}
	return (packets*wire+first)*8/starBps*1e9 + 2*starDelayNS
}

func within(t *testing.T, what string, got int64, want float64) {
	t.Helper()
	if math.Abs(float64(got)/want-1) > 0.001 {
		t.Errorf("%s: %d ns, want %.0f", what, got, want)
	}
}

// Every collective takes the time of its formula to within 0.1%.
func TestCollectivesTakeWhatFormulasSay(t *testing.T) {
	p := starParams()
	one := func(n float64, bytes int64, bothWays bool) float64 { return n * transferNS(&p, bytes, bothWays) }
	const s = 8 * 3600 * 900 // bytes
	for _, c := range []struct {
		kind, algorithm string
		ranks           int
		want            float64
		transfers       int
	}{
		{"all-reduce", "ring", 8, one(14, s/8, true), 14 * 8},
		{"all-reduce", "ring", 2, one(2, s/2, true), 4},
		{"all-reduce", "halving-doubling", 8, 2 * (one(1, s/2, true) + one(1, s/4, true) + one(1, s/8, true)),
			6 * 8},
		{"all-reduce", "tree", 8, one(6, s, false), 14},
		{"reduce-scatter", "ring", 8, one(7, s/8, true), 56},
		{"all-gather", "ring", 4, one(3, s/4, true), 12},
		{"all-to-all", "pairwise", 8, one(7, s/8, true), 56},
		{"scatter", "direct", 8, one(1, 7*s/8, false), 7},
		{"broadcast", "tree", 6, one(3, s, false), 5},
		{"pipeline", "chain", 5, one(4, s, false), 4},
		{"all-reduce", "", 1, 0, 0},
	} {
		step := jobs.Step{Collective: &jobs.Collective{Kind: c.kind, Algorithm: c.algorithm, Bytes: s}}
		j := jobs.Job{Hosts: hostList(c.ranks), StartNS: 1000, Iterations: 2,
			Steps: []jobs.Step{step, {ComputeNS: 5000}}}
		if c.algorithm == "chain" { // its first rank begins again before the last one ends
			j.Iterations = 1
		}
		ends, transfers := star(t, &j, p)
		name := c.kind + " " + c.algorithm
		within(t, name, ends[0], 1000+c.want+5000)
		if j.Iterations == 2 {
			within(t, name+" twice", ends[1], 1000+2*(c.want+5000))
		}
		if transfers != j.Iterations*c.transfers {
			t.Errorf("%s: %d transfers, want %d an iteration", name, transfers, c.transfers)
		}
	}
}

// A chain in m chunks is a pipeline: (n-2+m) T(S/m). Two channels of a ring take as long as one if the hosts
// of a block are on the same switch. They cross from block to block at the first and the last host.
func TestChunksAndChannels(t *testing.T) {
	p := starParams()
	const s = 8 * 3600 * 900 // bytes
	run := func(c jobs.Collective, ranks int) (int64, int) {
		ends, transfers := star(t,
			&jobs.Job{Hosts: hostList(ranks), Iterations: 1, Steps: []jobs.Step{{Collective: &c}}}, p)
		return ends[0], transfers
	}
	end, transfers := run(jobs.Collective{Kind: "pipeline", Bytes: s, Chunks: 16}, 5)
	within(t, "chunks", end, 19*transferNS(&p, s/16, true))
	if transfers != 16*4 {
		t.Errorf("%d transfers in chunks", transfers)
	}
	end, transfers = run(jobs.Collective{Kind: "all-gather", Bytes: s, Channels: 4}, 8)
	want := 7 * transferNS(&p, s/8, true)
	if transfers != 4*56 || math.Abs(float64(end)/want-1) > 0.02 {
		t.Errorf("%d transfers of 4 channels in %d ns, want 224 in %.0f", transfers, end, want)
	}
	crossing := map[[2]int32]bool{}
	j := jobs.Job{Hosts: hostList(8), Iterations: 1,
		Steps: []jobs.Step{{Collective: &jobs.Collective{Kind: "all-gather", Bytes: s, Channels: 4}}}}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	err := j.Generate(func(f *jobs.Flow) error {
		if f.Src/4 != f.Dst/4 {
			crossing[[2]int32{f.Src, f.Dst}] = true
		}
		return nil
	})
	if err != nil || len(crossing) != 8 {
		t.Errorf("%v, %v: want 8 pairs", crossing, err)
	}
	for pair := range crossing {
		if pair[0]%4 != pair[1]%4 {
			t.Errorf("host %d sends to host %d, on another rail", pair[0], pair[1])
		}
	}
}

// Larger packets have a smaller share of headers and ACKs; nothing else changes on an idle path.
func TestMTU(t *testing.T) {
	for _, mtu := range []int64{1000, 4096, 9000} {
		p := starParams()
		p.PayloadBytes = mtu
		j := jobs.Job{Hosts: hostList(2), Iterations: 1, Steps: []jobs.Step{
			{Collective: &jobs.Collective{Kind: "broadcast", Bytes: 4096 * 9000}},
			{Collective: &jobs.Collective{Kind: "all-gather", Bytes: 2 * 4096 * 9000}}}}
		ends, _ := star(t, &j, p)
		within(t, "MTU", ends[0], transferNS(&p, 4096*9000, false)+transferNS(&p, 4096*9000, true))
	}
}

// All transfers of a direct all-to-all run at the same time and keep the links busy. It takes up to a tenth
// longer than the pairwise one, because of DCTCP.
func TestDirectAllToAll(t *testing.T) {
	p := starParams()
	p.SetWindow(2 * 9000)
	j := jobs.Job{Hosts: hostList(4), Iterations: 1,
		Steps: []jobs.Step{{Collective: &jobs.Collective{Kind: "all-to-all", Algorithm: "direct",
			Bytes: 36_000_000}}}}
	ends, transfers := star(t, &j, p)
	bound := transferNS(&p, 27_000_000, true)
	got := float64(ends[0])
	if transfers != 12 || got < 0.999*bound || got > 1.1*bound {
		t.Errorf("%d transfers in %v ns, want 12 in %v", transfers, got, bound)
	}
}

// Requests fan out one after another, each when all replies to the one before have arrived: 3 KB to each of
// 15 servers, which compute for 20 us, and replies of 2 KB.
func TestRequestsThatFanOut(t *testing.T) {
	p := starParams()
	call := func(kind string, bytes int64) jobs.Step {
		return jobs.Step{Collective: &jobs.Collective{Kind: kind, Bytes: 16 * bytes}}
	}
	j := jobs.Job{Hosts: hostList(16), Iterations: 3,
		Steps: []jobs.Step{call("scatter", 3000), {ComputeNS: 20_000}, call("gather", 2000)}}
	ends, transfers := star(t, &j, p)
	const latencyNS = 2 * starDelayNS
	one := func(bytes float64) float64 { return (bytes + float64(p.HeaderBytes)) * 8e9 / starBps }
	// The last request leaves behind 14 others; its server's reply arrives alone.
	want := 16*one(3000) + latencyNS + 20_000 + 2*one(2000) + latencyNS
	within(t, "fan-out", ends[0], want)
	within(t, "three", ends[2], 3*want)
	if transfers != 3*2*15 {
		t.Errorf("%d transfers", transfers)
	}
}

// A pipeline of P stages and M micro-batches takes (M + P - 1) (forward + backward), and the sends on its
// critical path; the gradients follow, or overlap. With one stage, tensor slices and experts add up.
func TestTraining(t *testing.T) {
	p := starParams()
	const f, b = 3_000_000, 6_000_000
	layer := jobs.Layer{Count: 4, ForwardNS: f / 2, BackwardNS: b / 2, ActivationBytes: 9000,
		GradientBytes: 9_000_000}
	run := func(name string, tr jobs.Training, want float64) {
		t.Helper()
		n := max(1, tr.Data) * max(1, tr.Tensor) * max(1, tr.Pipeline)
		ends, _ := star(t, &jobs.Job{Hosts: hostList(n), Iterations: 2, Training: &tr}, p)
		within(t, name, ends[0], want)
		within(t, name+" twice", ends[1], 2*want)
	}
	send := transferNS(&p, 9000, false)
	run("pipeline", jobs.Training{Pipeline: 2, MicroBatches: 4, Layers: []jobs.Layer{layer}}, 5*(f+b)+5*send)
	reduce := 2 * transferNS(&p, 4_500_000, true) // of a layer
	run("data", jobs.Training{Data: 2, MicroBatches: 3, Layers: []jobs.Layer{layer}}, 3*2*(f+b)+4*reduce)
	run("overlap", jobs.Training{Data: 2, MicroBatches: 3, Layers: []jobs.Layer{layer}, Overlap: true},
		3*2*(f+b)+reduce)
	layer.GradientBytes = 0
	layer.TensorBytes = 9_000_000
	layer.ExpertBytes = 18_000_000
	parts := 2 * 2 * 4 * reduce // both directions, twice, of four layers
	run("tensor", jobs.Training{Tensor: 2, Layers: []jobs.Layer{layer}}, 2*(f+b)+parts)
	run("tensor in a server", jobs.Training{Tensor: 2, LocalBps: 100e9, Layers: []jobs.Layer{layer}},
		2*(f+b)+16*9_000_000*8/100.0)
	exchange := transferNS(&p, 9_000_000, true)
	run("expert", jobs.Training{Data: 4, Expert: 2, Layers: []jobs.Layer{layer}}, 2*(f+b)+16*exchange)
}

// What cannot be is said.
func TestCheck(t *testing.T) {
	layers := []jobs.Layer{{Count: 3}}
	steps := func(kind, algorithm string) []jobs.Step {
		return []jobs.Step{{Collective: &jobs.Collective{Kind: kind, Algorithm: algorithm, Bytes: 1}}}
	}
	for want, j := range map[string]jobs.Job{
		"0 ranks":                          {},
		"either steps or training":         {Hosts: hostList(1)},
		"either a time to compute":         {Hosts: hostList(1), Steps: []jobs.Step{{}}},
		`collective "x", want all-reduce`:  {Hosts: hostList(2), Steps: steps("x", "")},
		`algorithm "x" of broadcast, want`: {Hosts: hostList(2), Steps: steps("broadcast", "x")},
		"needs a power of two of ranks":    {Hosts: hostList(3), Steps: steps("all-reduce", "halving-doubling")},
		"channels are for algorithm ring": {Hosts: hostList(2), Steps: []jobs.Step{{Collective: &jobs.Collective{
			Kind: "broadcast", Bytes: 1, Channels: 2}}}},
		"3 channels do not divide 4 ranks": {Hosts: hostList(4), Steps: []jobs.Step{{Collective: &jobs.Collective{
			Kind: "all-reduce", Bytes: 1, Channels: 3}}}},
		"algorithm direct has no chunks": {Hosts: hostList(4), Steps: []jobs.Step{{Collective: &jobs.Collective{
			Kind: "all-to-all", Algorithm: "direct", Bytes: 1, Chunks: 3}}}},
		"direct takes at most 4096 ranks": {Hosts: hostList(5000), Steps: steps("all-to-all", "direct")},
		"data 1 × tensor 1 × pipeline 2 is": {
			Hosts: hostList(3), Training: &jobs.Training{Pipeline: 2, Layers: layers}},
		"expert 2 does not divide data 3": {
			Hosts: hostList(3), Training: &jobs.Training{Data: 3, Expert: 2, Layers: layers}},
		"100000 layers times 100000 micro_batches": {Hosts: hostList(2), Training: &jobs.Training{Data: 2,
			MicroBatches: 100_000, Layers: []jobs.Layer{{Count: 100_000}}}},
		"3 layers, must be 1 to 100000, a": {
			Hosts: hostList(2), Training: &jobs.Training{Pipeline: 2, Layers: layers}},
		"a micro-batch computes for 3e+06 s": {Hosts: hostList(1), Training: &jobs.Training{Layers: []jobs.Layer{
			{Count: 3, BackwardNS: 1e15}}}},
		"tensor is 1": {Hosts: hostList(1), Training: &jobs.Training{LocalBps: 1, Layers: layers}},
	} {
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	most := jobs.Job{Hosts: hostList(4096), Steps: steps("all-to-all", "direct")}
	if err := most.Check(); err != nil {
		t.Errorf("4096 ranks, which are allowed: %v", err)
	}
}

// Backward, layers are computed in the opposite order, each with its own time. Of two layers that take 1 and
// 100 µs forward, and 3 and 200 µs backward, the gradients of the second leave after 200 µs, and those of the
// first 3 µs later.
func TestBackwardPassOfUnequalLayers(t *testing.T) {
	j := &jobs.Job{Hosts: hostList(2), Iterations: 1,
		Training: &jobs.Training{Data: 2, Overlap: true, Layers: []jobs.Layer{
			{Count: 1, ForwardNS: 1_000, BackwardNS: 3_000, GradientBytes: 10},
			{Count: 1, ForwardNS: 100_000, BackwardNS: 200_000, GradientBytes: 10},
		}}}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	var delays []int64
	err := j.Generate(func(f *jobs.Flow) error {
		if f.Src == 0 && f.Dst == 0 && f.DelayNS != 0 {
			delays = append(delays, f.DelayNS)
		}
		return nil
	})
	want := []int64{101_000, 200_000, 3_000}
	if err != nil || !slices.Equal(delays, want) {
		t.Errorf("rank 0 computes %v ns, want %v: %v", delays, want, err)
	}
}
