package simkernel

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

// SentUnitPS is the same in ps.
const SentUnitPS = SentUnitNS * PSPerNS

// FeedbackByTime reports whether link cases of the transport say when they observed something, and are given feedback
// by time.
func (t Transport) FeedbackByTime() bool { return t.spec().ByTime }

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
