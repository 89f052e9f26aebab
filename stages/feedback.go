package stages

import (
	"context"
	"fmt"

	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// FeedbackScope selects the hops that receive feedback.
type FeedbackScope uint8

const (
	// EveryHop writes table feedback, the input of the next pass: feedback for every hop of every flow.
	EveryHop FeedbackScope = iota
	// SenderHop writes table sender_feedback, the input of the replay: feedback for hop 0 of every flow.
	SenderHop
)

// FeedbackBuilder computes the feedback of link cases from the observations of one pass.
//
// A link case on its own does not know that its flows are delayed and marked at other links too, so it
// overestimates queues, the more the busier the network is. Estimator Flow therefore simulates all link
// cases repeatedly. After each pass, every hop of a flow receives as feedback what the flow's packets
// observed at the other hops of the path:
//
//	observations of the path:   hop 0      hop 1 … h-1     hop h     hop h+1 …
//	feedback of hop h:          NICWaitNS  UpstreamNS      -         WaitNS
//	                            marks and hints of all hops but h
//
// In the next pass a packet leaves its host later by NICWaitNS and reaches the link later by UpstreamNS,
// and its ACK returns later by WaitNS. This is waveform relaxation (Lelarasmee, Ruehli and
// Sangiovanni-Vincentelli, IEEE TCAD 1(3), 1982) with queues instead of circuits. A simulation of the
// whole network is a fixed point of it.
//
// Link cases react against the sense of a change: longer waits at other links make the queue of this link
// shorter. Undamped feedback therefore overshoots. Each hop receives the mean of its previous feedback and
// of the new observations (under-relaxation by one half; the feedback before the first pass is zero). Waits
// are averaged. Marks cannot be averaged, so a random bit for every 16 packets selects the old or the new
// ones. Only hop 0 receives the new observations undamped: the host's uplink has no queue that other hosts
// fill, and its case yields the estimate (Simulator.Replay).
//
// A FeedbackBuilder is used by one goroutine at a time.
type FeedbackBuilder struct {
	links     int
	transport simkernel.Transport
	layout    simkernel.BlockLayout
	seed      uint64
	pass      int
	ablation  Ablation
	simulated []bool // by link id: whether its case reads feedback; nil: all do

	observed observationIndex // of this pass
	previous observationIndex // feedback that this pass was given
	damp     bool             // whether there is previous feedback

	hops       [][]simkernel.Block // observations of the current flow, in the memory of hopBlocks
	hopBlocks  [][]simkernel.Block
	was        []simkernel.Block // previous feedback of the current hop
	blocks     []simkernel.Block // feedback of the current hop
	upstream   []blockSum        // by block: hops 1 to h-1
	downstream []blockSum        // by hop and block: all hops behind it

	out feedbackRows
}

// NewFeedbackBuilder returns a builder for the observations of the given pass, counted from 1. The seed keys
// the random bits that select marks.
func NewFeedbackBuilder(n *topology.Network, p *simkernel.Params, seed uint64, pass int,
	a Ablation) *FeedbackBuilder {
	return &FeedbackBuilder{links: len(n.Links), transport: p.Transport, layout: p.Layout(), seed: seed, pass: pass,
		ablation: a}
}

// Represent omits the feedback of links whose cases are not simulated. of is the representative of each
// link (ReadClusters). Hosts' uplinks always receive feedback, because the replay simulates all of them.
func (x *FeedbackBuilder) Represent(n *topology.Network, of []int32) {
	x.simulated = nil
	for id := range of {
		x.simulated = append(x.simulated, !isImputed(of, int32(id)) || n.FromHost(int32(id)))
	}
}

// ObservationColumns names the columns of table hop_observations that Build reads.
func ObservationColumns() []string { return []string{"flow_row", "hop", "hops", "link_id", "observed"} }

// FeedbackColumns names the columns of tables feedback and sender_feedback.
func FeedbackColumns() []string { return []string{"link_id", "flow_row", "hop", "observed"} }

// Build writes the feedback of one chunk of flows, rows firstRow to firstRow+rows-1 of table flows, by link
// and flow, in the order of table hops.
//
// observed is table hop_observations of the pass. previous is table feedback that the pass was given, nil
// for the first pass; SenderHop does not read it. Both may hold rows of other flows, which are skipped, and
// may come in any order. A flow whose hops are not all in observed is an error that names its row.
func (x *FeedbackBuilder) Build(ctx context.Context, scope FeedbackScope, firstRow, rows int64,
	observed, previous schema.Batches, out schema.Sink) error {
	if err := x.observed.readObservations(firstRow, rows, observed); err != nil {
		return err
	}
	x.damp = scope == EveryHop && previous != nil
	if x.damp {
		if err := x.previous.readFeedback(firstRow, rows, previous); err != nil {
			return err
		}
	}
	x.out.reset()
	for f := range int(rows) {
		if f%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := x.flow(scope, firstRow, f); err != nil {
			return err
		}
	}
	if scope == SenderHop {
		return x.out.flush(schema.SenderFeedback, x.links, out)
	}
	return x.out.flush(schema.Feedback, x.links, out)
}

// flow appends the feedback of flow f of the chunk.
func (x *FeedbackBuilder) flow(scope FeedbackScope, firstRow int64, f int) error {
	count, err := x.observed.hopsOf(f, firstRow)
	if err != nil || count == 0 {
		return err
	}
	for len(x.hopBlocks) < count {
		x.hopBlocks = append(x.hopBlocks, nil)
	}
	x.hops = x.hopBlocks[:count]
	longest := 0
	for h := range count {
		if x.hops[h], err = readBlocks(x.hops[h][:0], x.observed.at(f, h)); err != nil {
			return fmt.Errorf("hop_observations: flow row %d, hop %d: %w", firstRow+int64(f), h, err)
		}
		longest = max(longest, len(x.hops[h]))
	}
	x.sumDownstream(longest)
	if x.isSimulated(f, 0) {
		x.senderFeedback(firstRow+int64(f), f, longest)
	}
	if scope == SenderHop {
		return nil
	}
	return x.networkFeedback(firstRow+int64(f), f, longest)
}

// isSimulated reports whether the case of a flow's hop reads feedback.
func (x *FeedbackBuilder) isSimulated(f, h int) bool {
	return x.simulated == nil || x.simulated[x.observed.link(f, h)]
}

// sumDownstream sums, for each hop, what the flow's packets observed at the hops behind it.
func (x *FeedbackBuilder) sumDownstream(longest int) {
	x.downstream = resize(x.downstream, len(x.hops)*longest)
	clear(x.downstream[len(x.downstream)-longest:])
	for h := len(x.hops) - 1; h > 0; h-- {
		sums := x.downstream[(h-1)*longest : h*longest]
		copy(sums, x.downstream[h*longest:])
		for b := range x.hops[h] {
			sums[b] = sums[b].add(&x.hops[h][b], x.transport)
		}
	}
}

// senderFeedback appends the feedback of hop 0: the observations of all other hops, undamped.
func (x *FeedbackBuilder) senderFeedback(row int64, f, longest int) {
	x.blocks = resize(x.blocks, longest)
	for b, s := range x.downstream[:longest] {
		if x.ablation&AblateMarks != 0 {
			s.marks = 0
		}
		x.blocks[b] = simkernel.Block{WaitNS: clampNS(s.waitNS), Marks: s.marks, Hint: s.hint}
	}
	x.out.append(x.observed.link(f, 0), row, 0, x.blocks)
}

// networkFeedback appends the feedback of the hops behind hop 0.
func (x *FeedbackBuilder) networkFeedback(row int64, f, longest int) (err error) {
	x.upstream = resize(x.upstream, longest)
	clear(x.upstream)
	for h := 1; h < len(x.hops); h++ {
		if h > 1 {
			for b := range x.hops[h-1] {
				x.upstream[b] = x.upstream[b].add(&x.hops[h-1][b], x.transport)
			}
		}
		if !x.isSimulated(f, h) {
			continue
		}
		x.was = x.was[:0]
		if x.damp {
			if x.was, err = readBlocks(x.was, x.previous.at(f, h)); err != nil {
				return fmt.Errorf("feedback: flow row %d, hop %d: %w", row, h, err)
			}
		}
		x.blocks = resize(x.blocks, max(longest, len(x.was)))
		for b := range x.blocks {
			var upstream, downstream blockSum
			if b < longest {
				upstream, downstream = x.upstream[b], x.downstream[h*longest+b]
			}
			x.blocks[b] = x.damped(row, b, upstream, downstream)
		}
		x.out.append(x.observed.link(f, h), row, int16(h), x.blocks)
	}
	return nil
}
