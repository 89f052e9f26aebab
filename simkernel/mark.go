package simkernel

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
