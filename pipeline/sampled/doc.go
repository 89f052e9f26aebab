// Package sampled estimates a scenario from windows of time. It draws windows in rounds (package sampling), estimates
// the windows of a round as one hidden scenario (pipeline.DeriveWindows), and combines the rounds until the intervals of the
// asked percentiles are narrow enough or the time is spent.
//
//	table flows ─► index: slots, flows by group ─► warm-up, measured ─► round 1 ─► round 2 ─► … ─► combine
//	                                                                       │          │               │
//	                                                     hidden scenarios: slowdowns of windows      windows, sampled_slowdowns,
//	                                                                                                 intervals
//
// Rounds do not depend on the precision that is asked for: a more precise run takes over the rounds of a less precise one, and
// the answer depends on the scenario, the variant and the number of rounds only. A round that was interrupted continues.
//
// # Warm-up
//
// The warm-up is measured. Windows are drawn from the strata of the highest load and estimated with a warm-up of firstWarmup
// and with twice that. If p50, p90 or p99 of their flows differ by more than warmupTolerance, both are doubled. The interval is
// widened by the difference that is left. The cool-down after a window is as long as the warm-up.
package sampled
