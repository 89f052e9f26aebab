package network

import (
	"fmt"
)

// A pacer determines the steps of a simulation.
type pacer struct {
	net     *Network
	feed    *feed
	pending *batch // the current batch of flows; next is the next of them
	next    int
	doneTo  int64 // the end of the current epoch
	steps   int64 // of the current epoch
}

// nextStart returns the earliest start of the next flow to read, or never if no such flow can start yet.
func (p *pacer) nextStart() int64 {
	if p.pending == nil {
		return never
	}
	x := p.net.frontier
	if x != nil && p.pending.heldBy > 0 && x.last < p.pending.heldBy {
		return never
	}
	return p.pending.flows[p.next].startPS
}

// take reads the flows that may start before untilPS.
func (p *pacer) take(untilPS int64) error {
	for p.nextStart() < untilPS {
		x := p.net.frontier
		if x != nil {
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
		f := x.ready.Pop()
		if len(f.path) > 0 {
			p.start(f)
		} else {
			x.steps = append(x.steps, f)
		}
	}
}

// advance sets the next step and returns the time at which it begins. It returns never if every flow has
// finished and every ACK was received.
func (p *pacer) advance() (fromPS int64, err error) {
	n := p.net
	if err := p.fill(); err != nil {
		return 0, err
	}
	next := int64(never)
	if n.frontier != nil {
		n.frontier.settle()
		if err := p.take(p.doneTo); err != nil {
			return 0, err
		}
		next = n.frontier.nextPS()
	}
	for i := range n.domains {
		d := &n.domains[i]
		next = min(next, d.mail.mailPS, d.NextPS())
	}
	next = min(next, p.nextStart())
	if n.frontier != nil && next != never {
		n.frontier.receive((next/n.stepPS + 1) * n.stepPS)
	}
	if next == never {
		x := n.frontier
		if x != nil && (x.held > 0 || p.pending != nil) {
			return 0, x.stuck()
		}
		live := n.live()
		if live != 0 {
			if n.pausers != nil {
				return 0, n.deadlock(live)
			}
			panic(fmt.Sprintf("network: idle with %d unfinished flows", live))
		}
		return never, nil
	}
	fromPS = next / n.stepPS * n.stepPS
	if fromPS+n.stepPS > horizonPS {
		if n.pausers != nil {
			return 0, n.deadlock(n.live())
		}
		return 0, fmt.Errorf("%d flows have not drained after 26 days of simulated time", n.live())
	}
	p.doneTo = fromPS + p.steps*n.stepPS
	if err := p.take(p.doneTo); err != nil {
		return 0, err
	}
	if n.frontier != nil {
		p.startReady(p.doneTo)
	}
	for i := range n.domains {
		n.reserve(&n.domains[i].pool)
	}
	return fromPS, nil
}

// start passes a flow on to its source's domain.
func (p *pacer) start(f *newFlow) {
	n := p.net
	pool := &n.domains[n.domainOf[n.links[f.path[0]].SrcNode]].pool
	pool.starting = append(pool.starting, f)
	pool.needUnits += units(len(f.path))
}

// fill receives batches until pending contains the next flow. After the last flow, pending is nil.
func (p *pacer) fill() error {
	for p.pending == nil || p.next == len(p.pending.flows) {
		if p.pending != nil && p.pending.ends() {
			err := p.pending.err
			p.pending = nil
			p.next = 0
			p.feed = nil
			return err
		}
		if p.feed == nil {
			return nil
		}
		p.pending = <-p.feed.batches
		p.next = 0
	}
	return nil
}
