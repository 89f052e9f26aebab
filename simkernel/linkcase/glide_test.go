package linkcase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
)

// glidingFlows makes a case of flows that glide most of the time: without feedback or observations, and with
// links that are about as fast as a few of the sources.
func glidingFlows(rng *rand.Rand) (simkernel.Params, *Case) {
	p := simkernel.DefaultParams()
	p.SetWindow(kerneltest.Pick[int64](rng, 18_000, 18_000, 18_000, 30_000, 11_500, 60_000, 100_000))
	c := &Case{Behind: true}
	c.TargetBps = kerneltest.Pick[int64](rng, 9_900_000_000, 10_000_000_000, 20_000_000_000, 40_000_000_000)
	c.MarkBytes = kerneltest.Pick[int64](rng, 30_000, 120_000, 3144)
	c.RoomBytes = kerneltest.Pick[int64](rng, 0, 0, 1, 20_000)
	sources := kerneltest.Pick(rng, 1, 2, 2, 3, 5, 30)
	for range sources {
		c.SourceBps = append(c.SourceBps, kerneltest.Pick(rng, 10_000_000_000, 9_950_000_000,
			9_500_000_000+rng.Int64N(500_000_000)))
		c.SourceDelayNS = append(c.SourceDelayNS, kerneltest.Pick[int64](rng, 0, 1000, 3000, rng.Int64N(2000)))
	}
	beyond := kerneltest.Pick[int64](rng, 0, 1000, 3000, 5000)
	largest := kerneltest.Pick[int64](rng, 20_000, 100_000, 300_000)
	gapNS := kerneltest.Pick[int64](rng, 1, 1000, 10_000, 100_000)
	start := int64(0)
	for range 1 + rng.IntN(40) {
		s := rng.IntN(sources)
		c.Source = append(c.Source, int32(s))
		c.SizeBytes = append(c.SizeBytes, 1+rng.Int64N(largest))
		c.StartNS = append(c.StartNS, start)
		c.PathDelayNS = append(c.PathDelayNS, c.SourceDelayNS[s]+beyond)
		start += rng.Int64N(gapNS)
	}
	if rng.IntN(4) == 0 {
		fitWindows(rng, &p, c)
	}
	return p, c
}

// fitWindows fits the windows of a case to paths that have a slower link than the source's. Without delay and
// with a fast target, the time between packets is then longer than a round trip.
func fitWindows(rng *rand.Rand, p *simkernel.Params, c *Case) {
	p.SetWindow(simkernel.AutoWindow)
	c.TargetBps = 40_000_000_000
	c.MarkBytes = 0
	clear(c.SourceDelayNS)
	for i, s := range c.Source {
		c.PathDelayNS[i] = rng.Int64N(50)
		c.SlowestBps = append(c.SlowestBps, c.SourceBps[s]/kerneltest.Pick[int64](rng, 1, 2, 4, 10))
		send := 1 + rng.Int64N(2000)
		c.RoundTripNS = append(c.RoundTripNS, 2*c.PathDelayNS[i]+send)
		c.SendNS = append(c.SendNS, send)
	}
}

func TestKernelAgreesWithTwinOnGlidingFlows(t *testing.T) {
	glided := 0
	seeds := kerneltest.Seeds(2000, 13)
	for _, seed := range seeds {
		p, c := glidingFlows(rand.New(rand.NewPCG(seed, 15)))
		k := mustKernel(t, p)
		k.picker.leastBits = uint(seed % 2 * 28)
		mustAgree(t, fmt.Sprintf("seed %d", seed), k, p, c)
		if slices.ContainsFunc(k.sources, func(s source) bool { return s.step > 0 }) { // join has set it
			glided++
		}
	}
	if glided < len(seeds)/3 {
		t.Errorf("flows glide in %d of %d cases: the test tests little", glided, len(seeds))
	}
}

// coastingFlows makes a case of two to four flows from different sources, which all glide. In the time
// between two packets of a flow, the target passes one packet of each flow. Later, up to 20 other flows start
// at the same time. The windows are at most four packets larger than a round trip, so packets behind these
// flows wait too long to glide.
func coastingFlows(rng *rand.Rand) (simkernel.Params, *Case) {
	p := simkernel.DefaultParams()
	sources := kerneltest.Pick(rng, 2, 2, 3, 4)
	c := &Case{Behind: true, TargetBps: 40_000_000_000}
	c.MarkBytes = kerneltest.Pick[int64](rng, 30_000, 120_000)
	crowd := 1 + rng.IntN(20)
	delayNS := 1000 + rng.Int64N(2000)
	beyondNS := rng.Int64N(2000)
	crowdNS := 20_000 + rng.Int64N(100_000)
	packetNS := (p.PayloadBytes + p.HeaderBytes) * 8 / 10
	roundTripNS := 2*(delayNS+beyondNS) + packetNS
	p.SetWindow((roundTripNS/packetNS + kerneltest.Pick[int64](rng, 1, 2, 2, 4)) * p.PayloadBytes)
	apartNS := kerneltest.Pick(rng, 1, 300, packetNS)
	for i := range sources + crowd {
		flow := struct{ delayNS, startNS, packets int64 }{delayNS, rng.Int64N(apartNS), 300}
		if i >= sources {
			flow.delayNS = rng.Int64N(500)
			flow.startNS = crowdNS
			flow.packets = 1 + rng.Int64N(30)
		}
		c.SourceBps = append(c.SourceBps, 10_000_000_000)
		c.SourceDelayNS = append(c.SourceDelayNS, flow.delayNS)
		source := i
		if i >= sources && rng.IntN(4) == 0 {
			source = rng.IntN(sources)
			flow.delayNS = delayNS
		}
		c.Source = append(c.Source, int32(source))
		c.SizeBytes = append(c.SizeBytes, flow.packets*p.PayloadBytes)
		c.StartNS = append(c.StartNS, flow.startNS)
		c.PathDelayNS = append(c.PathDelayNS, flow.delayNS+beyondNS)
	}
	slices.Sort(c.StartNS) // the flows of the crowd are last
	return p, c
}

// Before a flow stops gliding, its ACKs must be those of its last packets. After coast, a crowd lets all
// flows wait for ACKs. A flow that reads an older ACK of its ring sends too early.
func TestCrowdAfterCoast(t *testing.T) {
	coasted := 0
	seeds := kerneltest.Seeds(2000, 13)
	for _, seed := range seeds {
		p, c := coastingFlows(rand.New(rand.NewPCG(seed, 16)))
		k := mustKernel(t, p)
		k.target.log = make([]logEntry, 1<<12) // no entry replaces another
		mustAgree(t, fmt.Sprintf("seed %d", seed), k, p, c)
		// Before the crowd, flows never pass round trips alone, because they begin together. Packets without
		// entries in the log then have coasted. More than one packet arrives each microsecond.
		before := k.target.log[1 : c.StartNS[len(c.StartNS)-1]/1000]
		if slices.Contains(before, logEntry{}) {
			coasted++
		}
	}
	if coasted < len(seeds)/3 {
		t.Errorf("packets coast in %d of %d cases: the test tests little", coasted, len(seeds))
	}
}
