package simkernel

import "math/bits"

// A Block describes what consecutive packets of a flow met at one hop (observation) or at several (feedback).
// BlockLayout says which packets.
type Block struct {
	// NICWaitNS is how long the host's other flows delayed each packet after the time when pacing and window
	// allowed it. Only in feedback; it is observed in the cases of first hops, as their WaitNS.
	NICWaitNS int32
	// UpstreamNS is how long each packet waited on its way to the target. Only in feedback, and not for a
	// first hop. Packets of one source stay in order.
	UpstreamNS int32
	// WaitNS is how long the packets waited for packets of other flows: the mean over the block. In feedback
	// it is the wait behind the target, in observations of a first hop the NIC wait. Waits for packets of the
	// same flow are excluded: the flow has them alone in the network too, so the ideal FCT includes them.
	WaitNS int32
	// Marks has bit n mod MarkBits set if packet n of the flow was marked.
	Marks uint16
	// Denied is the share of the line rate that the link denied the flow, as its sender computes it from the
	// link's telemetry, in units of 1/ShareUnit: the mean over the block. In feedback it is the maximum over
	// the other links. Only with Traits.Telemetry.
	Denied uint16
}

// ShareUnit is a Block.Denied of one.
const ShareUnit = 65_535

// Sizes of blocks.
const (
	MaxBlockBits = 4
	MarkBits     = 1 << MaxBlockBits // bits of Block.Marks
	maxSingles   = 256
)

// A BlockLayout divides the packets of a flow into blocks. The first packets have one block each, later ones
// share one per 2^bits; with a window of 18 packets:
//
//	packet  0   1   2  …  47   48 … 63   64 … 79   …
//	block   0   1   2  …  47      48        49     …
//
// The packets of the first window leave at line rate, regardless of the network, and queue behind those of
// other flows that start at the same time. The packets of the second leave as the ACKs of the first return,
// which ends that queue. Within these two windows waits differ from packet to packet by more than their mean,
// so they are described singly. Afterwards a mean over a window is the resolution at which senders react: a
// block is the largest power of two that is not above a window, at most MarkBits packets. At most maxSingles
// packets are single: a window of more packets fills long paths rather than queues.
//
// A flow's number of single packets is a multiple of MarkBits, so that the packets of a block have different
// bits in Block.Marks.
type BlockLayout struct {
	singles uint32
	bits    uint8
}

// Layout returns how flows of these parameters are divided into blocks.
func (p *Params) Layout() BlockLayout {
	window := p.Packets(p.NominalWindow())
	singles := (2*window + MarkBits - 1) &^ (MarkBits - 1)
	return BlockLayout{uint32(min(singles, maxSingles)), uint8(min(bits.Len64(uint64(window))-1, MaxBlockBits))}
}

// Blocks returns the number of blocks of a flow with that many packets.
func (l BlockLayout) Blocks(packets int64) int64 {
	if packets <= int64(l.singles) {
		return packets
	}
	return int64(l.singles) + (packets-int64(l.singles)+1<<l.bits-1)>>l.bits
}

// Packets returns the number of packets in block b of a flow with that many packets.
func (l BlockLayout) Packets(packets, b int64) int64 {
	if b < int64(l.singles) {
		return 1
	}
	return min(1<<l.bits, packets-int64(l.singles)-(b-int64(l.singles))<<l.bits)
}

// Of returns the block of packet n of a flow, both from 0.
func (l BlockLayout) Of(n int64) int64 {
	if n < int64(l.singles) {
		return n
	}
	return int64(l.singles) + (n-int64(l.singles))>>l.bits
}

// Window returns which group of MarkBits consecutive packets of a flow block b is in.
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
