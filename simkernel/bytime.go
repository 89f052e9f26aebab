package simkernel

import "math"

// Feedback by time, with transports that react to the length of delays. Such a sender soon sends at other times than
// the sender of another link case of its flow, so that its packet n meets what another packet of that case met. Its
// feedback therefore says when it was observed (Block.SentAt), and a packet is given the waits of the time when it
// leaves its host:
//
//	wait   ×───────×
//	               ╲          ×: mean wait of a block's packets, at their mean time (Centre)
//	                ╲         between two of them: linear
//	                 ×────    before the first and after the last: constant
//	       ──────────────── time since the flow's start
//
// A packet's NIC wait, on which the time when it leaves depends, is that of the time when pacing allows it to leave.
// A flow's first packet leaves when the flow starts and is given what first packets observed. A flow whose feedback has
// no times has it by number of packet.
//
// To add the observations of several link cases, whoever makes the feedback needs them at common times. There the
// single packets of a BlockLayout, those of the first two windows, are taken by number (ByNumber). In all cases they
// leave at nearly the same times, as two bursts, each of which makes a queue of its own. A mean of the waits at the end
// of the first, the longest, and at the start of the second is of no packet: TIMELY, which reacts to the difference
// between the two, had a p99 of 10-100 KB almost 20% too high on a chain of six links at 60% load.

// SentUnitNS is the unit of Block.SentAt.
const SentUnitNS = 8

const sentUnitPS = SentUnitNS * psPerNS

// FeedbackByTime reports whether link cases of the transport say when they observed something, and are given feedback
// by time.
func (t Transport) FeedbackByTime() bool { return t.spec().byTime }

// ByNumber reports whether observations of block b are combined with those of other link cases by number of packet with
// every transport.
func (l BlockLayout) ByNumber(b int) bool { return b < int(l.singles) }

// Centre returns the mean time of the packets in block i of a flow, as Block.SentAt, given its times at and after the
// block. blocks are the flow's first ones, all with times.
func (l BlockLayout) Centre(blocks []Block, i int) int64 {
	from := int64(blocks[i].SentAt)
	if i < int(l.singles) || len(blocks) == 1 {
		return from
	}
	length := from - int64(blocks[i-1].SentAt)
	if i+1 < len(blocks) {
		length = int64(blocks[i+1].SentAt) - from
	}
	return from + max(0, length)*(1<<l.bits-1)/(2<<l.bits)
}

// sinceStart returns a time of the flow as Block.SentAt; 0 if it is too late for that.
func (k *Kernel) sinceStart(f *flow, atPS int64) uint32 {
	t := (atPS-(k.c.StartNS[f.row]-k.firstNS)*psPerNS)/sentUnitPS + 1
	if t > math.MaxUint32 {
		return 0
	}
	return uint32(t)
}

// timedFrom returns the first packet of a flow that is given feedback by time. The flow's blocks of feedback are
// from..to-1.
func (k *Kernel) timedFrom(from, to uint32) uint32 {
	if k.traits.byTime && len(k.c.Feedback) > 0 && k.c.Feedback[from].SentAt > 0 && k.c.Feedback[to-1].SentAt > 0 {
		return 1
	}
	return math.MaxUint32
}

// expectNICWait sets the NIC wait of the flow's next packet, which pacing allows to leave at atPS. It is inlined, like
// leaveAt: most packets have their feedback by number.
func (k *Kernel) expectNICWait(f *flow, atPS int64) {
	if f.head >= f.timedFrom {
		k.setNICWait(f, atPS)
	}
}

// leaveAt sets the waits at other hops of a packet of the flow that leaves at atPS.
func (k *Kernel) leaveAt(f *flow, atPS int64) {
	if f.head >= f.timedFrom {
		k.setWaits(f, atPS)
	}
}

func (k *Kernel) setNICWait(f *flow, atPS int64) {
	blocks, i, o, share := k.blocksAt(f, atPS)
	f.nicWaitPS = between(blocks[i].NICWaitNS, blocks[o].NICWaitNS, share)
}

func (k *Kernel) setWaits(f *flow, atPS int64) {
	blocks, i, o, share := k.blocksAt(f, atPS)
	f.upstreamPS = between(blocks[i].UpstreamNS, blocks[o].UpstreamNS, share)
	f.downstreamPS = between(blocks[i].WaitNS, blocks[o].WaitNS, share)
	if k.traits.hint == hintFirstWait {
		if share > 0.5 {
			i = o
		}
		k.clocks[f.slot].deviationPS = blocks[i].deviationPS()
	}
}

// blocksAt returns the flow's feedback, the places of the two blocks around a time, and how near that is to the second.
func (k *Kernel) blocksAt(f *flow, atPS int64) (blocks []Block, i, o int, share float64) {
	clock := &k.clocks[f.slot]
	blocks = k.c.Feedback[f.firstBlock:clock.endBlock]
	at := int64(math.MaxUint32)
	if t := k.sinceStart(f, atPS); t > 0 {
		at = int64(t)
	}
	i = int(clock.given)
	for i > 0 && int64(blocks[i].SentAt) > at {
		i--
	}
	for i+1 < len(blocks) && int64(blocks[i+1].SentAt) <= at {
		i++
	}
	clock.given = uint32(i)
	centre := k.layout.Centre(blocks, i)
	switch {
	case at < centre && i > 0:
		o = i - 1
	case at > centre && i+1 < len(blocks):
		o = i + 1
	default:
		return blocks, i, i, 0
	}
	if other := k.layout.Centre(blocks, o); other != centre {
		share = min(1, max(0, float64(at-centre)/float64(other-centre)))
	}
	return blocks, i, o, share
}

// between returns the wait between two, in ps. The conversion keeps compilers from fusing the product and the sum: same
// bits on every machine.
func between(aNS, bNS int32, share float64) int64 {
	return (int64(aNS) + int64(float64(share*float64(bNS-aNS)))) * psPerNS
}
