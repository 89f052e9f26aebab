package simkernel

// DCTCP is the default transport. It is DCTCP (Alizadeh et al., SIGCOMM'10) with a rate instead of a window,
// as in rate-based NICs and in the paper's ns-3. Its constants are fields of Params. A scenario file may set
// them, as small.yaml does.
const DCTCP Transport = 0

var dctcpSpec = transportSpec{
	name: "dctcp", version: 1,
	defaults: func(p *Params) {
		p.Gain = 1.0 / 16
		p.AdditiveIncreaseBps = 615e6
		p.MarkBytesPerGbps = 3000
	},
	keys: func(p *Params) []Key {
		return []Key{
			{Name: "gain", Unit: Number, Float: &p.Gain, Max: 1, Positive: true},
			{Name: "additive_increase", Unit: BitsPerSec, Float: &p.AdditiveIncreaseBps, Max: maxBps},
			{Name: "mark_per_gbps", Unit: Bytes, Int: &p.MarkBytesPerGbps, Max: maxMark},
		}
	},
	newSender: func() Sender { return &DCTCPSender{} },
	markBytes: func(p *Params) (lo, hi int64) { return p.MarkBytesPerGbps, p.MarkBytesPerGbps },
	Traits:    Traits{Embedded: true},
}

// DCTCPSender is the sender of one flow. Update is OnAck without the parts of AckInfo that DCTCP does not
// use. It may be skipped for ACKs that are not marked and not beyond windowEnd.
type DCTCPSender struct {
	Rates
	alpha     float64 // smoothed share of marked packets, initially 1
	windowEnd int64   // snd_nxt at the end of the last window; an ACK beyond it ends the next one
	cutEnd    int64   // snd_nxt at the last cut: no further cut until an ACK is beyond it
	marked    uint32  // marked ACKs since the last update of alpha
	batch     uint32  // number of packets of the present window
	cut       bool    // between a cut and the ACK beyond cutEnd

	atLine int64 // window at line rate, in bytes
}

// Start sets the sender to line rate.
func (d *DCTCPSender) Start(_ *Params, l Limits) {
	*d = DCTCPSender{Rates: Rates{l.LineBps, l.LineBps}, alpha: 1, atLine: l.WindowBytes}
}

// OnAck implements Sender.
func (d *DCTCPSender) OnAck(p *Params, h *AckInfo) bool {
	return d.Update(p, h.AckedBytes, h.SentBytes, h.Marked)
}

// Update processes one ACK.
func (d *DCTCPSender) Update(p *Params, ackedBytes, sentBytes int64, marked bool) (rateChanged bool) {
	if marked {
		d.marked++
	}
	windowEnds := ackedBytes > d.windowEnd
	if windowEnds {
		batchBytes := sentBytes // like ns-3, the first window includes what is acknowledged
		if d.windowEnd != 0 {
			share := min(1, float64(d.marked)/float64(d.batch))
			// The conversions prevent fused multiply-add, so that all machines compute the same bits.
			d.alpha = float64((1-p.Gain)*d.alpha) + float64(p.Gain*share)
			d.marked = 0
			batchBytes -= ackedBytes
		}
		d.windowEnd = sentBytes
		d.batch = uint32(batchBytes/p.PayloadBytes + 1)
	}
	if d.cut && ackedBytes > d.cutEnd {
		d.cut = false
	}
	before := d.RateBps
	if !d.cut {
		if marked {
			d.RateBps = max(p.floorBps(d.LineBps), float64(d.RateBps*(1-d.alpha/2)))
			d.cut = true
			d.cutEnd = sentBytes
		} else if windowEnds {
			d.RateBps = min(d.LineBps, d.RateBps+p.AdditiveIncreaseBps)
		}
	}
	return d.RateBps != before
}

// WindowEnds reports whether an ACK with this number ends a window. An ACK that does not, and is not marked,
// changes nothing.
func (d *DCTCPSender) WindowEnds(ackedBytes int64) bool { return ackedBytes > d.windowEnd }

// Window returns the number of payload bytes that may be in flight at the present rate.
func (d *DCTCPSender) Window() int64 { return windowAt(d.atLine, d.RateBps, d.LineBps) }
