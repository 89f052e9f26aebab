package simkernel

import "math"

// A Block is what some packets of a flow, which follow each other, met at a link or at several.
//
// The first blockPackets packets of a flow have a block each, and every blockPackets after them one:
// flows of a few packets, which are most, are known packet by packet; long ones, which have most of
// the packets, by their mean over about a window, which is as finely as their sender reacts. So a
// flow of a million packets needs 1/16 of the memory, and one of two loses nothing.
type Block struct {
	// HoldNS is how long the packets, when they could have been sent, were held by the host's other
	// flows. Known from the host's own case (FirstHop), and set only in Case.Elsewhere.
	NICWaitNS int32
	// LateNS is how long the packets waited for packets of other flows on their way to the target. Set
	// only in Case.Elsewhere, and not for FirstHop. Packets of one source stay in order.
	UpstreamNS int32
	// WaitNS is how long the packets waited for packets of other flows: the mean over the block; in
	// Case.Elsewhere, behind the target. In Result.Here of a FirstHop it is the hold. A packet's wait for earlier packets of its own flow is
	// no part of it: the flow has that alone in the network too, and the ideal FCT accounts for it.
	WaitNS int32
	// Marks has bit n mod blockPackets set if packet n of the flow was marked.
	Marks uint16
	// Hint is what a transport goes by besides. HPCC: the share of the line's rate that the link did
	// not let the flow have, in units of 1/shareUnit, as its sender worked it out, the mean over the
	// block. TIMELY, which goes by how single round trips vary: how long the block's first packet
	// waited, in units of hintNS. (Swift is better off with means: here every packet of the block
	// would have to make up for that one.) JoinHints makes one of those of several links.
	Hint uint16
}

const (
	shareUnit = 65_535
	hintNS    = 16
)

// JoinHints joins a Block.Hint of two links: of two waits it is their sum, of two shares the greater.
func (t Transport) JoinHints(a, b uint16) uint16 {
	if t.spec().hint == hintFirstWait {
		return uint16(min(math.MaxUint16, uint32(a)+uint32(b)))
	}
	return max(a, b)
}

// hint is the Block.Hint of a wait.
func waitHint(waitPS int64) uint16 {
	return uint16(min(math.MaxUint16, (waitPS/psPerNS+hintNS/2)/hintNS))
}

const (
	blockBits    = 4
	blockPackets = 1 << blockBits
)

// Blocks is the number of blocks of a flow of so many packets.
func Blocks(packets int64) int64 {
	if packets <= blockPackets {
		return packets
	}
	return blockPackets - 1 + (packets+blockPackets-1)>>blockBits
}

// BlockPackets is the number of packets in block b of a flow of so many packets.
func BlockPackets(packets, b int64) int64 {
	if b < blockPackets {
		return 1
	}
	return min(blockPackets, packets-(b-blockPackets+1)<<blockBits)
}

// BlockOf is the block that packet n of a flow is in, from 0.
func BlockOf(n int64) int64 {
	if n < blockPackets {
		return n
	}
	return blockPackets - 1 + n>>blockBits
}

// MarkBit is the bit of Block.Marks that stands for packet n of a flow, from 0.
func MarkBit(n int64) int { return int(n & (blockPackets - 1)) }

// blockEnd is the number of the packet after the last of the block that packet n is in.
func blockEnd(n uint32) uint32 {
	if n < blockPackets {
		return n + 1
	}
	return n&^(blockPackets-1) + blockPackets
}

// BlockWindow numbers the runs of blockPackets packets of a flow: that which block b is in.
func BlockWindow(b int) int { return max(0, b-blockPackets+1) }

// enter takes up what the flow's next packets meet elsewhere: the block at f.block.
func (k *Kernel) loadBlock(f *flow) {
	f.nextBlockAt = blockEnd(f.head)
	if len(k.c.Feedback) > 0 {
		b := &k.c.Feedback[f.block]
		f.nicWaitPS = int64(b.NICWaitNS) * psPerNS
		f.upstreamPS = int64(b.UpstreamNS) * psPerNS
		f.downstreamPS = int64(b.WaitNS) * psPerNS
		f.marks = b.Marks
	}
}

// turn ends a block, the last packet of which has just been sent, and enters the next.
func (k *Kernel) advanceBlock(f *flow) {
	k.recordBlock(f, f.nextBlockAt-blockStart(f.nextBlockAt-1))
	f.block++
	k.loadBlock(f)
}

func blockStart(n uint32) uint32 {
	if n < blockPackets {
		return n
	}
	return n &^ (blockPackets - 1)
}

// leave records the block's mean wait over so many packets.
func (k *Kernel) recordBlock(f *flow, packets uint32) {
	if len(k.r.Observed) > 0 && packets > 0 {
		k.recordWait(f.block, f.waitPS, int64(packets))
	}
	f.waitPS = 0
}

// recordWait records the mean wait of so many packets of a block.
func (k *Kernel) recordWait(block uint32, sumPS, packets int64) {
	k.r.Observed[block].WaitNS = int32(min((sumPS/psPerNS+packets/2)/packets, math.MaxInt32))
}

// A hintKind is a content of Block.Hint.
type hintKind uint8

const (
	hintNone hintKind = iota
	hintReduction
	hintFirstWait
)
