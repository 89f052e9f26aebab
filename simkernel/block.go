package simkernel

import "math/bits"

// A Block describes the waits and marks of consecutive packets of a flow at one hop (in observations) or at
// several (in feedback). A BlockLayout determines which packets.
type Block struct {
	// NICWaitNS is the time by which the host's other flows delayed each packet after pacing and window
	// allowed it. It is used in feedback only. Cases of first hops observe it as WaitNS.
	NICWaitNS int32
	// UpstreamNS is the time that each packet waited before it reached the target. It is used in feedback
	// only, and not for first hops. Packets of one source stay in order.
	UpstreamNS int32
	// WaitNS is the mean time that the packets of the block waited for packets of other flows. In feedback it
	// is the wait behind the target. In observations of a first hop it is the wait for the NIC. Waits for
	// packets of the same flow are excluded, because the ideal FCT includes them.
	WaitNS int32
	// Bit n mod MarkBits of Marks is set if packet n of the flow was marked.
	Marks uint16
	// Denied is the mean share of the line rate that the link denied the flow, as its sender computes it from
	// the link's telemetry, in units of 1/ShareUnit. In feedback it is the maximum over the other links. Only
	// with Traits.Telemetry.
	Denied uint16
}

// ShareUnit is the value of Block.Denied that means the whole line rate.
const ShareUnit = 65_535

// Sizes of blocks.
const (
	MaxBlockBits = 4
	MarkBits     = 1 << MaxBlockBits // bits of Block.Marks
	maxSingles   = 256
)

// A BlockLayout divides the packets of a flow into blocks. Each of the first packets is a block. Later,
// 2^bits packets share a block. With a window of 18 packets:
//
//	packet  0   1   2  …  47   48 … 63   64 … 79   …
//	block   0   1   2  …  47      48        49     …
//
// The packets of the first window leave at line rate, regardless of the network, and queue behind those of
// other flows that start at the same time. The packets of the second window leave as the ACKs of the first
// return, which ends that queue. Within these two windows, waits differ between packets by more than their
// mean, so each packet is described separately. Senders then react at the resolution of a window. A block is
// the largest power of two that is not above a window, and has at most MarkBits packets. At most maxSingles
// packets are described separately, because a larger window fills long paths rather than queues.
//
// The number of separate packets is a multiple of MarkBits, so that the packets of a block have different
// bits in Block.Marks.
type BlockLayout struct {
	singles uint32
	bits    uint8
}

// Layout returns the division of flows into blocks for these parameters.
func (p *Params) Layout() BlockLayout {
	window := p.Packets(p.NominalWindow())
	singles := (2*window + MarkBits - 1) &^ (MarkBits - 1)
	return BlockLayout{uint32(min(singles, maxSingles)), uint8(min(bits.Len64(uint64(window))-1, MaxBlockBits))}
}

// Blocks returns the number of blocks of a flow with the given number of packets.
func (l BlockLayout) Blocks(packets int64) int64 {
	if packets <= int64(l.singles) {
		return packets
	}
	return int64(l.singles) + (packets-int64(l.singles)+1<<l.bits-1)>>l.bits
}

// Packets returns the number of packets in block b of a flow with the given number of packets.
func (l BlockLayout) Packets(packets, b int64) int64 {
	if b < int64(l.singles) {
		return 1
	}
	return min(1<<l.bits, packets-int64(l.singles)-(b-int64(l.singles))<<l.bits)
}

// Of returns the block of packet n of a flow. Both are counted from 0.
func (l BlockLayout) Of(n int64) int64 {
	if n < int64(l.singles) {
		return n
	}
	return int64(l.singles) + (n-int64(l.singles))>>l.bits
}

// Window returns the group of MarkBits consecutive packets that block b belongs to.
func (l BlockLayout) Window(b int) int {
	if b < int(l.singles) {
		return b >> MaxBlockBits
	}
	return (b-int(l.singles))>>(MaxBlockBits-l.bits) + int(l.singles)>>MaxBlockBits
}

// Start returns the number of the first packet in the block of packet n.
func (l BlockLayout) Start(n uint32) uint32 {
	if n < l.singles {
		return n
	}
	return n &^ (1<<l.bits - 1)
}

// End returns the number of the first packet after the block of packet n.
func (l BlockLayout) End(n uint32) uint32 {
	if n < l.singles {
		return n + 1
	}
	return n&^(1<<l.bits-1) + 1<<l.bits
}
