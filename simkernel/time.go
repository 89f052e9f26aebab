package simkernel

import "math"

// Inside the kernel time is an integer number of picoseconds: a full packet takes 838.4 ns at
// 10 Gbps, and rounding that to 838 would make every link 0.05% faster than it is.
const psPerNS = 1000

// A wireTime turns bytes on the wire into the time a link of one bandwidth needs to send them. It
// is a fixed-point number, picoseconds per byte times 2^16, so that the loops need no division;
// its relative error is below 1e-5 up to 100 Tbps.
type wireTime int64

const wireTimeBits = 16

// MinBps is the least bandwidth the kernel can express without overflow for packets of up to 69 KB.
const MinBps = 10_000

// newWireTime is the wireTime of a bandwidth of at least MinBps.
func newWireTime(bps float64) wireTime {
	return wireTime(math.Round(8e12 * (1 << wireTimeBits) / bps))
}

// ps is the time to send that many bytes, in ps.
func (w wireTime) ps(wireBytes int64) int64 {
	return (wireBytes*int64(w) + 1<<(wireTimeBits-1)) >> wireTimeBits
}
