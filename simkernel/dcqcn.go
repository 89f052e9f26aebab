package simkernel

import "fmt"

// DCQCN is the transport of Zhu et al. (SIGCOMM'15), as in the paper's ns-3.
const DCQCN Transport = 1

var dcqcnSpec = transportSpec{
	name: "dcqcn", version: 3,
	// The defaults are those of the paper's DCQCN runs in ns-3, with hosts of 10 Gbps. Marking follows the
	// behavior of those runs, not their configuration. They configure random early detection from 4 to 16 KB
	// per Gbps, up to 20%, but the simulator marks at DCTCP's single threshold. With that threshold, the
	// queues of a few flows agree to 0.1 µs. With the configured ones, they are twice as long.
	defaults: func(p *Params) {
		p.DCQCN = DCQCNParams{
			Gain: 1.0 / 256, AlphaNS: 50_000, DecreaseNS: 50_000, IncreaseNS: 55_000,
			AdditiveBps: 2e6, HyperBps: 20e6,
			MinMarkPerGbps: 3000, MaxMarkPerGbps: 3000, MaxMarking: 0.2,
		}
	},
	constants: func(p *Params) any { return &p.DCQCN },
	keys: func(p *Params) []Key {
		c := &p.DCQCN
		return []Key{
			{Name: "gain", Unit: Number, Float: &c.Gain, Min: 1e-6, Max: 1},
			{Name: "alpha_timer", Unit: Nanoseconds, Int: &c.AlphaNS, Min: 1000, Max: maxTimeNS},
			{Name: "decrease_timer", Unit: Nanoseconds, Int: &c.DecreaseNS, Min: 1000, Max: maxTimeNS},
			{Name: "increase_timer", Unit: Nanoseconds, Int: &c.IncreaseNS, Min: 1000, Max: maxTimeNS},
			{Name: "additive_increase", Unit: BitsPerSec, Float: &c.AdditiveBps, Max: maxBps},
			{Name: "hyper_increase", Unit: BitsPerSec, Float: &c.HyperBps, Max: maxBps},
			{Name: "min_mark_per_gbps", Unit: Bytes, Int: &c.MinMarkPerGbps, Max: maxMark},
			{Name: "max_mark_per_gbps", Unit: Bytes, Int: &c.MaxMarkPerGbps, Max: maxMark},
			{Name: "max_marking", Unit: Share, Float: &c.MaxMarking, Max: 1},
		}
	},
	check: func(p *Params) error {
		c := &p.DCQCN
		if c.MaxMarkPerGbps < c.MinMarkPerGbps {
			return fmt.Errorf("dcqcn marks from %d to %d bytes per Gbps, must be in ascending order", c.MinMarkPerGbps,
				c.MaxMarkPerGbps)
		}
		return nil
	},
	newSender: func() Sender { return &dcqcn{} },
	markBytes: func(p *Params) (lo, hi int64) { return p.DCQCN.MinMarkPerGbps, p.DCQCN.MaxMarkPerGbps },
	Traits:    Traits{RandomMarks: true, AcksQueue: true, Timers: true},
}

// DCQCNParams are the constants of DCQCN.
type DCQCNParams struct {
	Gain           float64 // g, of alpha (Zhu et al., SIGCOMM'15, §3.1)
	AlphaNS        int64   // timer of alpha
	DecreaseNS     int64   // timer of rate decreases
	IncreaseNS     int64   // timer of rate increases
	AdditiveBps    float64 // increase of the target rate at the second tick of that timer
	HyperBps       float64 // and at later ticks
	MinMarkPerGbps int64   // Kmin, bytes per Gbps of a link's total bandwidth: no packet is marked below
	MaxMarkPerGbps int64   // Kmax: every packet is marked above
	MaxMarking     float64 // probability of a mark at Kmax
}

// dcqcn is the sender of one flow (Zhu et al., SIGCOMM'15, §3.1 and figure 7), as in the paper's ns-3: the
// ACK of a marked packet is the CNP, only timers raise the rate, and a cut waits for the next tick of the
// decrease timer.
//
//   - The first CNP sets α to 1 and starts the timers of α and, 1 ns later, of decreases.
//   - α timer: α ← (1 − g)α, + g if a CNP has come since the last tick.
//   - Decrease timer, if a CNP has come since: target ← rate (not again before the first increase after a
//     cut), rate ← rate (1 − α/2); the sequence of increases restarts.
//   - Increase timer: target ← target + 0, AdditiveBps, and HyperBps from then on; rate ← (rate + target) /
//     2.
//
// Timers are not events: tick applies all ticks up to a time. This is exact, because the rate is only read
// after tick, when the flow sends or receives an ACK.
type dcqcn struct {
	Rates
	targetBps           float64
	alpha               float64
	alphaPS, decreasePS int64 // next ticks; Never before the first CNP
	increasePS          int64 // Never before the first cut
	firstPS             int64 // the least of them
	stage               int64 // increases since the last cut
	cnpAlpha, cnpCut    bool  // a CNP has come since the last tick
}

// alphaGone is an alpha so small that a cut by half of it does not change any rate.
const alphaGone = 1.0 / (1 << 60)

func (d *dcqcn) Start(_ *Params, l Limits) {
	*d = dcqcn{
		Rates: Rates{l.LineBps, l.LineBps}, targetBps: l.LineBps,
		alphaPS: Never, decreasePS: Never, increasePS: Never, firstPS: Never,
	}
}

func (d *dcqcn) NextTick() int64 { return d.firstPS }

func (d *dcqcn) OnAck(p *Params, h *AckInfo) (rateChanged bool) {
	if !h.Marked {
		return false
	}
	d.cnpAlpha = true
	d.cnpCut = true
	if d.alphaPS == Never {
		d.alpha = 1
		d.cnpAlpha = false
		d.targetBps = d.RateBps
		d.alphaPS = h.NowPS + p.DCQCN.AlphaNS*PSPerNS
		d.decreasePS = h.NowPS + (p.DCQCN.DecreaseNS+1)*PSPerNS
		d.firstPS = min(d.alphaPS, d.decreasePS)
	}
	return false
}

func (d *dcqcn) Tick(p *Params, nowPS int64) (rateChanged bool) {
	before := d.RateBps
	for d.firstPS <= nowPS {
		switch d.firstPS {
		case d.alphaPS:
			d.tickAlpha(p, nowPS)
		case d.decreasePS:
			d.tickDecrease(p, nowPS)
		default:
			d.tickIncrease(p, nowPS)
		}
		d.firstPS = min(d.alphaPS, d.decreasePS, d.increasePS)
	}
	return d.RateBps != before
}

func (d *dcqcn) tickAlpha(p *Params, nowPS int64) {
	c := &p.DCQCN
	everyPS := c.AlphaNS * PSPerNS
	d.alpha = float64((1 - c.Gain) * d.alpha)
	if d.cnpAlpha {
		d.alpha += c.Gain
	} else if d.alpha < alphaGone {
		d.alpha = 0
		d.alphaPS = lastTick(d.alphaPS, everyPS, nowPS)
	}
	d.cnpAlpha = false
	d.alphaPS += everyPS
}

func (d *dcqcn) tickDecrease(p *Params, nowPS int64) {
	c := &p.DCQCN
	everyPS := c.DecreaseNS * PSPerNS
	if !d.cnpCut { // and none will by nowPS
		d.decreasePS = lastTick(d.decreasePS, everyPS, nowPS) + everyPS
		return
	}
	d.cnpCut = false
	if d.stage > 0 {
		d.targetBps = d.RateBps
	}
	d.RateBps = max(p.floorBps(d.LineBps), float64(d.RateBps*(1-d.alpha/2)))
	d.stage = 0
	d.increasePS = d.decreasePS + c.IncreaseNS*PSPerNS
	d.decreasePS += everyPS
}

func (d *dcqcn) tickIncrease(p *Params, nowPS int64) {
	c := &p.DCQCN
	everyPS := c.IncreaseNS * PSPerNS
	rate := d.RateBps
	target := d.targetBps
	switch {
	case d.stage == 1:
		d.targetBps = min(d.LineBps, d.targetBps+c.AdditiveBps)
	case d.stage > 1:
		d.targetBps = min(d.LineBps, d.targetBps+c.HyperBps)
	}
	d.RateBps = (d.RateBps + d.targetBps) / 2
	d.stage++
	if d.stage > 2 && d.RateBps == rate && d.targetBps == target && !d.cnpCut {
		d.increasePS = lastTick(d.increasePS, everyPS, nowPS) // later ticks change nothing either
	}
	d.increasePS += everyPS
}

// lastTick returns the last tick, not after nowPS, of a timer that ticks at atPS <= nowPS and every everyPS
// after that.
func lastTick(atPS, everyPS, nowPS int64) int64 {
	return nowPS - (nowPS-atPS)%everyPS
}
