package stages

import (
	"math"

	"parsimon/simkernel"
	"parsimon/stages/rng"
)

// blockSum is what the packets of one block observed at several hops.
type blockSum struct {
	waitNS      int64
	marks, hint uint16
}

func (s blockSum) add(b *simkernel.Block, t simkernel.Transport) blockSum {
	return blockSum{s.waitNS + int64(b.WaitNS), s.marks | b.Marks, t.JoinHints(s.hint, b.Hint)}
}

// damped returns the feedback for block b of a flow at a hop behind hop 0, given the sums over the hops
// before and behind that hop.
func (x *FeedbackBuilder) damped(row int64, b int, upstream, downstream blockSum) simkernel.Block {
	var nicWait int64
	marks, hint := upstream.marks|downstream.marks, x.transport.JoinHints(upstream.hint, downstream.hint)
	if b < len(x.hops[0]) { // the only wait at a host's uplink is the NIC wait
		nicWait = int64(x.hops[0][b].WaitNS)
		marks |= x.hops[0][b].Marks
	}
	before, behind := upstream.waitNS, downstream.waitNS
	if x.ablation&AblateDamping == 0 {
		var was simkernel.Block
		if b < len(x.was) {
			was = x.was[b]
		}
		nicWait = meanNS(nicWait, was.NICWaitNS)
		before, behind = meanNS(before, was.UpstreamNS), meanNS(behind, was.WaitNS)
		if marks != was.Marks && x.keepsMarks(row, b) {
			marks = was.Marks
		}
	}
	if x.ablation&AblateNICWaits != 0 {
		nicWait = 0
	}
	if x.ablation&AblateWaits != 0 {
		before, behind = 0, 0
	}
	if x.ablation&AblateMarks != 0 {
		marks = 0
	}
	return simkernel.Block{NICWaitNS: clampNS(nicWait), UpstreamNS: clampNS(before), WaitNS: clampNS(behind),
		Marks: marks, Hint: hint}
}

func meanNS(a int64, b int32) int64 { return (a + int64(b) + 1) / 2 }

func clampNS(ns int64) int32 { return int32(min(ns, math.MaxInt32)) }

// keepsMarks reports, with probability one half, whether block b of a flow keeps the marks of its previous
// feedback. All blocks of a window share one random bit, because a sender reacts once per window to marks.
func (x *FeedbackBuilder) keepsMarks(row int64, b int) bool {
	s := rng.New(x.seed, rng.Feedback, uint64(x.pass), uint64(row), uint64(x.layout.Window(b)))
	return s.Uint64()>>63 == 0
}
