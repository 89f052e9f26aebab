package linkcase

import (
	"math/rand/v2"
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
	for _, seed := range kerneltest.Seeds(2000, 13) {
		p, c := glidingFlows(rand.New(rand.NewPCG(seed, 15)))
		k := mustKernel(t, p)
		k.picker.leastBits = uint(seed % 2 * 28)
		if _, err := agreeWithTwin(k, c); err != nil {
			t.Fatalf("seed %d: %v\nparams %s\ncase %s", seed, err, kerneltest.Brief(p), kerneltest.Brief(c))
		}
	}
}
