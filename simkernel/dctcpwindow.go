package simkernel

// DCTCPWindow is DCTCP over windows that are clocked by ACKs, as operating systems run it (RFC 8257). DCTCP has a
// rate instead.
const DCTCPWindow Transport = 7

var dctcpWindowSpec = newDCTCPWindowSpec()

func newDCTCPWindowSpec() transportSpec {
	s := tcpSpec("dctcp-window", 2, func() growth { return &dctcpWindow{} })
	s.version = 6
	tcp := s.keys
	s.keys = func(p *Params) []Key {
		return append(tcp(p), Key{Name: "gain", Unit: Number, Float: &p.Gain, Max: 1, Positive: true},
			Key{Name: "mark_per_gbps", Unit: Bytes, Int: &p.MarkBytesPerGbps, Max: maxMark})
	}
	s.markBytes = func(p *Params) (lo, hi int64) { return p.MarkBytesPerGbps, p.MarkBytesPerGbps }
	return s
}

// dctcpWindow is the state of RFC 8257, §3.3. Without marks its window is that of NewReno.
type dctcpWindow struct {
	newReno
	gain          float64
	alpha         float64
	acked, marked int64 // DCTCP.BytesAcked, DCTCP.BytesMarked
	windowEnd     int64 // DCTCP.WindowEnd
	una           int64 // SND.UNA
}

func (d *dctcpWindow) start(p *Params) { *d = dctcpWindow{gain: p.Gain, alpha: 1} }

// observe is steps 1 to 8. The conversions prevent fused multiply-add.
func (d *dctcpWindow) observe(a *TCPAck) {
	newBytes := a.AckedBytes - d.una // step 1: SACKs do not count
	d.una = a.AckedBytes
	d.acked += newBytes
	if a.Marked {
		d.marked += newBytes
	}
	if a.AckedBytes > d.windowEnd && d.acked > 0 {
		share := float64(d.marked) / float64(d.acked)
		d.alpha = float64((1-d.gain)*d.alpha) + float64(d.gain*share)
		d.windowEnd, d.acked, d.marked = a.SentBytes, 0, 0
	}
}

// cut is step 9: cwnd × (1 - α/2).
func (d *dctcpWindow) cut(t *TCP) int64 {
	t.credit = 0
	return max(int64(float64(t.windowB)*(1-d.alpha/2)), 2*t.smss)
}
