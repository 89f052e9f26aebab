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

import (
	"errors"
	"fmt"
	"slices"
)

// A Job runs a number of iterations on ranks. It has either Steps or Training.
type Job struct {
	ID         int       `json:"id"` // its place in the scenario, whichever other jobs run
	Name       string    `json:"name"`
	Hosts      []int32   `json:"hosts"` // by rank, each once
	StartNS    int64     `json:"start_ns"`
	Iterations int       `json:"iterations"`
	Steps      []Step    `json:"steps,omitempty"`
	Training   *Training `json:"training,omitempty"`
}

// A Step is a time to compute, or a collective of all ranks.
type Step struct {
	ComputeNS  int64       `json:"compute_ns,omitempty"`
	Collective *Collective `json:"collective,omitempty"`
}

// A Flow is a transfer from one host to another or, with equal hosts and no bytes, a compute step.
type Flow struct {
	Src, Dst  int32
	Bytes     int64
	Iteration int32
	Kind      string // compute, or what is sent: gradients, activations, a collective, …
	After     []int64
	StartNS   int64 // of a trace: it does not start before
	DelayNS   int64 // from the delivery of the last of After, flows of the job from 0, to the start
}

// The kinds of flows of Training.
const (
	compute     = "compute"
	activations = "activations"
	gradients   = "gradients"
	tensor      = "tensor"
	expert      = "expert"
)

// Limits of the values of a job.
const (
	MaxRanks      = 1 << 16
	MaxIterations = 1_000_000
)

// Check reports the errors of a job, and sets defaults.
func (j *Job) Check() error {
	switch {
	case len(j.Hosts) < 1 || len(j.Hosts) > MaxRanks:
		return fmt.Errorf("%d ranks, must be 1 to %d", len(j.Hosts), MaxRanks)
	case (len(j.Steps) > 0) == (j.Training != nil):
		return errors.New("needs either steps or training")
	case j.Training != nil:
		return j.Training.check(len(j.Hosts))
	}
	for i, s := range j.Steps {
		if (s.ComputeNS > 0) == (s.Collective != nil) {
			return fmt.Errorf("step %d needs either a time to compute or a collective", i)
		}
		if s.Collective != nil {
			if err := s.Collective.Check(len(j.Hosts)); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
	}
	return nil
}

// Generate calls emit with the flows of a checked job, each after those that it waits for, until one fails.
// The first flow is a compute step at the start, for which all ranks wait. A rank begins an iteration when it has ended
// the one before.
func (j *Job) Generate(emit func(*Flow) error) error {
	g := &generator{hosts: j.Hosts, emit: emit, tail: make([][]int64, len(j.Hosts))}
	first := g.step(0, nil, 0)
	for rank := range j.Hosts {
		g.all, g.tail[rank] = append(g.all, rank), []int64{first}
	}
	for i := 0; i < j.Iterations && g.err == nil; i++ {
		g.iteration = int32(i)
		if j.Training != nil {
			newTrainer(g, j.Training).iterate()
			continue
		}
		for _, s := range j.Steps {
			if s.Collective != nil {
				g.tail = g.collective(*s.Collective, s.Collective.Kind, g.all, g.tail)
			} else {
				g.compute(g.all, s.ComputeNS)
			}
		}
	}
	return g.err
}

type generator struct {
	hosts     []int32
	emit      func(*Flow) error
	err       error // of emit; nothing is emitted after it
	next      int64
	iteration int32
	startNS   int64
	all       []int         // ranks
	tail      [][]int64     // by rank: what its next operation waits for
	first     map[int]int64 // by rank: the first of what it sends of a chunk
}

func (g *generator) add(f *Flow) int64 {
	f.Iteration, f.StartNS = g.iteration, g.startNS
	f.After = slices.Compact(slices.Sorted(slices.Values(f.After)))
	if g.err == nil {
		g.err = g.emit(f)
	}
	g.next++
	return g.next - 1
}

func (g *generator) transfer(kind string, from, to int, bytes int64, after []int64) int64 {
	f := g.add(&Flow{Src: g.hosts[from], Dst: g.hosts[to], Bytes: bytes, Kind: kind, After: after})
	if _, sent := g.first[from]; !sent && g.first != nil {
		g.first[from] = f
	}
	return f
}

func (g *generator) compute(ranks []int, ns int64) {
	if ns == 0 {
		return
	}
	for _, r := range ranks {
		g.tail[r] = []int64{g.step(r, g.tail[r], ns)}
	}
}

func (g *generator) step(rank int, after []int64, ns int64) int64 {
	h := g.hosts[rank]
	return g.add(&Flow{Src: h, Dst: h, Kind: compute, After: after, DelayNS: ns})
}
