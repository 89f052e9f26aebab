package network

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"parsimon/simkernel"
)

// A flow that waits for others starts when the last of them has been delivered and the delay of that dependency has
// passed, and never before its own StartNS. Deliveries count in whole ns, rounded up, as in FCTs: each start is a whole
// ns, and the same starts given as an open loop yield the same results. A flow of no bytes and without a path is a
// compute step: it ends when it starts.
//
// When a flow ends is known one lookahead before, when its last packet leaves the last port of its path: the link
// delivers in order. (With recovery the port tracks which packet the receiver expects. Where paths move, a host can
// have several such ports: the coordinator tracks it, of packets that will not be lost on the link.) A step is not
// longer than the least lookahead of a link that ends at a host. So the coordinator learns of every delivery in a step
// before it happens, at whatever host, and passes on the starts that follow before their own step. This is the rule of
// conservative simulation (Chandy and Misra, IEEE TSE SE-5(5), 1979): no result depends on domains or workers.
//
// The frontier holds the flows that were read and wait, and when flows ended that ones not yet read can wait for.

// WaitFor prepares an idle network for flows that wait for others (Flows.After). With them steps can be shorter.
func (n *Network) WaitFor() {
	n.frontier = &frontier{net: n, waiting: map[int64][]waitingFlow{}, last: -1}
}

// An after is one flow that another waits for.
type after struct{ row, delayPS int64 }

type frontier struct {
	net     *Network
	waiting map[int64][]waitingFlow // by row of a flow that has not ended: those that wait for it
	held    int                     // flows that wait
	endedPS []int64                 // by row, from first on: when the flow ended; -1 before
	first   int64
	last    int64 // the highest row that has ended
	ready   minHeap[*newFlow]
	coming  []arrival  // of domain.coming: those that have not arrived
	ending  []delivery // scratch
	steps   []*newFlow
}

type waitingFlow struct {
	*newFlow
	delayPS int64
}

// A delivery is the end of a flow, in whole ns.
type delivery struct{ row, atPS int64 }

// Before orders by start, and equal starts by row.
func (f *newFlow) Before(o *newFlow) bool {
	return f.startPS < o.startPS || f.startPS == o.startPS && f.row < o.row
}

// addAfter checks what row i of a chunk waits for, and adds it to the flow.
func (f *feed) addAfter(c *Flows, i int, flow *newFlow) error {
	if c.AfterEnds == nil {
		return nil
	}
	begin, end := int32(0), c.AfterEnds[i]
	if i > 0 {
		begin = c.AfterEnds[i-1]
	}
	if f.net.frontier == nil || begin < 0 || begin > end || int(end) > min(len(c.After), len(c.DelayNS)) {
		return errors.New("a flow waits for others in a network that was not prepared for it, or out of range")
	}
	for k := begin; k < end; k++ {
		if c.After[k] < 0 || c.After[k] == f.rows || c.DelayNS[k] < 0 || c.DelayNS[k] > MaxNS {
			return fmt.Errorf("it waits for flow row %d and then for %d ns", c.After[k], c.DelayNS[k])
		}
		flow.after = append(flow.after, after{c.After[k], c.DelayNS[k] * simkernel.PSPerNS})
	}
	return nil
}

// foresee notes the end of a flow whose packet, sent over a port to a host, arrives at it.atPS.
func (d *domain) foresee(p *port, it item) {
	n := d.net
	if !n.host[n.links[p.link].DstNode] {
		return
	}
	if d.moves != nil {
		a := arrival{it, 0, p.link}
		if !d.moves.isLost(d, &a, n.flows.info[n.flows.hops[it.hop].flow].key, sending) {
			d.coming = append(d.coming, a)
		}
		return
	}
	if e, ends := n.delivers(&it); ends {
		d.foreseen = append(d.foreseen, e)
	}
}

// delivers notes that a packet will arrive at its host, and reports whether that ends its flow. It is called in the
// order in which packets arrive.
func (n *Network) delivers(it *item) (e delivery, ends bool) {
	slot := n.flows.hops[it.hop].flow
	ends = it.bits&flagLast != 0
	switch {
	case n.recovery == nil:
	case n.clocked || n.selective:
		r := &n.recovery.receivers[slot]
		before := r.coming.base
		r.coming.add(n.nearest(before, it.bits))
		ends = before != r.coming.base && r.coming.base == n.recovery.flows[slot].packets
	default:
		r := &n.recovery.receivers[slot]
		if n.nearest(r.sent, it.bits) != r.sent {
			return e, false
		}
		r.sent++
	}
	return delivery{n.flows.info[slot].row, simkernel.CeilNS(it.atPS) * simkernel.PSPerNS}, ends
}

// receive ends the flows that packets end which arrive before untilPS, where paths move. All that do have been sent.
func (x *frontier) receive(untilPS int64) {
	for i := range x.net.domains {
		d := &x.net.domains[i]
		x.coming = append(x.coming, d.coming...)
		d.coming = d.coming[:0]
	}
	slices.SortFunc(x.coming, compareArrivals)
	arrived := 0
	for ; arrived < len(x.coming) && x.coming[arrived].atPS < untilPS; arrived++ {
		if e, ends := x.net.delivers(&x.coming[arrived].item); ends {
			x.end(e)
		}
	}
	x.coming = slices.Delete(x.coming, 0, arrived)
}

// settle ends the flows whose delivery the domains have foreseen, and adds results of compute steps.
func (x *frontier) settle() {
	for i := range x.net.domains {
		d := &x.net.domains[i]
		for _, e := range d.foreseen {
			x.end(e)
		}
		d.foreseen = d.foreseen[:0]
	}
	r := &x.net.domains[0].results
	for _, s := range x.steps {
		r.rows = append(r.rows, resultRow{atPS: s.startPS, row: s.row, tag: s.tag, startPS: s.startPS})
	}
	x.steps = x.steps[:0]
}

// add takes the next flow of a batch.
func (x *frontier) add(b *batch, f *newFlow) {
	if drop := b.keepRow - x.first; drop > int64(len(x.endedPS))/2 { // forgotten is when flows before ended
		x.endedPS = x.endedPS[:copy(x.endedPS, x.endedPS[min(drop, int64(len(x.endedPS))):])]
		x.first = b.keepRow
	}
	for _, a := range f.after {
		if k := a.row - x.first; k >= 0 && k < int64(len(x.endedPS)) && x.endedPS[k] >= 0 {
			f.startPS = max(f.startPS, x.endedPS[k]+a.delayPS)
			continue
		}
		f.waits++
		x.waiting[a.row] = append(x.waiting[a.row], waitingFlow{f, a.delayPS})
	}
	if f.waits > 0 {
		x.held++
	} else if x.ready.push(f); len(f.path) == 0 {
		x.end(delivery{f.row, f.startPS})
	}
}

// end ends a flow, and starts those that waited for it alone; compute steps among them end, too.
func (x *frontier) end(e delivery) {
	x.ending = append(x.ending[:0], e)
	for len(x.ending) > 0 {
		e := x.ending[len(x.ending)-1]
		x.ending = x.ending[:len(x.ending)-1]
		if k := e.row - x.first; k >= 0 {
			for int64(len(x.endedPS)) <= k {
				x.endedPS = append(x.endedPS, -1)
			}
			x.endedPS[k] = e.atPS
		}
		x.last = max(x.last, e.row)
		for _, w := range x.waiting[e.row] {
			w.startPS = max(w.startPS, e.atPS+w.delayPS)
			if w.waits--; w.waits > 0 {
				continue
			}
			x.held--
			if x.ready.push(w.newFlow); len(w.path) == 0 {
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

// nextStart returns the earliest start of the next flow to read; never if no such flow can start yet.
func (p *pacer) nextStart() int64 {
	if p.pending == nil {
		return never
	}
	if x := p.net.frontier; x != nil && p.pending.heldBy > 0 && x.last < p.pending.heldBy {
		return never
	}
	return p.pending.flows[p.next].startPS
}

// take reads the flows that may start before untilPS.
func (p *pacer) take(untilPS int64) error {
	for p.nextStart() < untilPS {
		if x := p.net.frontier; x != nil {
			x.add(p.pending, &p.pending.flows[p.next])
		} else {
			p.start(&p.pending.flows[p.next])
		}
		p.next++
		if err := p.fill(); err != nil {
			return err
		}
	}
	return nil
}

// startReady passes on the flows that start before untilPS.
func (p *pacer) startReady(untilPS int64) {
	x := p.net.frontier
	for x.nextPS() < untilPS {
		if f := x.ready.pop(); len(f.path) > 0 {
			p.start(f)
		} else {
			x.steps = append(x.steps, f)
		}
	}
}

// stuck is the error of flows that wait for what never ends.
func (x *frontier) stuck() error {
	of, by := int64(math.MaxInt64), int64(0)
	for row, all := range x.waiting {
		for _, w := range all {
			if w.row < of || w.row == of && row < by {
				of, by = w.row, row
			}
		}
	}
	return fmt.Errorf("%d flows wait for flows that never end: among them flow row %d for row %d", x.held, of, by)
}
