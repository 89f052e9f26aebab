// Package pipeline estimates the scenarios of a lake: it declares the stages of the two estimators as plans and runs
// them with package engine.
//
//	generate ─► route ─► [cluster] ─┬─► simulate ─► bucket ─► [draw] ─► sample ─► intervals       estimator independent
//	                                └─► simulate 1 ─► [impute] ─► feedback 1 ─► simulate 2 ─► …   estimator flow
//	                                     … ─► sender-feedback ─► replay ─► sample ─► intervals
//
// Two barriers hold work back: a link case needs all of its flows (simulate reads from every task of route), and a flow
// needs all of its hops (feedback, sample). Everything else streams.
//
// A Model is a scenario of a lake with its network and router. A Variant says how it is estimated. plan.go turns both
// into the list of stages, each in a file of its own (stage_*.go). An Estimation holds a model, a variant and the
// executor that runs the plan; open.go makes one, reads.go is what other packages read of it. Packages above it ask
// questions of estimates: summary (one), newflows (flows that are not in the workload), sampled (windows of time),
// whatif (two or many).
package pipeline
