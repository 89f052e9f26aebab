package simkernel

import (
	"math"
	"math/bits"
)

// A Block describes what consecutive packets of a flow met at one hop (observation) or at several (feedback).
// BlockLayout says which packets.
type Block struct {
	// NICWaitNS is how long the host's other flows delayed each packet after the time when pacing and window
	// allowed it. Only in feedback; it is observed in FirstHop cases, as their WaitNS.
	NICWaitNS int32
	// UpstreamNS is how long each packet waited on its way to the target. Only in feedback, and not for
	// FirstHop. Packets of one source stay in order.
	UpstreamNS int32
	// WaitNS is how long the packets waited for packets of other flows: the mean over the block. In feedback it
	// is the wait behind the target, in observations of a FirstHop the NIC wait. Waits for packets of the same
	// flow are excluded: the flow has them alone in the network too, so the ideal FCT includes them.
	WaitNS int32
	// Marks has bit n mod markBits set if packet n of the flow was marked.
	Marks uint16
	// Hint is an additional value that some transports need:
	//   - HPCC: the share of the line rate that the link denied the flow, as computed by its sender, in units of
	//     1/shareUnit; the mean over the block.
	//   - TIMELY, which reacts to differences of RTTs: the wait of the block's first packet, in units of hintNS.
	//     (Swift works better with means: with the first packet's wait, each packet of the block would have
	//     to compensate for it.)
	//   - DCQCN, whose ACKs wait in queues: how long, at all links of the way back, in units of hintNS. Only in feedback,
	//     for whoever knows these queues (Result.Queue).
	// JoinHints combines the hints of two links.
	Hint uint16
	// SentAt is when the block's first packet left its host: the time since its flow's start, in units of sentUnitPS,
	// plus 1. 0: unknown. Only with Transport.FeedbackByTime, see leaveAt, and in observations with Transport.AcksQueue.
	SentAt uint32
}

const (
	shareUnit = 65_535
	hintNS    = 16
)

// A hintKind is a content of Block.Hint.
type hintKind uint8

const (
	hintNone      hintKind = iota
	hintReduction          // the share of the line rate that the link denied the flow
	hintFirstWait          // the wait of the block's first packet
	hintAckWait            // what ACKs wait
)

// JoinHints combines the Block.Hint of two links: the sum of waits, or the maximum of shares.
func (t Transport) JoinHints(a, b uint16) uint16 {
	if t.spec().hint == hintFirstWait {
		return uint16(min(math.MaxUint16, uint32(a)+uint32(b)))
	}
	return max(a, b)
}

// waitHint returns the Block.Hint for a wait.
func waitHint(waitPS int64) uint16 {
	return uint16(min(math.MaxUint16, (waitPS/psPerNS+hintNS/2)/hintNS))
}

// AckWaitHint returns the Block.Hint for what an ACK waits, with Transport.AcksQueue.
func AckWaitHint(waitNS int64) uint16 { return waitHint(waitNS * psPerNS) }

// ackWaitPS returns what the ACK of the flow's next packet waits.
func (k *Kernel) ackWaitPS(f *flow) int64 {
	if k.traits.hint != hintAckWait || len(k.c.Feedback) == 0 {
		return 0
	}
	return int64(k.c.Feedback[f.block].Hint) * hintNS * psPerNS
}

const (
	maxBlockBits = 4
	markBits     = 1 << maxBlockBits // bits of Block.Marks
	maxSingles   = 256

	// Blocks of a transport that reacts to differences of consecutive RTTs, which a mean over a window hides. With TIMELY,
	// blocks of two packets instead of four take 1.5 times the memory and 1.25 times the processor time on an incast of
	// 36 M packets; single packets 2.3 times and 1.8 times, and are hardly more accurate (datasets/ACCURACY.md).
	differenceBits = 1
)

// A BlockLayout divides the packets of a flow into blocks. The first packets have one block each, later ones
// share one per 2^bits; with a window of 18 packets:
//
//	packet  0   1   2  …  47   48 … 63   64 … 79   …
//	block   0   1   2  …  47      48        49     …
//
// The packets of the first window leave at line rate, whatever the network does, and queue behind those of
// other flows that start at the same time. The packets of the second leave as the ACKs of the first return,
// which ends that queue. Within these two windows waits differ from packet to packet by more than their mean,
// so they are described singly. Afterwards a mean over a window is the resolution at which senders react: a block is
// the largest power of two that is not above a window, at most markBits packets (differenceBits for TIMELY), so a flow
// of a million packets needs 1/16 of the memory. At most maxSingles packets are single: a window of more packets fills
// long paths rather than queues.
//
// A flow's number of single packets is a multiple of markBits, so that the packets of a block have different
// bits in Block.Marks.
type BlockLayout struct {
	singles uint32
	bits    uint8
}

// Layout returns how flows of these parameters are divided into blocks.
func (p *Params) Layout() BlockLayout {
	window := p.Packets(p.WindowBytes)
	singles := (2*window + markBits - 1) &^ (markBits - 1)
	most := maxBlockBits
	if p.Transport.spec().hint == hintFirstWait {
		most = differenceBits
	}
	return BlockLayout{uint32(min(singles, maxSingles)), uint8(min(bits.Len64(uint64(window))-1, most))}
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

// Window returns which group of markBits consecutive packets of a flow block b is in.
func (l BlockLayout) Window(b int) int {
	if b < int(l.singles) {
		return b >> maxBlockBits
	}
	return (b-int(l.singles))>>(maxBlockBits-l.bits) + int(l.singles)>>maxBlockBits
}

// start returns the number of the first packet in the block of packet n.
func (l BlockLayout) start(n uint32) uint32 {
	if n < l.singles {
		return n
	}
	return n &^ (1<<l.bits - 1)
}

// end returns the number of the first packet after the block of packet n.
func (l BlockLayout) end(n uint32) uint32 {
	if n < l.singles {
		return n + 1
	}
	return n&^(1<<l.bits-1) + 1<<l.bits
}

// MarkBit returns the bit of Block.Marks for packet n of a flow, from 0.
func MarkBit(n int64) int { return int(n & (markBits - 1)) }

// loadBlock reads the feedback of the flow's next packets, block f.block.
func (k *Kernel) loadBlock(f *flow) {
	f.nextBlockAt = k.layout.end(f.head)
	if len(k.c.Feedback) > 0 && f.head < f.timedFrom {
		b := &k.c.Feedback[f.block]
		f.nicWaitPS = int64(b.NICWaitNS) * psPerNS
		f.upstreamPS = int64(b.UpstreamNS) * psPerNS
		f.downstreamPS = int64(b.WaitNS) * psPerNS
		f.marks = b.Marks
	}
}

// advanceBlock ends a block, whose last packet has just been sent, and begins the next one.
func (k *Kernel) advanceBlock(f *flow) {
	k.recordBlock(f, f.nextBlockAt-k.layout.start(f.nextBlockAt-1))
	f.block++
	k.loadBlock(f)
}

// recordBlock records the mean wait of the present block, which has that many packets.
func (k *Kernel) recordBlock(f *flow, packets uint32) {
	if f.waitPS == 0 {
		return // nothing to record: Observed is zero
	}
	if len(k.r.Observed) > 0 && packets > 0 {
		k.recordWait(f.block, f.waitPS, int64(packets))
	}
	f.waitPS = 0
}

// recordWait records the mean wait of a block with that many packets, whose waits sum up to sumPS.
func (k *Kernel) recordWait(block uint32, sumPS, packets int64) {
	mean := sumPS / psPerNS
	if packets > 1 {
		mean = (mean + packets/2) / packets
	}
	k.r.Observed[block].WaitNS = int32(min(mean, math.MaxInt32))
}
