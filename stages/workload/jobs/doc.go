// Package jobs generates the flows of jobs of a training cluster, and what they wait for.
//
//	Job ─► iterations ─┬─ Steps: compute, collectives of all ranks      ─┐
//	                   └─ Training: micro-batches through the stages of ─┴─► Flow: transfer or compute step,
//	                      a pipeline, then the gradients of each layer        and the flows that it waits for
//
//	Trace ─► operations of ranks: GOAL, htsim, Chakra, SimCCL ────────────► Flow
//
// A flow waits for flows before it only, so that no job has a cycle. With n ranks, and T(b) for the time of one
// transfer of b bytes between two of them, a collective of S bytes takes this where no two transfers share a link
// (Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005; the ring: Patarasu and Yuan, JPDC 69(2), 2009):
//
//	all-reduce      ring               2(n-1) T(S/n)
//	                halving-doubling   2 (T(S/2) + T(S/4) + … + T(S/n)), n a power of two
//	                tree               2 log2 n T(S), n a power of two: binomial, towards rank 0 and back
//	reduce-scatter  ring               (n-1) T(S/n)
//	all-gather      ring               (n-1) T(S/n)
//	all-to-all      pairwise           (n-1) T(S/n): in round r rank i sends to rank i+r
//	                direct             all n(n-1) transfers of S/n at the same time
//	scatter         direct             T((n-1) S/n): rank 0 sends a part to each other, at the same time
//	gather          direct             T((n-1) S/n): each sends a part to rank 0, at the same time
//	broadcast       tree               ⌈log2 n⌉ T(S): binomial, from rank 0
//	pipeline        chain              (n-1) T(S): each rank sends to the next
//
// A request that fans out is a scatter, a time to compute and a gather; the iterations of such a job are a closed loop.
//
// With Chunks m a chain takes (n-2+m) T(S/m).
//
// In a network ACKs take their part of T where both directions of a cable send. An all-reduce by tree takes any n, but
// then transfers share links.
//
// S is what a rank holds before an all-reduce, reduce-scatter, all-to-all or broadcast, and after an all-gather; rank 0
// before a scatter and after a gather, its own part included. Parts are rounded up to whole bytes. A rank sends in a
// round when it has sent and received what it does in the rounds before. The arithmetic of reductions takes no time.
package jobs
