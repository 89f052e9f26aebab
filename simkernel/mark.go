package simkernel

// A redMark marks packets by random early detection (Floyd and Jacobson, IEEE/ACM ToN 1(4), 1993) on the present
// queue: with a probability that rises from 0 at minBytes to share at maxBytes, and always above.
type redMark struct {
	minBytes, maxBytes int64
	share              float64
}

// marks reports whether a packet with the given random number that leaves leftBytes behind is marked.
func (m *redMark) marks(leftBytes int64, draw uint64) bool {
	if leftBytes <= m.minBytes || leftBytes > m.maxBytes {
		return leftBytes > m.maxBytes
	}
	return float64(draw>>11)/(1<<53)*float64(m.maxBytes-m.minBytes) < m.share*float64(leftBytes-m.minBytes)
}

// mixKey combines a key and a number to a key or a random number: the finalizer of splitmix64 (Steele, Lea and
// Flood, OOPSLA'14) over their sum.
func mixKey(a, b uint64) uint64 {
	z := a + (b+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// MarkKey returns Case.MarkKey of a link.
func MarkKey(seed uint64, link int32) uint64 { return mixKey(mixKey(seed, 0x6d61726b), uint64(link)) }
