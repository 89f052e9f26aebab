package simkernel

import "math/rand/v2"

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
