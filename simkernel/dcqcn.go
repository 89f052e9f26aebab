package simkernel

import "fmt"

// DCQCNParams are the constants of DCQCN.
type DCQCNParams struct {
	Gain           float64 // g, of alpha (Zhu et al., SIGCOMM'15, §3.1)
	AlphaNS        int64   // timer of alpha
	DecreaseNS     int64   // timer of rate decreases
	IncreaseNS     int64   // timer of rate increases
	AdditiveBps    float64 // increase of the target rate at the second tick of that timer
	HyperBps       float64 // and at later ones
	MinMarkPerGbps int64   // Kmin, bytes per Gbps of a link's total bandwidth: below, no packet is marked
	MaxMarkPerGbps int64   // Kmax: above, every packet is
	MaxMarking     float64 // share marked at Kmax
}

// DefaultDCQCN are the constants of the paper's DCQCN runs in ns-3, with hosts of 10 Gbps. Marking is
// as those runs show it: by one threshold, DCTCP's. Their configuration asks for random early
// detection from 4 to 16 KB per Gbps, up to 20%, but the simulator marks the same whatever it is
// asked for: queues of a few flows follow it to 0.1 µs with this threshold, and are twice as long
// with the other ones.
func DefaultDCQCN() DCQCNParams {
	return DCQCNParams{
		Gain: 1.0 / 256, AlphaNS: 50_000, DecreaseNS: 50_000, IncreaseNS: 55_000,
		AdditiveBps: 2e6, HyperBps: 20e6,
		MinMarkPerGbps: 3000, MaxMarkPerGbps: 3000, MaxMarking: 0.2,
	}
}

func (c *DCQCNParams) validate() error {
	switch {
	case !(c.Gain >= 1e-6 && c.Gain <= 1):
		return fmt.Errorf("dcqcn gain is %v, must be 1e-6 to 1", c.Gain)
	case !timerOK(c.AlphaNS), !timerOK(c.DecreaseNS), !timerOK(c.IncreaseNS):
		return fmt.Errorf("dcqcn timers are %d, %d and %d ns, must be 1,000 ns to 1,000 s", c.AlphaNS, c.DecreaseNS, c.IncreaseNS)
	case !(c.AdditiveBps >= 0 && c.AdditiveBps <= 1e15), !(c.HyperBps >= 0 && c.HyperBps <= 1e15):
		return fmt.Errorf("dcqcn increases are %v and %v bps, must be 0 to 1e15", c.AdditiveBps, c.HyperBps)
	case c.MinMarkPerGbps < 0 || c.MaxMarkPerGbps < c.MinMarkPerGbps || c.MaxMarkPerGbps > 1<<30:
		return fmt.Errorf("dcqcn marks from %d to %d bytes per Gbps, must be 0 to 2^30 and in order", c.MinMarkPerGbps, c.MaxMarkPerGbps)
	case !(c.MaxMarking >= 0 && c.MaxMarking <= 1):
		return fmt.Errorf("dcqcn marks up to %v, must be 0 to 1", c.MaxMarking)
	}
	return nil
}

func timerOK(ns int64) bool { return ns >= 1000 && ns <= 1e12 }

// dcqcn is the sender of one flow: DCQCN (Zhu et al., SIGCOMM'15, §3.1 and figure 7) as the paper's
// ns-3 has it, where the ACK of each marked packet is the CNP, timers alone raise the rate, and a
// cut waits for the next tick of the decrease timer.
//
//   - The first CNP sets alpha to 1 and starts the timers of alpha and, 1 ns later, of decreases.
//   - alpha: α ← (1 − g)α, + g if a CNP came since the last tick.
//   - decrease, if a CNP came since: target ← rate (not again before the first increase after a
//     cut), rate ← rate (1 − α/2); the increases begin anew.
//   - increase: target ← target + nothing, AdditiveBps, and HyperBps ever after; rate ← (rate +
//     target) / 2.
//
// The timers are no events: tick does at once what they would have done by a moment. Nothing can
// tell, since the rate is only looked at when the flow hears or sends, after tick. A flow that has
// ackInfo nothing for long costs no more than the ticks until its rate stands still.
type dcqcn struct {
	rateBps, lineBps, targetBps float64
	alpha                       float64
	alphaPS, decreasePS         int64 // next ticks; never before the first CNP
	increasePS                  int64 // never before the first cut
	firstPS                     int64 // the least of them
	stage                       int64 // increases since the last cut
	cnpAlpha, cnpCut            bool  // a CNP came since the last tick
}

// alphaGone: a cut by half of it changes no rate.
const alphaGone = 1.0 / (1 << 60)

func (d *dcqcn) start(_ *Params, lineBps float64, _ int) {
	*d = dcqcn{
		rateBps: lineBps, lineBps: lineBps, targetBps: lineBps,
		alphaPS: never, decreasePS: never, increasePS: never, firstPS: never,
	}
}

func (d *dcqcn) rate() (rateBps, lineBps float64) { return d.rateBps, d.lineBps }

func (d *dcqcn) nextTick() int64 { return d.firstPS }

func (d *dcqcn) onAck(p *Params, h *ackInfo) (rateChanged bool) {
	if !h.marked {
		return false
	}
	d.cnpAlpha, d.cnpCut = true, true
	if d.alphaPS == never {
		d.alpha, d.cnpAlpha = 1, false
		d.targetBps = d.rateBps
		d.alphaPS = h.nowPS + p.DCQCN.AlphaNS*psPerNS
		d.decreasePS = h.nowPS + (p.DCQCN.DecreaseNS+1)*psPerNS
		d.firstPS = min(d.alphaPS, d.decreasePS)
	}
	return false
}

func (d *dcqcn) tick(p *Params, nowPS int64) (rateChanged bool) {
	before := d.rateBps
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
	return d.rateBps != before
}

func (d *dcqcn) tickAlpha(p *Params, nowPS int64) {
	c := &p.DCQCN
	everyPS := c.AlphaNS * psPerNS
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
	everyPS := c.DecreaseNS * psPerNS
	if !d.cnpCut { // nor will one come by now
		d.decreasePS = lastTick(d.decreasePS, everyPS, nowPS) + everyPS
		return
	}
	d.cnpCut = false
	if d.stage > 0 {
		d.targetBps = d.rateBps
	}
	d.rateBps = max(p.floorBps(d.lineBps), float64(d.rateBps*(1-d.alpha/2)))
	d.stage = 0
	d.increasePS = d.decreasePS + c.IncreaseNS*psPerNS
	d.decreasePS += everyPS
}

func (d *dcqcn) tickIncrease(p *Params, nowPS int64) {
	c := &p.DCQCN
	everyPS := c.IncreaseNS * psPerNS
	rate, target := d.rateBps, d.targetBps
	switch {
	case d.stage == 1:
		d.targetBps = min(d.lineBps, d.targetBps+c.AdditiveBps)
	case d.stage > 1:
		d.targetBps = min(d.lineBps, d.targetBps+c.HyperBps)
	}
	d.rateBps = (d.rateBps + d.targetBps) / 2
	if d.stage++; d.stage > 2 && d.rateBps == rate && d.targetBps == target && !d.cnpCut {
		d.increasePS = lastTick(d.increasePS, everyPS, nowPS) // nor will the next ones change it
	}
	d.increasePS += everyPS
}

// lastTick is the last tick by now of a timer that ticks at atPS, which is by now, and every so often.
func lastTick(atPS, everyPS, nowPS int64) int64 {
	return nowPS - (nowPS-atPS)%everyPS
}

// A redMark says how a link marks DCQCN's packets by random early detection (Floyd and Jacobson, IEEE/ACM
// ToN 1(4), 1993) on the present queue: with a probability that rises from 0 at
// minBytes to share at maxBytes, and always above. The draw is made before the packet comes: it has
// a threshold of its own, and is marked if more than that is left behind it.
type redMark struct {
	minBytes, maxBytes int64
	share              float64
}

// marks says whether a packet of that draw is marked that leaves so much behind.
func (m *redMark) marks(leftBytes int64, draw uint64) bool {
	if leftBytes <= m.minBytes || leftBytes > m.maxBytes {
		return leftBytes > m.maxBytes
	}
	return float64(draw>>11)/(1<<53)*float64(m.maxBytes-m.minBytes) < m.share*float64(leftBytes-m.minBytes)
}

// mixKey makes a key of two, or a draw of a key and a number: the finalizer of splitmix64 (Steele,
// Lea and Flood, OOPSLA'14) over a sum.
func mixKey(a, b uint64) uint64 {
	z := a + (b+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// MarkKey is the key of the draws of marks at a link.
func MarkKey(seed uint64, link int32) uint64 { return mixKey(mixKey(seed, 0x6d61726b), uint64(link)) }
