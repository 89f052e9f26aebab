// Package method runs the estimation method in memory: from flows on a network to the slowdown of every flow.
// Each part of the method is a separate package. These are the parts of estimator flow:
//
//	flows
//	  │ route                 path of each flow → its hops, by link, and its ideal FCT
//	  ▼
//	hops ═══ barrier 1: a link case needs all of its flows
//	  │ linksim               link case of each link → observations of each flow's packets   ◄──┐
//	  ▼                                                                                         │ one pass
//	observations ═══ barrier 2: a flow needs all of its hops                                    │
//	  │ flow                  observations at the other hops → feedback of each hop  ───────────┘
//	  ▼ after the last pass
//	sender feedback
//	  │ linksim               replay: hosts' uplinks with complete feedback → an FCT of each flow
//	  ▼
//	flow                      FCTs by replay and by link cases → slowdown, and what each hop contributes
//	  ▼
//	confidence, diagnose      confidence intervals of percentiles; conditions of lower accuracy
//
// Estimator independent is the paper's. It has one pass, and neither feedback nor a replay: package
// independent makes delay distributions by flow size from the hop delays of each link, draws a delay for each
// hop, and sums the draws of each flow. With clustering, only one link of each cluster is simulated, its
// representative. The delays at the other links are drawn from those at the representative. Estimator exact
// (package exact) has no link cases.
//
// Each estimator lists its steps as data (package step): the tables that each reads and writes, and how it is
// divided into tasks. Run runs them in memory. Package pipeline makes the stages of its engine from the same
// steps.
//
// The parts read and write record batches (schema.Batches, schema.Sink). They do not depend on files, tasks,
// workers or retries, which package pipeline handles. The files that users provide are read by
// stages/topology, stages/workload and stages/ingest.
//
// A worker object of a part is reusable memory for one goroutine. Its output depends only on its input, not
// on partitions, the order of tasks or the worker. Random numbers are keyed by seed, purpose and id
// (stages/rng). The columns that a part reads of a table are the fields of a struct (columns.Each).
package method
