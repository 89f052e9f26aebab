package stages

import (
	"context"
	"fmt"
	"slices"

	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// FeedbackScope selects which feedback is computed, from which observations.
type FeedbackScope uint8

const (
	// PassScope writes table feedback, the input of the next pass: feedback for every hop of every flow, damped.
	PassScope FeedbackScope = iota
	// SenderScope writes table sender_feedback, the input of the replay: feedback for hop 0 of every flow, whole.
	SenderScope
)

// FeedbackBuilder computes the feedback of link cases from the observations of one pass.
//
// A link case on its own does not know that its flows are delayed and marked at other links too, so it
// overestimates queues, the more the busier the network is. Estimator Flow therefore simulates all link
// cases repeatedly. Before each pass, every hop of a flow receives as feedback what the flow's packets
// observed at the other hops of the path:
//
//	observations of the path:   hop 0      hop 1 … h-1     hop h     hop h+1 …
//	feedback of hop h:          NICWaitNS  UpstreamNS      -         WaitNS
//	                            marks and hints of all hops but h
//
// Then a packet leaves its host later by NICWaitNS and reaches the link later by UpstreamNS, and its ACK returns
// later by WaitNS. This is waveform relaxation (Lelarasmee, Ruehli and Sangiovanni-Vincentelli, IEEE TCAD 1(3),
// 1982) with queues instead of circuits. A simulation of the whole network is a fixed point of it.
//
// Hop 0 is the exception: what its packets waited at the slowest link of the path and behind it is in WaitNS,
// and what they waited before it in UpstreamNS (linkcase.Case.DownstreamBps).
//
// With it comes what the flow's ACKs wait on their way back (ackWaits): it makes round trips longer, and senders whose
// windows are open slower. With a transport whose ACKs wait in the queues of switches, it is what these queues were at
// the time (UseQueues).
//
// With TIMELY and Swift, feedback is by time instead of by number of packet: see align.
//
// Link cases react against the sense of a change: longer waits at other links make the queue of this link
// shorter. Undamped feedback therefore overshoots, so each hop sends damped observations (see dampFirst), and the
// feedback of a hop is the sum over what the other hops send. The replay receives the last observations
// undamped, because a host's uplink has no queue that other hosts fill.
//
// A FeedbackBuilder is used by one goroutine at a time.
type FeedbackBuilder struct {
	net       *topology.Network
	params    *simkernel.Params
	layout    simkernel.BlockLayout
	seed      uint64
	pass      int
	ablation  Ablation
	simulated []bool // by link id: whether its case reads feedback; nil: all do
	leftOut   []bool // by link id: whether no pass runs its case; nil: none
	trips     roundTrips
	ackWaits  []float64 // by link id, in ns; nil: not known
	of        []int32   // by link id: the representative; nil: each is its own

	queues   *LinkQueues // nil: ACKs wait in none
	startNS  []int64     // of the chunk's flows
	ackHints []uint16    // by block of the current flow; empty: not known

	observed observationIndex // of this pass
	previous observationIndex // what the hops sent after the pass before; in pass 2, what was observed in the first
	again    bool             // whether there was one

	path       []int32             // of the current flow
	hops       [][]simkernel.Block // observations of the current flow, in the memory of hopBlocks; then what it sends
	hopBlocks  [][]simkernel.Block
	was        []simkernel.Block // what the current hop sent before
	blocks     []simkernel.Block // feedback of the current hop
	common     []simkernel.Block // the blocks whose times that feedback has: see align
	sampled    []simkernel.Block
	upstream   []blockSum // by block: hops 1 to h-1
	downstream []blockSum // by hop and block: all hops behind it

	out  feedbackRows
	sent observationRows
}

// NewFeedbackBuilder returns a builder for the observations of the given pass, counted from 1. The seed keys
// the random bits that select marks.
func NewFeedbackBuilder(n *topology.Network, p *simkernel.Params, loads *Loads, seed uint64, pass int,
	a Ablation) *FeedbackBuilder {
	return &FeedbackBuilder{net: n, params: p, layout: p.Layout(), seed: seed, pass: pass, ablation: a,
		trips: newRoundTrips(n, p), ackWaits: ackWaits(n, p, loads)}
}

// Represent omits the feedback of links whose cases are not simulated. of is the representative of each
// link (ReadClusters). Hosts' uplinks always receive feedback, because the replay simulates all of them.
func (x *FeedbackBuilder) Represent(of []int32) {
	x.of = of
	x.simulated = nil
	for id := range of {
		x.simulated = append(x.simulated, !isImputed(of, int32(id)) || x.net.FromHost(int32(id)))
	}
}

// Settle omits the feedback of links whose cases the next pass omits.
func (x *FeedbackBuilder) Settle(links Settled) {
	if x.simulated == nil {
		x.simulated = make([]bool, len(x.net.Links))
		for id := range x.simulated {
			x.simulated[id] = true
		}
	}
	for link := range links {
		x.simulated[link] = false
	}
}

// LeaveOut makes Build skip flows that cross only these links, of which no pass runs the cases. It goes with Follow:
// the links have no observations.
func (x *FeedbackBuilder) LeaveOut(links Settled) {
	x.leftOut = make([]bool, len(x.net.Links))
	for link := range links {
		x.leftOut[link] = true
	}
}

// Follow makes Build take observations that were made on other paths for those of the given ones, which are of the same
// chunk. A hop of which nothing is known gives no feedback.
func (x *FeedbackBuilder) Follow(p *Paths) { x.observed.paths = p }

// ObservationColumns names the columns of table hop_observations that Build reads.
func ObservationColumns() []string { return []string{"flow_row", "hop", "hops", "link_id", "observed"} }

// ObservedDelayColumns names the columns of table hop_observations that SampleReplays reads.
func ObservedDelayColumns() []string { return append(ObservationColumns(), "delay_ns") }

// FeedbackColumns names the columns of tables feedback and sender_feedback.
func FeedbackColumns() []string {
	return []string{"link_id", "flow_row", "hop", "observed", "ack_wait_ns"}
}

// Build writes the feedback of one chunk of flows, rows firstRow to firstRow+rows-1 of table flows, by link
// and flow, in the order of table hops; hops without feedback have no rows. For PassScope it also writes, unless
// sent is nil, table sent_observations, by flow_row and hop.
//
// observed is the table of the pass that the scope names. Where it has several rows of a flow and hop, the first
// counts. previous is what was observed in the pass before, where that is the first, later table sent_observations
// after that pass; nil after the first pass. Only PassScope reads it. Both may hold rows of other flows, which are
// skipped, and may come in any order. A flow whose hops are not all in observed is an error that names its row.
func (x *FeedbackBuilder) Build(ctx context.Context, scope FeedbackScope, firstRow, rows int64,
	observed, previous schema.Batches, out, sent schema.Sink) error {
	x.observed.wanted = nil
	switch {
	case x.observed.paths == nil:
	case sent == nil:
		x.ask(scope, int(rows), x.isSimulated)
	case x.leftOut != nil: // what the other flows' hops send is for all passes to come
		x.ask(scope, int(rows), func(link int32) bool { return !x.leftOut[link] })
	}
	if x.observed.wanted != nil && !slices.Contains(x.observed.wanted, true) {
		return nil
	}
	if err := x.observed.readObservations(firstRow, rows, observed); err != nil {
		return err
	}
	x.again = scope == PassScope && previous != nil
	if x.again {
		if err := x.previous.readObservations(firstRow, rows, previous); err != nil {
			return err
		}
	}
	x.out.reset()
	x.sent.reset()
	for f := range int(rows) {
		if f%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := x.flow(scope, firstRow, f, sent != nil); err != nil {
			return err
		}
	}
	if sent != nil {
		if err := x.sent.flush(schema.SentObservations, sent); err != nil {
			return err
		}
	}
	return x.out.flush(scope.table(), len(x.net.Links), out)
}

// table returns the table that the scope writes.
func (s FeedbackScope) table() schema.Table {
	return [...]schema.Table{schema.Feedback, schema.SenderFeedback}[s]
}

// flow appends the feedback of flow f of the chunk, and what its hops send.
func (x *FeedbackBuilder) flow(scope FeedbackScope, firstRow int64, f int, keep bool) error {
	count, err := x.observed.hopsOf(f, firstRow)
	if err != nil || count == 0 || !x.observed.wants(f) {
		return err
	}
	for len(x.hopBlocks) < count {
		x.hopBlocks = append(x.hopBlocks, nil)
	}
	x.hops, x.path = x.hopBlocks[:count], x.path[:0]
	for h := range count {
		if x.hops[h], err = readBlocks(x.hops[h][:0], x.observed.at(f, h)); err != nil {
			return fmt.Errorf("hop_observations: flow row %d, hop %d: %w", firstRow+int64(f), h, err)
		}
		x.path = append(x.path, x.observed.link(f, h))
	}
	if scope == PassScope {
		if err := x.damp(firstRow, f, keep); err != nil {
			return err
		}
	}
	x.align()
	if err := x.queueAcks(f); err != nil {
		return err
	}
	longest := 0
	for h := range count {
		longest = max(longest, len(x.hops[h]))
	}
	x.sumDownstream(longest)
	if x.isSimulated(x.path[0]) {
		x.senderFeedback(firstRow+int64(f), longest)
	}
	if scope != SenderScope {
		x.networkFeedback(firstRow+int64(f), longest)
	}
	return nil
}

// damp replaces the observations of flow f by what its hops send, and appends that if it is to be kept.
func (x *FeedbackBuilder) damp(firstRow int64, f int, keep bool) (err error) {
	row, trip := firstRow+int64(f), x.trips.of(x.path)
	for h := range x.hops {
		x.was = x.was[:0]
		if x.again {
			if x.was, err = readBlocks(x.was, x.previous.at(f, h)); err != nil {
				return fmt.Errorf("observations of the pass before: flow row %d, hop %d: %w", row, h, err)
			}
		}
		if x.again && x.pass == 2 && x.ablation&AblateDamping == 0 {
			x.dampFirst(x.was, row, h, trip)
		}
		if x.params.Transport.FeedbackByTime() && hasTimes(x.was) && hasTimes(x.hops[h]) {
			x.sampled = x.sample(x.sampled[:0], x.was, x.hops[h])
			x.was = append(x.was[:0], x.sampled...)
		}
		for len(x.hops[h]) < len(x.was) {
			x.hops[h] = append(x.hops[h], simkernel.Block{})
		}
		x.hopBlocks[h] = x.hops[h]
		switch {
		case x.ablation&AblateDamping != 0:
		case !x.again:
			x.dampFirst(x.hops[h], row, h, trip)
		default:
			x.dampLater(row, h)
		}
		if keep {
			x.sent.observed.Bytes = appendBlocks(x.sent.observed.Bytes, x.hops[h])
			x.sent.observed.Done()
			x.sent.append(row, int16(h), int16(len(x.hops)), x.path[h])
		}
	}
	return nil
}

// isSimulated reports whether the case of a link reads feedback.
func (x *FeedbackBuilder) isSimulated(link int32) bool {
	return x.simulated == nil || x.simulated[link]
}

// ask marks the flows of the given paths that cross a link for which is holds; no other observations are read.
func (x *FeedbackBuilder) ask(scope FeedbackScope, flows int, is func(link int32) bool) {
	x.observed.wanted = resize(x.observed.wanted, flows)
	for f := range x.observed.wanted {
		path := x.observed.paths.of(f)
		if scope == SenderScope {
			path = path[:min(len(path), 1)]
		}
		x.observed.wanted[f] = slices.ContainsFunc(path, is)
	}
}

// sumDownstream sums, for each hop, what the flow's packets observed at the hops behind it.
func (x *FeedbackBuilder) sumDownstream(longest int) {
	x.downstream = resize(x.downstream, len(x.hops)*longest)
	clear(x.downstream[len(x.downstream)-longest:])
	for h := len(x.hops) - 1; h > 0; h-- {
		sums := x.downstream[(h-1)*longest : h*longest]
		copy(sums, x.downstream[h*longest:])
		for b := range x.hops[h] {
			x.add(&sums[b], &x.hops[h][b])
		}
	}
}

// senderFeedback appends the feedback of hop 0: the sum over all other hops, divided at the slowest one.
func (x *FeedbackBuilder) senderFeedback(row int64, longest int) {
	slowest := slowestHop(x.path, func(link int32) int64 { return x.net.Links[link].BandwidthBps })
	x.blocks = resize(x.blocks, longest)
	for b, s := range x.downstream[:longest] {
		behind := x.downstream[max(0, slowest-1)*longest+b].waitNS
		if x.ablation&AblateMarks != 0 {
			s.marks = 0
		}
		x.blocks[b] = simkernel.Block{UpstreamNS: clampNS(s.waitNS - behind), WaitNS: clampNS(behind), Marks: s.marks,
			Hint: x.hint(b, s.hint), SentAt: x.sentAt(b)}
	}
	x.out.append(x.path[0], row, 0, x.ackWaitNS(), x.blocks)
}

// networkFeedback appends the feedback of the hops behind hop 0.
func (x *FeedbackBuilder) networkFeedback(row int64, longest int) {
	x.upstream = resize(x.upstream, longest)
	clear(x.upstream)
	ackWaitNS := x.ackWaitNS()
	for h := 1; h < len(x.hops); h++ {
		if h > 1 {
			for b := range x.hops[h-1] {
				x.add(&x.upstream[b], &x.hops[h-1][b])
			}
		}
		if !x.isSimulated(x.path[h]) {
			continue
		}
		x.blocks = resize(x.blocks, longest)
		for b := range x.blocks {
			x.setFeedback(&x.blocks[b], b, &x.upstream[b], &x.downstream[h*longest+b])
		}
		x.out.append(x.path[h], row, int16(h), ackWaitNS, x.blocks)
	}
}
