package simkernel

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// incast is a case of long flows that start one after the other, each from a host of 10G, into one link
// of 10G, with an idle round trip of base.
func incast(p *Params, flows int, sizeBytes int64) *Case {
	c := columns(Behind, flows, flows, sizeBytes, 20_000)
	c.MarkBytes, c.MaxMarkBytes = p.MarkBytes(c.TargetBps), p.MaxMarkBytes(c.TargetBps)
	for range c.StartNS {
		c.Hops = append(c.Hops, 4)
	}
	return c
}

// A lone flow takes its ideal, with every transport that lets a link be full: where nothing queues the
// round trips are equal, and below every target. HPCC aims at less than a full link: with it a flow
// takes its ideal that sends all before the second window's ACKs are back, and no other takes longer
// than its ideal over that share.
func TestTransportsLoneFlow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 11))
	var r Result
	for kind := range transports {
		p := ParamsOf(kind)
		k := mustKernel(t, p)
		for range 300 {
			c := columns(Behind, 1, 1, 1+rng.Int64N(pick[int64](rng, 1000, 20_000, 2_000_000)), 0)
			c.TargetBps = pick[int64](rng, 10e9, 40e9)
			c.MarkBytes, c.MaxMarkBytes = p.MarkBytes(c.TargetBps), p.MaxMarkBytes(c.TargetBps)
			if err := k.Simulate(c, &r); err != nil {
				t.Fatal(err)
			}
			fct, ideal := r.FCTNS[0], r.IdealNS[0]
			long := kind == HPCC && c.SizeBytes[0] > p.WindowBytes/2
			if !long && fct != ideal || long && (fct < ideal || float64(fct) > float64(ideal)/p.HPCC.Target*1.02) {
				t.Fatalf("%v, %d bytes: FCT %d ns, ideal %d", kind, c.SizeBytes[0], fct, ideal)
			}
		}
	}
}

// For any ACKs, a sender's rate stays between the minimum and line rate; and it does not matter how
// often its timers are looked at.
func TestTransportsKeepTheirBounds(t *testing.T) {
	for kind := range transports {
		slower := false
		for seed := range uint64(100) {
			rng := rand.New(rand.NewPCG(seed, 12))
			p := ParamsOf(kind)
			randomConstants(rng, &p)
			lineBps := pick(rng, 1e8, 10e9, 100e9)
			s, often := newSender(kind), newSender(kind)
			s.start(&p, lineBps, 4)
			often.start(&p, lineBps, 4)
			h := ackInfo{sentBytes: 18_000, links: make([]telemetry, 1), bps: []float64{10e9}}
			for range 300 {
				was := h.nowPS
				h.nowPS += rng.Int64N(pick[int64](rng, 1, 1e6, 1e9, 1e12))
				h.rttPS = rng.Int64N(pick[int64](rng, 1, 20e6, 1e9))
				h.ackedBytes += 1000
				h.sentBytes += rng.Int64N(3000)
				h.marked = rng.IntN(5) == 0
				h.links[0].atPS, h.links[0].leftBytes = h.nowPS-h.rttPS/2, rng.Int64N(50_000)
				h.links[0].sentBytes += rng.Int64N(30_000)
				h.feedback = rng.Float64()
				for at := was; at < h.nowPS; at += 1 + (h.nowPS-was)/7 {
					often.tick(&p, at)
				}
				for _, x := range []sender{s, often} {
					x.tick(&p, h.nowPS)
					x.onAck(&p, &h)
				}
				rate, line := s.rate()
				if !(rate >= p.floorBps(lineBps) && rate <= lineBps) || line != lineBps {
					t.Fatalf("%v, seed %d: rate %v of %v", kind, seed, rate, lineBps)
				}
				if again, _ := often.rate(); math.Float64bits(again) != math.Float64bits(rate) {
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

// The result of a case does not depend on what its kernel simulated before.
func TestTransportsAnswerTheSameAgain(t *testing.T) {
	for kind := range transports {
		p := ParamsOf(kind)
		p.Seed = 3
		k, other := mustKernel(t, p), mustKernel(t, p)
		c, before := incast(&p, 8, 300_000), incast(&p, 20, 100_000)
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
				t.Errorf("%v: %+v, first %+v", kind, got, want)
			}
		}
		if kind != HPCC && slices.Max(want.FCTNS) < 2*slices.Max(want.IdealNS) {
			t.Errorf("%v: nothing happens: FCTs %v", kind, want.FCTNS)
		}
	}
}

// A timer that has not been looked at for a day is worked out at once.
func TestDCQCNSleeps(t *testing.T) {
	p := ParamsOf(DCQCN)
	var d dcqcn
	d.start(&p, 10e9, 4)
	d.onAck(&p, &ackInfo{marked: true})
	d.tick(&p, 24*3600*1e12)
	if d.rateBps != 10e9 || d.alpha != 0 || d.nextTick() > 24*3600*1e12+60e6 {
		t.Errorf("rate %v, alpha %v, next tick %d", d.rateBps, d.alpha, d.nextTick())
	}
}

func TestRedMarksTheShareItSays(t *testing.T) {
	m := redMark{40_000, 160_000, 0.2}
	for left, want := range map[int64]float64{40_000: 0, 70_000: 0.05, 100_000: 0.1, 160_000: 0.2, 160_001: 1} {
		marked := 0
		const draws = 100_000
		for i := range uint64(draws) {
			if m.marks(left, mixKey(7, i)) {
				marked++
			}
		}
		if share := float64(marked) / draws; math.Abs(share-want) > 0.005 {
			t.Errorf("%d bytes left behind: marked %.3f, want %.3f", left, share, want)
		}
	}
}

// What the papers show. HPCC keeps links nearly full and queues nearly empty (figures 9 and 11);
// Swift keeps the delay at its target (figure 15), whatever the number of flows, as long as the least
// rate lets it; DCTCP's queue stays at its marking threshold.
func TestTransportsBehave(t *testing.T) {
	type seen struct{ waitNS, busy float64 }
	run := func(kind Transport, flows int) seen {
		p := ParamsOf(kind)
		c := incast(&p, flows, 10_000_000)
		var r Result
		if err := mustKernel(t, p).Simulate(c, &r); err != nil {
			t.Fatal(err)
		}
		lastNS := int64(0)
		for i, fct := range r.FCTNS {
			lastNS = max(lastNS, c.StartNS[i]+fct)
		}
		s := seen{float64(r.WaitSumNS) / float64(r.PacketsSent), float64(r.BusyNS) / float64(lastNS)}
		t.Logf("%v, %d flows: mean wait %.0f ns, link busy %.3f", kind, flows, s.waitNS, s.busy)
		return s
	}
	for _, flows := range []int{2, 4, 8} {
		if s := run(HPCC, flows); s.waitNS > 1500 || s.busy < 0.94 || s.busy > 0.97 {
			t.Errorf("hpcc, %d flows: mean wait %.0f ns, link busy %.3f; want nearly none, and 0.95", flows, s.waitNS,
				s.busy)
		}
	}
	for _, flows := range []int{4, 8} {
		s := run(Swift, flows)
		p := ParamsOf(Swift)
		delayNS := s.waitNS + 2*4000 + 2*838
		window := delayNS / 838 / float64(flows) // packets: the link is full
		if e := delayNS*psPerNS/p.Swift.targetPS(window, 4) - 1; math.Abs(e) > 0.12 || s.busy < 0.99 {
			t.Errorf("swift, %d flows: delay %.0f ns, %+.0f%% off its target, link busy %.3f", flows, delayNS, 100*e,
				s.busy)
		}
		const thresholdNS = 24_000
		if s := run(DCTCP, flows); s.waitNS < 0.8*thresholdNS || s.waitNS > 1.1*thresholdNS || s.busy < 0.99 {
			t.Errorf("dctcp, %d flows: mean wait %.0f ns, link busy %.3f", flows, s.waitNS, s.busy)
		}
		if s := run(DCQCN, flows); s.waitNS > 1.1*thresholdNS || s.busy < 0.99 {
			t.Errorf("dcqcn, %d flows: mean wait %.0f ns, link busy %.3f", flows, s.waitNS, s.busy)
		}
		p = ParamsOf(TIMELY)
		if s := run(TIMELY, flows); s.waitNS > float64(p.TIMELY.LowNS) || s.busy < 0.99 {
			t.Errorf("timely, %d flows: mean wait %.0f ns, link busy %.3f", flows, s.waitNS, s.busy)
		}
	}
}

// randomConstants makes constants under which a transport does everything it can within a few packets.
func randomConstants(rng *rand.Rand, p *Params) {
	if rng.IntN(3) == 0 {
		return
	}
	switch p.Transport {
	case DCQCN:
		c := &p.DCQCN
		c.AlphaNS = pick[int64](rng, 1000, 5000, 50_000)
		c.DecreaseNS = pick[int64](rng, 1000, 5000, 50_000)
		c.IncreaseNS = pick[int64](rng, 1000, 5001, 55_000)
		c.AdditiveBps, c.HyperBps = pick(rng, 0, 2e6, 1e9), pick(rng, 0, 20e6, 3e9)
		c.Gain = pick(rng, 1.0/256, 0.5, 1)
		c.MinMarkPerGbps, c.MaxMarkPerGbps = pick[int64](rng, 0, 300), pick[int64](rng, 300, 3000, 16_000)
		c.MaxMarking = pick(rng, 0.2, 1, 0)
	case HPCC:
		c := &p.HPCC
		c.Target = pick(rng, 0.95, 0.5, 1.5)
		c.MaxStage = pick[int64](rng, 0, 1, 5)
		c.AdditiveBytes = pick(rng, 0, 80, 3000.0)
		c.BaseRTTNS = pick[int64](rng, 100, 14_400, 100_000)
	case Swift:
		c := &p.Swift
		c.BaseTargetNS, c.PerHopNS = pick[int64](rng, 1000, 10_000, 25_000), pick[int64](rng, 0, 1000)
		c.Additive = pick(rng, 0, 1, 10.0)
		c.Decrease, c.MaxDecrease = pick(rng, 0.8, 1, 0.1), pick(rng, 0.5, 1, 0.1)
		c.ScalingNS = pick[int64](rng, 0, 125_000)
		c.MinScaling, c.MaxScaling = pick(rng, 0.1, 1), pick(rng, 2, 100.0)
	case TIMELY:
		c := &p.TIMELY
		c.LowNS = pick[int64](rng, 0, 10_000, 50_000)
		c.HighNS = c.LowNS + pick[int64](rng, 0, 10_000, 500_000)
		c.MinRTTNS = pick[int64](rng, 1, 2000, 20_000)
		c.AdditiveBps, c.HyperBps = pick(rng, 0, 10e6, 1e9), pick(rng, 0, 50e6, 3e9)
		c.HyperAfter = pick[int64](rng, 0, 1, 5)
		c.Smoothing, c.Decrease = pick(rng, 0.875, 1, 0.1), pick(rng, 0.8, 1, 0.1)
	}
}

// Every transport is registered under its number, its defaults are valid, its keys are named once, and a
// value outside a key's range is refused with the key's name.
func TestRegistry(t *testing.T) {
	for kind := range transports {
		p := ParamsOf(kind)
		if err := p.Validate(); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
		if back, err := ParseTransport(kind.String()); back != kind || err != nil {
			t.Errorf("%v is parsed as %v, %v", kind, back, err)
		}
		seen := map[string]bool{}
		for _, k := range p.Keys() {
			if seen[k.Name] || (k.Int == nil) == (k.Float == nil) {
				t.Errorf("%v: key %+v", kind, k)
			}
			seen[k.Name] = true
			for _, v := range []float64{k.Min - 1, k.Max * 2} {
				bad := ParamsOf(kind)
				for _, b := range bad.Keys() {
					if b.Name == k.Name && b.Int != nil {
						*b.Int = int64(v)
					} else if b.Name == k.Name {
						*b.Float = v
					}
				}
				if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), k.Name+" is") {
					t.Errorf("%v: %s = %v: error %v", kind, k.Name, v, err)
				}
			}
		}
	}
	if err := (&Params{Transport: transports}).Validate(); err == nil {
		t.Error("an unknown transport is accepted")
	}
}

// Results of different versions, transports or constants are kept apart; the seed matters only where
// marks are random.
func TestIdentity(t *testing.T) {
	identity := func(p Params) string {
		b, err := p.AppendIdentity(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	seen := map[string]bool{}
	for kind := range transports {
		p := ParamsOf(kind)
		id := identity(p)
		if p.Seed = 7; (identity(p) != id) != (kind == DCQCN) {
			t.Errorf("%v: the seed changes the identity: %v", kind, identity(p) != id)
		}
		p.WindowBytes++
		if seen[id] || identity(p) == id {
			t.Errorf("%v: %q is ambiguous", kind, id)
		}
		seen[id] = true
	}
}

// A link that could send more than the others allow says so: it does not report their rate as its own, which would bound
// them in the next pass.
func TestHPCCReportsWhatItsLinkAllows(t *testing.T) {
	p := ParamsOf(HPCC)
	c := incast(&p, 1, 2_000_000)
	c.Record = true
	blocks := p.Layout().Blocks(p.Packets(c.SizeBytes[0]))
	for range blocks {
		c.Feedback = append(c.Feedback, Block{Hint: shareUnit / 2})
	}
	var r Result
	if err := mustKernel(t, p).Simulate(c, &r); err != nil {
		t.Fatal(err)
	}
	if slowdown := float64(r.FCTNS[0]) / float64(r.IdealNS[0]); slowdown < 1.9 {
		t.Fatalf("a flow that others allow half the line rate has slowdown %.2f", slowdown)
	}
	for b := blocks / 2; b < blocks-1; b++ {
		// The link is half busy: algorithm 1 allows the flow η / (1/2) times its rate.
		if got := float64(r.Observed[b].Hint) / shareUnit; got > 1-p.HPCC.Target+0.02 {
			t.Fatalf("block %d of %d: the link denies %.3f of the line rate, want at most what is beyond the target", b, blocks, got)
		}
	}
}

// A kernel that has simulated a case with feedback simulates one without as a new kernel does.
func TestKernelForgetsFeedback(t *testing.T) {
	for kind := range transports {
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
				t.Fatalf("%v, seed %d: FCTs %v after a case with feedback, %v in a new kernel", kind, seed, again.FCTNS, fresh.FCTNS)
			}
		}
	}
}
