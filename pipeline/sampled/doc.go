// Package sampled estimates a scenario from windows of time. It draws windows in rounds (package sampling), estimates
// the windows of a round as one hidden scenario (pipeline.DeriveWindows), and combines the rounds until the intervals
// of the asked percentiles are narrow enough or the time is spent.
//
//	table flows ─► index: slots, flows by group ─► warm-up, measured ─► round 1 ─► round 2 ─► … ─► combine
//	                                                                       │          │               │
//	                                                   hidden scenarios: slowdowns of windows      windows, intervals,
//	                                                                                               sampled_slowdowns
//
// Rounds do not depend on the precision that is asked for, unless it needs a longer warm-up: a more precise run takes
// over the rounds of a less precise one, and the answer depends on the scenario, the variant, the warm-up and the
// number of rounds only. A round that was interrupted continues.
//
// # Warm-up
//
// The first warm-up is a quarter of the time in which a flow of the size that divides the workload's bytes in halves
// is sent. It is then measured: the first window of every other stratum is estimated again with half of the warm-up.
// If that changes an asked percentile of all these flows significantly (jackknife over windows, 95%) and by more than
// a quarter of the asked precision, the warm-up is doubled and the workload is cut again. A significant change that is
// left widens the intervals. Flows that began before the warm-up and are still active in a fluid model of the hosts'
// links begin in the first half of it, each at a time of its own, with the bytes that they have left then.
//
// Windows are short, a warm-up on average, because the load changes slowly: most of the variance is between windows,
// and a few long ones say less than many short ones with as many flows. A cool-down as long as a warm-up follows.
// Flows that outlast it are alone in the end and too fast. Intervals reach up to what they would be if such flows went
// on at the mean rate of such flows in windows; if they are many in a group, its percentiles have a warning.
package sampled
