package confidence

import "math"

// The workload's time is divided into these numbers of batches, whose means give the variance of traffic.
const (
	fewBatches  = 5
	someBatches = 10
	manyBatches = 33
	batchesT    = 2.776 // 97.5% quantile of Student's t with fewBatches - 1 degrees of freedom
)

// mostSpread is the largest standard deviation of the log odds for which an interval is reported: that of a
// single burst. With a smaller limit, only workloads without a large burst would have intervals, and these
// would be too low on average.
const mostSpread = 1

// drawnInterval computes the interval of a percentile of slowdowns whose delays were drawn.
//
// A percentile of drawn delays varies for two reasons. The delays in the link cases, from which the draws
// come, depend on the traffic, and flows of a burst are slow together. And the draws are random. The first
// part comes from the flows' own slowdowns in the link cases, whose order in time the draws do not keep. To
// first order, a distribution of sums changes by the same amount whether the distributions of the hops change
// together or one after the other. The correlation of a flow's delays in the link cases, which the draws do
// not have, is a second-order effect.
//
// The two distributions differ, so changes are expressed as changes of the odds that a flow is beyond the
// percentile. If the odds grow by a factor, the percentile moves to where the estimate's odds are smaller by
// this factor (Woodruff, Journal of the American Statistical Association 47, 1952, with the probability
// instead of the odds):
//
//	batches of time ─ variance of the log odds ─→ factor ─→ percentile of the drawn slowdowns
//
// A bootstrap of blocks would need blocks that are longer than congestion lasts, of which a workload often
// has few. Batch means also need long batches, but Student's t accounts for their small number. The variance
// is the largest of those from few and from more batches, and of the extrapolation from more and many (Vats
// and Flegal, Biometrika 109(3), 2022). The upper bound allows for events of congestion that the workload
// does not have (moreEvents). event is the share of the flows in one of them. make independent-coverage
// measures the intervals.
func drawnInterval(c, inCases cumulative, event float64, row *Interval) {
	at := c.cellOfAll(row.Quantile)
	row.Estimate = cells.Slowdown(at, 0.5)
	row.Lo = math.NaN()
	row.Hi = math.NaN()
	row.Warning = intervalWarning(row)
	if row.Warning != "" {
		return // too few flows are beyond the percentile
	}
	atInCases := inCases.cellOfAll(row.Quantile)
	some := inCases.oddsVariance(atInCases, someBatches)
	many := inCases.oddsVariance(atInCases, manyBatches)
	traffic := max(inCases.oddsVariance(atInCases, fewBatches), some, 2*some-many)
	if traffic > mostSpread*mostSpread {
		row.Warning = quantileName(row.Quantile) + ": no interval, because the flows above it belong to few " +
			"bursts; a longer workload has more"
		return
	}
	draws := 1 / (float64(row.Flows) * row.Quantile * (1 - row.Quantile))
	factor := math.Exp(batchesT * math.Sqrt(traffic+draws))
	odds := (1 - row.Quantile) / row.Quantile
	row.Lo = cells.Slowdown(c.cellOfAll(1/(1+odds*factor)), 0)
	factor *= moreBeyond(row.Quantile, event)
	row.Hi = cells.Slowdown(c.cellOfAll(1/(1+odds/factor)), 1)
	row.Warning = intervalWarning(row)
}

// oddsVariance returns the variance of the logarithm of the odds that a flow is beyond a cell, from the means
// of batches of time.
func (c cumulative) oddsVariance(cell, batches int) float64 {
	var beyond, flows [intervalBlocks]float64
	var allBeyond, all float64
	for b, upTo := range c[len(c)-1] {
		k := b * batches / intervalBlocks
		n := float64(upTo - c[cell][b])
		flows[k] += float64(upTo)
		beyond[k] += n
		all += float64(upTo)
		allBeyond += n
	}
	share := allBeyond / all
	if share == 0 || share == 1 {
		return 0
	}
	squares := 0.0
	for k := range batches {
		off := beyond[k] - float64(share*flows[k])
		squares += float64(off * off)
	}
	scale := all * share * (1 - share)
	return squares / (scale * scale) * float64(batches) / float64(batches-1)
}
