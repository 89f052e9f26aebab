package linkcase

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
)

// incast is a case of long flows that start one after the other, each from a host of 10G, into one link
// of 10G, with an idle round trip of base.
func incast(p *simkernel.Params, flows int, sizeBytes int64) *Case {
	c := columns(true, flows, flows, sizeBytes, 20_000)
	c.MarkBytes, c.MaxMarkBytes = p.MarkBytes(c.TargetBps, 0)
	for range c.StartNS {
		c.Hops = append(c.Hops, 4)
	}
	return c
}

// A lone flow has its ideal FCT with every transport that allows a full link. Nothing queues, so all round
// trips are equal and below every target. HPCC aims at less than a full link. A flow that has sent everything
// before the ACKs of the second window return has its ideal FCT. Every other flow takes at most its ideal FCT
// divided by that share.
func TestTransportsLoneFlow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 11))
	var r Result
	for _, kind := range simkernel.PacedTransports() {
		p := simkernel.ParamsOf(kind)
		k := mustKernel(t, p)
		for range 300 {
			c := columns(true, 1, 1, 1+rng.Int64N(kerneltest.Pick[int64](rng, 1000, 20_000, 2_000_000)), 0)
			c.TargetBps = kerneltest.Pick[int64](rng, 10e9, 40e9)
			c.MarkBytes, c.MaxMarkBytes = p.MarkBytes(c.TargetBps, 0)
			if err := k.Simulate(c, &r); err != nil {
				t.Fatal(err)
			}
			fct := r.FCTNS[0]
			ideal := r.IdealNS[0]
			long := kind == simkernel.HPCC && c.SizeBytes[0] > p.WindowBytes/2
			if !long && fct != ideal || long && (fct < ideal || float64(fct) > float64(ideal)/p.HPCC.Target*1.02) {
				t.Fatalf("%v, %d bytes: FCT %d ns, ideal %d", kind, c.SizeBytes[0], fct, ideal)
			}
		}
	}
}

// The result of a case does not depend on what its kernel simulated before.
func TestTransportsAnswerTheSameAgain(t *testing.T) {
	for _, kind := range simkernel.PacedTransports() {
		p := simkernel.ParamsOf(kind)
		p.Seed = 3
		k := mustKernel(t, p)
		other := mustKernel(t, p)
		c := incast(&p, 8, 300_000)
		before := incast(&p, 20, 100_000)
		var want, got Result
		if err := other.Simulate(c, &want); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := k.Simulate(before, &got); err != nil {
				t.Fatal(err)
			}
			if err := k.Simulate(c, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v: %s", kind, kerneltest.FirstDifference(&got, &want))
			}
		}
		if kind != simkernel.HPCC && slices.Max(want.FCTNS) < 2*slices.Max(want.IdealNS) {
			t.Errorf("%v: nothing happens: FCTs %v", kind, want.FCTNS)
		}
	}
}

// What the papers show. HPCC keeps links nearly full and queues nearly empty (figures 9 and 11). Swift keeps
// the delay at its target (figure 15) for any number of flows, as long as the minimum rate allows it. DCTCP's
// queue stays at its marking threshold.
func TestTransportsBehave(t *testing.T) {
	type seen struct{ waitNS, busy float64 }
	run := func(kind simkernel.Transport, flows int) seen {
		p := simkernel.ParamsOf(kind)
		c := incast(&p, flows, 10_000_000)
		var r Result
		if err := mustKernel(t, p).Simulate(c, &r); err != nil {
			t.Fatal(err)
		}
		lastNS := int64(0)
		for i, fct := range r.FCTNS {
			lastNS = max(lastNS, c.StartNS[i]+fct)
		}
		s := seen{r.WaitSumNS / float64(r.PacketsSent), float64(r.BusyNS) / float64(lastNS)}
		t.Logf("%v, %d flows: mean wait %.0f ns, link busy %.3f", kind, flows, s.waitNS, s.busy)
		return s
	}
	for _, flows := range []int{2, 4, 8} {
		s := run(simkernel.HPCC, flows)
		if s.waitNS > 1500 || s.busy < 0.94 || s.busy > 0.97 {
			t.Errorf("hpcc, %d flows: mean wait %.0f ns, link busy %.3f; want nearly none, and 0.95", flows, s.waitNS,
				s.busy)
		}
	}
	for _, flows := range []int{4, 8} {
		s := run(simkernel.Swift, flows)
		p := simkernel.ParamsOf(simkernel.Swift)
		delayNS := s.waitNS + 2*4000 + 2*838
		window := delayNS / 838 / float64(flows) // packets: the link is full
		e := delayNS*simkernel.PSPerNS/p.Swift.TargetPS(window, 4) - 1
		if math.Abs(e) > 0.12 || s.busy < 0.99 {
			t.Errorf("swift, %d flows: delay %.0f ns, %+.0f%% off its target, link busy %.3f", flows, delayNS, 100*e,
				s.busy)
		}
		const thresholdNS = 24_000
		if s := run(simkernel.DCTCP, flows); s.waitNS < 0.8*thresholdNS || s.waitNS > 1.1*thresholdNS ||
			s.busy < 0.99 {
			t.Errorf("dctcp, %d flows: mean wait %.0f ns, link busy %.3f", flows, s.waitNS, s.busy)
		}
		if s := run(simkernel.DCQCN, flows); s.waitNS > 1.1*thresholdNS || s.busy < 0.99 {
			t.Errorf("dcqcn, %d flows: mean wait %.0f ns, link busy %.3f", flows, s.waitNS, s.busy)
		}
		p = simkernel.ParamsOf(simkernel.TIMELY)
		if s := run(simkernel.TIMELY, flows); s.waitNS > float64(p.TIMELY.LowNS) || s.busy < 0.99 {
			t.Errorf("timely, %d flows: mean wait %.0f ns, link busy %.3f", flows, s.waitNS, s.busy)
		}
	}
}

// A link that could send more than the others allow reports that. If it reported their rate as its own, it
// would limit them in the next pass.
func TestHPCCReportsWhatItsLinkAllows(t *testing.T) {
	p := simkernel.ParamsOf(simkernel.HPCC)
	c := incast(&p, 1, 2_000_000)
	c.Record = true
	blocks := p.Layout().Blocks(p.Packets(c.SizeBytes[0]))
	for range blocks {
		c.Feedback = append(c.Feedback, simkernel.Block{Denied: simkernel.ShareUnit / 2})
	}
	var r Result
	if err := mustKernel(t, p).Simulate(c, &r); err != nil {
		t.Fatal(err)
	}
	slowdown := float64(r.FCTNS[0]) / float64(r.IdealNS[0])
	if slowdown < 1.9 {
		t.Fatalf("a flow that others allow half the line rate has slowdown %.2f", slowdown)
	}
	for b := blocks / 2; b < blocks-1; b++ {
		// The link is half busy: algorithm 1 allows the flow η / (1/2) times its rate.
		got := float64(r.Observed[b].Denied) / simkernel.ShareUnit
		if got > 1-p.HPCC.Target+0.02 {
			t.Fatalf("block %d of %d: the link denies %.3f of the line rate, want at most what is beyond the target",
				b, blocks, got)
		}
	}
}

// After a case with feedback, a kernel simulates a case without feedback as a new kernel does.
func TestKernelForgetsFeedback(t *testing.T) {
	for _, kind := range simkernel.PacedTransports() {
		for seed := range uint64(50) {
			rng := rand.New(rand.NewPCG(seed, 21))
			p, c := randomCaseOf(kind, rng)
			if len(c.Feedback) == 0 {
				randomFeedback(rng, &p, c)
			}
			k := mustKernel(t, p)
			var with, again, fresh Result
			if err := k.Simulate(c, &with); err != nil {
				t.Fatal(err)
			}
			c.Feedback = nil
			if err := k.Simulate(c, &again); err != nil {
				t.Fatal(err)
			}
			if err := mustKernel(t, p).Simulate(c, &fresh); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(again.FCTNS, fresh.FCTNS) {
				t.Fatalf("%v, seed %d: FCTs %v after a case with feedback, %v in a new kernel", kind, seed, again.FCTNS,
					fresh.FCTNS)
			}
		}
	}
}

// For any ACKs, a sender's rate stays between the minimum and line rate, regardless of how often its timers
// are checked.
func TestTransportsKeepTheirBounds(t *testing.T) {
	for _, kind := range simkernel.PacedTransports() {
		slower := false
		for _, seed := range kerneltest.Seeds(100, 3) {
			rng := rand.New(rand.NewPCG(seed, 12))
			p := simkernel.ParamsOf(kind)
			kerneltest.RandomConstants(rng, &p)
			lineBps := kerneltest.Pick(rng, 1e8, 10e9, 100e9)
			s := simkernel.NewSender(kind)
			often := simkernel.NewSender(kind)
			s.Start(&p, p.Limits(lineBps, simkernel.Path{Hops: 4}))
			often.Start(&p, p.Limits(lineBps, simkernel.Path{Hops: 4}))
			h := simkernel.AckInfo{SentBytes: 18_000, Links: []simkernel.Telemetry{{Bps: 10e9}}}
			for range 300 {
				was := h.NowPS
				h.NowPS += rng.Int64N(kerneltest.Pick[int64](rng, 1, 1e6, 1e9, 1e12))
				h.RTTPS = rng.Int64N(kerneltest.Pick[int64](rng, 1, 20e6, 1e9))
				h.AckedBytes += 1000
				h.SentBytes += rng.Int64N(3000)
				h.Marked = rng.IntN(5) == 0
				h.Links[0].AtPS, h.Links[0].LeftBytes = h.NowPS-h.RTTPS/2, rng.Int64N(50_000)
				h.Links[0].SentBytes += rng.Int64N(30_000)
				h.Feedback = rng.Float64()
				for at := was; at < h.NowPS; at += 1 + (h.NowPS-was)/7 {
					often.Tick(&p, at)
				}
				for _, x := range []simkernel.Sender{s, often} {
					x.Tick(&p, h.NowPS)
					x.OnAck(&p, &h)
				}
				rate, line := s.Rate()
				if !(rate >= min(p.MinRateBps, lineBps) && rate <= lineBps) || line != lineBps {
					t.Fatalf("%v, seed %d: rate %v of %v", kind, seed, rate, lineBps)
				}
				again, _ := often.Rate()
				if math.Float64bits(again) != math.Float64bits(rate) {
					t.Fatalf("%v, seed %d: rate %v, looked at often %v", kind, seed, rate, again)
				}
				slower = slower || rate < lineBps
			}
		}
		if !slower {
			t.Errorf("%v never slows down: the test tests nothing", kind)
		}
	}
}
