// Package sampling estimates percentiles of a whole workload from windows of time. It draws windows at random
// in rounds, simulates the windows of a round as one hidden scenario (pipeline.DeriveWindows), and combines
// the rounds. It stops once the intervals of the requested percentiles are narrow enough or the budget is
// spent.
//
//	table flows ─► index: slots, flows by group ─► warm-up, measured ─► round 1 ─► round 2 ─► … ─► combine
//	                                                                       │          │               │
//	                                                   hidden scenarios: slowdowns of windows      windows, intervals,
//	                                                                                               sampled_slowdowns
//
// Rounds do not depend on the requested precision, unless that precision needs a longer warm-up. A more
// precise run therefore reuses the rounds of a less precise one. The answer depends only on the scenario, the
// variant, the warm-up and the number of rounds. An interrupted round continues.
//
// # Windows
//
// The workload is cut into slots of equal numbers of flows. A drawn slot is a window. Each window is
// simulated together with a warm-up before it and a cool-down after it; package windows shows them.
//
// The first warm-up is a quarter of the time in which the slowest host sends a flow of the byte-weighted
// median size, or 64 round trips if that is longer, rounded down to a power of two in ms. Its effect is then
// measured: the windows of a reduced first round are simulated again with half of the warm-up. If that
// changes a requested percentile significantly (jackknife over windows, 95%) and by more than a quarter of
// the requested precision, the warm-up is doubled and the workload is cut again. A significant change that
// remains widens the intervals.
//
// Windows are short, one warm-up on average, because most of the variance is between windows. A cool-down as
// long as a warm-up follows. Flows that outlast it finish in a fluid model of all flows of the workload. The
// fluid is compared with the packets in the windows, and intervals are widened by the effect of its error.
//
// # Intervals
//
// The design is stratified cluster sampling without replacement (Cochran, Sampling Techniques, 3rd ed., ch. 5
// and 9A). A slot is a cluster, and flows of one slot may depend on each other in any way. Strata group slots
// of similar load and time. If n of the N slots of stratum h are drawn, a flow of a drawn slot has the weight
// N/n. The distribution function is a ratio of two weighted totals,
//
//	F(x) = Σ w·y(x) / Σ w·m        m flows of a slot, y(x) of them of slowdown at most x
//
// Its variance is that of the linearized totals z = y − F·m between the slots of each stratum, with the
// finite population correction 1 − n/N (Cochran §6.11; Särndal, Swensson, Wretman, Model Assisted Survey
// Sampling, §5.6):
//
//	V(x) = Σ_h (N/n)² · (1 − n/N) · n/(n−1) · Σ_i (z_i − z̄)² / (Σ w·m)²
//
// The interval of a quantile p contains every x at which a t test does not reject F(x) = p (test inversion:
// Woodruff, JASA 47, 1952; Francisco and Fuller, Annals of Statistics 19(1), 1991). The test is of logit F,
// whose standard error is that of F divided by F(1 − F) (Korn and Graubard, Survey Methodology 24(2), 1998),
// because the error of F is skewed near 1. The degrees of freedom are Satterthwaite's.
//
// The interval covers the quantile that the same method would estimate from the whole workload. It does not
// cover the error of the method itself. README.md lists the measured coverage.
package sampling
