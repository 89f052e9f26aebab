// Package stages is the estimation method: from flows on a network to the slowdown of every flow.
//
//	flows
//	  │ route                 path of each flow → its hops, by link
//	  ▼
//	hops ═══ barrier 1: a link case needs all of its flows
//	  │ simulate              link case of each link → observations of each flow's packets   ◄──┐
//	  ▼                                                                                         │ one pass
//	observations ═══ barrier 2: a flow needs all of its hops                                    │
//	  │ feedback              observations at the other hops → feedback of each hop  ───────────┘
//	  ▼ after the last pass
//	sender feedback
//	  │ replay                hosts' uplinks with complete feedback → an FCT of each flow
//	  ▼
//	sample                    FCT of each flow → slowdown, and what each hop contributes
//	  ▼
//	intervals, warnings       confidence intervals of percentiles; conditions of lower accuracy
//
// That is estimator Flow. Estimator Independent is the paper's: it has one pass, and in place of feedback and
// replay the stage bucket, from hop delays of each link to delay distributions by flow size and to a random draw
// for each hop. With clustering, only one link of each cluster is simulated. The observations of the others are
// imputed, or their delays drawn, from those of the representative.
//
// Files, in the order of the method:
//
//	route, route_rows                 paths and hops of a chunk of flows
//	overlaps                          when both directions of a cable send (estimator Flow)
//	loads                             what each link carries; the bandwidth that ACKs leave
//	cluster, cluster_features         which links are similar; contention: processor sharing as their measure
//	simulate, simulate_input, _case, _rows    link cases: reading, building, running, writing
//	settled                           links whose cases the next pass omits
//	relevance                         links whose cases an estimate of one group of flows leaves out
//	backend                           what solves a link case in place of the link kernel
//	casecache, caseresult             results of link cases by content
//	impute, impute_donors             observations of links that are not simulated
//	feedback, feedback_damping, _times, _rows; blocks    from observations to feedback; their encoding
//	roundtrip, slowest                constants of a path: round trips, the slowest hop
//	bucket, draw, contributions       estimator Independent: distributions and draws
//	sample, sample_replay             slowdowns, by either estimator
//	convergence                       how far the last pass changed the waits
//	intervals, interval_rows, bootstrap    confidence intervals of percentiles
//	caseslowdowns                     how far replay and link cases disagree: the method's own error
//	weakness, _flows, _links, _rows   conditions of lower accuracy: table warnings
//
// and outside of the estimate:
//
//	exact, exact_engine               simulation of every packet in the whole network, as ground truth
//	donor                             delays of flows that are not in the workload
//	detour, difference                first-order effect of failures
//
// Stages read and write record batches (schema.Batches, schema.Sink). They do not know files, tasks, workers or
// retries; package pipeline does. The files that users provide are read by the packages below: stages/topology,
// stages/workload and stages/ingest. Package stages/ns3 runs ns-3 in directories of its own.
//
// A stage's object is the reusable memory of one worker. What it writes is a function of its input alone: it does
// not depend on partitions, on the order of tasks or on the worker. Random numbers are keyed by seed, purpose and
// id (stages/rng). Each function that reads a table has a companion, such as RouteColumns, that names the columns
// it reads.
package stages
