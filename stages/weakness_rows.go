package stages

import (
	"fmt"
	"math"
	"slices"

	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/laws"
)

// PassesStats says what more passes may change.
type PassesStats struct {
	// Disagreement is the largest difference, of p50, p90 and p99 of all flows, between the estimate and the link cases
	// where flows wait longest, as a fraction; 0 where it is not known.
	Disagreement float64 `json:"disagreement"`
	// Warned is whether the estimate has a warning that more passes may remove: the last pass still moved the waits, or
	// link cases disagree by more than disagreement, about a size bin too.
	Warned bool `json:"warned"`
	// Moved is whether a percentile still moved (percentile unsettled).
	Moved bool `json:"moved,omitempty"`
	// Suspect is whether the estimate has any warning.
	Suspect bool `json:"suspect"`
	// BusyTail is the fraction of the delay of the slowest 1% of flows that arises at busy links.
	BusyTail float64 `json:"busy_tail,omitempty"`
	// Passes is how many passes the estimate has, and Compared how many the one has that it was compared with; 0: none.
	Passes   int `json:"passes"`
	Compared int `json:"compared,omitempty"`
	// Percentiles are those whose change by more passes counts.
	Percentiles []PassesPercentile `json:"percentiles,omitempty"`
}

// A PassesPercentile is a percentile of slowdown of an estimate.
type PassesPercentile struct {
	SizeBin  string  `json:"size_bin"`
	Quantile float64 `json:"quantile"`
	Slowdown float64 `json:"slowdown"`
}

// passesDisagreement is a disagreement that calls for more passes: the largest error that an estimate may have without
// a warning is twice as large. At the fixed point of the passes the cases agree but for their blocks.
const passesDisagreement = 0.05

// fewPasses are enough where nothing speaks against the estimate: the waits of the second pass are the first that know
// of other links, and on the networks of datasets/ACCURACY.md where an estimate of two passes has no warning and its
// cases agree, a third moves p50, p90 and p99 by 2% at most. Elsewhere more passes may reduce the error even if the
// warning is about something that they do not remove, such as overload.
const fewPasses = 2

// Offered load from which a link is busy, and the fraction of the delay of the slowest flows at busy links from which
// fewPasses are not enough. Waits in a queue grow with 1 / (1 - load), and so do their errors when what arrives is not
// right yet: at 80% to 5 times those of an idle link. The changes of the last pass do not show it. Where hosts and
// receivers both limit flows (datasets/ACCURACY.md, loaded-83), the second pass moves the waits by 0.1%, and the fifth
// still by 1%.
const (
	busyLink      = 0.8
	busyTailShare = 0.25
)

// manyPasses are as many as any disagreement is worth: what link cases still disagree about then, they disagree about
// at the fixed point. Beyond, passes are made while they move percentiles.
const manyPasses = 7

// leastPasses are the fewest with transports whose senders react to more than marks: to the length of delays (feedback
// by time) or to telemetry; or whose ACKs wait in queues, which are means of two passes. In the second pass they still
// have feedback from senders that knew of no other link and sent at other times and rates. After it p99 of one flow
// size was 16% too low with Swift on an incast, and p99 of all flows 9% too low with HPCC on a random graph, where five
// passes made it 4%.
const leastPasses = 5

// FewestPasses are the fewest passes that an estimate with a transport is worth anything with.
func FewestPasses(t simkernel.Transport) int {
	if t.FeedbackByTime() || t.HasTelemetry() || t.AcksQueue() {
		return leastPasses
	}
	return fewPasses
}

// MorePasses reports whether more passes than were made may change the estimate by more than its error.
func (p PassesStats) MorePasses(made int, t simkernel.Transport) bool {
	switch {
	case made >= manyPasses:
		return p.Moved
	case made < FewestPasses(t):
		return true
	}
	return p.Warned || p.Disagreement >= passesDisagreement ||
		(p.Suspect || p.BusyTail >= busyTailShare) && made <= fewPasses
}

// NewPassesStats returns the statistics of an estimate of that many passes, with these intervals and warnings and such
// a BusyTail, that was compared with an earlier one of fewer passes; nil if there is none.
func NewPassesStats(passes int, intervals []Interval, warnings []Weakness, busyTail float64,
	earlier *PassesStats) PassesStats {
	p := PassesStats{Passes: passes, Suspect: len(warnings) > 0, BusyTail: busyTail}
	if earlier != nil {
		p.Compared = earlier.Passes
	}
	for i := range intervals {
		r := &intervals[i]
		if !r.disagrees() {
			continue
		}
		p.Percentiles = append(p.Percentiles, PassesPercentile{r.SizeBin, r.Quantile, r.Estimate})
		if r.SizeBin == sizebin.All && r.Quantile <= 0.99 {
			p.Disagreement = max(p.Disagreement, math.Abs(r.Method.Disagreement))
		}
	}
	mends := []string{unsettledKind, tailUnsettledKind, percentileUnsettledKind, disagreementKind}
	for i := range warnings {
		p.Warned = p.Warned || slices.Contains(mends, warnings[i].Kind)
		p.Moved = p.Moved || warnings[i].Kind == percentileUnsettledKind
	}
	return p
}

// MovedPercentile returns a row if the passes since an earlier estimate, nil if there is none, changed a percentile by
// percentileUnsettledShare or more.
func MovedPercentile(passes int, intervals []Interval, earlier *PassesStats) []Weakness {
	if earlier == nil {
		return nil
	}
	var worst *Interval
	var most float64 // change of worst, a fraction
	for i := range intervals {
		r := &intervals[i]
		at := slices.IndexFunc(earlier.Percentiles, func(p PassesPercentile) bool {
			return p.SizeBin == r.SizeBin && p.Quantile == r.Quantile
		})
		if at < 0 || !r.disagrees() {
			continue
		}
		if change := r.Estimate/earlier.Percentiles[at].Slowdown - 1; math.Abs(change) > math.Abs(most) {
			worst, most = r, change
		}
	}
	if math.Abs(most) < percentileUnsettledShare {
		return nil
	}
	return []Weakness{{percentileUnsettledKind, math.Abs(most), percentileUnsettledShare, -1, fmt.Sprintf(
		"passes %d to %d moved p%g of %s by %+.0f%%, to %.3f: further passes may move it on (--exact measures its error)",
		earlier.Passes+1, passes, math.Round(1000*worst.Quantile)/10, worst.flowsName(), 100*most, worst.Estimate)}}
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

// Refutes reports whether the warning is about flows that conservation laws refute.
func (w *Weakness) Refutes() bool { return w.Kind == tooEarlyKind || w.Kind == tooLateKind }

// Kinds of warnings about conservation laws.
const (
	tooEarlyKind = "too early"
	tooLateKind  = "too late"
)

// Kinds of warnings that more passes may remove.
const (
	unsettledKind           = "unsettled"
	tailUnsettledKind       = "tail unsettled"
	percentileUnsettledKind = "percentile unsettled"
	disagreementKind        = "disagreement"
)

// unsettled returns the rows about passes that ended too early. moved is as for Weaknesses.
func (w *WeaknessFinder) unsettled(moved *Movement) (out []Weakness) {
	if moved == nil {
		return []Weakness{{unsettledKind, -1, unsettledShare, -1,
			"one pass only: no link case has received feedback from the others, and waits tend to be too long"}}
	}
	if moved.Share > unsettledShare {
		out = append(out, Weakness{unsettledKind, moved.Share, unsettledShare, -1, fmt.Sprintf(
			"the last pass moved the waits in the switches by %.0f%%: more passes (--passes auto) "+
				"would move the percentiles further", 100*moved.Share)})
	}
	if share := w.tailMoved(moved); math.Abs(share) > tailUnsettledShare {
		out = append(out, Weakness{tailUnsettledKind, math.Abs(share), tailUnsettledShare, -1, fmt.Sprintf(
			"the last pass moved the delay of the slowest 1%% of flows by about %+.0f%%: more passes (--passes auto) "+
				"would move p99 further", 100*share)})
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
