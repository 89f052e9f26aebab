// Package pipeline estimates the scenarios of a lake. It declares the stages of the estimators as plans and
// runs them with package engine.
//
//	generate -> route -> [cluster] -> simulate -> [draw] -> sample -> intervals          estimator independent
//	generate -> route -> simulate 1 -> feedback -> simulate 2 ->                                  estimator flow
//	           sender-feedback -> replay -> sample -> intervals
//	generate -> route -> exact -> sample -> intervals                                          estimator exact
//
// Two barriers delay work: a link case needs all of its flows (simulate reads from every task of route), and
// a flow needs all of its hops (feedback, sample). All other stages stream.
//
// A Model is a scenario of a lake with its network and router. A Variant says how the scenario is estimated.
// A planner builds the stages of both from the steps of the estimator (package step). An adapter gives each
// step its place in the lake, its files and its tasks. An Estimation holds a model, a variant and the
// executor that runs the plan.
//
// These are the packages below this folder. Each package may import only packages below it in the list:
//
//	cmd/parsimon, cmd/parsimon-beam, cmd/parsimon-publish   the programs; cmd/measure reproduces the figures of the pages
//	report, summary                   an estimate as an HTML page; an estimate as text or JSON
//	bundle                            a scenario with digests of its estimate as one file, which repeats it
//	whatif                            answers that need several estimates: comparisons, what-if, sweeps
//	sampling                          answers from windows of time
//	pipeline                          this package
//	sampling/windows                  windows of time: their flows and their simulation
//	cache                             results of link cases, by their content
//	workloads                         ingested traces
//	scenario                          scenario files and ids
//	catalog                           the views of the lake
//	engine                            runs the tasks of a plan: workers, shards, resuming, repair
//	lake                              data files, manifests, locks
//	gate                              conditions of --fail-if
//	text                              formatting for users
//	faults, internal                  tests of killed processes and failing disks; helpers of tests
package pipeline
