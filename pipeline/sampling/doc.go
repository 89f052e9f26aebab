// Package sampling draws windows of time from a workload and estimates quantiles of the whole workload from the flows
// of the drawn windows, with confidence intervals.
//
//	flows by start ──► slots of equal flows ──► strata by load and time ──► drawn slots (windows), in rounds
//	                                                                            │
//	whole workload's quantile, interval ◄── weighted counts of slowdown by window ◄── estimates of the windows
//
// The design is stratified cluster sampling without replacement (Cochran, Sampling Techniques, 3rd ed., ch. 5 and
// 9A): a slot is a cluster, and flows of one slot depend on each other in any way. With N slots in stratum h, n of
// them drawn, a flow of a drawn slot has the weight N/n. The distribution function is a ratio of two weighted totals,
//
//	F(x) = Σ w·y(x) / Σ w·m        m flows of a slot, y(x) of them of slowdown at most x
//
// and its variance is that of the linearized totals z = y − F·m between the slots of each stratum, with the finite
// population correction 1 − n/N (Cochran §6.11; Särndal, Swensson, Wretman, Model Assisted Survey Sampling, §5.6):
//
//	V(x) = Σ_h (N/n)² · (1 − n/N) · n/(n−1) · Σ_i (z_i − z̄)² / (Σ w·m)²
//
// The interval of a quantile p contains every x at which a t test does not reject F(x) = p (test inversion: Woodruff,
// JASA 47, 1952; Francisco and Fuller, Annals of Statistics 19(1), 1991). The test is of logit F, whose standard
// error is that of F divided by F(1 − F) (Korn and Graubard, Survey Methodology 24(2), 1998): near 1 the error of F
// is skewed. The degrees of freedom are Satterthwaite's.
//
// The interval is of the whole workload's quantile as the same method would estimate it. It does not contain the
// method's own error. README.md has its measured coverage.
package sampling
