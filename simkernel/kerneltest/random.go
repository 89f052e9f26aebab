// Package kerneltest has random input for the tests of the simulators.
package kerneltest

import (
	"math/rand/v2"

	"parsimon/simkernel"
)

// Pick returns one of the values.
func Pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// RandomConstants makes constants under which a transport does everything it can within a few packets.
func RandomConstants(rng *rand.Rand, p *simkernel.Params) {
	if rng.IntN(3) == 0 {
		return
	}
	switch p.Transport {
	case simkernel.DCQCN:
		c := &p.DCQCN
		c.AlphaNS = Pick[int64](rng, 1000, 5000, 50_000)
		c.DecreaseNS = Pick[int64](rng, 1000, 5000, 50_000)
		c.IncreaseNS = Pick[int64](rng, 1000, 5001, 55_000)
		c.AdditiveBps, c.HyperBps = Pick(rng, 0, 2e6, 1e9), Pick(rng, 0, 20e6, 3e9)
		c.Gain = Pick(rng, 1.0/256, 0.5, 1)
		c.MinMarkPerGbps, c.MaxMarkPerGbps = Pick[int64](rng, 0, 300), Pick[int64](rng, 300, 3000, 16_000)
		c.MaxMarking = Pick(rng, 0.2, 1, 0)
	case simkernel.HPCC:
		c := &p.HPCC
		c.Target = Pick(rng, 0.95, 0.5, 1.5)
		c.MaxStage = Pick[int64](rng, 0, 1, 5)
		c.AdditiveBytes = Pick(rng, 0, 80, 3000.0)
		c.BaseRTTNS = Pick[int64](rng, 100, 14_400, 100_000)
	case simkernel.Swift:
		c := &p.Swift
		c.BaseTargetNS, c.PerHopNS = Pick[int64](rng, 1000, 10_000, 25_000), Pick[int64](rng, 0, 1000)
		c.Additive = Pick(rng, 0, 1, 10.0)
		c.Decrease, c.MaxDecrease = Pick(rng, 0.8, 1, 0.1), Pick(rng, 0.5, 1, 0.1)
		c.ScalingNS = Pick[int64](rng, 0, 125_000)
		c.MinScaling, c.MaxScaling = Pick(rng, 0.1, 1), Pick(rng, 2, 100.0)
	case simkernel.TIMELY:
		c := &p.TIMELY
		c.LowNS = Pick[int64](rng, 0, 10_000, 50_000)
		c.HighNS = c.LowNS + Pick[int64](rng, 0, 10_000, 500_000)
		c.MinRTTNS = Pick[int64](rng, 1, 2000, 20_000)
		c.AdditiveBps, c.HyperBps = Pick(rng, 0, 10e6, 1e9), Pick(rng, 0, 50e6, 3e9)
		c.HyperAfter = Pick[int64](rng, 0, 1, 5)
		c.Smoothing, c.Decrease = Pick(rng, 0.875, 1, 0.1), Pick(rng, 0.8, 1, 0.1)
	}
}
