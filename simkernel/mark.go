package simkernel

// MarkBytes returns the marking thresholds of a link with the given total bandwidth and propagation delay. A
// packet is marked if more wire bytes than from are in the queue behind it when its service starts (DCTCP: 3
// KB per Gbps by default, 30 KB at 10 Gbps). With random marks (Traits.RandomMarks), it may be marked above
// from and is always marked above always. For transports without marks, the thresholds cannot be reached. If
// the windows of long paths are fitted to them, long links mark from markRoundTrips on, unless the thresholds
// are stated (StatedMarks).
func (p *Params) MarkBytes(bandwidthBps, delayNS int64) (from, always int64) {
	of := p.Transport.spec().markBytes
	if of == nil {
		return Unreachable, Unreachable
	}
	from, always = of(p)
	from = PerGbps(from, bandwidthBps)
	always = PerGbps(always, bandwidthBps)
	if p.WANWindowBytes == AutoWindow && !p.StatedMarks {
		long := int64(float64(bandwidthBps) / 8e9 * float64(2*delayNS) * markRoundTrips)
		from = max(from, long)
		always = max(always, long)
	}
	return from, always
}

// PerGbps converts a threshold per Gbps to a bandwidth.
func PerGbps(bytes, bandwidthBps int64) int64 {
	const gbps = 1_000_000_000 // split, because the product of the largest valid values overflows
	return bytes*(bandwidthBps/gbps) + bytes*(bandwidthBps%gbps)/gbps
}

// A MarkRule marks packets by random early detection (Floyd and Jacobson, IEEE/ACM ToN 1(4), 1993) on the
// present queue. The probability rises from 0 at MinBytes to Share at MaxBytes, and is 1 above.
type MarkRule struct {
	MinBytes, MaxBytes int64
	Share              float64
}

// Marks reports whether a packet with the given random number is marked if it leaves leftBytes behind.
func (m *MarkRule) Marks(leftBytes int64, draw uint64) bool {
	if leftBytes <= m.MinBytes || leftBytes > m.MaxBytes {
		return leftBytes > m.MaxBytes
	}
	return float64(draw>>11)/(1<<53)*float64(m.MaxBytes-m.MinBytes) < m.Share*float64(leftBytes-m.MinBytes)
}

// MarkRule returns the rule for two thresholds of MarkBytes. Only random marks (Traits.RandomMarks), which
// are those of DCQCN, use Share and MaxBytes. Otherwise each packet above MinBytes is marked.
func (p *Params) MarkRule(from, always int64) MarkRule {
	return MarkRule{MinBytes: from, MaxBytes: always, Share: p.DCQCN.MaxMarking}
}
