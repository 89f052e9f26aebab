package simkernel

// HPCC is the transport of Li et al. (SIGCOMM'19). Packets and ACKs carry the telemetry of up to five links,
// 42 bytes (§4.1).
const HPCC Transport = 3

var hpccSpec = transportSpec{
	name: "hpcc", version: 3, headerBytes: 42,
	// The constants are those of HPCC's paper (§5.1: η 95%, maxStage 5, W_AI 80 bytes). Only T is that of the
	// networks here: 18,000 B at 10 Gbps.
	defaults: func(p *Params) {
		p.HPCC = HPCCParams{Target: 0.95, MaxStage: 5, AdditiveBytes: 80, BaseRTTNS: 14_400}
	},
	constants: func(p *Params) any { return &p.HPCC },
	keys: func(p *Params) []Key {
		c := &p.HPCC
		return []Key{
			{Name: "target", Unit: Share, Float: &c.Target, Max: 2, Positive: true},
			{Name: "max_stage", Unit: Count, Int: &c.MaxStage, Max: maxCount},
			{Name: "additive_increase", Unit: Number, Float: &c.AdditiveBytes, Max: 1e12},
			{Name: "base_rtt", Unit: Nanoseconds, Int: &c.BaseRTTNS, Min: 1, Max: maxTimeNS},
		}
	},
	newSender: func() Sender { return &hpcc{} },
	Traits:    Traits{Telemetry: true},
}

// HPCCParams are the constants of HPCC.
type HPCCParams struct {
	Target        float64 // η: target utilization (Li et al., SIGCOMM'19, §3.2)
	MaxStage      int64   // additive increases in a row before the utilization sets the rate
	AdditiveBytes float64 // W_AI: added to the window at every step
	BaseRTTNS     int64   // T: the longest RTT of the idle network
}

// Utilization is the share of a switch's link that long flows use.
func (p *Params) Utilization() float64 {
	if p.Transport != HPCC {
		return 1
	}
	return min(1, p.HPCC.Target)
}

// Telemetry is the data that a switch writes into a packet when its service starts (HPCC, §3.1 and §4.1).
type Telemetry struct {
	AtPS      int64
	SentBytes int64 // on the wire, by that link, before the packet
	LeftBytes int64 // on the wire, left behind in the queue
	Bps       float64
	Link      int32
}

// hpcc is the sender of one flow (Li et al., SIGCOMM'19, algorithm 1). It computes the rate instead of the
// window, which follows from the rate. The reference rate follows the utilization of the busiest link once
// per round trip. The ACKs in between compute the rate from it.
//
// A link case has only the telemetry of its own link. The other links are represented by feedback: the share
// of the line rate that they deny the flow, which limits the rate. The cases of those links computed this
// limit. Their utilizations would not respond to the queue of this case.
//
// If other links limit the rate, the case's own link reports the rate that it would allow without them. By
// algorithm 1, this is the reference rate times η / U. The computed rate itself is only a step above the
// limit. If it were reported, it would limit the other links in the next pass, and rates could fall from pass
// to pass but not rise.
type hpcc struct {
	Rates
	refBps    float64     // the rate of W^c
	ownBps    float64     // the rate that the links in the telemetry allow
	aloneBps  float64     // the rate that they would allow if others did not limit it
	use       float64     // U: smoothed utilization; initially 1, as in the authors' simulator
	last      []Telemetry // by link, of the last ACK
	windowEnd int64       // lastUpdateSeq
	stage     int64
	roundPS   float64 // T: of the flow's own path, if the window is fitted to it
	stepBps   float64 // amount that W_AI adds to the rate
}

func (d *hpcc) Start(p *Params, l Limits) {
	lineBps := l.LineBps
	*d = hpcc{
		Rates: Rates{lineBps, lineBps}, refBps: lineBps, ownBps: lineBps, aloneBps: lineBps, use: 1,
		last:    d.last[:0],
		roundPS: float64(p.HPCC.BaseRTTNS * PSPerNS), stepBps: lineBps * p.HPCC.AdditiveBytes / float64(
			l.WindowBytes),
	}
	if l.RoundTripNS > 0 {
		d.roundPS = float64(l.RoundTripNS * PSPerNS)
	}
}

func (d *hpcc) OnAck(p *Params, h *AckInfo) (rateChanged bool) {
	first := d.windowEnd == 0
	known := d.measure(p, h)
	d.last = append(d.last[:0], h.Links...)
	update := h.AckedBytes > d.windowEnd
	if update {
		d.windowEnd = h.SentBytes
	}
	if first {
		return false
	}
	before := d.RateBps
	if known {
		d.compute(p, update)
	}
	othersBps := float64(d.LineBps * (1 - h.Feedback))
	d.RateBps = max(p.floorBps(d.LineBps), min(d.ownBps, othersBps))
	d.aloneBps = d.ownBps
	if othersBps < d.ownBps {
		d.aloneBps = min(d.LineBps, max(d.ownBps, d.refBps*(p.HPCC.Target/d.use)))
	}
	if update {
		d.refBps = d.RateBps
	}
	return d.RateBps != before
}

// compute is ComputeWind of the paper.
func (d *hpcc) compute(p *Params, update bool) {
	c := &p.HPCC
	bps := d.refBps
	if d.use >= c.Target || d.stage >= c.MaxStage {
		bps /= d.use / c.Target
		if update {
			d.stage = 0
		}
	} else if update {
		d.stage++
	}
	bps += d.stepBps
	d.ownBps = min(d.LineBps, max(p.floorBps(d.LineBps), bps))
}

// measure is MeasureInflight of the paper. It updates U from the telemetry of the ACK: the queue of each
// link, in round trips, plus its utilization since the last ACK. It returns false if there is no telemetry,
// or if the last ACK took another path (pathID, §4.1).
func (d *hpcc) measure(p *Params, h *AckInfo) (known bool) {
	roundPS := d.roundPS
	use := -1.0
	tauPS := 0.0
	for i := range min(len(d.last), len(h.Links)) {
		now := &h.Links[i]
		was := &d.last[i]
		if now.Link != was.Link {
			return false
		}
		took := float64(now.AtPS - was.AtPS)
		if took <= 0 {
			continue
		}
		bytesPerPS := now.Bps / 8e12
		queue := float64(min(now.LeftBytes, was.LeftBytes)) / (bytesPerPS * roundPS)
		u := queue + float64(now.SentBytes-was.SentBytes)/(took*bytesPerPS)
		if u > use {
			use = u
			tauPS = min(roundPS, took)
		}
	}
	if use < 0 {
		return false
	}
	weight := tauPS / roundPS
	d.use = float64((1-weight)*d.use) + float64(weight*use)
	return true
}

// Reduction returns the share of the line rate that the links in the telemetry deny the flow.
func (d *hpcc) Reduction() float64 { return 1 - d.aloneBps/d.LineBps }
