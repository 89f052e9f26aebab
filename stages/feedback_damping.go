package stages

import (
	"math"
	"math/bits"

	"parsimon/simkernel"
	"parsimon/stages/rng"
)

// blockSum is what the packets of one block observed at several hops.
type blockSum struct {
	waitNS      int64
	marks, hint uint16
}

// add adds what the packets of the block observed at another hop.
func (x *FeedbackBuilder) add(s *blockSum, b *simkernel.Block) {
	s.waitNS += int64(b.WaitNS)
	s.marks |= b.Marks
	s.hint = x.joinHints(s.hint, b.Hint)
}

// setFeedback sets out to the feedback for block b of the current flow at a hop behind hop 0, given the sums over the
// hops before and behind that hop.
func (x *FeedbackBuilder) setFeedback(out *simkernel.Block, b int, upstream, downstream *blockSum) {
	out.NICWaitNS, out.UpstreamNS, out.WaitNS = 0, clampNS(upstream.waitNS), clampNS(downstream.waitNS)
	out.Marks = upstream.marks | downstream.marks
	out.Hint, out.SentAt = x.hint(b, x.joinHints(upstream.hint, downstream.hint)), x.sentAt(b)
	if b < len(x.hops[0]) { // the only wait at a host's uplink is the NIC wait
		out.NICWaitNS = x.hops[0][b].WaitNS
		out.Marks |= x.hops[0][b].Marks
	}
	if x.ablation == 0 {
		return
	}
	if x.ablation&AblateNICWaits != 0 {
		out.NICWaitNS = 0
	}
	if x.ablation&AblateWaits != 0 {
		out.UpstreamNS, out.WaitNS = 0, 0
	}
	if x.ablation&AblateMarks != 0 {
		out.Marks = 0
	}
}

// joinHints joins the hints of two hops; there are none with most transports.
func (x *FeedbackBuilder) joinHints(a, b uint16) uint16 {
	if a|b == 0 {
		return 0
	}
	return x.params.Transport.JoinHints(a, b)
}

// dampFirst replaces the blocks that the packets observed at hop h in the first pass by what the hop sends.
//
// A wait w is damped by w's own share of the round trip. The reason: with persistent flows whose windows bind, a queue
// shrinks by as much as waits at other links grow, since the packets in flight are given. If two links send each other
// such waits whole, both queues vanish in the next pass and return in the one after; if they send halves, both are
// right at once. A wait that is short against the round trip is of packets that do not fill a window, and does not
// react. So a hop sends w / (1 + s), where s = w / (w + round trip without waits) estimates how much the queue reacts.
// NIC waits are sent whole: the first pass had them already.
func (x *FeedbackBuilder) dampFirst(blocks []simkernel.Block, row int64, h int, roundTripNS int64) {
	if h == 0 {
		return
	}
	for b := range blocks {
		now := &blocks[b]
		if now.WaitNS == 0 {
			continue
		}
		w := uint64(now.WaitNS)
		part, whole := w+uint64(roundTripNS), 2*w+uint64(roundTripNS)
		hi, lo := bits.Mul64(w, part)
		sent, _ := bits.Div64(hi, lo, whole)
		if now.Marks != 0 && !x.takes(1, row, b, float64(part)/float64(whole)) {
			now.Marks = 0
		}
		now.WaitNS = int32(sent)
	}
}

// dampLater replaces the blocks that the packets observed at hop h in a later pass by what the hop sends: a mean of one
// third of what it sent before and two thirds of what the packets observed. Equal parts converge from one side on most
// networks, so they are too cautious; the observations whole make queues of synchronised flows swing. Marks cannot be
// averaged: they are taken with the probability of the weight that the wait has.
//
// NIC waits are new after every other pass (RenewsNICWaits) and count once. From pass 6 on they count less and less: 2
// of n + 1 parts. The reason: where hosts send to many at once, as in an all-to-all, renewed NIC waits make packets
// arrive at the queues behind less evenly, and those make the next ones less even. With two thirds such queues grow
// from pass to pass, to twice their length in 15 passes.
func (x *FeedbackBuilder) dampLater(row int64, h int) {
	parts, of := int64(2), int64(3)
	if h == 0 && !RenewsNICWaits(x.pass) {
		parts = 0
	} else if h == 0 && x.pass > 4 {
		of = int64(x.pass) + 1
	}
	for b := range x.hops[h] {
		now := &x.hops[h][b]
		var was simkernel.Block
		if b < len(x.was) {
			was = x.was[b]
		}
		now.WaitNS = int32((parts*int64(now.WaitNS) + (of-parts)*int64(was.WaitNS) + of/2) / of) // rounded
		if now.Marks != was.Marks && !x.takes(x.pass, row, b, float64(parts)/float64(of)) {
			now.Marks = was.Marks
		}
	}
}

func clampNS(ns int64) int32 { return int32(min(ns, math.MaxInt32)) }

// takes reports, with that probability, whether block b of a flow takes the marks of a pass. All hops and all
// blocks of a window share one random number, because a sender reacts once per window to marks. A sender that reacts by
// a timer has one for all: windows of two passes in turn would have marks in more periods of the timer than either.
func (x *FeedbackBuilder) takes(pass int, row int64, b int, probability float64) bool {
	window := 0
	if !x.params.Transport.ReactsByTimer() {
		window = x.layout.Window(b)
	}
	s := rng.New(x.seed, rng.Feedback, uint64(pass), uint64(row), uint64(window))
	return float64(s.Uint64()>>11)/(1<<53) < probability
}
