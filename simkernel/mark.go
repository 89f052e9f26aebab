package simkernel

// A RedMark marks packets by random early detection (Floyd and Jacobson, IEEE/ACM ToN 1(4), 1993) on the present
// queue: with a probability that rises from 0 at MinBytes to Share at MaxBytes, and always above.
type RedMark struct {
	MinBytes, MaxBytes int64
	Share              float64
}

// Marks reports whether a packet with the given random number that leaves leftBytes behind is marked.
func (m *RedMark) Marks(leftBytes int64, draw uint64) bool {
	if leftBytes <= m.MinBytes || leftBytes > m.MaxBytes {
		return leftBytes > m.MaxBytes
	}
	return float64(draw>>11)/(1<<53)*float64(m.MaxBytes-m.MinBytes) < m.Share*float64(leftBytes-m.MinBytes)
}

// MixKey combines a key and a number to a key or a random number: the finalizer of splitmix64 (Steele, Lea and
// Flood, OOPSLA'14) over their sum.
func MixKey(a, b uint64) uint64 {
	z := a + (b+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// MarkKey returns Case.MarkKey of a link.
func MarkKey(seed uint64, link int32) uint64 { return MixKey(MixKey(seed, 0x6d61726b), uint64(link)) }
