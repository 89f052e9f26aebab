// Package flow is the estimator that follows the packets of each flow along its path.
//
// In two passes, link cases exchange what the packets of their flows observed (FeedbackBuilder). The case of
// the uplink of a flow's host then replays the flow with complete feedback (linksim.Simulator.Replay). Waits
// at different links add up where packets meet them one after another. If several links reduce the rate of a
// flow at the same time, it is reduced only once, because one sender reacts to all marks. The wait for the
// host's NIC and the limit of the window also count only once.
//
//	observations of pass 1 → feedback → pass 2 → sender feedback → replay → blend → attribution: slowdowns
package flow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/linksim"
	"parsimon/stages/rng"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// A FeedbackBuilder computes the feedback of link cases from the observations of one pass.
//
// A single link case does not know that its flows are also delayed and marked at other links, so it
// overestimates queues. The error grows with the load of the network. Estimator Flow therefore simulates all
// link cases repeatedly. Before each pass, every hop of a flow receives as feedback what the flow's packets
// observed at the other hops of the path:
//
//	observations of the path:   hop 0      hop 1 … h-1     hop h     hop h+1 …
//	feedback of hop h:          NICWaitNS  UpstreamNS      -         WaitNS
//	                            marks of all hops but h, and the greatest share of the line rate that one denied
//
// A packet then leaves its host later by NICWaitNS and reaches the link later by UpstreamNS, and its ACK
// returns later by WaitNS. This is waveform relaxation (Lelarasmee, Ruehli and Sangiovanni-Vincentelli, IEEE
// TCAD 1(3), 1982) with queues instead of circuits. A simulation of the whole network is a fixed point of it.
//
// Hop 0 is different: WaitNS has the waits at the slowest link of the path and behind it, and UpstreamNS has
// the waits before it (linkcase.Case.DownstreamBps).
//
// Link cases react in the opposite direction: longer waits at other links shorten the queue of this link.
// Feedback without damping therefore overshoots. Each hop sends damped observations (see damp), and the
// feedback of a hop is the sum of what the other hops send. The replay receives the last observations without
// damping, because no other host fills the queue of a host's uplink.
//
// A FeedbackBuilder must not be used by several goroutines at a time.
type FeedbackBuilder struct {
	model  *step.Model
	layout simkernel.BlockLayout
	trips  route.RoundTrips
	runs   []bool // by link id: the next pass runs its case

	flows    []routedFlow      // of the chunk, for ForPass
	paths    []tables.FlowPath // of the chunk, for ForSenders
	observed observationIndex  // of this pass

	path       []int32             // links of the current flow
	hops       [][]simkernel.Block // observations of the current flow; after damping, what its hops send
	blocks     []simkernel.Block   // feedback of the current hop
	upstream   []blockSum          // by block: hops 1 to h-1
	downstream []blockSum          // by hop and block: sum over all hops behind it

	out feedbackRows
}

// NewFeedbackBuilder returns a builder. The random bits that select marks depend on the model's seed. omitted
// are links that need no feedback for pass 2.
func NewFeedbackBuilder(m *step.Model, omitted linksim.Omitted) *FeedbackBuilder {
	x := &FeedbackBuilder{
		model: m, layout: m.Params.Layout(), trips: route.NewRoundTrips(m.Network, &m.Params),
		observed: observationIndex{links: len(m.Network.Links)},
	}
	for _, l := range m.Network.Links {
		x.runs = append(x.runs, omitted.Runs(l.ID))
	}
	return x
}

// A routedFlow has the columns of table flows that determine the path of a flow.
type routedFlow struct {
	Src        int32 `col:"src"`
	Dst        int32 `col:"dst"`
	SizeBytes  int64 `col:"size_bytes"`
	Connection int64 `col:"connection_id"`
}

// ForPass writes the feedback of one chunk of flows for pass 2: table feedback, by link and flow, in the
// order of table hops. The feedback is damped. Hops without feedback have no rows. Hops that observed nothing
// receive feedback, too, so the router finds the links of the flows that observed anything.
//
// observed is table hop_observations, in any order. If it has several rows of a flow and hop, the first is
// used. Hops without a row observed nothing. Rows of flows of other chunks are skipped. A row about a hop
// that is not on the flow's path is an error.
func (x *FeedbackBuilder) ForPass(
	ctx context.Context, c slowdown.Chunk, observed schema.Batches, out schema.Sink,
) error {
	if err := x.readFlows(c); err != nil {
		return errors.Join(err, observed.Close())
	}
	return x.build(ctx, c, observed, out, func(f int) error {
		err := x.setPath(&x.flows[f])
		if err != nil || len(x.path) == 0 {
			return err
		}
		row := c.FirstRow + int64(f)
		longest, err := x.readHops(f, len(x.path), x.path)
		if err != nil {
			return err
		}
		trip := x.trips.PathNS(x.path)
		for h := 1; h < len(x.hops); h++ {
			x.damp(x.hops[h], row, trip)
		}
		x.sumDownstream(longest)
		x.passFeedback(row, longest)
		return nil
	})
}

// ForSenders writes the feedback of one chunk of flows for the replay: table sender_feedback. It differs from
// ForPass in that it is not damped and is for hop 0 of every flow. routed is what route wrote about the
// chunk.
func (x *FeedbackBuilder) ForSenders(
	ctx context.Context, c slowdown.Chunk, routed slowdown.Routed, observed schema.Batches, out schema.Sink,
) (err error) {
	if x.paths, err = c.ReadPaths(x.paths, routed); err != nil {
		return errors.Join(err, observed.Close())
	}
	return x.build(ctx, c, observed, out, func(f int) error {
		path := &x.paths[f]
		longest, err := x.readHops(f, int(path.Hops), []int32{path.FirstLink})
		if err != nil {
			return err
		}
		x.sumDownstream(longest)
		x.senderFeedback(path, longest)
		return nil
	})
}

// readFlows reads a chunk of flows.
func (x *FeedbackBuilder) readFlows(c slowdown.Chunk) error {
	x.flows = x.flows[:0]
	err := columns.EachRows(c.Flows, tables.SmallBatch, func(part []routedFlow) error {
		x.flows = append(x.flows, part...)
		return nil
	})
	if err == nil && int64(len(x.flows)) != c.Rows {
		err = fmt.Errorf("flows: the chunk at row %d has %d flows, %d were routed", c.FirstRow, len(x.flows),
			c.Rows)
	}
	return err
}

// setPath sets path to the links of a flow.
func (x *FeedbackBuilder) setPath(of *routedFlow) (err error) {
	x.path = x.path[:0]
	if route.ComputeStep(of.Src, of.Dst, of.SizeBytes) {
		return nil
	}
	x.path, err = x.model.Router.Path(of.Connection, of.Src, of.Dst, x.path)
	if x.model.Unreachable == step.CountUnreachable && route.IsUnreachable(err) {
		return nil
	}
	return err
}

// build calls feedback for each flow of the chunk that observed anything, and writes the rows.
func (x *FeedbackBuilder) build(ctx context.Context, c slowdown.Chunk, observed schema.Batches,
	out schema.Sink, feedback func(f int) error) error {
	if err := x.observed.read(c, observed); err != nil {
		return err
	}
	x.out.reset()
	for f := range int(c.Rows) {
		if f%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !x.observed.Has(f) {
			continue
		}
		if err := feedback(f); err != nil {
			return err
		}
	}
	w := &x.out // by link; the rows of a link stay in the order of the flows
	places := w.sorter.Order(len(w.rows), func(i int) uint64 { return uint64(w.rows[i].LinkID) })
	return feedbackTable.WriteOrdered(out, w.rows, places, &w.blocks)
}

// readHops sets x.hops to what the packets of flow f of the chunk observed. Its path has a number of hops and
// begins with the known links. It returns the largest number of blocks of a hop.
func (x *FeedbackBuilder) readHops(f, hops int, known []int32) (longest int, err error) {
	rows, err := x.observed.Of(f, hops, known)
	if err != nil {
		return 0, err
	}
	x.hops = columns.Grow(x.hops[:0], hops)[:hops]
	for h := range x.hops {
		x.hops[h] = x.hops[h][:0]
	}
	for _, row := range rows {
		h := x.observed.rows[row].hop
		if x.hops[h], err = x.observed.blocks(x.hops[h], f, row); err != nil {
			return 0, err
		}
		longest = max(longest, len(x.hops[h]))
	}
	return longest, nil
}

// sumDownstream computes, for each hop, the sum of what the flow's packets observed at the hops behind it.
func (x *FeedbackBuilder) sumDownstream(longest int) {
	x.downstream = columns.Resize(x.downstream, len(x.hops)*longest)
	clear(x.downstream[len(x.downstream)-longest:])
	for h := len(x.hops) - 1; h > 0; h-- {
		sums := x.downstream[(h-1)*longest : h*longest]
		copy(sums, x.downstream[h*longest:])
		for b := range x.hops[h] {
			sums[b].add(&x.hops[h][b])
		}
	}
}

// senderFeedback appends the feedback of hop 0: the sum over all other hops, divided at the slowest hop.
func (x *FeedbackBuilder) senderFeedback(path *tables.FlowPath, longest int) {
	x.blocks = columns.Resize(x.blocks, longest)
	for b, s := range x.downstream[:longest] {
		behind := x.downstream[max(0, int(path.SlowestHop)-1)*longest+b].waitNS
		x.blocks[b] = simkernel.Block{UpstreamNS: clampNS(s.waitNS - behind), WaitNS: clampNS(behind),
			Marks: s.marks, Denied: s.denied}
	}
	x.out.add(path.FirstLink, path.FlowRow, 0, x.blocks)
}

func (x *FeedbackBuilder) passFeedback(row int64, longest int) {
	x.upstream = columns.Resize(x.upstream, longest)
	clear(x.upstream)
	for h := 1; h < len(x.hops); h++ {
		if h > 1 {
			for b := range x.hops[h-1] {
				x.upstream[b].add(&x.hops[h-1][b])
			}
		}
		if !x.runs[x.path[h]] {
			continue
		}
		x.blocks = columns.Resize(x.blocks, longest)
		for b := range x.blocks {
			up := &x.upstream[b]
			down := &x.downstream[h*longest+b]
			out := simkernel.Block{UpstreamNS: clampNS(up.waitNS), WaitNS: clampNS(down.waitNS),
				Marks: up.marks | down.marks, Denied: max(up.denied, down.denied)}
			if b < len(x.hops[0]) { // the only wait at a host's uplink is the NIC wait
				out.NICWaitNS = x.hops[0][b].WaitNS
				out.Marks |= x.hops[0][b].Marks
			}
			x.blocks[b] = out
		}
		x.out.add(x.path[h], row, int16(h), x.blocks)
	}
}

// A blockSum is what the packets of one block observed at several hops.
type blockSum struct {
	waitNS        int64
	marks, denied uint16
}

func (s *blockSum) add(b *simkernel.Block) {
	s.waitNS += int64(b.WaitNS)
	s.marks |= b.Marks
	s.denied = max(s.denied, b.Denied)
}

// damp replaces the blocks that a flow's packets observed at a hop, other than the uplink of their host, by
// the blocks that the hop sends.
//
// A wait w is damped by its own share of the round trip. If flows are persistent and limited by their
// windows, the number of packets in flight is fixed, so a queue shrinks by as much as the waits at other
// links grow. If two links send each other their complete waits, both queues vanish in the next pass and
// return in the one after. If they send half of their waits, both queues are accurate at once. A wait that is
// short compared with the round trip belongs to packets that do not fill a window, and it does not react. A
// hop therefore sends w / (1 + s), where s = w / (w + round trip without waits) estimates how much the queue
// reacts. NIC waits are not damped, because no other host fills the queue of a host's uplink.
func (x *FeedbackBuilder) damp(blocks []simkernel.Block, row int64, roundTripNS int64) {
	for b := range blocks {
		now := &blocks[b]
		if now.WaitNS == 0 {
			continue
		}
		w := uint64(now.WaitNS)
		part := w + uint64(roundTripNS)
		whole := 2*w + uint64(roundTripNS)
		hi, lo := bits.Mul64(w, part)
		sent, _ := bits.Div64(hi, lo, whole)
		if now.Marks != 0 && !x.keepsMarks(row, b, float64(part)/float64(whole)) {
			now.Marks = 0
		}
		now.WaitNS = int32(sent)
	}
}

func clampNS(ns int64) int32 { return int32(min(ns, math.MaxInt32)) }

// keepsMarks draws whether block b of a flow keeps its marks. All hops and all blocks of a window share one
// random number, because a sender reacts to marks once per window. If the sender reacts on a timer, all
// windows of the flow share one.
func (x *FeedbackBuilder) keepsMarks(row int64, b int, probability float64) bool {
	window := 0
	if !x.model.Params.Transport.Traits().Timers {
		window = x.layout.Window(b)
	}
	s := rng.New(x.model.Seed, rng.Feedback, 1, uint64(row), uint64(window))
	return float64(s.Uint64()>>11)/(1<<53) < probability
}
