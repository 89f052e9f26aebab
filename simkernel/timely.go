package simkernel

import "fmt"

// TIMELYParams are the constants of TIMELY.
type TIMELYParams struct {
	Smoothing   float64 // α: weight of the newest difference of RTTs (Mittal et al., SIGCOMM'15, §4.3)
	Decrease    float64 // β: how strongly the rate is cut
	LowNS       int64   // Tlow: an RTT below always raises the rate
	HighNS      int64   // Thigh: one above always cuts it
	MinRTTNS    int64   // what differences of RTTs are divided by
	AdditiveBps float64 // δ
	HyperBps    float64 // in δ's place after HyperAfter increases in a row
	HyperAfter  int64   // (§4.3.2: hyperactive increase)
}

// DefaultTIMELY are the constants of the paper's TIMELY runs in ns-3, with hosts of 10 Gbps.
func DefaultTIMELY() TIMELYParams {
	return TIMELYParams{
		Smoothing: 0.875, Decrease: 0.8, LowNS: 50_000, HighNS: 500_000, MinRTTNS: 20_000,
		AdditiveBps: 10e6, HyperBps: 50e6, HyperAfter: 5,
	}
}

func (c *TIMELYParams) validate() error {
	switch {
	case !(c.Smoothing >= 0 && c.Smoothing <= 1):
		return fmt.Errorf("timely smoothing is %v, must be 0 to 1", c.Smoothing)
	case !(c.Decrease >= 0 && c.Decrease <= 1):
		return fmt.Errorf("timely decrease is %v, must be 0 to 1", c.Decrease)
	case c.LowNS < 0 || c.HighNS < c.LowNS || c.HighNS > 1e12:
		return fmt.Errorf("timely thresholds are %d and %d ns, must be 0 to 1,000 s and in order", c.LowNS, c.HighNS)
	case c.MinRTTNS < 1 || c.MinRTTNS > 1e12:
		return fmt.Errorf("timely min_rtt is %d ns, must be 1 ns to 1,000 s", c.MinRTTNS)
	case !(c.AdditiveBps >= 0 && c.AdditiveBps <= 1e15), !(c.HyperBps >= 0 && c.HyperBps <= 1e15):
		return fmt.Errorf("timely increases are %v and %v bps, must be 0 to 1e15", c.AdditiveBps, c.HyperBps)
	case c.HyperAfter < 0 || c.HyperAfter > 1e9:
		return fmt.Errorf("timely hyper_after is %d, must be 0 to 1e9", c.HyperAfter)
	}
	return nil
}

// timely is the sender of one flow: TIMELY (Mittal et al., SIGCOMM'15, algorithm 1 and §4.3) as the
// paper's ns-3 has it: one update a window, by the RTT of the packet whose ACK ends it. The first
// window only notes its RTT.
type timely struct {
	rateBps, lineBps float64
	windowEnd        int64 // snd_nxt at the last update; an ACK beyond it makes the next
	lastPS           int64 // RTT at the last update
	diffPS           float64
	increases        int64 // in a row
}

func (d *timely) start(_ *Params, lineBps float64, _ int) {
	*d = timely{rateBps: lineBps, lineBps: lineBps}
}

func (d *timely) tick(*Params, int64) bool { return false }

func (d *timely) nextTick() int64 { return never }

func (d *timely) rate() (rateBps, lineBps float64) { return d.rateBps, d.lineBps }

func (d *timely) onAck(p *Params, h *ackInfo) (rateChanged bool) {
	if h.ackedBytes <= d.windowEnd {
		return false
	}
	first := d.windowEnd == 0
	before, lastPS := d.rateBps, d.lastPS
	d.windowEnd, d.lastPS = h.sentBytes, h.rttPS
	if first {
		return false
	}
	c := &p.TIMELY
	d.diffPS = float64((1-c.Smoothing)*d.diffPS) + float64(c.Smoothing*float64(h.rttPS-lastPS))
	gradient := d.diffPS / float64(c.MinRTTNS*psPerNS)
	switch {
	case h.rttPS >= c.LowNS*psPerNS && h.rttPS > c.HighNS*psPerNS:
		d.cut(p, 1-c.Decrease*(1-float64(c.HighNS*psPerNS)/float64(h.rttPS)))
	case h.rttPS >= c.LowNS*psPerNS && gradient > 0:
		d.cut(p, max(0, 1-float64(c.Decrease*gradient)))
	default:
		stepBps := c.AdditiveBps
		if d.increases >= c.HyperAfter {
			stepBps = c.HyperBps
		}
		d.increases++
		d.rateBps = min(d.lineBps, d.rateBps+stepBps)
	}
	return d.rateBps != before
}

func (d *timely) cut(p *Params, factor float64) {
	d.rateBps = max(p.floorBps(d.lineBps), float64(d.rateBps*factor))
	d.increases = 0
}
