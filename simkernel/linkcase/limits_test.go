package linkcase

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
)

// Values at the limits of a case are accepted, and values beyond them are refused. Otherwise sums of times
// could wrap, or scenarios that the whole network simulates would have no link cases.
func TestValuesAtTheLimits(t *testing.T) {
	const (
		delayNS   = 1_099_511_627_776          // 18 minutes
		sizeBytes = 1_125_899_906_842_624      // a pebibyte
		bps       = int64(100_000_000_000_000) // 100 Tbps
	)
	fitted := simkernel.DefaultParams() // depends on paths
	fitted.SetWindow(simkernel.AutoWindow)
	dcqcn := simkernel.ParamsOf(simkernel.DCQCN) // marks at random
	dctcp := simkernel.DefaultParams()
	for i, c := range []struct {
		params      *simkernel.Params
		behind      bool
		set         func(c *Case, v int64)
		least, most int64 // 0 and 0: there is none
	}{
		{&dctcp, true, func(c *Case, v int64) { c.TargetBps = v }, simkernel.MinBps, bps},
		{&dctcp, true, func(c *Case, v int64) { c.SourceBps[1] = v }, simkernel.MinBps, bps},
		{&dctcp, true, func(c *Case, v int64) { c.SourceDelayNS[1] = v }, 0, delayNS},
		{&dctcp, false, func(c *Case, v int64) { c.SourceDelayNS[0] = v }, 0, 0},
		{&dctcp, true, func(c *Case, v int64) { c.SizeBytes[1] = v }, 1, sizeBytes},
		{&dctcp, true, func(c *Case, v int64) { c.PathDelayNS[1] = v }, 0, delayNS},
		{&dctcp, true, func(c *Case, v int64) { c.ReturnNS = []int64{0, v} }, 0, delayNS},
		{&dctcp, true, func(c *Case, v int64) { c.UpstreamBps = []int64{0, v} }, simkernel.MinBps, bps},
		{&dctcp, true, func(c *Case, v int64) { c.DownstreamBps = []int64{0, v} }, simkernel.MinBps, bps},
		{&fitted, true, func(c *Case, v int64) { c.RoundTripNS[1] = v }, 1, 4 * delayNS},
		{&fitted, true, func(c *Case, v int64) { c.SendNS[1] = v }, 0, 4 * delayNS},
		{&fitted, true, func(c *Case, v int64) { c.SlowestBps[1] = v }, simkernel.MinBps, bps},
		{&dctcp, true, func(c *Case, v int64) { c.MarkBytes = v }, 0, 0},
		{&dcqcn, true, func(c *Case, v int64) { c.MaxMarkBytes = v }, 30_000, 0},
	} {
		accepted := func(v int64) error {
			sources := 1
			if c.behind {
				sources = 2
			}
			x := columns(c.behind, sources, 2, 1000, 10)
			x.MaxMarkBytes = 40_000
			x.SlowestBps = []int64{1e9, 1e9}
			x.RoundTripNS = []int64{9000, 9000}
			x.SendNS = []int64{800, 800}
			c.set(x, v)
			return mustKernel(t, *c.params).check(x)
		}
		name := fmt.Sprintf("column %d", i)
		if err := accepted(c.least); err != nil {
			t.Errorf("%s: %d is refused: %v", name, c.least, err)
		}
		if err := accepted(c.least - 1); err == nil {
			t.Errorf("%s: %d is accepted", name, c.least-1)
		}
		if c.most == 0 {
			continue
		}
		if err := accepted(c.most); err != nil {
			t.Errorf("%s: %d is refused: %v", name, c.most, err)
		}
		if err := accepted(c.most + 1); err == nil {
			t.Errorf("%s: %d is accepted", name, c.most+1)
		}
	}
}

// If the bound were above the time that some packets take, a queue that exceeds the threshold could be
// treated as shallow, and its packets would have no marks.
func TestLeastIsALowerBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 17))
	for range 10_000 {
		q := target{
			wire:   simkernel.NewWireTime(1e9 + rng.Float64()*1e13),
			header: kerneltest.Pick[int64](rng, 0, 1, 48),
		}
		sumPS := int64(0)
		bytes := int64(0)
		for range 1 + rng.IntN(kerneltest.Pick(rng, 1, 3, 1000)) {
			packet := q.header + 1 + rng.Int64N(kerneltest.Pick[int64](rng, 1, 1000))
			sumPS += q.wire.PS(packet)
			bytes += packet
		}
		least := q.least(bytes)
		if least > sumPS {
			t.Fatalf("packets of %d bytes take %d ps, the lower bound is %d ps", bytes, sumPS, least)
		}
	}
}
