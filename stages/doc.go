// Package stages is the method, one step a file:
//
//	generate.go  traffic matrices → flows, in start order       ingest.go  a flow file → flows
//	route.go     flows → hops by link; each flow's path is chosen once (router.go)
//	             — barrier 1: a link case needs all of its flows —
//	simulate.go  hops of one link → link case (package simkernel) → what it did to its flows
//	             — barrier 2: a flow needs all of its hops —
//
// with clustering, before it and after it, so that one link case answers for several links:
//
//	cluster.go   the company that flows keep on each link (crowd.go) → which links are alike
//	lend.go      what a representative's flows met → what those of the others meet (estimator flow)
//	draw.go      distributions of representatives → what each hop adds (estimator independent)
//
// then, for estimator flow, once a pass:
//
//	relax.go     what a flow's packets met at its hops → what each hop is told of the others next time
//
// and after the last pass the hosts' own cases again (simulate.go, Senders), which play each flow's
// whole journey; for estimator independent, the paper's:
//
//	bucket.go    hop delays of one link → distributions by flow size → what each hop adds to each flow
//
// and in the end for both:
//
//	sample.go    one flow → its FCT and slowdown
//
// Stages read and write record batches (schema.Batches, schema.Sink) and know nothing of files,
// workers or resumption: that is package pipeline. A stage's object is the scratch memory of one
// worker; what it writes is a function of its input alone.
package stages
