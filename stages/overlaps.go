package stages

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// OverlapColumns names the columns of table hops that Overlaps reads.
func OverlapColumns() []string {
	return []string{"link_id", "flow_row", "size_bytes", "start_ns", "first_link", "delay_to_link_ns", "upstream_bps",
		"downstream_bps"}
}

// Overlaps works out how far the two links of a cable send at the same times, and how ACKs delay flows.
//
// It is a fluid model: a flow arrives at a link at the rate of the slowest link before it. Flows of one host to the
// same link arrive one after the other. Small flows are left out (see smallest). Flows wait for nothing but each other;
// that congestion spreads them over a longer time is not known yet. If the workload has parts with nothing between
// them, such as windows, what is sent after a part does not count.
//
// It keeps its memory from one range of links to the next, and is used by one goroutine at a time.
type Overlaps struct {
	net     *topology.Network
	params  *simkernel.Params
	lo      int32
	parts   [][2]int64       // in ns, from and to (excluded), ascending; nil: all time
	flows   [][]arrivingFlow // by link - lo
	freeNS  map[int32]float64
	changes []rateChange
	spans   []sendSpan
	delays  ackDelayRows
}

// NewOverlaps returns an Overlaps for a network. parts are the parts of the workload, in ns, from and to (excluded),
// ascending; nil: it has none.
func NewOverlaps(n *topology.Network, p *simkernel.Params, parts [][2]int64) *Overlaps {
	return &Overlaps{net: n, params: p, parts: parts, freeNS: map[int32]float64{}}
}

// Write writes tables link_overlaps and ack_delays for the cables of links lo to hi. Both are even: the links of a
// cable are 2n and 2n + 1. hops are rows of table hops, at least those of these links, by start time for each link.
func (o *Overlaps) Write(lo, hi int32, hops schema.Batches, out, delays schema.Sink) error {
	o.begin(lo, hi)
	if err := columns.ForEach(hops, o.add); err != nil {
		return err
	}
	var link []int32
	var share []float64
	for id := lo; id+1 < hi; id += 2 {
		if shares, ok := o.cable(id); ok {
			link, share = append(link, id, id+1), append(share, shares[0], shares[1])
		}
	}
	if len(link) > 0 {
		if err := columns.Write(out, schema.LinkOverlaps, len(link), columns.Of(link), columns.Of(share)); err != nil {
			return err
		}
	}
	return o.delays.flush(delays)
}

func (o *Overlaps) begin(lo, hi int32) {
	o.lo = lo
	o.delays.clear()
	o.flows = o.flows[:cap(o.flows)]
	for len(o.flows) < int(hi-lo) {
		o.flows = append(o.flows, nil)
	}
	o.flows = o.flows[:hi-lo]
	for i := range o.flows {
		o.flows[i] = o.flows[i][:0]
	}
}

// An arrivingFlow is a flow that arrives at a link.
type arrivingFlow struct {
	row, startNS, wireBytes int64
	bps                     int64 // of the slowest link before, or the link's own if it is the first
	downstreamBps           int64 // of the slowest link behind; 0: none
	firstLink               int32
}

func (o *Overlaps) add(rec arrow.Record) error {
	link, first := columns.Int32s(rec, "link_id"), columns.Int32s(rec, "first_link")
	size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
	delay, up := columns.Int64s(rec, "delay_to_link_ns"), columns.Int64s(rec, "upstream_bps")
	row, down := columns.Int64s(rec, "flow_row"), columns.Int64s(rec, "downstream_bps")
	for i, id := range link {
		if id < o.lo || int(id-o.lo) >= len(o.flows) {
			continue
		}
		if size[i] < 1 || first[i] < 0 || int(first[i]) >= len(o.net.Links) || up[i] < 0 || down[i] < 0 {
			return fmt.Errorf("hops: link %d: a flow of %d bytes from link %d, of %d links", id, size[i], first[i], len(o.net.Links))
		}
		bps := up[i]
		if bps == 0 {
			bps = o.net.Links[first[i]].BandwidthBps
		}
		wireBytes := size[i] + o.params.Packets(size[i])*o.params.HeaderBytes
		of := &o.flows[id-o.lo]
		*of = append(*of, arrivingFlow{row[i], start[i] + delay[i], wireBytes, bps, down[i], first[i]})
	}
	return nil
}

// cable returns the shares of the two links of a cable, and whether both carry flows.
func (o *Overlaps) cable(id int32) (shares [2]float64, ok bool) {
	sides := o.flows[id-o.lo : id-o.lo+2]
	if len(sides[0]) == 0 || len(sides[1]) == 0 {
		return shares, false
	}
	o.changes = o.changes[:0]
	from := min(sides[0][0].startNS, sides[1][0].startNS)
	for side, flows := range sides {
		o.appendChanges(flows, side, from, float64(o.net.Links[id].BandwidthBps))
	}
	slices.SortFunc(o.changes, func(a, b rateChange) int { return cmp.Compare(a.atNS, b.atNS) })
	within := [][2]float64{busyTime(o.changes)}
	if o.parts != nil {
		within = within[:0]
		for _, p := range o.parts {
			within = append(within, [2]float64{float64(p[0] - from), float64(p[1] - from)})
		}
	}
	o.spans = appendSendSpans(o.spans[:0], o.changes)
	for side, flows := range sides {
		o.addDelays(id+int32(side), flows, side, from)
	}
	return bothBusyShares(o.spans, within), true
}

// addDelays adds rows of table ack_delays for the flows of one side of a cable.
//
// A flow alone keeps the slowest link of its path busy. If the reverse link sends meanwhile, ACKs of what that carries
// take a part of the link, and the flow's packets, which have no gaps there, take longer by as much. The part is taken
// over the time that the flow takes alone.
func (o *Overlaps) addDelays(link int32, flows []arrivingFlow, side int, fromNS int64) {
	own, back := o.net.Links[link].BandwidthBps, o.net.Links[link^1].BandwidthBps
	wireAck := float64(o.params.AckBytes) / float64(o.params.PayloadBytes+o.params.HeaderBytes)
	acks := wireAck * (float64(back) / float64(own)) // relative to the link's bandwidth, while the reverse link sends
	for i := range flows {
		f := &flows[i]
		slowest := min(f.bps, own)
		if f.downstreamBps > 0 {
			slowest = min(slowest, f.downstreamBps)
		}
		bits := 8e9 * float64(f.wireBytes)
		beginNS, aloneNS, sendNS := float64(f.startNS-fromNS), bits/float64(slowest), bits/float64(own)
		if sendNS+float64(min(1, acks)*sendNS) < aloneNS {
			continue // a slower link of its path delays it more
		}
		share := min(1, acks*sentShare(o.spans, 1-side, beginNS, beginNS+aloneNS))
		if delayNS := sendNS + float64(share*sendNS) - aloneNS; delayNS >= leastAckDelay*aloneNS && delayNS >= 1 {
			o.delays.append(f.row, link, int64(math.Round(delayNS)))
		}
	}
}

// leastAckDelay is the part of a flow's time alone from which on its delay by ACKs has a row.
const leastAckDelay = 0.001

// sentShare returns the mean rate at which a side sends from one time to another.
func sentShare(spans []sendSpan, side int, fromNS, toNS float64) float64 {
	first, _ := slices.BinarySearchFunc(spans, fromNS, func(s sendSpan, ns float64) int { return cmp.Compare(s.toNS, ns) })
	sentNS := 0.0
	for _, s := range spans[first:] {
		if s.fromNS >= toNS {
			break
		}
		if ns := min(s.toNS, toNS) - max(s.fromNS, fromNS); ns > 0 {
			sentNS += float64(ns * s.rates[side])
		}
	}
	return sentNS / (toNS - fromNS)
}

// ackDelayRows are rows of table ack_delays.
type ackDelayRows struct {
	row, delayNS []int64
	link         []int32
	sorter       sorter
}

func (w *ackDelayRows) append(row int64, link int32, delayNS int64) {
	w.row, w.link, w.delayNS = append(w.row, row), append(w.link, link), append(w.delayNS, delayNS)
}

func (w *ackDelayRows) clear() { w.row, w.link, w.delayNS = w.row[:0], w.link[:0], w.delayNS[:0] }

// flush writes the rows by flow_row; those of a flow by link.
func (w *ackDelayRows) flush(out schema.Sink) error {
	if len(w.row) == 0 {
		return nil
	}
	order := w.sorter.byFlow(len(w.row), func(i int) (int64, int16) { return w.row[i], 0 })
	return inBatches(order, func(rows []int32) error {
		return columns.Write(out, schema.AckDelays, len(rows), columns.Take(w.row, rows), columns.Take(w.link, rows),
			columns.Take(w.delayNS, rows))
	})
}

// appendChanges appends when flows begin and end to arrive at a link.
func (o *Overlaps) appendChanges(flows []arrivingFlow, side int, fromNS int64, linkBps float64) {
	clear(o.freeNS)
	least := smallest(flows)
	for _, f := range flows {
		if f.wireBytes < least {
			continue
		}
		bps := float64(f.bps)
		at := max(float64(f.startNS-fromNS), o.freeNS[f.firstLink])
		end := at + float64(f.wireBytes)*8e9/bps
		o.freeNS[f.firstLink] = end
		o.changes = append(o.changes, rateChange{at, bps / linkBps, side}, rateChange{end, -bps / linkBps, side})
	}
}

// smallFlows is the part of a link's bytes up to which its smallest flows are left out: most flows are small, and carry
// little. It changes the shares by less.
const smallFlows = 0.05

// smallest returns the size, a power of two, from which on flows count.
func smallest(flows []arrivingFlow) int64 {
	var bytes [64]int64
	var all int64
	for _, f := range flows {
		bytes[bits.Len64(uint64(f.wireBytes))] += f.wireBytes
		all += f.wireBytes
	}
	k := 0
	for small := bytes[0]; float64(small) <= smallFlows*float64(all); small += bytes[k] {
		k++
	}
	return 1 << max(0, k-1)
}

// A rateChange is a flow that begins or ends to arrive at a link of a cable.
type rateChange struct {
	atNS float64
	rate float64 // relative to the bandwidth; below 0 if the flow ends
	side int     // of the cable
}

// A sendSpan is a time in which both links of a cable send at constant rates, relative to their bandwidths.
type sendSpan struct {
	fromNS, toNS float64
	rates        [2]float64
}

// appendSendSpans appends when the links of a cable send, ascending, without the times at which neither does. A link
// sends what arrives; what arrives beyond its bandwidth waits. changes are in the order of time.
func appendSendSpans(spans []sendSpan, changes []rateChange) []sendSpan {
	var sides [2]fluidLink
	nowNS := 0.0
	for i := 0; ; {
		nextNS := math.Inf(1)
		if i < len(changes) {
			nextNS = changes[i].atNS
		}
		for nowNS < nextNS && (sides[0].sends() > 0 || sides[1].sends() > 0) {
			stepNS := min(nextNS-nowNS, sides[0].drainsNS(), sides[1].drainsNS())
			spans = append(spans, sendSpan{nowNS, nowNS + stepNS, [2]float64{sides[0].sends(), sides[1].sends()}})
			for k := range sides {
				sides[k].pass(stepNS)
			}
			nowNS += stepNS
		}
		if i == len(changes) {
			return spans
		}
		nowNS = nextNS
		for i < len(changes) && changes[i].atNS <= nowNS {
			sides[changes[i].side].change(changes[i].rate)
			i++
		}
	}
}

// bothBusyShares returns the part of the bytes of each side of a cable that it sends while the other side sends too:
// the integral of the product of the rates at which they send, relative to that of its own, within some spans of time.
// spans and within are in the order of time.
func bothBusyShares(spans []sendSpan, within [][2]float64) (shares [2]float64) {
	var sentNS [2]float64
	both := 0.0
	for _, s := range spans {
		for len(within) > 0 && within[0][1] <= s.fromNS {
			within = within[1:]
		}
		for _, w := range within {
			if w[0] >= s.toNS {
				break
			}
			ns := max(0, min(s.toNS, w[1])-max(s.fromNS, w[0]))
			both += float64(s.rates[0] * s.rates[1] * ns)
			for side, rate := range s.rates {
				sentNS[side] += float64(rate * ns)
			}
		}
	}
	for side := range shares {
		if sentNS[side] > 0 {
			shares[side] = min(1, both/sentNS[side])
		}
	}
	return shares
}

// busyTime is the time that counts: until the last flow begins to arrive. Afterwards both sides fall idle, which few of
// the flows see. If most flows begin at once, it lasts until half of the bytes of each side have arrived.
func busyTime(changes []rateChange) [2]float64 {
	var allNS, arrivedNS, rate [2]float64
	endNS := 0.0
	for _, ch := range changes {
		allNS[ch.side] -= float64(ch.rate * ch.atNS)
		if ch.rate > 0 {
			endNS = ch.atNS
		}
	}
	beforeNS := 0.0
	for _, ch := range changes {
		for side := range rate {
			more := float64(rate[side] * (ch.atNS - beforeNS))
			if half := allNS[side] / 2; arrivedNS[side] < half && arrivedNS[side]+more >= half {
				endNS = max(endNS, beforeNS+(half-arrivedNS[side])/rate[side])
			}
			arrivedNS[side] += more
		}
		beforeNS = ch.atNS
		rate[ch.side] += ch.rate
	}
	return [2]float64{0, endNS}
}

// A fluidLink is a link at which flows arrive at constant rates.
type fluidLink struct {
	rate      float64 // at which bytes arrive, relative to the bandwidth
	flows     int     // that arrive
	backlogNS float64 // time that it needs for what waits
}

func (l *fluidLink) change(rate float64) {
	l.rate += rate
	if rate > 0 {
		l.flows++
	} else if l.flows--; l.flows == 0 {
		l.rate = 0 // without what rounding has left
	}
}

// sends is the rate at which the link sends.
func (l *fluidLink) sends() float64 {
	if l.backlogNS > 0 {
		return 1
	}
	return min(1, l.rate)
}

// drainsNS is the time until what waits is sent, at the rate of now.
func (l *fluidLink) drainsNS() float64 {
	if l.backlogNS > 0 && l.rate < 1 {
		return l.backlogNS / (1 - l.rate)
	}
	return math.Inf(1)
}

// pass lets a time pass.
func (l *fluidLink) pass(ns float64) {
	if l.backlogNS += float64((l.rate - 1) * ns); l.backlogNS < 1e-3 {
		l.backlogNS = 0
	}
}
