package simkernel

import (
	"fmt"
	"math"
)

// Swift is the transport of Kumar et al. (SIGCOMM'20), without delays in hosts. Packets and ACKs have a time
// stamp of 8 bytes.
const Swift Transport = 4

var swiftSpec = transportSpec{
	name: "swift", version: 4, headerBytes: 8,
	// The target is 25 µs, for fabrics like the paper's (§3.1). Constants that the paper does not state are
	// those of htsim's Swift (swift.cpp, which calls them guesses): an increase of 1 packet, β 0.8, cuts of
	// at most a half, and up to five times the base target for windows from 100 down to 0.1 packets.
	defaults: func(p *Params) {
		p.Swift = SwiftParams{
			BaseTargetNS: 25_000, PerHopNS: 1000, Additive: 1, Decrease: 0.8, MaxDecrease: 0.5,
			ScalingNS: 125_000, MinScaling: 0.1, MaxScaling: 100,
		}
	},
	constants: func(p *Params) any { return &p.Swift },
	keys: func(p *Params) []Key {
		c := &p.Swift
		return []Key{
			{Name: "base_target", Unit: Nanoseconds, Int: &c.BaseTargetNS, Min: 1, Max: maxTimeNS},
			{Name: "per_hop", Unit: Nanoseconds, Int: &c.PerHopNS, Max: 1e9},
			{Name: "additive_increase", Unit: Packets, Float: &c.Additive, Max: 1e6},
			{Name: "decrease", Unit: Number, Float: &c.Decrease, Max: 1},
			{Name: "max_decrease", Unit: Number, Float: &c.MaxDecrease, Max: 1},
			{Name: "scaling", Unit: Nanoseconds, Int: &c.ScalingNS, Max: maxTimeNS},
			{Name: "min_scaling", Unit: Packets, Float: &c.MinScaling, Max: 1e9, Positive: true},
			{Name: "max_scaling", Unit: Packets, Float: &c.MaxScaling, Max: 1e9, Positive: true},
		}
	},
	check: func(p *Params) error {
		c := &p.Swift
		if c.MaxScaling <= c.MinScaling {
			return fmt.Errorf("swift scales from %v to %v packets, must be in ascending order", c.MinScaling,
				c.MaxScaling)
		}
		return nil
	},
	newSender: func() Sender { return &swift{} },
	steadyRTT: func(p *Params, l Limits, rttPS int64) bool {
		return rttPS < (p.Swift.BaseTargetNS+l.moreNS())*PSPerNS
	},
	Traits: Traits{DelayBased: true, UsesHops: true},
}

// SwiftParams are the constants of Swift.
type SwiftParams struct {
	BaseTargetNS int64   // base target delay of the fabric (Kumar et al., SIGCOMM'20, §3.1 and §3.5)
	PerHopNS     int64   // ħ: added for every link of the path
	Additive     float64 // ai: packets added to the window per RTT while the delay is below the target
	Decrease     float64 // β
	MaxDecrease  float64 // max_mdf: the largest share of the window that one cut removes
	// Flow scaling (§3.5) adds up to ScalingNS to the target. Smaller windows add more: all of it at
	// MinScaling packets, and nothing at MaxScaling packets or more.
	ScalingNS              int64
	MinScaling, MaxScaling float64
}

// swift is the sender of one flow (Kumar et al., SIGCOMM'20, algorithm 1), without delays in hosts. It
// computes the rate instead of the window, which follows from the rate. Limits and MinRateBps therefore apply
// as for all other transports.
type swift struct {
	Rates
	lineWindow float64 // packets, at line rate
	hops       int
	morePS     float64 // added to the target on long paths
	cutPS      int64   // time of the last cut
	cut        bool    // there was a cut
}

func (d *swift) Start(p *Params, l Limits) {
	*d = swift{
		Rates: Rates{l.LineBps, l.LineBps}, lineWindow: float64(l.WindowBytes) / float64(p.PayloadBytes),
		hops: l.Hops, morePS: float64(l.moreNS() * PSPerNS),
	}
}

// TargetPS returns the target delay for a window of the given number of packets.
func (c *SwiftParams) TargetPS(packets float64, hops int) float64 {
	target := float64(c.BaseTargetNS + int64(hops)*c.PerHopNS)
	alpha := float64(c.ScalingNS) / (1/math.Sqrt(c.MinScaling) - 1/math.Sqrt(c.MaxScaling))
	target += max(0, min(float64(c.ScalingNS), alpha/math.Sqrt(packets)-alpha/math.Sqrt(c.MaxScaling)))
	return target * PSPerNS
}

func (d *swift) OnAck(p *Params, h *AckInfo) (rateChanged bool) {
	c := &p.Swift
	before := d.RateBps
	window := d.lineWindow * d.RateBps / d.LineBps
	targetPS := c.TargetPS(window, d.hops) + d.morePS
	rtt := float64(h.RTTPS)
	switch {
	case rtt < targetPS:
		window += c.Additive / max(1, window)
	case !d.cut || h.NowPS-d.cutPS >= h.RTTPS:
		window *= max(1-float64(c.Decrease*(rtt-targetPS)/rtt), 1-c.MaxDecrease)
		d.cut = true
		d.cutPS = h.NowPS
	default:
		return false
	}
	d.RateBps = min(d.LineBps, max(p.floorBps(d.LineBps), d.LineBps*window/d.lineWindow))
	return d.RateBps != before
}
