package simkernel

import "fmt"

// TIMELY is the transport of Mittal et al. (SIGCOMM'15), as in the paper's ns-3. Packets and ACKs have a time
// stamp of 8 bytes.
const TIMELY Transport = 2

var timelySpec = transportSpec{
	name: "timely", version: 3, headerBytes: 8,
	// The constants are those of the paper's TIMELY runs in ns-3, with hosts of 10 Gbps.
	defaults: func(p *Params) {
		p.TIMELY = TIMELYParams{
			Smoothing: 0.875, Decrease: 0.8, LowNS: 50_000, HighNS: 500_000, MinRTTNS: 20_000,
			AdditiveBps: 10e6, HyperBps: 50e6, HyperAfter: 5,
		}
	},
	constants: func(p *Params) any { return &p.TIMELY },
	keys: func(p *Params) []Key {
		c := &p.TIMELY
		return []Key{
			{Name: "smoothing", Unit: Number, Float: &c.Smoothing, Max: 1},
			{Name: "decrease", Unit: Number, Float: &c.Decrease, Max: 1},
			{Name: "low", Unit: Nanoseconds, Int: &c.LowNS, Max: maxTimeNS},
			{Name: "high", Unit: Nanoseconds, Int: &c.HighNS, Max: maxTimeNS},
			{Name: "min_rtt", Unit: Nanoseconds, Int: &c.MinRTTNS, Min: 1, Max: maxTimeNS},
			{Name: "additive_increase", Unit: BitsPerSec, Float: &c.AdditiveBps, Max: maxBps},
			{Name: "hyper_increase", Unit: BitsPerSec, Float: &c.HyperBps, Max: maxBps},
			{Name: "hyper_after", Unit: Count, Int: &c.HyperAfter, Max: maxCount},
		}
	},
	check: func(p *Params) error {
		c := &p.TIMELY
		if c.HighNS < c.LowNS {
			return fmt.Errorf("timely thresholds are %d and %d ns, must be in ascending order", c.LowNS, c.HighNS)
		}
		return nil
	},
	newSender: func() Sender { return &timely{} },
	steadyRTT: func(p *Params, l Limits, rttPS int64) bool {
		return rttPS <= (p.TIMELY.HighNS+l.moreNS())*PSPerNS
	},
	Traits: Traits{DelayBased: true},
}

// TIMELYParams are the constants of TIMELY.
type TIMELYParams struct {
	Smoothing   float64 // α: weight of the newest RTT difference (Mittal et al., SIGCOMM'15, §4.3)
	Decrease    float64 // β: how strongly the rate is cut
	LowNS       int64   // Tlow: an RTT below always raises the rate
	HighNS      int64   // Thigh: an RTT above always cuts it
	MinRTTNS    int64   // divisor of RTT differences
	AdditiveBps float64 // δ
	HyperBps    float64 // replaces δ after HyperAfter increases in a row
	HyperAfter  int64   // (§4.3.2: hyperactive increase)
}

// timely is the sender of one flow (Mittal et al., SIGCOMM'15, algorithm 1 and §4.3), as in the paper's ns-3:
// it updates the rate once per window, from the RTT of the packet whose ACK ends the window. After the first
// window it only records the RTT.
type timely struct {
	Rates
	windowEnd     int64 // snd_nxt at the last update; an ACK beyond it causes the next
	lastPS        int64 // RTT at the last update
	diffPS        float64
	increases     int64 // in a row
	lowPS, highPS int64 // thresholds on its path
}

func (d *timely) Start(p *Params, l Limits) {
	*d = timely{
		Rates: Rates{l.LineBps, l.LineBps},
		lowPS: (p.TIMELY.LowNS + l.moreNS()) * PSPerNS, highPS: (p.TIMELY.HighNS + l.moreNS()) * PSPerNS,
	}
}

// NextTick implements Sender. Only the ACK that ends a window changes the rate.
func (d *timely) NextTick() int64 { return Never }

func (d *timely) OnAck(p *Params, h *AckInfo) (rateChanged bool) {
	if h.AckedBytes <= d.windowEnd {
		return false
	}
	first := d.windowEnd == 0
	before := d.RateBps
	lastPS := d.lastPS
	d.windowEnd = h.SentBytes
	d.lastPS = h.RTTPS
	if first {
		return false
	}
	c := &p.TIMELY
	d.diffPS = float64((1-c.Smoothing)*d.diffPS) + float64(c.Smoothing*float64(h.RTTPS-lastPS))
	gradient := d.diffPS / float64(c.MinRTTNS*PSPerNS)
	switch {
	case h.RTTPS >= d.lowPS && h.RTTPS > d.highPS:
		d.cut(p, 1-c.Decrease*(1-float64(d.highPS)/float64(h.RTTPS)))
	case h.RTTPS >= d.lowPS && gradient > 0:
		d.cut(p, max(0, 1-float64(c.Decrease*gradient)))
	default:
		stepBps := c.AdditiveBps
		if d.increases >= c.HyperAfter {
			stepBps = c.HyperBps
		}
		d.increases++
		d.RateBps = min(d.LineBps, d.RateBps+stepBps)
	}
	return d.RateBps != before
}

func (d *timely) cut(p *Params, factor float64) {
	d.RateBps = max(p.floorBps(d.LineBps), float64(d.RateBps*factor))
	d.increases = 0
}
