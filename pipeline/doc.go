// Package pipeline estimates the scenarios of a lake: it declares the stages of the estimators as plans and runs
// them with package engine.
//
//	generate -> route -> [cluster] -> simulate -> bucket -> [draw] -> sample -> intervals          estimator independent
//	generate -> route -> simulate 1 -> feedback -> simulate 2 ->                                  estimator flow
//	           sender-feedback -> replay -> sample -> intervals
//	generate -> route -> exact -> sample -> intervals                                          estimator exact
//
// Two barriers hold work back: a link case needs all of its flows (simulate reads from every task of route), and a flow
// needs all of its hops (feedback, sample). Everything else streams.
//
// A Model is a scenario of a lake with its network and router. A Variant says how it is estimated. A planner makes the
// stages of both from the steps of the estimator (package step): one adapter gives each step its place in the lake, its
// files and its tasks. An Estimation holds a model, a variant and the executor that runs the plan.
//
// Packages below this folder. Those further down know nothing of those further up:
//
//	cmd/parsimon, cmd/parsimon-beam   the programs; cmd/measure repeats the figures of the pages
//	report, summary                   an estimate as an HTML page; as text or JSON
//	whatif                            answers that need several estimates: comparisons, what-if, sweeps
//	sampling                          answers from windows of time
//	pipeline                          this package
//	sampling/windows                  windows of time: their flows and their simulation
//	cache                             results of link cases by content
//	workloads                         ingested traces
//	scenario                          scenario files and ids
//	catalog                           the views of the lake
//	engine                            tasks of any plan: workers, shards, resuming, repair
//	lake                              data files, manifests, locks
//	gate                              conditions of --fail-if
//	text                              text for people
//	faults, internal                  tests of killed processes and failing disks; helpers of tests
package pipeline
