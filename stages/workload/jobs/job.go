// Package jobs generates the flows of jobs on a training cluster, and their dependencies.
//
//	Job ─► iterations ─┬─ Steps: compute, collectives of all ranks      ─┐
//	                   └─ Training: micro-batches through the stages of ─┴─► Flow: transfer or compute step,
//	                      a pipeline, then the gradients of each layer        and the flows that it waits for
//
//	Trace ─► operations of ranks: GOAL, htsim, Chakra, SimCCL ────────────► Flow
//
// A flow depends only on earlier flows, so no job has a cycle. The table has the time of a collective of S
// bytes among n ranks if no two transfers share a link. T(b) is the time of one transfer of b bytes between
// two ranks (Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005; for the ring, Patarasu and Yuan, JPDC 69(2),
// 2009):
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
// A request with fan-out is a scatter, a compute step and a gather. The iterations of such a job form a
// closed loop.
//
// With m chunks, a chain takes (n-2+m) T(S/m).
//
// In a network, ACKs add to T if both directions of a cable send data. An all-reduce by tree accepts any n,
// but its transfers then share links.
//
// S is the number of bytes of a rank before an all-reduce, reduce-scatter, all-to-all or broadcast, and after
// an all-gather. For a scatter it is that of rank 0 before it, and for a gather that of rank 0 after it,
// including its own part. Parts are rounded up to whole bytes. A rank sends in a round after it has sent and
// received everything of the previous rounds. The arithmetic of reductions takes no time.
package jobs

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A Job runs several iterations on ranks. It has either Steps or Training.
type Job struct {
	ID         int       `json:"id"` // its place in the scenario, regardless of the jobs that run
	Name       string    `json:"name"`
	Hosts      []int32   `json:"hosts"` // by rank, each once
	StartNS    int64     `json:"start_ns"`
	Iterations int       `json:"iterations"`
	Steps      []Step    `json:"steps,omitempty"`
	Training   *Training `json:"training,omitempty"`
}

// A Step is a compute step, or a collective of all ranks.
type Step struct {
	ComputeNS  int64       `json:"compute_ns,omitempty"`
	Collective *Collective `json:"collective,omitempty"`
}

// A Flow is a transfer from one host to another. If the hosts are equal and it has no bytes, it is a compute
// step.
type Flow struct {
	Src, Dst  int32
	Bytes     int64
	Iteration int32
	Kind      string // compute, or the data that is sent: gradients, activations, a collective, …
	After     []int64
	StartNS   int64 // of a trace: it does not start before
	DelayNS   int64 // from the delivery of the last of After, flows of the job from 0, to the start
}

// These are the kinds of flows of Training.
const (
	compute     = "compute"
	activations = "activations"
	gradients   = "gradients"
	tensor      = "tensor"
	expert      = "expert"
)

// These are the limits of the values of a job.
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

// Generate calls emit for each flow of a checked job, after those that the flow depends on, until emit fails.
// The first flow is a compute step at the start, on which all ranks depend. A rank begins an iteration when
// it has finished the previous one.
func (j *Job) Generate(emit func(*Flow) error) error {
	g := &generator{hosts: j.Hosts, emit: emit, tail: make([][]int64, len(j.Hosts))}
	first := g.step(0, nil, 0)
	for rank := range j.Hosts {
		g.all = append(g.all, rank)
		g.tail[rank] = []int64{first}
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
	tail      [][]int64     // by rank: the flows that its next operation waits for
	first     map[int]int64 // by rank: the first flow that it sends of a chunk
}

func (g *generator) add(f *Flow) int64 {
	f.Iteration = g.iteration
	f.StartNS = g.startNS
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

// A Collective is an operation of all ranks of a group on a number of bytes.
type Collective struct {
	Kind      string `json:"kind"`
	Algorithm string `json:"algorithm"`
	Bytes     int64  `json:"bytes"`
	// The bytes are divided into Channels parts, which use separate rings at the same time, as in NCCL. Ring
	// c begins each block of Channels ranks at rank c of the block. Every second block is traversed
	// backwards, so that the ring leaves a block and enters the next one at the same position. If the number
	// of channels equals the number of ranks of a server, all of its NICs send, each on its rail.
	Channels int `json:"channels,omitempty"`
	// The bytes of a channel are divided into Chunks parts, which form a pipeline: a rank begins with the
	// next part once the first transfer of the previous part has been delivered.
	Chunks int `json:"chunks,omitempty"`
}

// MaxParts is the maximum number of channels, and of chunks, of a collective.
const MaxParts = 1024

// An algorithm emits the flows of a collective. Rank i of the group begins after the flows in after[i], and
// has its result after the flows that are returned.
type algorithm struct {
	kind, name string
	run        func(g *generator, kind string, group []int, bytes int64, after [][]int64) (done [][]int64)
}

// algorithms has the algorithms of each collective. The first one is the default.
var algorithms = []algorithm{
	{"all-reduce", "ring", ring(2)},
	{"all-reduce", halvingDoubling, func(g *generator, kind string, group []int, s int64,
		after [][]int64) [][]int64 {
		n := len(group)
		after = g.rounds(kind, group, after, log2(n), func(r, i int) (int, int64) {
			return i ^ n>>(r+1), part(s, 2<<r)
		})
		return g.rounds(kind, group, after, log2(n), func(r, i int) (int, int64) { return i ^ 1<<r, part(s, n>>r) })
	}},
	{"all-reduce", "tree", func(g *generator, kind string, group []int, s int64, after [][]int64) [][]int64 {
		after = g.rounds(kind, group, after, log2(len(group)), func(r, i int) (int, int64) {
			if i%(2<<r) == 1<<r {
				return i - 1<<r, s
			}
			return none, 0
		})
		return broadcast(g, kind, group, s, after)
	}},
	{"reduce-scatter", "ring", ring(1)},
	{"all-gather", "ring", ring(1)},
	{"all-to-all", "pairwise", func(g *generator, kind string, group []int, s int64, after [][]int64) [][]int64 {
		n := len(group)
		return g.rounds(kind, group, after, n-1, func(r, i int) (int, int64) { return (i + r + 1) % n, part(s, n) })
	}},
	{"all-to-all", direct, atOnce(func(_, _ int) bool { return true })},
	{"scatter", direct, atOnce(func(from, _ int) bool { return from == 0 })},
	{"gather", direct, atOnce(func(_, to int) bool { return to == 0 })},
	{"broadcast", "tree", broadcast},
	{"pipeline", "chain", func(g *generator, kind string, group []int, s int64, after [][]int64) [][]int64 {
		return g.rounds(kind, group, after, len(group)-1, func(r, i int) (int, int64) {
			if i == r {
				return i + 1, s
			}
			return none, 0
		})
	}},
}

// halvingDoubling requires a number of ranks that is a power of two. direct waits for all n² transfers.
const (
	halvingDoubling = "halving-doubling"
	direct          = "direct"
	maxDirect       = 4096
)

// ring sends a part to the next rank in each round. There are n-1 rounds, or twice as many.
func ring(times int) func(*generator, string, []int, int64, [][]int64) [][]int64 {
	return func(g *generator, kind string, group []int, s int64, after [][]int64) [][]int64 {
		n := len(group)
		return g.rounds(kind, group, after, times*(n-1), func(_, i int) (int, int64) {
			return (i + 1) % n, part(s, n)
		})
	}
}

// atOnce sends a part from each rank to each of its receivers, all at the same time.
func atOnce(sends func(from, to int) bool) func(*generator, string, []int, int64, [][]int64) [][]int64 {
	return func(g *generator, kind string, group []int, s int64, after [][]int64) [][]int64 {
		n := len(group)
		done := make([][]int64, n)
		sent := make([]bool, n)
		for r := range n - 1 {
			for i := range group {
				to := (i + r + 1) % n
				if sends(i, to) {
					f := g.transfer(kind, group[i], group[to], part(s, n), after[i])
					done[i], done[to], sent[i] = append(done[i], f), append(done[to], f), true
				}
			}
		}
		for i, r := range group { // one flow for the next operation to wait for
			if !sent[i] {
				done[i] = append(done[i], after[i]...)
			}
			done[i] = []int64{g.step(r, done[i], 0)}
		}
		return done
	}
}

// broadcast sends along a binomial tree whose root is rank 0.
func broadcast(g *generator, kind string, group []int, s int64, after [][]int64) [][]int64 {
	n := len(group)
	last := log2(len(group)) - 1
	return g.rounds(kind, group, after, last+1, func(r, i int) (int, int64) {
		far := 1 << (last - r)
		if i%(2*far) == 0 && i+far < n {
			return i + far, s
		}
		return none, 0
	})
}

// Check returns an error for an unknown collective, and for one that n ranks cannot run. It sets the default
// algorithm, and one channel and one chunk if their numbers are 0.
func (c *Collective) Check(n int) error {
	var kinds, names []string
	for _, a := range algorithms {
		if !slices.Contains(kinds, a.kind) {
			kinds = append(kinds, a.kind)
		}
		if a.kind == c.Kind {
			names = append(names, a.name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("collective %q, want %s", c.Kind, strings.Join(kinds, ", "))
	}
	if c.Algorithm == "" {
		c.Algorithm = names[0]
	}
	if !slices.Contains(names, c.Algorithm) {
		return fmt.Errorf("algorithm %q of %s, want %s", c.Algorithm, c.Kind, strings.Join(names, ", "))
	}
	for _, parts := range []*int{&c.Channels, &c.Chunks} {
		if *parts == 1 {
			*parts = 0
		}
	}
	switch {
	case c.Channels > 1 && c.Algorithm != "ring":
		return fmt.Errorf("channels are for algorithm ring, not %s", c.Algorithm)
	case c.Channels > 1 && n%c.Channels != 0:
		return fmt.Errorf("%d channels do not divide %d ranks", c.Channels, n)
	case c.Chunks > 1 && c.Algorithm == direct:
		return fmt.Errorf("algorithm %s has no chunks", direct)
	case c.Algorithm == direct && n > maxDirect:
		return fmt.Errorf("algorithm %s takes at most %d ranks, not %d", direct, maxDirect, n)
	case c.Algorithm == halvingDoubling && n&(n-1) != 0:
		return fmt.Errorf("algorithm %s needs a power of two of ranks, not %d", halvingDoubling, n)
	}
	return nil
}

// collective runs a checked collective among a group of ranks. A group of one rank has its result
// immediately.
func (g *generator) collective(c Collective, kind string, group []int, after [][]int64) (done [][]int64) {
	if len(group) == 1 || c.Bytes == 0 {
		return after
	}
	at := slices.IndexFunc(algorithms, func(a algorithm) bool {
		return a.kind == c.Kind &&
			a.name == c.Algorithm
	})
	channels := max(c.Channels, 1)
	chunks := max(c.Chunks, 1)
	done = make([][]int64, len(group))
	for channel := range channels {
		order := ringOrder(len(group), channels, channel)
		ranks := make([]int, len(group))
		begin := make([][]int64, len(group))
		for i, of := range order {
			ranks[i] = group[of]
			begin[i] = after[of]
		}
		for range chunks {
			g.first = map[int]int64{}
			end := algorithms[at].run(g, kind, ranks, part(c.Bytes, channels*chunks), begin)
			begin = slices.Clone(begin)
			for i, of := range order {
				done[of] = append(done[of], end[i]...)
				if f, sent := g.first[ranks[i]]; sent {
					begin[i] = append(slices.Clone(after[of]), f)
				}
			}
		}
	}
	return done
}

// ringOrder lists the positions of n ranks in the order of a channel's ring.
func ringOrder(n, channels, channel int) (order []int) {
	for block := 0; block < n; block += channels {
		for i := range channels {
			if block/channels%2 == 1 {
				i = channels - 1 - i
			}
			order = append(order, block+(channel+i)%channels)
		}
	}
	return order
}

// none is the receiver of a rank that does not send in a round.
const none = -1

// rounds runs n rounds. In each round, rank i of the group sends bytes to another rank, or to none.
func (g *generator) rounds(kind string, group []int, after [][]int64, n int,
	send func(round, i int) (to int, bytes int64)) [][]int64 {
	for r := range n {
		next := make([][]int64, len(group))
		sends := make([]bool, len(group))
		for i := range group {
			to, bytes := send(r, i)
			if to != none {
				f := g.transfer(kind, group[i], group[to], bytes, after[i])
				next[i], next[to], sends[i] = append(next[i], f), append(next[to], f), true
			}
		}
		for i := range group { // the flows of a rank followed all that it had waited for
			if !sends[i] {
				next[i] = slices.Concat(after[i], next[i])
			}
		}
		after = next
	}
	return after
}

// log2 returns the binary logarithm, rounded up.
func log2(n int) int { return bits.Len(uint(n - 1)) }

// part returns the size of one of n equal parts, rounded up.
func part(bytes int64, n int) int64 { return (bytes + int64(n) - 1) / int64(n) }
