package network

import (
	"fmt"
	"math"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/faults"
)

// A flow that depends on others starts when the last of them has been delivered and the delay of that
// dependency has passed, but not before its own StartNS. Deliveries are in whole ns, rounded up, as in FCTs.
// Each start is therefore a whole ns, and a workload with the same starts and no dependencies yields the same
// results. A flow without bytes and without a path is a compute step: it ends when it starts.
//
// The end of a flow is known one lookahead in advance, when its last packet leaves the last port of its path,
// because the link delivers in order. With recovery, the port tracks which packet the receiver expects. If
// paths change, a host can have several such ports, and the coordinator tracks the packets that will not be
// lost on the link.
//
// A step is not longer than the smallest lookahead of a link that ends at a host. The coordinator therefore
// learns of every delivery in a step before it happens, and passes on the resulting starts before their step.
// This is the rule of conservative simulation (Chandy and Misra, IEEE TSE SE-5(5), 1979). No result depends
// on domains or workers.
//
// The frontier contains the flows that have been read and wait. It also stores the ends of flows as long as a
// flow that has not been read yet can depend on them.

// WaitFor prepares an idle network for flows that depend on others (Flows.After). Steps can then be shorter.
func (n *Network) WaitFor() {
	n.frontier = &frontier{net: n, waiting: map[int64][]waitingFlow{}, last: -1}
}

// An after is a flow on which another one depends.
type after struct{ row, delayPS int64 }

type frontier struct {
	net     *Network
	waiting map[int64][]waitingFlow // by row of a flow that has not ended: those that wait for it
	held    int                     // flows that wait
	endedPS []int64                 // by row, from first on: when the flow ended; -1 before
	first   int64
	last    int64 // the highest row that has ended
	ready   calendar.MinHeap[*newFlow]
	coming  []calendar.Arrival // of deliveryWatch.coming: those that have not arrived
	ending  []delivery         // scratch
	steps   []*newFlow
}

type waitingFlow struct {
	*newFlow
	delayPS int64
}

// A delivery is the end of a flow, in whole ns.
type delivery struct{ row, atPS int64 }

// Before orders by start, and flows with equal starts by row.
func (f *newFlow) Before(o *newFlow) bool {
	return f.startPS < o.startPS || f.startPS == o.startPS && f.row < o.row
}

// deliveryWatch predicts deliveries of flows in a domain.
type deliveryWatch struct {
	domain   *domain
	foreseen []delivery         // of flows in this epoch
	coming   []calendar.Arrival // at hosts, in this epoch, if paths change
}

// foresee notes a packet that leaves a port and will arrive at it.AtPS. If the port leads to a host, the
// packet can end its flow.
func (x *deliveryWatch) foresee(p *port, it calendar.Item) {
	d := x.domain
	n := d.net
	if !n.host[n.links[p.link].DstNode] {
		return
	}
	if d.paths != nil {
		a := calendar.Arrival{Item: it, Port: 0, Link: p.link}
		if !d.paths.isLost(&a, n.flows.info[n.flows.hops[it.Hop].flow].key, faults.Sending) {
			x.coming = append(x.coming, a)
		}
		return
	}
	e, ends := n.delivers(&it)
	if ends {
		x.foreseen = append(x.foreseen, e)
	}
}

// delivers records that a packet will arrive at its host, and reports whether it ends its flow. It is called
// in the order in which packets arrive.
func (n *Network) delivers(it *calendar.Item) (e delivery, ends bool) {
	slot := n.flows.hops[it.Hop].flow
	ends = it.Bits&calendar.FlagLast != 0
	switch {
	case n.recovery == nil:
	case n.traits.AckClocked || n.recovery.selective:
		r := &n.recovery.receivers[slot]
		before := r.coming.Base
		r.coming.Add(n.nearest(before, it.Bits))
		ends = before != r.coming.Base && r.coming.Base == n.recovery.flows[slot].packets
	default:
		r := &n.recovery.receivers[slot]
		if n.nearest(r.sent, it.Bits) != r.sent {
			return e, false
		}
		r.sent++
	}
	return delivery{n.flows.info[slot].row, simkernel.CeilNS(it.AtPS) * simkernel.PSPerNS}, ends
}

// receive ends flows by packets that arrive before untilPS. It is used if paths change. All of these packets
// have been sent.
func (x *frontier) receive(untilPS int64) {
	for i := range x.net.domains {
		d := &x.net.domains[i]
		x.coming = append(x.coming, d.deliveries.coming...)
		d.deliveries.coming = d.deliveries.coming[:0]
	}
	slices.SortFunc(x.coming, calendar.CompareArrivals)
	arrived := 0
	for ; arrived < len(x.coming) && x.coming[arrived].AtPS < untilPS; arrived++ {
		e, ends := x.net.delivers(&x.coming[arrived].Item)
		if ends {
			x.end(e)
		}
	}
	x.coming = slices.Delete(x.coming, 0, arrived)
}

// settle ends the flows whose delivery the domains have predicted, and adds results of compute steps.
func (x *frontier) settle() {
	for i := range x.net.domains {
		d := &x.net.domains[i]
		for _, e := range d.deliveries.foreseen {
			x.end(e)
		}
		d.deliveries.foreseen = d.deliveries.foreseen[:0]
	}
	r := &x.net.domains[0].journal.results
	for _, s := range x.steps {
		r.rows = append(r.rows, resultRow{atPS: s.startPS, row: s.row, tag: s.tag, startPS: s.startPS})
	}
	x.steps = x.steps[:0]
}

// add adds the next flow of a batch.
func (x *frontier) add(b *batch, f *newFlow) {
	drop := b.keepRow - x.first
	if drop > int64(len(x.endedPS))/2 { // ends of flows before it are no longer needed
		x.endedPS = x.endedPS[:copy(x.endedPS, x.endedPS[min(drop, int64(len(x.endedPS))):])]
		x.first = b.keepRow
	}
	for _, a := range f.after {
		k := a.row - x.first
		if k >= 0 && k < int64(len(x.endedPS)) && x.endedPS[k] >= 0 {
			f.startPS = max(f.startPS, x.endedPS[k]+a.delayPS)
			continue
		}
		f.waits++
		x.waiting[a.row] = append(x.waiting[a.row], waitingFlow{f, a.delayPS})
	}
	if f.waits > 0 {
		x.held++
		return
	}
	x.ready.Push(f)
	if len(f.path) == 0 {
		x.end(delivery{f.row, f.startPS})
	}
}

// end ends a flow, and makes the flows ready that waited only for this flow. Compute steps among them end
// immediately.
func (x *frontier) end(e delivery) {
	x.ending = append(x.ending[:0], e)
	for len(x.ending) > 0 {
		e := x.ending[len(x.ending)-1]
		x.ending = x.ending[:len(x.ending)-1]
		k := e.row - x.first
		if k >= 0 {
			for int64(len(x.endedPS)) <= k {
				x.endedPS = append(x.endedPS, -1)
			}
			x.endedPS[k] = e.atPS
		}
		x.last = max(x.last, e.row)
		for _, w := range x.waiting[e.row] {
			w.startPS = max(w.startPS, e.atPS+w.delayPS)
			w.waits--
			if w.waits > 0 {
				continue
			}
			x.held--
			x.ready.Push(w.newFlow)
			if len(w.path) == 0 {
				x.ending = append(x.ending, delivery{w.row, w.startPS})
			}
		}
		delete(x.waiting, e.row)
	}
}

func (x *frontier) nextPS() int64 {
	if len(x.ready) == 0 {
		return never
	}
	return x.ready[0].startPS
}

// stuck returns an error about flows that wait for flows that never end.
func (x *frontier) stuck() error {
	of := int64(math.MaxInt64)
	by := int64(0)
	for row, all := range x.waiting {
		for _, w := range all {
			if w.row < of || w.row == of && row < by {
				of = w.row
				by = row
			}
		}
	}
	return fmt.Errorf("%d flows wait for flows that never end: among them flow row %d for row %d", x.held, of,
		by)
}
