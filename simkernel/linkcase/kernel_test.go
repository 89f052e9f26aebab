package linkcase

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
)

// randomCase makes a small case with awkward properties: ties, tiny windows, slow links, incast, zero delays,
// flows of one byte and of many packets.
func randomCase(rng *rand.Rand) (simkernel.Params, *Case) { return randomCaseOf(simkernel.DCTCP, rng) }

func randomCaseOf(t simkernel.Transport, rng *rand.Rand) (simkernel.Params, *Case) {
	p := simkernel.ParamsOf(t)
	switch rng.IntN(4) {
	case 0:
		p.SetWindow(kerneltest.Pick[int64](rng, 1, 60, 500, 999, 1000, 1500, 2500, 17_999, 100_000))
	case 1:
		p.SetWindow(1 + rng.Int64N(40_000))
	case 2:
		p.WindowBytes = kerneltest.Pick[int64](rng, simkernel.AutoWindow, 18_000)
		p.WANWindowBytes = kerneltest.Pick[int64](rng, simkernel.AutoWindow, 50_000)
	}
	if rng.IntN(8) == 0 {
		p.PayloadBytes = kerneltest.Pick[int64](rng, 1, 7, 100, 9000)
	}
	if rng.IntN(8) == 0 {
		p.HeaderBytes = kerneltest.Pick[int64](rng, 0, 1, 100)
	}
	if rng.IntN(4) == 0 {
		p.MinRateBps = kerneltest.Pick(rng, 1e8, 1e6, 1e10)
		p.AdditiveIncreaseBps = kerneltest.Pick(rng, 0, 1e7, 5e9)
		p.Gain = kerneltest.Pick(rng, 1, 0.5, 0.01)
	}
	c := &Case{Behind: true}
	bps := func() int64 {
		return kerneltest.Pick[int64](rng, 10_000_000_000, 10_000_000_000, 9_876_543_210, 40_000_000_000,
			1_000_000_000, 1_000_000, 8_000_000_000_000)
	}
	sources := kerneltest.Pick(rng, 1, 1, 2, 3, 8, 40)
	if rng.IntN(5) == 0 {
		c.Behind = false
		sources = 1
	} else {
		c.TargetBps = bps()
		c.MarkBytes = kerneltest.Pick[int64](rng, 30_000, 0, 1, 1048, 3144, 10_000)
	}
	same := bps()
	sameDelay := kerneltest.Pick[int64](rng, 0, 1, 1000, 4000)
	for range sources {
		b := same
		d := sameDelay
		if rng.IntN(3) == 0 {
			b = bps()
		}
		if rng.IntN(3) == 0 {
			d = kerneltest.Pick[int64](rng, 0, 1000, rng.Int64N(20_000))
		}
		if !c.Behind {
			d = 0
		}
		c.SourceBps = append(c.SourceBps, b)
		c.SourceDelayNS = append(c.SourceDelayNS, d)
	}
	gap := kerneltest.Pick[int64](rng, 0, 1, 100, 1000, 20_000, 1_000_000)
	start := rng.Int64N(1_000_000)
	beyond := kerneltest.Pick[int64](rng, 0, 1000, 5000)
	packets := kerneltest.Pick[int64](rng, 1, 5, 30, 100)
	flows := 1 + rng.IntN(60)
	for range flows {
		s := rng.IntN(sources)
		size := 1 + rng.Int64N(packets*p.PayloadBytes)
		switch rng.IntN(6) {
		case 0:
			size = 1
		case 1:
			size = p.PayloadBytes * (1 + rng.Int64N(packets))
		}
		delay := c.SourceDelayNS[s] + beyond
		if rng.IntN(4) == 0 {
			delay = c.SourceDelayNS[s] + rng.Int64N(10_000)
		}
		c.Source = append(c.Source, int32(s))
		c.SizeBytes = append(c.SizeBytes, size)
		c.StartNS = append(c.StartNS, start)
		c.PathDelayNS = append(c.PathDelayNS, delay)
		if gap > 0 && rng.IntN(3) > 0 {
			start += rng.Int64N(gap)
		}
	}
	if p.NeedsPaths() {
		for i, delay := range c.PathDelayNS {
			c.SlowestBps = append(c.SlowestBps, kerneltest.Pick(rng, c.SourceBps[c.Source[i]], bps()))
			send := 1 + rng.Int64N(kerneltest.Pick[int64](rng, 100, 20_000, 1_000_000))
			c.RoundTripNS = append(c.RoundTripNS, 2*delay+send)
			c.SendNS = append(c.SendNS, send)
		}
	}
	c.Record = rng.IntN(2) == 0
	if t != simkernel.DCTCP {
		kerneltest.RandomConstants(rng, &p)
		c.MaxMarkBytes = c.MarkBytes + kerneltest.Pick[int64](rng, 0, 1000, 20_000, 120_000)
		c.MarkKey = rng.Uint64()
		if rng.IntN(2) == 0 {
			for range c.StartNS {
				c.Hops = append(c.Hops, int16(rng.IntN(6)))
			}
		}
	}
	if rng.IntN(3) == 0 {
		for range c.StartNS {
			c.ReturnNS = append(c.ReturnNS, rng.Int64N(4000))
		}
	}
	if rng.IntN(3) == 0 {
		randomFeedback(rng, &p, c)
	}
	if rng.IntN(3) == 0 {
		for range c.StartNS {
			c.DownstreamBps = append(c.DownstreamBps, kerneltest.Pick(rng, 0, same, bps()))
			c.UpstreamBps = append(c.UpstreamBps, kerneltest.Pick(rng, 0, same, bps()))
			c.BetweenPS = append(c.BetweenPS, kerneltest.Pick[int32](rng, 0, 200, 1800, rng.Int32N(100_000)))
		}
	}
	if c.Behind {
		c.RoomBytes = kerneltest.Pick(rng, 0, 1, p.PayloadBytes, rng.Int64N(50_000), rng.Int64N(500_000))
	}
	return p, c
}

// randomFeedback adds random feedback to the case.
func randomFeedback(rng *rand.Rand, p *simkernel.Params, c *Case) {
	longest := kerneltest.Pick[int32](rng, 1, 1000, 1000, 50_000)
	often := 1 + rng.IntN(4)
	for _, size := range c.SizeBytes {
		for range p.Layout().Blocks(p.Packets(size)) {
			var b simkernel.Block
			if rng.IntN(often) == 0 {
				b = simkernel.Block{NICWaitNS: rng.Int32N(longest), WaitNS: rng.Int32N(longest)}
				if rng.IntN(2) == 0 {
					b.UpstreamNS = rng.Int32N(longest)
				}
			}
			if rng.IntN(2*often) == 0 {
				b.Marks = uint16(rng.Uint32())
			}
			if rng.IntN(often) == 0 {
				b.Denied = uint16(rng.Uint32N(60_000))
			}
			c.Feedback = append(c.Feedback, b)
		}
	}
}

// mustAgree fails the test if the kernel's result of a case is not the twin's. what names the case.
func mustAgree(t *testing.T, what string, k *Kernel, p simkernel.Params, c *Case) {
	t.Helper()
	if _, err := agreeWithTwin(k, c); err != nil {
		t.Fatalf("%s: %v\nparams %s\ncase %s", what, err, kerneltest.Brief(p), kerneltest.Brief(c))
	}
}

// agreeWithTwin reports the first difference between the kernel's result and the twin's.
func agreeWithTwin(k *Kernel, c *Case) (*linkTwin, error) {
	var r Result
	if err := k.Simulate(c, &r); err != nil {
		return nil, err
	}
	t := runLinkTwin(k.params, c)
	want := t.r
	for i := range r.FCTNS {
		if r.FCTNS[i] != want.FCTNS[i] || r.IdealNS[i] != want.IdealNS[i] {
			return nil, fmt.Errorf("flow row %d: FCT %d, ideal %d; twin %d, %d",
				i, r.FCTNS[i], r.IdealNS[i], want.FCTNS[i], want.IdealNS[i])
		}
	}
	for i := range r.Observed {
		if r.Unfinished == 0 && r.Observed[i] != want.Observed[i] {
			return nil, fmt.Errorf("block %d is %+v, twin %+v", i, r.Observed[i], want.Observed[i])
		}
	}
	if r.Unfinished != want.Unfinished {
		return nil, fmt.Errorf("%d unfinished, twin %d", r.Unfinished, want.Unfinished)
	}
	// A case that is cut off at the horizon counts only packets that left before it.
	if r.Unfinished == 0 && r.Counters != want.Counters {
		return nil, fmt.Errorf("counters %+v, twin %+v", r.Counters, want.Counters)
	}
	if r.Unfinished == 0 && (!slices.Equal(r.CrowdedAtNS, want.CrowdedAtNS) ||
		!slices.Equal(r.CrowdedBytes, want.CrowdedBytes)) {
		type queues struct{ AtNS, Bytes []float64 }
		return nil, fmt.Errorf("queues: %s", kerneltest.FirstDifference(queues{r.CrowdedAtNS, r.CrowdedBytes},
			queues{want.CrowdedAtNS, want.CrowdedBytes}))
	}
	return t, nil
}

func mustKernel(t testing.TB, p simkernel.Params) *Kernel {
	t.Helper()
	k, err := NewKernel(p)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKernelAgreesWithTwin(t *testing.T) {
	for _, kind := range simkernel.PacedTransports() {
		all := uint64(1000)
		if kind == simkernel.DCTCP {
			all = 6000
		}
		t.Run(kind.String(), func(t *testing.T) {
			marked := 0
			seeds := kerneltest.Seeds(all, 23)
			for _, seed := range seeds {
				p, c := randomCaseOf(kind, rand.New(rand.NewPCG(seed, 1)))
				twin, err := agreeWithTwin(mustKernel(t, p), c)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if twin.r.PacketsMarked > 0 {
					marked++
				}
			}
			if kind.Marks() && marked < len(seeds)/10 {
				t.Errorf("only %d of %d cases have a mark: the test tests little", marked, len(seeds))
			}
		})
	}
}

// The picker reduces keys that are too far ahead and plans their sources again. Its base must move for that.
func TestKernelAgreesWithTwinFarAhead(t *testing.T) {
	for _, seed := range kerneltest.Seeds(600, 7) {
		rng := rand.New(rand.NewPCG(seed, 2))
		p, c := randomCaseOf(kerneltest.Paced(seed), rng)
		if rng.IntN(2) == 0 {
			shift := int64(0)
			for i := range c.StartNS {
				if rng.IntN(10) == 0 {
					shift += rng.Int64N(1 << 40)
				}
				c.StartNS[i] += shift
			}
		}
		k := mustKernel(t, p)
		k.picker.leastBits = kerneltest.Pick[uint](rng, 28, 34, 38)
		mustAgree(t, fmt.Sprintf("seed %d, %d bits", seed, k.picker.leastBits), k, p, c)
	}
}

// longFlows makes a case of a few long flows with sparse feedback, to which most packets of a simulation
// belong.
func longFlows(rng *rand.Rand) (simkernel.Params, *Case) {
	p := simkernel.DefaultParams()
	p.SetWindow(kerneltest.Pick[int64](rng, 18_000, 18_000, 18_000, 30_000, 5000))
	c := &Case{Behind: rng.IntN(2) == 1, Record: rng.IntN(2) == 0}
	sources := kerneltest.Pick(rng, 1, 1, 2, 3)
	if !c.Behind {
		sources = 1
	} else {
		c.TargetBps = kerneltest.Pick[int64](rng, 9_900_000_000, 10_000_000_000, 40_000_000_000)
		c.MarkBytes = kerneltest.Pick[int64](rng, 30_000, 3144)
	}
	for range sources {
		c.SourceBps = append(c.SourceBps, kerneltest.Pick[int64](rng, 10_000_000_000, 9_950_000_000))
		delayNS := kerneltest.Pick[int64](rng, 0, 1000, 3000)
		if !c.Behind {
			delayNS = 0
		}
		c.SourceDelayNS = append(c.SourceDelayNS, delayNS)
	}
	start := int64(0)
	beyond := kerneltest.Pick[int64](rng, 1000, 3000, 6000)
	for range 1 + rng.IntN(8) {
		s := rng.IntN(sources)
		c.Source = append(c.Source, int32(s))
		c.SizeBytes = append(c.SizeBytes, 1+rng.Int64N(kerneltest.Pick[int64](rng, 20_000, 300_000, 600_000)))
		c.StartNS = append(c.StartNS, start)
		c.PathDelayNS = append(c.PathDelayNS, c.SourceDelayNS[s]+beyond)
		start += rng.Int64N(kerneltest.Pick[int64](rng, 1, 5000, 100_000, 400_000))
	}
	if rng.IntN(4) == 0 {
		return p, c
	}
	often := kerneltest.Pick(rng, 2, 10, 50)
	longest := kerneltest.Pick[int32](rng, 100, 1000, 20_000)
	for _, size := range c.SizeBytes {
		for range p.Layout().Blocks(p.Packets(size)) {
			var b simkernel.Block
			if rng.IntN(often) == 0 {
				b.WaitNS = rng.Int32N(longest)
			}
			if c.Behind && rng.IntN(2*often) == 0 {
				b.UpstreamNS = rng.Int32N(longest)
			}
			if rng.IntN(4*often) == 0 {
				b.NICWaitNS = rng.Int32N(longest)
			}
			if rng.IntN(8*often) == 0 {
				b.Marks = uint16(1) << rng.IntN(16)
			}
			c.Feedback = append(c.Feedback, b)
		}
	}
	return p, c
}

func TestKernelAgreesWithTwinOnLongFlows(t *testing.T) {
	for _, seed := range kerneltest.Seeds(2000, 13) {
		p, c := longFlows(rand.New(rand.NewPCG(seed, 13)))
		mustAgree(t, fmt.Sprintf("seed %d", seed), mustKernel(t, p), p, c)
	}
}

// columns makes a case of flows that all have the same path and size.
func columns(behind bool, sources, flows int, sizeBytes, gapNS int64) *Case {
	c := &Case{Behind: behind, TargetBps: 10_000_000_000, MarkBytes: 30_000}
	delayNS := int64(0)
	if behind {
		delayNS = 1000
	}
	for range sources {
		c.SourceBps = append(c.SourceBps, 10_000_000_000)
		c.SourceDelayNS = append(c.SourceDelayNS, delayNS)
	}
	for i := range flows {
		c.Source = append(c.Source, int32(i%sources))
		c.SizeBytes = append(c.SizeBytes, sizeBytes)
		c.StartNS = append(c.StartNS, int64(i)*gapNS)
		c.PathDelayNS = append(c.PathDelayNS, 4000)
	}
	return c
}

func TestKernelAgreesWithTwinOnExtremes(t *testing.T) {
	payload64K := simkernel.DefaultParams()
	payload64K.PayloadBytes = 1 << 16
	payload64K.SetWindow(1 << 20)
	slow := columns(true, 3, 6, 1<<32, 0)
	slow.TargetBps = simkernel.MinBps
	slowHost := columns(false, 1, 3, 1<<32, 0)
	slowHost.SourceBps[0] = simkernel.MinBps
	slowPath := columns(false, 1, 3, 1<<32, 0)
	slowPath.SourceBps[0] = simkernel.MinBps
	slowPath.PathDelayNS[1] = MaxDelayNS
	late := columns(true, 2, 4, 50_000, horizonPS/simkernel.PSPerNS/2-20_000)
	fat := simkernel.DefaultParams()
	fat.SetWindow(1 << 22)
	for _, example := range []struct {
		name string
		p    simkernel.Params
		c    *Case
		long bool
	}{
		{name: "incast of 3,000 sources", p: simkernel.DefaultParams(), c: columns(true, 3000, 3000, 30_000, 0)},
		{name: "3,000 sources, one after another", p: simkernel.DefaultParams(),
			c: columns(true, 3000, 6000, 20_000, 12_000), long: true},
		{name: "1,000 flows of one source", p: simkernel.DefaultParams(), c: columns(true, 1, 1000, 12_345, 10)},
		{name: "1,000 flows of a first hop", p: simkernel.DefaultParams(), c: columns(false, 1, 1000, 12_345, 10)},
		{name: "a window of 4 MB", p: fat, c: columns(true, 4, 4, 20_000_000, 0), long: true},
		{name: "1 GB alone", p: simkernel.DefaultParams(), c: columns(true, 1, 1, 1_000_000_000, 0), long: true},
		{name: "1 GB on a first hop", p: simkernel.DefaultParams(), c: columns(false, 1, 1, 1_000_000_000, 0),
			long: true},
		{name: "does not drain", p: payload64K, c: slow},
		{name: "does not drain from a first hop", p: payload64K, c: slowHost},
		{name: "does not drain from a first hop with windows", p: payload64K, c: slowPath},
		{name: "starts at the horizon", p: simkernel.DefaultParams(), c: late},
	} {
		t.Run(example.name, func(t *testing.T) {
			if example.long && testing.Short() {
				t.Skip("long")
			}
			if _, err := agreeWithTwin(mustKernel(t, example.p), example.c); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKernelReportsFlowsThatDoNotDrain(t *testing.T) {
	c := columns(true, 2, 2, MaxSizeBytes, 0)
	c.TargetBps = simkernel.MinBps
	c.SizeBytes[0] = 1
	var r Result
	if err := mustKernel(t, simkernel.DefaultParams()).Simulate(c, &r); err != nil {
		t.Fatal(err)
	}
	if r.FCTNS[0] < r.IdealNS[0] || r.FCTNS[1] != -1 || r.IdealNS[1] != -1 || r.Unfinished != 1 {
		t.Errorf("FCT %v, ideal %v, %d unfinished", r.FCTNS, r.IdealNS, r.Unfinished)
	}
}

func FuzzKernelAgainstTwin(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint8(0))
		f.Add(seed, uint8(64))
	}
	f.Add(uint64(3), uint8(40))
	f.Fuzz(func(t *testing.T, seed uint64, keyBits uint8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p, c := randomCaseOf(kerneltest.Paced(seed), rng)
		if keyBits&64 != 0 { // long flows, which the fast paths of the kernel are for
			p, c = kerneltest.Pick(rng, glidingFlows, longFlows, coastingFlows)(rng)
		}
		k := mustKernel(t, p)
		k.picker.leastBits = uint(min(keyBits&63, 36))
		mustAgree(t, fmt.Sprintf("seed %d, %d bits", seed, k.picker.leastBits), k, p, c)
	})
}

// Windows, pacing and queues never make a flow faster than it is alone on its path, because it sends the same
// packets.
func TestFCTIsAtLeastIdeal(t *testing.T) {
	var r Result
	for _, seed := range kerneltest.Seeds(20_000, 29) {
		p, c := randomCaseOf(kerneltest.Paced(seed), rand.New(rand.NewPCG(seed, 4)))
		if err := mustKernel(t, p).Simulate(c, &r); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		packets := int64(0)
		for row, size := range c.SizeBytes {
			if r.FCTNS[row] < r.IdealNS[row] {
				t.Fatalf("seed %d: flow row %d has FCT %d, ideal %d", seed, row, r.FCTNS[row], r.IdealNS[row])
			}
			packets += p.Packets(size)
		}
		if r.PacketsSent != packets {
			t.Fatalf("seed %d: %d packets sent, the flows have %d", seed, r.PacketsSent, packets)
		}
	}
}

func TestFlowAloneIsIdeal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	p := simkernel.DefaultParams()
	p.SetWindow(1 << 30)
	k := mustKernel(t, p)
	var r Result
	for range 2000 {
		_, c := randomCase(rng)
		c.Feedback = nil
		c.ReturnNS = nil
		c.UpstreamBps = nil
		c.DownstreamBps = nil
		c.BetweenPS = nil
		if !c.Behind { // the ideal FCT of other cases is that of the links that they simulate
			c.DownstreamBps = []int64{kerneltest.Pick[int64](rng, 0, 1e9, 1e10, 4e10)}
			c.BetweenPS = []int32{kerneltest.Pick[int32](rng, 0, 200, 800, 8000)}
		}
		c.MarkBytes = 1 << 40
		c.Source = c.Source[:1]
		c.StartNS = c.StartNS[:1]
		c.PathDelayNS = c.PathDelayNS[:1]
		c.SizeBytes = []int64{1 + rng.Int64N(kerneltest.Pick[int64](rng, 1, 3000, 1_000_000))}
		if err := k.Simulate(c, &r); err != nil {
			t.Fatal(err)
		}
		if r.FCTNS[0] != r.IdealNS[0] {
			t.Fatalf("FCT %d, ideal %d\n%s", r.FCTNS[0], r.IdealNS[0], kerneltest.Brief(c))
		}
	}
}

// The target sends every byte that arrives, one packet after the other. The comparison with the twin covers
// that it is never idle while a packet waits.
func TestTargetConservesBytes(t *testing.T) {
	for _, seed := range kerneltest.Seeds(2000, 13) {
		p, c := randomCase(rand.New(rand.NewPCG(seed, 6)))
		if !c.Behind {
			continue
		}
		k := mustKernel(t, p)
		k.target.log = make([]logEntry, 1<<17) // none is dropped
		var r Result
		if err := k.Simulate(c, &r); err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, size := range c.SizeBytes {
			sum += size
		}
		g := &k.target
		if g.bytes != sum+r.PacketsSent*p.HeaderBytes {
			t.Fatalf("seed %d: %d bytes through the target, %d payload in %d packets", seed, g.bytes, sum,
				r.PacketsSent)
		}
		if g.arrived > uint64(len(g.log)) {
			continue
		}
		for i := uint64(0); i+1 < g.arrived; i++ {
			wire := g.log[i+1].before - g.log[i].before
			if wire > 0 && g.log[i+1].startPS < g.log[i].startPS+g.wire.PS(wire) {
				t.Fatalf("seed %d: packet %d starts before the one ahead of it has left", seed, i+1)
			}
		}
	}
}

func TestCaseAloneEqualsCaseAfterOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	p := simkernel.DefaultParams()
	shared := mustKernel(t, p)
	none := []float64{}
	after := Result{CrowdedAtNS: none, CrowdedBytes: none}
	for i := range 500 {
		// After packets without log entries (coast), the log still has those of earlier packets.
		of, c := kerneltest.Pick(rng, randomCase, glidingFlows)(rng)
		if of != p {
			c.Feedback = nil
		}
		if err := shared.Simulate(c, &after); err != nil {
			t.Fatal(err)
		}
		alone := Result{Observed: []simkernel.Block{}, CrowdedAtNS: none, CrowdedBytes: none}
		if after.Observed == nil {
			after.Observed = alone.Observed
		}
		if err := mustKernel(t, p).Simulate(c, &alone); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(after, alone) {
			t.Fatalf("case %d differs", i)
		}
		// A refused case does not affect later ones.
		broken := *c
		broken.TargetBps = 0
		broken.SourceBps = []int64{0}
		if shared.Simulate(&broken, &after) == nil {
			t.Fatal("a broken case was accepted")
		}
	}
}

func TestSimulateDoesNotAllocate(t *testing.T) {
	for _, kind := range simkernel.PacedTransports() {
		p := simkernel.ParamsOf(kind)
		k := mustKernel(t, p)
		var cases []*Case
		for seed := range uint64(30) {
			of, c := randomCaseOf(kind, rand.New(rand.NewPCG(seed, 8)))
			if of != p {
				c.Feedback = nil
			}
			cases = append(cases, c)
		}
		cases = append(cases, columns(true, 500, 1000, 50_000, 1000))
		cases[len(cases)-1].MaxMarkBytes = 100_000
		var r Result
		all := func() {
			for _, c := range cases {
				if err := k.Simulate(c, &r); err != nil {
					t.Fatal(err)
				}
			}
		}
		all()
		n := testing.AllocsPerRun(3, all)
		if n != 0 {
			t.Errorf("%v: %v allocations", kind, n)
		}
	}
}

func TestSimulateRefuses(t *testing.T) {
	for _, example := range []struct {
		change func(c *Case)
		want   string
	}{
		{func(c *Case) { c.Behind = false }, "one source"},
		{func(c *Case) { c.TargetBps = 0 }, "target: bandwidth_bps is 0"},
		{func(c *Case) { c.MarkBytes = -1 }, "mark_bytes is -1"},
		{func(c *Case) { c.SourceBps[1] = MaxBps + 1 }, "source 1: bandwidth_bps"},
		{func(c *Case) { c.SourceDelayNS[1] = -1 }, "source 1: delay_ns is -1"},
		{func(c *Case) { c.SourceDelayNS = c.SourceDelayNS[1:] }, "2 sources, 1 of delay_ns"},
		{func(c *Case) { c.SizeBytes = c.SizeBytes[1:] }, "flow rows, 2 of size_bytes"},
		{func(c *Case) { c.SizeBytes[2] = 0 }, "flow row 2: size_bytes is 0"},
		{func(c *Case) { c.StartNS[2] = 0 }, "flow row 2: start_ns is 0"},
		{func(c *Case) { c.StartNS[0] = -1 }, "flow row 0: start_ns is -1"},
		{func(c *Case) { c.Source[2] = 2 }, "flow row 2: source is 2 of 2"},
		{func(c *Case) { c.Source[2] = -1 }, "flow row 2: source is -1"},
		{func(c *Case) { c.PathDelayNS[2] = 999 }, "flow row 2: path delay_ns is 999"},
		{func(c *Case) { c.PathDelayNS[2] = MaxDelayNS + 1 }, "flow row 2: path delay_ns"},
	} {
		c := columns(true, 2, 3, 1000, 10)
		example.change(c)
		err := mustKernel(t, simkernel.DefaultParams()).Simulate(c, new(Result))
		if err == nil || !strings.Contains(err.Error(), example.want) {
			t.Errorf("error %v, want one with %q", err, example.want)
		}
	}
	if _, err := NewKernel(simkernel.Params{}); err == nil {
		t.Error("empty params accepted")
	}
	empty := &Case{Behind: true, TargetBps: simkernel.MinBps}
	if err := mustKernel(t, simkernel.DefaultParams()).Simulate(empty, new(Result)); err != nil {
		t.Error(err)
	}
}

// BenchmarkKernel runs a loaded middle link: 100 sources of 10G and a target of 40G, sizes from a
// few packets to a megabyte, 70% load.
func BenchmarkKernel(b *testing.B) { benchmarkKernel(b, simkernel.DCTCP) }

// BenchmarkTransports runs this link with every transport.
func BenchmarkTransports(b *testing.B) {
	for _, kind := range simkernel.PacedTransports() {
		b.Run(kind.String(), func(b *testing.B) { benchmarkKernel(b, kind) })
	}
}

func benchmarkKernel(b *testing.B, kind simkernel.Transport) {
	rng := rand.New(rand.NewPCG(1, 9))
	p := simkernel.ParamsOf(kind)
	c := columns(true, 100, 0, 0, 0)
	c.TargetBps = 40_000_000_000
	c.MarkBytes, c.MaxMarkBytes = p.MarkBytes(c.TargetBps, 0)
	start := 0.0
	hops := int64(0)
	for range 5000 {
		size := int64(100 * math.Exp(rng.Float64()*math.Log(10_000)))
		hops += p.Packets(size)
		c.Source = append(c.Source, int32(rng.IntN(100)))
		c.SizeBytes = append(c.SizeBytes, size)
		c.StartNS = append(c.StartNS, int64(start))
		c.PathDelayNS = append(c.PathDelayNS, 6000)
		start += rng.ExpFloat64() * 108_000 * 8 / 40 / 0.7
	}
	k := mustKernel(b, p)
	var r Result
	b.ReportAllocs()
	for b.Loop() {
		if err := k.Simulate(c, &r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(hops), "ns/packet-hop")
}

// BenchmarkFeedback runs a link with a few long flows, without feedback and with feedback that differs from
// block to block: the fast paths for one active flow.
func BenchmarkFeedback(b *testing.B) {
	for _, feedback := range []bool{false, true} {
		b.Run(fmt.Sprint(feedback), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 14))
			p := simkernel.DefaultParams()
			c := columns(true, 4, 40, 1_000_000, 1_200_000)
			c.Record = true
			packets := p.Packets(c.SizeBytes[0])
			for range p.Layout().Blocks(packets) * int64(len(c.StartNS)) {
				if feedback {
					c.Feedback = append(c.Feedback, simkernel.Block{WaitNS: rng.Int32N(2000), UpstreamNS: rng.Int32N(500)})
				}
			}
			k := mustKernel(b, p)
			var r Result
			for b.Loop() {
				if err := k.Simulate(c, &r); err != nil {
					b.Fatal(err)
				}
			}
			all := float64(packets) * float64(len(c.StartNS))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/all, "ns/packet-hop")
		})
	}
}

// The hot loop finds sources and flows by shifts, not multiplications.
func TestHotStructsArePowersOfTwo(t *testing.T) {
	a := unsafe.Sizeof(source{})
	b := unsafe.Sizeof(flow{})
	if a != 128 || b != 256 {
		t.Errorf("a source has %d bytes, a flow %d", a, b)
	}
}
