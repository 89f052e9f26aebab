package simkernel

import (
	"fmt"
	"math"
)

// SwiftParams are the constants of Swift.
type SwiftParams struct {
	BaseTargetNS int64   // base target delay of the fabric (Kumar et al., SIGCOMM'20, §3.1 and §3.5)
	PerHopNS     int64   // ħ: and for every link of the path
	Additive     float64 // ai: packets added to the window a round trip while the delay is below the target
	Decrease     float64 // β
	MaxDecrease  float64 // max_mdf: the largest share that one cut takes away
	// Flow scaling (§3.5): up to ScalingNS are added to the target, the more the smaller the window:
	// all of it at MinScaling packets, nothing from MaxScaling on.
	ScalingNS              int64
	MinScaling, MaxScaling float64
}

// DefaultSwift is a target of 25 µs for fabrics like the paper's (§3.1), and for what the paper leaves
// open what htsim's Swift has (swift.cpp; guesses, as it says itself): an increase of 1 packet, β 0.8,
// cuts of at most a half, and up to five times the base target for windows from 100 down to 0.1 packets.
func DefaultSwift() SwiftParams {
	return SwiftParams{
		BaseTargetNS: 25_000, PerHopNS: 1000, Additive: 1, Decrease: 0.8, MaxDecrease: 0.5,
		ScalingNS: 125_000, MinScaling: 0.1, MaxScaling: 100,
	}
}

func (c *SwiftParams) validate() error {
	switch {
	case c.BaseTargetNS < 1 || c.BaseTargetNS > 1e12 || c.PerHopNS < 0 || c.PerHopNS > 1e9:
		return fmt.Errorf("swift target is %d ns and %d a hop, must be 1 ns to 1,000 s and up to 1 s", c.BaseTargetNS, c.PerHopNS)
	case !(c.Additive >= 0 && c.Additive <= 1e6):
		return fmt.Errorf("swift additive_increase is %v packets, must be 0 to 1e6", c.Additive)
	case !(c.Decrease >= 0 && c.Decrease <= 1), !(c.MaxDecrease >= 0 && c.MaxDecrease <= 1):
		return fmt.Errorf("swift decrease is %v, at most %v, must be 0 to 1", c.Decrease, c.MaxDecrease)
	case c.ScalingNS < 0 || c.ScalingNS > 1e12:
		return fmt.Errorf("swift scaling is %d ns, must be 0 to 1,000 s", c.ScalingNS)
	case !(c.MinScaling > 0 && c.MaxScaling > c.MinScaling && c.MaxScaling <= 1e9):
		return fmt.Errorf("swift scales from %v to %v packets, must be above 0 and in order", c.MinScaling, c.MaxScaling)
	}
	return nil
}

// swift is the sender of one flow: Swift (Kumar et al., SIGCOMM'20, algorithm 1) without delays in
// hosts, and with the rate in the window's place, which is its share of the line's. So its window
// ends at WindowBytes, and its rate at MinRateBps, as every transport's here.
type swift struct {
	rateBps, lineBps float64
	hops             int
	cutPS            int64 // when the last cut was
	cut              bool  // there was one
}

func (d *swift) start(_ *Params, lineBps float64, hops int) {
	*d = swift{rateBps: lineBps, lineBps: lineBps, hops: hops}
}

func (d *swift) tick(*Params, int64) bool { return false }

func (d *swift) nextTick() int64 { return 0 }

func (d *swift) rate() (rateBps, lineBps float64) { return d.rateBps, d.lineBps }

// targetPS is the delay aimed at with a window of so many packets.
func (c *SwiftParams) targetPS(packets float64, hops int) float64 {
	target := float64(c.BaseTargetNS + int64(hops)*c.PerHopNS)
	alpha := float64(c.ScalingNS) / (1/math.Sqrt(c.MinScaling) - 1/math.Sqrt(c.MaxScaling))
	target += max(0, min(float64(c.ScalingNS), alpha/math.Sqrt(packets)-alpha/math.Sqrt(c.MaxScaling)))
	return target * psPerNS
}

func (d *swift) onAck(p *Params, h *ackInfo) (rateChanged bool) {
	c := &p.Swift
	before := d.rateBps
	lineWindow := float64(p.WindowBytes) / float64(p.PayloadBytes) // packets, at line rate
	window := lineWindow * d.rateBps / d.lineBps
	targetPS := c.targetPS(window, d.hops)
	rtt := float64(h.rttPS)
	switch {
	case rtt < targetPS:
		window += c.Additive / max(1, window)
	case !d.cut || h.nowPS-d.cutPS >= h.rttPS:
		window *= max(1-float64(c.Decrease*(rtt-targetPS)/rtt), 1-c.MaxDecrease)
		d.cut, d.cutPS = true, h.nowPS
	default:
		return false
	}
	d.rateBps = min(d.lineBps, max(p.floorBps(d.lineBps), d.lineBps*window/lineWindow))
	return d.rateBps != before
}
