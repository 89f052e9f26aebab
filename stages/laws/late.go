package laws

import (
	"math"
	"slices"

	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// lateCheck follows which flows are present at each link, by their estimates.
type lateCheck struct {
	trip   trip
	links  []presence
	flows  []pending
	free   []int32 // places of flows that are over
	events heap[event]
	found  Finding
}

// pending is a flow from its start until all of its ACKs are back.
type pending struct {
	row, fctPS   int64
	path         []int32
	work, full   []int64 // by hop
	packets      int64
	cycle, parts int64
	crossings    int   // links at which other flows are present
	counted      int32 // the hop at which the flow is known to send; -1: none
	stopped      bool  // its last packets are on the way
	epoch        uint32
}

type event struct {
	kind  eventKind
	place int32
	epoch uint32
}

type eventKind uint8

const (
	stops   eventKind = iota // the flow's last packet may have left the link that it shares
	ends                     // the flow
	retires                  // its ACKs are back
	counts                   // the flow has been alone at its other links for a cycle
)

func newLateCheck(n *topology.Network, p simkernel.Params) *lateCheck {
	c := &lateCheck{trip: newTrip(n, p), links: make([]presence, len(n.Links)), found: Finding{WorstLink: -1}}
	for i := range c.links {
		c.links[i].sincePS = -1
	}
	return c
}

// add begins a flow: events up to its start are handled first, then it joins every link of its path and, with its ACKs,
// of the way back. Flows come in order of their starts.
func (c *lateCheck) add(f Flow) {
	t := &c.trip
	t.set(f.SizeBytes, f.Path)
	now := f.StartNS * psPerNS
	c.until(now)
	if len(c.free) == 0 {
		c.free = append(c.free, int32(len(c.flows)))
		c.flows = append(c.flows, pending{})
	}
	place := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	p := &c.flows[place]
	*p = pending{row: f.Row, fctPS: f.FCTNS * psPerNS, path: append(p.path[:0], f.Path...), work: p.work[:0],
		full: append(p.full[:0], t.full...), packets: t.packets, cycle: t.cycle, parts: t.parts, counted: -1,
		epoch: p.epoch + 1}
	for h, id := range f.Path {
		p.work = append(p.work, t.work(h))
		c.began(id, p.work[h], now)
		c.began(id^1, c.ackWork(id^1, p.packets), now)
		if other := c.links[id].join(place); other >= 0 {
			c.crossed(other, 1, now)
		}
		if c.links[id].flows > 1 {
			p.crossings++
		}
	}
	c.await(place, now)
	end := now + p.fctPS
	c.events.push(max(now, end-t.oneWay), event{stops, place, 0})
	c.events.push(end, event{ends, place, 0})
	c.events.push(end+p.cycle, event{retires, place, 0})
}

// ackWork is the time to send ACKs of that many packets on a link.
func (c *lateCheck) ackWork(link int32, packets int64) int64 {
	return packets * c.trip.links[link].ack
}

// until handles the events up to a time.
func (c *lateCheck) until(now int64) {
	for len(c.events) > 0 && c.events[0].key <= now {
		at := c.events[0].key
		e := c.events.pop()
		p := &c.flows[e.place]
		switch e.kind {
		case counts:
			if e.epoch == p.epoch && !p.stopped {
				c.count(p, at)
			}
		case stops:
			p.stopped = true
			c.uncount(p, at)
		case ends:
			for _, id := range p.path {
				if other := c.links[id].leave(e.place); other >= 0 {
					c.crossed(other, -1, at)
				}
			}
		case retires:
			for h, id := range p.path {
				c.ended(id, p.work[h], at)
				c.ended(id^1, c.ackWork(id^1, p.packets), at)
			}
			c.free = append(c.free, e.place)
		}
	}
}

// crossed changes the number of links at which a flow meets others.
func (c *lateCheck) crossed(place int32, by int, now int64) {
	p := &c.flows[place]
	c.uncount(p, now)
	p.crossings += by
	c.await(place, now)
}

// await counts a flow that now meets others at one link, a cycle later if it still does.
func (c *lateCheck) await(place int32, now int64) {
	if p := &c.flows[place]; p.crossings == 1 && !p.stopped {
		c.events.push(now+p.cycle, event{counts, place, p.epoch})
	}
}

func (c *lateCheck) count(p *pending, now int64) {
	hop := slices.IndexFunc(p.path, func(id int32) bool { return c.links[id].flows > 1 })
	c.links[p.path[hop]].count(p, p.parts*p.full[hop], now)
	p.counted = int32(hop)
	c.settle(p.path[hop])
}

func (c *lateCheck) uncount(p *pending, now int64) {
	p.epoch++
	if p.counted >= 0 {
		id := p.path[p.counted]
		c.links[id].uncount(p.parts*p.full[p.counted], now)
		p.counted = -1
		c.settle(id)
	}
}

// began and ended note the time to send a flow's packets or ACKs on a link.
func (c *lateCheck) began(id int32, work, now int64) {
	c.links[id].touch(now)
	c.links[id].beganPS += work
	c.settle(id)
}

func (c *lateCheck) ended(id int32, work, now int64) {
	l := &c.links[id]
	l.touch(now)
	l.endedPS += work
	l.least = min(l.least, l.busyPS-l.endedPS)
	c.settle(id)
}

// settle notes an excess when no flow is counted any more.
func (c *lateCheck) settle(id int32) {
	if l := &c.links[id]; l.counted == 0 && l.excess > 0 {
		if c.found.add(id, l.longest.row, l.excess, l.longest.fctPS) {
			c.found.Flows += l.most
		}
		l.excess, l.most = 0, 0
	}
}

func (c *lateCheck) finish() Finding {
	c.until(math.MaxInt64)
	return c.found
}
