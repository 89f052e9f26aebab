package network

import (
	"math"
	"math/big"
	"testing"

	"parsimon/simkernel"
)

// With 64 bits, the sum of a flow's waits would overflow if its packets wait for hours: 180 packets that wait
// for 16 hours each have waited 2^63 ps.
func TestWaitsOfAFlowDoNotWrap(t *testing.T) {
	var s hopStat
	want := new(big.Int)
	for _, waitPS := range []int64{0, 1, 999, horizonPS, 1, horizonPS, horizonPS, horizonPS, 57_600e12} {
		s.addWait(waitPS)
		want.Add(want, big.NewInt(waitPS))
		ns := new(big.Int).Quo(want, big.NewInt(simkernel.PSPerNS))
		if ns.Int64() != s.waitNS() {
			t.Fatalf("%v ps: %d ns, want %v", want, s.waitNS(), ns)
		}
	}
	for range 4100 {
		s.addWait(horizonPS)
	}
	if s.waitNS() != math.MaxInt64 {
		t.Errorf("a sum beyond int64 is %d ns, want the largest int64", s.waitNS())
	}
}

// 19,980 packets of 60 KB wait for a link of 10 kbps. Their mean wait is half of the time that it takes to
// send all of them.
func TestMeanWaitOfAnOverloadedLink(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, true, true, false}}
	e.params.PayloadBytes = 60_000
	e.params.HeaderBytes = 0
	e.params.AckBytes = 0
	e.params.SetWindow(1 << 30)
	for h, bps := range []int64{10e9, 10e9, 10_000} {
		e.links = append(e.links, Link{int32(h), 3, bps, 1000}, Link{3, int32(h), bps, 1000})
	}
	const flows, packets, bottleneck = 111, 180, 5
	for i := range int64(flows) {
		e.flows.SizeBytes = append(e.flows.SizeBytes, packets*e.params.PayloadBytes)
		e.flows.StartNS = append(e.flows.StartNS, i)
		e.flows.PathLinks = append(e.flows.PathLinks, 2*int32(i%2), bottleneck)
		e.flows.PathEnds = append(e.flows.PathEnds, int32(len(e.flows.PathLinks)))
	}
	r := runExample(t, &e, 1000)
	var sum simkernel.Sum
	for i := range r.Row {
		sum.Add(r.WaitNS[2*i+1])
	}
	const wantS = flows * packets * 48.0 / 2
	meanS := sum.Float64() / flows / packets / 1e9
	if meanS < 0.9*wantS || meanS > 1.1*wantS {
		t.Errorf("the mean wait is %.0f s, want about %.0f", meanS, wantS)
	}
}
