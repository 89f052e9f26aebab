package stages

import (
	"fmt"
	"math"

	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/laws"
)

// PassesStats says whether two passes suffice.
type PassesStats struct {
	// Insufficient is whether the estimate has a warning, its link cases disagree by passesDisagreement about p50, p90 or
	// p99 of all flows, or busyTailShare of the delay of the slowest flows arises at busy links.
	Insufficient bool `json:"insufficient"`
}

// passesDisagreement is half of the error that an estimate may have without a warning.
const passesDisagreement = 0.05

// Offered load from which a link is busy, and the fraction of the delay of the slowest flows at busy links from which
// two passes are not enough. Waits in a queue grow with 1 / (1 - load), and so do their errors when what arrives is not
// right yet: at 80% to 5 times those of an idle link. The changes of the last pass do not show it. Where hosts and
// receivers both limit flows (datasets/ACCURACY.md, loaded-83), the second pass moves the waits by 0.1%, and p99 is
// 6% too low.
const (
	busyLink      = 0.8
	busyTailShare = 0.25
)

// TwoPassesSuffice reports whether two passes may be enough with a transport. They are not where senders react to more
// than marks: to the length of delays or to telemetry; or where ACKs wait in queues. In the second pass link cases
// still have feedback from senders that knew of no other link and sent at other times and rates. After it p99 of one
// flow size was 16% too low with Swift on an incast, and p99 of all flows 9% too low with HPCC on a random graph.
func TwoPassesSuffice(t simkernel.Transport) bool {
	return t == simkernel.DCTCP
}

// NewPassesStats returns the statistics of an estimate with these intervals and warnings and such a BusyTail.
func NewPassesStats(intervals []Interval, warnings []Weakness, busyTail float64) PassesStats {
	p := PassesStats{Insufficient: len(warnings) > 0 || busyTail >= busyTailShare}
	for i := range intervals {
		r := &intervals[i]
		if r.disagrees() && r.SizeBin == sizebin.All && r.Quantile <= 0.99 {
			p.Insufficient = p.Insufficient || math.Abs(r.Method.Disagreement) >= passesDisagreement
		}
	}
	return p
}

// flowsName names the flows of a row.
func (r *Interval) flowsName() string { return "all flows" + ofBin(r.SizeBin) }

// ofBin names the size of flows; nothing for those of all sizes.
func ofBin(name string) string {
	if name == sizebin.All {
		return ""
	}
	return " of " + name
}

// disagrees reports whether a row's disagreement counts: of all flows, or of p99 of a size bin, with enough flows.
func (r *Interval) disagrees() bool {
	shown := r.SizeBin == sizebin.All || r.Quantile == 0.99 && r.Flows > fewInBin
	return r.By == ByNothing && shown && r.Method != nil && float64(r.Flows)*(1-r.Quantile) >= fewDisagree
}

// disagreements returns a row if link cases disagree about a percentile of all flows, or about p99 of a size bin.
func disagreements(intervals []Interval) []Weakness {
	var worst *Interval
	for i := range intervals {
		r := &intervals[i]
		if r.disagrees() && (worst == nil || math.Abs(r.Method.Disagreement) > math.Abs(worst.Method.Disagreement)) {
			worst = r
		}
	}
	if worst == nil || math.Abs(worst.Method.Disagreement) < disagreement {
		return nil
	}
	by, side := worst.Method.Disagreement, "low"
	if by < 0 {
		side = "high"
	}
	return []Weakness{{disagreementKind, math.Abs(by), disagreement, -1, fmt.Sprintf(
		"p%g of %s is estimated at %.3f, and is %.3f by the link cases where they wait longest (%+.0f%%): "+
			"the estimate is probably too %s there (--exact measures it)",
		math.Round(1000*worst.Quantile)/10, worst.flowsName(), worst.Estimate, worst.Estimate*(1+by), 100*by, side)}}
}

// fewDisagree is the number of flows beyond a percentile below which a disagreement about it may be chance.
const fewDisagree = 10

// refuted returns a row for each law that the estimate contradicts.
func (w *WeaknessFinder) refuted() (out []Weakness) {
	r := w.laws.Report()
	row := func(kind string, f laws.Finding, why string) {
		share := float64(f.Flows) / float64(max(1, r.Flows))
		if share <= refutedShare {
			return
		}
		out = append(out, Weakness{kind, share, refutedShare, f.WorstLink, fmt.Sprintf(
			"%d of %d flows %s by more than %.0f%%; most at %s (link %d): by %.0f%%",
			f.Flows, r.Flows, why, 100*laws.MaterialShare, w.net.LinkName(f.WorstLink), f.WorstLink, 100*f.WorstShare)})
	}
	row(tooEarlyKind, r.Early, "are estimated to end earlier than the links of their paths can send them beside the others,")
	row(tooLateKind, r.Late, "are estimated to be present for longer than their link has packets to send,")
	return out
}

// Kinds of warnings about conservation laws.
const (
	tooEarlyKind = "too early"
	tooLateKind  = "too late"
)

// Kinds of warnings about passes.
const (
	unsettledKind     = "unsettled"
	tailUnsettledKind = "tail unsettled"
	disagreementKind  = "disagreement"
)

// unsettled returns the rows about passes that ended too early. moved is as for Weaknesses.
func (w *WeaknessFinder) unsettled(moved *Movement) (out []Weakness) {
	if moved == nil {
		return []Weakness{{unsettledKind, -1, unsettledShare, -1,
			"one pass only: no link case has received feedback from the others, and waits tend to be too long"}}
	}
	if moved.Share > unsettledShare {
		out = append(out, Weakness{unsettledKind, moved.Share, unsettledShare, -1, fmt.Sprintf(
			"the second pass moved the waits in the switches by %.0f%%: the percentiles are not settled "+
				"(--estimator exact is)", 100*moved.Share)})
	}
	if share := w.tailMoved(moved); math.Abs(share) > tailUnsettledShare {
		out = append(out, Weakness{tailUnsettledKind, math.Abs(share), tailUnsettledShare, -1, fmt.Sprintf(
			"the second pass moved the delay of the slowest 1%% of flows by about %+.0f%%: p99 is not settled "+
				"(--estimator exact is)", 100*share)})
	}
	return out
}

// BusyTail returns the fraction of the delay of the slowest flows that arises at busy links.
func (w *WeaknessFinder) BusyTail() float64 {
	if w.slowestNS <= 0 {
		return 0
	}
	var busyNS float64
	for id, ns := range w.slowestNSOfLink {
		if w.links.offered[id] >= busyLink {
			busyNS += ns
		}
	}
	return busyNS / w.slowestNS
}

// tailMoved estimates by what fraction the last pass changed the delay of the slowest flows: their delay at each
// link is taken to follow the mean wait there.
func (w *WeaknessFinder) tailMoved(moved *Movement) float64 {
	if w.slowestNS <= 0 {
		return 0
	}
	var changedNS float64
	for id, ns := range w.slowestNSOfLink {
		changedNS += ns * moved.Links[id]
	}
	return changedNS / w.slowestNS
}
