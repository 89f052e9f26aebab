package jobs

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Training describes a model that ranks train together. Ranks are numbered as in Megatron-LM (Narayanan et
// al., SC'21): rank t + Tensor × (d + Data × p) has tensor slice t, data slice d and pipeline stage p.
//
// All stages have the same number of layers, and follow the schedule 1F1B of that paper. Stage p of P begins
// with P-p-1 micro-batches forward, then alternates between one forward and one backward, and ends with the
// remaining ones backward. It continues while it sends activations to the next stage, and their gradients
// back. A layer has a compute step, two all-reduces of TensorBytes among the Tensor ranks that share it
// (Shoeybi et al., arXiv:1909.08053), and two all-to-alls of ExpertBytes among Expert ranks of successive
// data slices (Lepikhin et al., GShard, ICLR'21), in each direction. At the end of the last micro-batch, the
// Data ranks all-reduce GradientBytes of each layer, one layer after the other.
type Training struct {
	Data         int     `json:"data"`
	Tensor       int     `json:"tensor"`
	Pipeline     int     `json:"pipeline"`
	Expert       int     `json:"expert"` // divides Data
	MicroBatches int     `json:"micro_batches"`
	Layers       []Layer `json:"layers"`
	// LocalBps is the bandwidth between Tensor ranks inside a server. Their all-reduces are then compute
	// steps of 2 (n-1)/n TensorBytes / LocalBps each, as in an idle ring. If it is 0, they cross the network.
	LocalBps int64 `json:"local_bps,omitempty"`
	// Gradients is the algorithm of the all-reduce of gradients.
	Gradients string `json:"gradients"`
	// Overlap sends the gradients of a layer while earlier layers compute. Otherwise all gradients are sent
	// at the end.
	Overlap bool `json:"overlap"`
}

// Layer describes a number of successive layers: the compute time of one rank for one micro-batch in each of
// them, and the bytes that it sends.
type Layer struct {
	Count           int   `json:"count"`
	ForwardNS       int64 `json:"forward_ns"`
	BackwardNS      int64 `json:"backward_ns"`
	GradientBytes   int64 `json:"gradient_bytes"`
	ActivationBytes int64 `json:"activation_bytes"`
	TensorBytes     int64 `json:"tensor_bytes"`
	ExpertBytes     int64 `json:"expert_bytes"`
}

// MaxMicroBatches, MaxLayers, their product and maxComputeNS (for one micro-batch in one direction) limit the
// size of a model.
const (
	MaxMicroBatches = 100_000
	MaxLayers       = 100_000
	maxLayerPasses  = 100_000_000 // generated one by one
	maxComputeNS    = 1e15
)

func (t *Training) check(ranks int) error {
	for _, v := range []*int{&t.Data, &t.Tensor, &t.Pipeline, &t.Expert, &t.MicroBatches} {
		*v = max(*v, 1)
	}
	n := t.Data * t.Tensor * t.Pipeline
	if n != ranks {
		return fmt.Errorf("data %d × tensor %d × pipeline %d is %d ranks, and the job has %d", t.Data, t.Tensor,
			t.Pipeline, n, ranks)
	}
	if t.Data%t.Expert != 0 {
		return fmt.Errorf("expert %d does not divide data %d", t.Expert, t.Data)
	}
	layers := 0
	ns := 0.0
	for _, l := range t.Layers {
		layers += l.Count
		ns += float64(l.Count) * float64(max(l.ForwardNS, l.BackwardNS))
	}
	if ns > maxComputeNS {
		return fmt.Errorf("a micro-batch computes for %.3g s, more than %.3g", ns/1e9, maxComputeNS/1e9)
	}
	if layers < 1 || layers > MaxLayers || layers%t.Pipeline != 0 {
		return fmt.Errorf("%d layers, must be 1 to %d, a multiple of pipeline %d", layers, MaxLayers, t.Pipeline)
	}
	if layers*t.MicroBatches > maxLayerPasses {
		return fmt.Errorf("%d layers times %d micro_batches are more than %d", layers, t.MicroBatches,
			maxLayerPasses)
	}
	if t.LocalBps > 0 && t.Tensor == 1 {
		return errors.New("local is the bandwidth among tensor ranks, and tensor is 1")
	}
	c := Collective{Kind: "all-reduce", Algorithm: t.Gradients, Bytes: 1}
	if err := c.Check(t.Data); err != nil {
		return fmt.Errorf("gradients: %w", err)
	}
	t.Gradients = c.Algorithm
	return nil
}

type trainer struct {
	*generator
	*Training
	layers   []Layer   // one each
	sending  [][]int64 // by rank: its last flows of gradients
	forward  []progress
	backward []progress
	perStage int
	did      []int // by stage: operations
}

// progress has the micro-batches that a stage has forwarded in one direction.
type progress struct {
	done    int       // micro-batches
	arrives [][]int64 // by micro-batch: the flows of each rank of the stage
}

func newTrainer(g *generator, t *Training) *trainer {
	x := &trainer{generator: g, Training: t, sending: make([][]int64, len(g.hosts)),
		forward: make([]progress, t.Pipeline), backward: make([]progress, t.Pipeline), did: make([]int, t.Pipeline)}
	for _, l := range t.Layers {
		x.layers = append(x.layers, slices.Repeat([]Layer{l}, l.Count)...)
	}
	x.perStage = len(x.layers) / t.Pipeline
	return x
}

// iterate runs the micro-batches of all stages in an order that satisfies their dependencies.
func (x *trainer) iterate() {
	for left := 2 * x.MicroBatches * x.Pipeline; left > 0; {
		for p := range x.Pipeline {
			for x.did[p] < 2*x.MicroBatches && x.step(p) {
				x.did[p]++
				left--
			}
		}
	}
	for p := range x.Pipeline {
		if !x.Overlap {
			for i := x.perStage - 1; i >= 0; i-- {
				x.reduce(p, x.layers[p*x.perStage+i])
			}
		}
		for _, r := range x.stage(p) {
			x.tail[r] = slices.Concat(x.tail[r], x.sending[r])
		}
	}
}

// step runs the next micro-batch of a stage, if its input has been sent.
func (x *trainer) step(p int) bool {
	k := x.did[p]
	m := x.MicroBatches
	warm := min(x.Pipeline-p-1, m) // micro-batches forward before the first backward
	way := backwardPass
	if k < warm || k < 2*m-warm && (k-warm)%2 == 0 {
		way = forwardPass
	}
	to := &x.forward[p]
	from := (*progress)(nil)
	next := p + 1
	if way == forwardPass && p > 0 {
		from = &x.forward[p-1]
	}
	if way == backwardPass {
		to = &x.backward[p]
		next = p - 1
		if p < x.Pipeline-1 {
			from = &x.backward[p+1]
		}
	}
	if from != nil && from.done <= to.done {
		return false
	}
	ranks := x.stage(p)
	if from != nil {
		for i, r := range ranks {
			x.tail[r] = append(slices.Clone(x.tail[r]), from.arrives[to.done][i])
		}
		from.arrives[to.done] = nil
	}
	x.compute(p, way, to.done)
	to.done++
	var sent []int64
	if next >= 0 && next < x.Pipeline {
		boundary := x.layers[max(p, next)*x.perStage-1] // the last layer of the earlier of the two stages
		for i, r := range ranks {
			sent = append(sent, x.transfer(activations, r, x.stage(next)[i], max(1, boundary.ActivationBytes),
				x.tail[r]))
		}
	}
	to.arrives = append(to.arrives, sent)
	return true
}

// A direction of a micro-batch through the layers of a model is forward or backward.
type direction int

const (
	forwardPass direction = iota
	backwardPass
)

// compute runs the layers of a stage for one micro-batch. Layers with no communication between them are one
// compute step.
func (x *trainer) compute(p int, way direction, micro int) {
	ranks := x.stage(p)
	last := way == backwardPass && micro == x.MicroBatches-1
	ns := int64(0)
	for i := range x.perStage {
		l := x.layers[p*x.perStage+i]
		layerNS := l.ForwardNS
		if way == backwardPass {
			l = x.layers[(p+1)*x.perStage-1-i]
			layerNS = l.BackwardNS
		}
		ns += layerNS
		if x.LocalBps > 0 {
			bits := 8 * float64(l.TensorBytes) * 2 * float64(x.Tensor-1) / float64(x.Tensor)
			ns += 2 * int64(math.Round(bits/float64(x.LocalBps)*1e9))
			l.TensorBytes = 0
		}
		reduces := last && x.Overlap && x.Data > 1 && l.GradientBytes > 0
		if !reduces && (x.Tensor == 1 || l.TensorBytes == 0) && (x.Expert == 1 || l.ExpertBytes == 0) {
			continue
		}
		x.generator.compute(ranks, ns)
		ns = 0
		reduction := Collective{Kind: "all-reduce", Algorithm: "ring", Bytes: l.TensorBytes}
		exchange := Collective{Kind: "all-to-all", Algorithm: "pairwise", Bytes: l.ExpertBytes}
		for range 2 {
			x.among(ranks, x.Tensor, 1, reduction, tensor, x.tail)
		}
		for range 2 {
			x.among(ranks, x.Expert, x.Tensor, exchange, expert, x.tail)
		}
		if reduces {
			x.reduce(p, l)
		}
	}
	x.generator.compute(ranks, ns)
}

// among runs a collective in each group of n ranks of a stage whose numbers are stride apart. A rank begins
// after its flows in the given lists. Its entry in the last list becomes the flows after which it ends.
func (x *trainer) among(ranks []int, n, stride int, c Collective, kind string, lists ...[][]int64) {
	for _, group := range groups(ranks, n, stride) {
		after := make([][]int64, n)
		for i, r := range group {
			for _, flows := range lists {
				after[i] = slices.Concat(after[i], flows[r])
			}
		}
		for i, done := range x.collective(c, kind, group, after) {
			lists[len(lists)-1][group[i]] = done
		}
	}
}

// reduce sends the gradients of a layer after those of earlier layers.
func (x *trainer) reduce(p int, l Layer) {
	c := Collective{Kind: "all-reduce", Algorithm: x.Gradients, Bytes: l.GradientBytes}
	x.among(x.stage(p), x.Data, x.Tensor, c, gradients, x.tail, x.sending)
}

func (x *trainer) stage(p int) []int {
	n := x.Tensor * x.Data
	return x.all[p*n:][:n]
}

// groups divides ranks into groups of n ranks whose numbers are stride apart.
func groups(ranks []int, n, stride int) (all [][]int) {
	for first := 0; first < len(ranks); first += n * stride {
		for k := range stride {
			group := make([]int, n)
			for i := range group {
				group[i] = ranks[first+k+i*stride]
			}
			all = append(all, group)
		}
	}
	return all
}
