package simkernel

import "math"

// PSPerNS is the resolution of time inside the simulators, an integer number of picoseconds: a full packet takes
// 838.4 ns at 10 Gbps, and rounding to 838 ns would make every link 0.05% faster.
const PSPerNS = 1000

// A WireTime converts bytes on the wire to the time that a link of one bandwidth needs to send them. It is a
// fixed-point number, picoseconds per byte times 2^16, which saves divisions in the loops. Its relative error
// is below 1e-5 up to 100 Tbps.
type WireTime int64

const wireTimeBits = 16

// MinBps is the least bandwidth that can be expressed without overflow for packets of up to 69 KB.
const MinBps = 10_000

// NewWireTime returns the WireTime of a bandwidth of at least MinBps.
func NewWireTime(bps float64) WireTime {
	return WireTime(math.Round(8e12 * (1 << wireTimeBits) / bps))
}

// PS returns the time to send wireBytes, in ps.
func (w WireTime) PS(wireBytes int64) int64 {
	return (wireBytes*int64(w) + 1<<(wireTimeBits-1)) >> wireTimeBits
}

// sendNS returns the time to send wireBytes, rounded to ns.
func (w WireTime) sendNS(wireBytes int64) int64 { return (w.PS(wireBytes) + PSPerNS/2) / PSPerNS }
