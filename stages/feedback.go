package stages

import (
	"context"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

// Relaxation. A link case on its own does not know that its flows are slowed, held up and marked at
// other links too, so the busier the network, the longer the queues it sees. So passes are made over
// all link cases, and each tells the next what every packet met at every link (waveform relaxation:
// Lelarasmee, Ruehli and Sangiovanni-Vincentelli, IEEE TCAD 1(3), 1982, with queues in the place of
// circuits): in the next pass a packet leaves its host later by what held it there, reaches the link
// later by what it waited before, its ACK is back later by what it waited behind, and marked if it was
// marked anywhere. A network simulation is a
// fixed point of this.
//
// Cases react to each other against the sense of the change: longer waits elsewhere make shorter
// queues here. Fed back whole, the waits of one pass overshoot in the next; so a case is told the
// mean of what it was told before and what was found since (under-relaxation by one half; before
// the first pass it was told nothing): the mean of waits, and the marks of the one or the other, by
// the toss of a coin for every 16 packets. Only a host's own case, which has no queue that others could
// fill, is told the newest waits as they are: it is what makes the estimate (Sample).

// A Relaxer hands what the packets of a chunk of flows met from the links to each other. One Relaxer
// serves one goroutine.
type FeedbackBuilder struct {
	links     int
	transport simkernel.Transport
	seed      uint64
	pass      int
	ablation  Ablation
	asks      []bool        // by link: whether anybody asks what it is told; nil: all
	observed  flowArena     // of this pass
	given     flowArena     // before this pass
	out       columns.Arena // by flow and hop

	outLink []int32
	outRow  []int64
	outHop  []int16
	starts  []int32
	order   []int32
	column  columns.Binary
	hops    [][]simkernel.Block // of the flow at hand, in the memory of read
	read    [][]simkernel.Block
	before  []simkernel.Block
	blocks  []simkernel.Block
	ahead   []passed // by block: of the hops before the one that is told, without the host's own
	behind  []passed // by hop and block: of the hops behind it
}

// A passed is what the packets of a block have met at several hops.
type passed struct {
	waitNS      int64
	marks, hint uint16
}

func (p passed) and(b *simkernel.Block, t simkernel.Transport) passed {
	return passed{p.waitNS + int64(b.WaitNS), p.marks | b.Marks, t.JoinHints(p.hint, b.Hint)}
}

// NewRelaxer prepares a relaxer for what the given pass, from 1, found of senders of that transport. The seed keys its draws.
func NewFeedbackBuilder(n *topology.Network, t simkernel.Transport, seed uint64, pass int, w Ablation) *FeedbackBuilder {
	return &FeedbackBuilder{links: len(n.Links), transport: t, seed: seed, pass: pass, ablation: w}
}

// Represent leaves out what links are told that another answers for (of: by link id, ReadClusters), but for
// hosts' own: their cases all run in the end.
func (x *FeedbackBuilder) Represent(n *topology.Network, of []int32) {
	x.asks = nil
	for id := range of {
		x.asks = append(x.asks, !isImputed(of, int32(id)) || n.FromHost(int32(id)))
	}
}

// WaitColumns and ElsewhereColumns name the columns of tables hop_observations and elsewhere that Relax
// reads: all.
func ObservationColumns() []string { return []string{"flow_row", "hop", "hops", "link_id", "observed"} }

// ElsewhereColumns names the columns of table elsewhere.
func FeedbackColumns() []string { return []string{"link_id", "flow_row", "hop", "observed"} }

// Relax reads the hop_observations of one chunk of flows, rows firstRow to firstRow+rows of table flows (in
// any order; other rows are passed over), and what the pass that made them was told (table elsewhere
// of the same chunk; nil before the first), and writes table elsewhere for the next: for each flow at
// each hop, what its packets met at its other hops, by link and flow, in the order of table hops.
func (x *FeedbackBuilder) HopFeedback(ctx context.Context, firstRow, rows int64, observed, given schema.Batches, out schema.Sink) error {
	if err := x.observed.read(firstRow, rows, observed, true); err != nil {
		return err
	}
	if given != nil {
		if err := x.given.read(firstRow, rows, given, false); err != nil {
			return err
		}
	}
	x.reset()
	err := x.flows(ctx, firstRow, rows, func(f, longest int) error { return x.hopFeedback(firstRow, f, longest, given != nil) })
	if err != nil {
		return err
	}
	return x.emit(schema.Feedback, out)
}

// Tell reads the hop_observations of one chunk of flows, as Relax does, and writes table sender_feedback: for each
// flow at its host's own link, what its packets met at its other hops, whole. It stands in the place of Relax
// after the last pass.
func (x *FeedbackBuilder) SenderFeedbackOf(ctx context.Context, firstRow, rows int64, observed schema.Batches, out schema.Sink) error {
	if err := x.observed.read(firstRow, rows, observed, true); err != nil {
		return err
	}
	x.reset()
	err := x.flows(ctx, firstRow, rows, func(f, longest int) error {
		x.sumBehind(longest)
		x.senderFeedback(firstRow, f, longest)
		return nil
	})
	if err != nil {
		return err
	}
	return x.emit(schema.SenderFeedback, out)
}

func (x *FeedbackBuilder) reset() {
	x.out.Reset()
	x.outLink, x.outRow, x.outHop = x.outLink[:0], x.outRow[:0], x.outHop[:0]
}

// flows hands the flows that have a path to do, what their packets met in x.hops, and of how many blocks that
// is at most.
func (x *FeedbackBuilder) flows(ctx context.Context, firstRow, rows int64, do func(f, longest int) error) error {
	for f := range int(rows) {
		if f%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		hops, err := x.observed.flow(f, firstRow)
		if err != nil {
			return err
		}
		if hops == 0 {
			continue
		}
		for len(x.read) < hops {
			x.read = append(x.read, nil)
		}
		x.hops = x.read[:hops]
		longest := 0
		for h := range hops {
			if x.hops[h], err = readBlocks(x.hops[h][:0], x.observed.at(f, h)); err != nil {
				return fmt.Errorf("hop_observations: flow row %d, hop %d: %w", firstRow+int64(f), h, err)
			}
			longest = max(longest, len(x.hops[h]))
		}
		if err := do(f, longest); err != nil {
			return err
		}
	}
	return nil
}

// tell takes x.blocks for what the flow's hop is told.
func (x *FeedbackBuilder) tell(row int64, f, h int) {
	x.out.Bytes = appendBlocks(x.out.Bytes, x.blocks)
	x.out.Done()
	x.outLink = append(x.outLink, x.observed.link(f, h))
	x.outRow = append(x.outRow, row)
	x.outHop = append(x.outHop, int16(h))
}

// sumBehind adds up what the flow's packets met behind each hop.
func (x *FeedbackBuilder) sumBehind(longest int) {
	x.behind = resize(x.behind, len(x.hops)*longest)
	last := x.behind[len(x.behind)-longest:]
	clear(last)
	for h := len(x.hops) - 1; h > 0; h-- {
		before := x.behind[(h-1)*longest : h*longest]
		copy(before, x.behind[h*longest:])
		for b := range x.hops[h] {
			before[b] = before[b].and(&x.hops[h][b], x.transport)
		}
	}
}

// tellHost tells a host's own link all that was met behind it.
func (x *FeedbackBuilder) senderFeedback(firstRow int64, f, longest int) {
	x.blocks = resize(x.blocks, longest)
	for b, p := range x.behind[:longest] {
		if x.ablation&AblateMarks != 0 {
			p.marks = 0
		}
		x.blocks[b] = simkernel.Block{WaitNS: short(p.waitNS), Marks: p.marks, Hint: p.hint}
	}
	x.tell(firstRow+int64(f), f, 0)
}

// tellAll works out what each hop of a flow is told.
func (x *FeedbackBuilder) hopFeedback(firstRow int64, f, longest int, given bool) (err error) {
	row := firstRow + int64(f)
	x.sumBehind(longest)
	if x.asked(f, 0) {
		x.senderFeedback(firstRow, f, longest)
	}
	x.ahead = resize(x.ahead, longest)
	clear(x.ahead)
	for h := 1; h < len(x.hops); h++ {
		if h > 1 {
			for b := range x.hops[h-1] {
				x.ahead[b] = x.ahead[b].and(&x.hops[h-1][b], x.transport)
			}
		}
		if !x.asked(f, h) {
			continue
		}
		x.before = x.before[:0]
		if given {
			if x.before, err = readBlocks(x.before, x.given.at(f, h)); err != nil {
				return fmt.Errorf("elsewhere: flow row %d, hop %d: %w", row, h, err)
			}
		}
		x.blocks = resize(x.blocks, max(longest, len(x.before)))
		for b := range x.blocks {
			var ahead, behind passed
			if b < longest {
				ahead, behind = x.ahead[b], x.behind[h*longest+b]
			}
			x.blocks[b] = x.damped(row, b, ahead, behind)
		}
		x.tell(row, f, h)
	}
	return nil
}

// asked says whether anybody asks what a flow's hop is told.
func (x *FeedbackBuilder) asked(f, h int) bool { return x.asks == nil || x.asks[x.observed.link(f, h)] }

// damped is what a hop is told of block b of a flow, whose packets met that before it and behind it.
func (x *FeedbackBuilder) damped(row int64, b int, ahead, behind passed) simkernel.Block {
	var hold int64
	marks, hint := ahead.marks|behind.marks, x.transport.JoinHints(ahead.hint, behind.hint)
	if b < len(x.hops[0]) { // a host's own link makes nothing wait but its hold
		hold = int64(x.hops[0][b].WaitNS)
		marks |= x.hops[0][b].Marks
	}
	late, wait := ahead.waitNS, behind.waitNS
	if x.ablation&AblateDamping == 0 {
		var before simkernel.Block
		if b < len(x.before) {
			before = x.before[b]
		}
		hold, late, wait = (hold+int64(before.NICWaitNS)+1)/2, (late+int64(before.UpstreamNS)+1)/2, (wait+int64(before.WaitNS)+1)/2
		if marks != before.Marks && x.keeps(row, b) {
			marks = before.Marks
		}
	}
	if x.ablation&AblateNICWaits != 0 {
		hold = 0
	}
	if x.ablation&AblateWaits != 0 {
		late, wait = 0, 0
	}
	if x.ablation&AblateMarks != 0 {
		marks = 0
	}
	return simkernel.Block{NICWaitNS: short(hold), UpstreamNS: short(late), WaitNS: short(wait), Marks: marks, Hint: hint}
}

func short(ns int64) int32 { return int32(min(ns, math.MaxInt32)) }

// keeps says, evenly, whether a flow's packets of block b keep the marks that were told before: the
// mean of two sets of marks. A window's worth of packets goes together, since a sender that is marked
// once in a window backs off as if it were marked often.
func (x *FeedbackBuilder) keeps(row int64, b int) bool {
	s := rng.New(x.seed, rng.Feedback, uint64(x.pass), uint64(row), uint64(simkernel.BlockWindow(b)))
	return s.Uint64()>>63 == 0
}

// emit writes the rows by link; within a link they stay in the order of the flows.
func (x *FeedbackBuilder) emit(t schema.Table, out schema.Sink) error {
	x.starts = resize(x.starts, x.links+1)
	clear(x.starts)
	for _, l := range x.outLink {
		x.starts[l+1]++
	}
	for l := range x.links {
		x.starts[l+1] += x.starts[l]
	}
	x.order = resize(x.order, len(x.outLink))
	for i, l := range x.outLink {
		x.order[x.starts[l]] = int32(i)
		x.starts[l]++
	}
	var link []int32
	var row []int64
	var hop []int16
	for at := 0; at < len(x.order); at += columns.BatchRows {
		rows := x.order[at:min(len(x.order), at+columns.BatchRows)]
		link, row, hop = link[:0], row[:0], hop[:0]
		for _, i := range rows {
			link, row, hop = append(link, x.outLink[i]), append(row, x.outRow[i]), append(hop, x.outHop[i])
		}
		if err := columns.Write(out, t, len(rows), columns.Of(link), columns.Of(row), columns.Of(hop), x.column.Of(&x.out, rows)); err != nil {
			return err
		}
	}
	return nil
}

// A flowArena holds what the packets of a chunk of flows met, findable by flow and hop.
type flowArena struct {
	rows  columns.Arena
	links []int32
	first []int32 // by flow: width places
	width int
	hops  []int16 // by flow; 0 if it has no path
	seen  []int16
	row   []int64
	hop   []int16
	count []int16
}

// read takes the chunk's rows of table hop_observations, or, not sized, of table elsewhere.
func (a *flowArena) read(firstRow, rows int64, in schema.Batches, sized bool) error {
	a.rows.Reset()
	a.links, a.row, a.hop, a.count = a.links[:0], a.row[:0], a.hop[:0], a.count[:0]
	a.width = 0
	err := columns.ForEach(in, func(rec arrow.Record) error {
		row, hop, link := columns.Int64s(rec, "flow_row"), columns.Int16s(rec, "hop"), columns.Int32s(rec, "link_id")
		observed := columns.Named(rec, "observed").(*array.Binary)
		var hops []int16
		if sized {
			hops = columns.Int16s(rec, "hops")
		}
		for from := 0; from < len(row); from++ {
			to := from // a stretch at a time of the chunk's rows
			for ; to < len(row) && row[to] >= firstRow && row[to] < firstRow+rows; to++ {
				if hop[to] < 0 || sized && hop[to] >= hops[to] {
					return fmt.Errorf("flow row %d has hop %d, which its path has not", row[to], hop[to])
				}
				a.width = max(a.width, int(hop[to])+1)
			}
			if to == from {
				continue
			}
			a.rows.AddAll(observed, from, to)
			a.row, a.hop, a.links = append(a.row, row[from:to]...), append(a.hop, hop[from:to]...), append(a.links, link[from:to]...)
			if sized {
				a.count = append(a.count, hops[from:to]...)
			}
			from = to
		}
		return nil
	})
	if err != nil {
		return err
	}
	n := int(rows)
	a.first = resize(a.first, n*a.width)
	for i := range a.first {
		a.first[i] = -1
	}
	a.hops, a.seen = resize(a.hops, n), resize(a.seen, n)
	clear(a.hops)
	clear(a.seen)
	for i, r := range a.row {
		f := int(r - firstRow)
		a.first[f*a.width+int(a.hop[i])] = int32(i)
		a.seen[f]++
		if sized {
			a.hops[f] = a.count[i]
		}
	}
	return nil
}

// flow is the number of a flow's hops, all of which are here.
func (a *flowArena) flow(f int, firstRow int64) (int, error) {
	if a.seen[f] != a.hops[f] {
		return 0, fmt.Errorf("flow row %d has %d of its %d hops in hop_observations", firstRow+int64(f), a.seen[f], a.hops[f])
	}
	return int(a.hops[f]), nil
}

func (a *flowArena) at(f, hop int) []byte {
	if hop >= a.width {
		return nil
	}
	if i := a.first[f*a.width+hop]; i >= 0 {
		return a.rows.At(int(i))
	}
	return nil
}

func (a *flowArena) link(f, hop int) int32 { return a.links[a.first[f*a.width+hop]] }
