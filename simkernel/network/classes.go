package network

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// Classes divide the data of a network. Each class has its own queue at every port, with its own marking
// threshold, share of the buffer, and pauses. ACKs still precede all data. With Traits.AcksQueue, they wait
// in the queue of their flow's class.
//
// A port first serves the classes without a weight, in order of priority and without preemption. Classes
// with a weight share the remaining capacity by deficit round robin (Shreedhar and Varghese, SIGCOMM'95).
// One after another, each receives its quantum, and sends as long as its next packet is within its deficit.
// The deficit is 0 if nothing waits. The smallest quantum is the size of a full packet. NICs serve the
// classes of their flows by the same rules, and the flows of a class round robin. A flow that may not send
// when the previous packet has been sent does not wait.
//
// Ports without classes, or with a single class that has no settings, are served by domain.serve and
// domain.runNIC. PFC applies to classes. Without classes, there is one.

// MaxClasses is the maximum number of queues of a port.
const MaxClasses = 8

// A Class is a part of the traffic that has its own queue at every port. Of two classes without a weight, the
// later one in Classify has priority.
type Class struct {
	// of the deficit round robin; 0: strict priority over those with a weight
	Weight int64 `json:"weight,omitempty"`
	// Marking thresholds are in bytes per Gbps of a link. 0 means the threshold of the transport. With random
	// marks, marking begins at the first, and all packets are marked from the second.
	MarkPerGbps    int64 `json:"mark_per_gbps,omitempty"`
	MaxMarkPerGbps int64 `json:"max_mark_per_gbps,omitempty"`
	// Alpha is BufferParams.Alpha for the queues of the class. 0 means the same value. With PFC, it applies
	// to the packets that arrived over a link.
	Alpha float64 `json:"alpha,omitempty"`
	// with PFC, else as if false: it is dropped as without, and never paused
	Lossy bool `json:"lossy,omitempty"`
}

// These are the maximum values of a class. No queue is long enough to be marked at MaxMarkPerGbps.
const (
	MaxWeight      = 1000
	MaxMarkPerGbps = 1 << 30
)

// classQueues serves the ports of a domain by class.
type classQueues struct {
	domain *domain
	turns  bool // there are several classes
}

// portClasses has the state of the classes at a port.
type portClasses struct {
	queues  []queue // of a switch's port
	deficit [MaxClasses]int64
	turn    int
	granted bool // the current class has its quantum
}

// A queue is the queue of one class at a switch's port.
type queue struct {
	calendar.Fifo
	came      []int32 // with PFC: the links on which the packets in buf arrived
	leftBytes int64   // as port.leftBytes, for this queue
	heldBytes int64   // as port.heldBytes, for this queue
	marked    int64
	dropped   int64
}

// Classify sets the classes of the network. It must be called before Run.
func (n *Network) Classify(classes []Class) error {
	if len(classes) < 1 || len(classes) > MaxClasses {
		return fmt.Errorf("classes are %d, must be 1 to %d", len(classes), MaxClasses)
	}
	classes = slices.Clone(classes)
	n.classes = classes
	n.strict = 0
	least := int64(MaxWeight)
	for i := range classes {
		classes[i].Lossy = classes[i].Lossy && n.buffer.PFC
		if err := n.checkClass(&classes[i]); err != nil {
			return &PlaceError{-1, i, err}
		}
		w := classes[i].Weight
		if w > 0 {
			least = min(least, w)
		} else {
			n.strict |= 1 << i
		}
	}
	if !slices.ContainsFunc(classes, func(c Class) bool { return !c.Lossy }) {
		return errors.New("classes are all without pfc, which then pauses none")
	}
	for i, c := range classes {
		n.quantum[i] = n.fullBytes * c.Weight / least
	}
	switch one := classes[0]; {
	case n.buffer.PFC:
		return n.initPFC()
	case len(classes) == 1 && one.MarkPerGbps == 0 && one.Alpha == 0: // as without
		n.classes = nil
	}
	return n.initPools()
}

// checkClass checks the settings that depend on the transport, the buffers and the configurations of
// switches. The reader of a scenario checks the ranges of its weight and of Alpha.
func (n *Network) checkClass(c *Class) error {
	from, _ := n.params.MarkBytes(1e9, 1)
	switch {
	case min(c.MarkPerGbps, c.MaxMarkPerGbps) < 0 || max(c.MarkPerGbps, c.MaxMarkPerGbps) > MaxMarkPerGbps:
		return fmt.Errorf("mark_per_gbps is %d, max_mark_per_gbps %d bytes, must be 0 to 2^30", c.MarkPerGbps,
			c.MaxMarkPerGbps)
	case c.MarkPerGbps > 0 && from == simkernel.Unreachable:
		return fmt.Errorf("mark_per_gbps is %d bytes, and switches do not mark for transport %v", c.MarkPerGbps,
			n.params.Transport)
	case c.MaxMarkPerGbps > 0 && (!n.traits.RandomMarks || c.MaxMarkPerGbps < c.MarkPerGbps ||
		c.MarkPerGbps == 0):
		return fmt.Errorf("max_mark_per_gbps is %d, must be at least mark_per_gbps (%d), with random marks",
			c.MaxMarkPerGbps, c.MarkPerGbps)
	case c.Alpha == 0 && !c.Lossy:
		return nil
	case n.buffers == nil:
		return fmt.Errorf("alpha is %v, and switches have unlimited buffers", c.Alpha)
	case (c.Lossy || !n.buffer.PFC) && float64(n.fullBytes) > n.alphaOf(c)*float64(n.buffer.SwitchBytes):
		return fmt.Errorf("alpha is %v, which of %d bytes never admits a packet of %d", n.alphaOf(c),
			n.buffer.SwitchBytes, n.fullBytes)
	}
	return nil
}

// alphaOf returns the parameter of the dynamic threshold of a class.
func (n *Network) alphaOf(c *Class) float64 {
	switch {
	case c.Alpha != 0:
		return c.Alpha
	case c.Lossy:
		return DefaultAlpha
	}
	return n.buffer.Alpha
}

// rulesOf returns the marking rules of the classes at a link's port.
func (n *Network) rulesOf(link Link) (rules [MaxClasses]simkernel.MarkRule) {
	for i, c := range n.classes {
		from, always := n.params.MarkBytes(link.BandwidthBps, link.DelayNS)
		if c.MarkPerGbps > 0 {
			from = simkernel.PerGbps(c.MarkPerGbps, link.BandwidthBps)
			always = max(from, simkernel.PerGbps(c.MaxMarkPerGbps, link.BandwidthBps))
		}
		rules[i] = n.params.MarkRule(from, always)
	}
	return rules
}

// classOf returns the class of a packet or an ACK.
func (d *domain) classOf(it *calendar.Item) int32 {
	return int32(d.net.flows.hops[it.Hop].last % MaxClasses)
}

// pick returns the class that a port serves next, among the ready classes. sizes are the sizes of their next
// packets.
func (n *Network) pick(c *portClasses, ready uint32, bytes *[MaxClasses]int64) int {
	strict := ready & n.strict
	if strict != 0 {
		return bits.Len32(strict) - 1
	}
	for {
		q := c.turn
		if ready>>q&1 != 0 {
			if !c.granted {
				c.deficit[q] += n.quantum[q]
				c.granted = true
			}
			if bytes[q] <= c.deficit[q] {
				c.deficit[q] -= bytes[q]
				return q
			}
		}
		n.pass(c, c.turn)
	}
}

// pass ends the turn of a class.
func (n *Network) pass(c *portClasses, q int) {
	c.turn = q + 1
	c.granted = false
	if c.turn == len(n.classes) {
		c.turn = 0
	}
}

// emptied records that nothing of the class that was served waits.
func (n *Network) emptied(c *portClasses, q int) {
	c.deficit[q] = 0
	if c.turn == q {
		n.pass(c, q)
	}
}

// trim is fifo.trim.
func (q *queue) trim() {
	taken := q.Fifo.Trim()
	if q.came != nil {
		q.came = q.came[:copy(q.came, q.came[taken:])]
	}
}

// put adds arrivals at a switch's port to its queues.
func (p *port) put(d *domain, a *calendar.Arrival) {
	switch {
	case a.Bits&calendar.FlagAck != 0 && !d.traits.AcksQueue:
		p.acks.Push(a.Item)
	case d.classes != nil:
		q := &p.classes.queues[d.classOf(&a.Item)]
		q.Push(a.Item)
		if d.pfc != nil {
			q.came = append(q.came, a.Link)
		}
	default:
		p.data.Push(a.Item)
	}
}

// servedInTurn has the effect of pick and emptied for data that was served while nothing else waited.
func (q *classQueues) servedInTurn(p *port, it *calendar.Item) {
	d := q.domain
	c := p.classes
	class := int(d.classOf(it))
	if d.net.strict>>class&1 == 0 || c.turn == class {
		d.net.pass(c, class)
	}
}

// runQueues is runQueued with classes. Arrivals are in the queues already.
func (q *classQueues) runQueues(u int32, p *port) {
	d := q.domain
	nextPS := q.serveClasses(p, d.EndPS)
	p.acks.Trim()
	p.noteWaits()
	for q := range p.classes.queues {
		f := &p.classes.queues[q]
		f.trim()
		if len(f.Buf) > 0 {
			p.bits |= portWaits
		}
	}
	if nextPS != never {
		d.Schedule(u, nextPS)
	}
}

// serveClasses is serve with classes.
func (q *classQueues) serveClasses(p *port, untilPS int64) (nextPS int64) {
	d := q.domain
	for p.bits&portChanges != 0 && p.changeAtPS < untilPS {
		p.bits &^= portChanges
		q.serveClasses(p, p.changeAtPS)
		d.change(p)
	}
	k := p.kind
	for {
		nowPS := int64(never)
		ackPS := int64(never)
		if !p.acks.Empty() {
			ackPS = max(p.freePS, p.acks.Buf[p.acks.Head].AtPS)
		}
		for q := range p.classes.queues {
			f := &p.classes.queues[q]
			if !f.Empty() && !d.pfc.paused(p, q) {
				nowPS = min(nowPS, max(p.freePS, f.Buf[f.Head].AtPS))
			}
		}
		nextPS = min(nowPS, ackPS)
		if nextPS >= untilPS {
			if d.pfc != nil && p.bits&portChanges != 0 {
				nextPS = min(nextPS, max(untilPS, p.changeAtPS))
			}
			return nextPS
		}
		if ackPS <= nowPS {
			it := p.acks.Buf[p.acks.Head]
			p.acks.Head++
			if d.traits.Telemetry {
				p.sentBytes += d.ackBytes
			}
			d.send(p, k, it, ackPS)
			continue
		}
		q.serveClass(p, k, nowPS)
	}
}

// serveClass starts the service of a packet of the next class.
func (q *classQueues) serveClass(p *port, k *portKind, nowPS int64) {
	d := q.domain
	var bytes [MaxClasses]int64
	ready := uint32(0)
	c := p.classes
	p.leftBytes = 0
	for q := range c.queues {
		f := &c.queues[q]
		if f.Empty() {
			continue
		}
		it := &f.Buf[f.Head]
		if it.AtPS <= nowPS && !d.pfc.paused(p, q) {
			ready |= 1 << q
			bytes[q] = d.wireBytes(it)
		}
		for int(f.Arrived) != len(f.Buf) && f.Buf[f.Arrived].AtPS < nowPS {
			f.leftBytes += d.wireBytes(&f.Buf[f.Arrived])
			f.Arrived++
		}
		p.leftBytes += f.leftBytes
	}
	served := d.net.pick(c, ready, &bytes)
	f := &c.queues[served]
	it := f.Buf[f.Head]
	f.Head++
	if f.Head > f.Arrived { // it has not been counted yet
		f.Arrived++
	} else {
		f.leftBytes -= bytes[served]
		p.leftBytes -= bytes[served]
	}
	p.noteQueue(p.leftBytes+bytes[served], nowPS)
	if f.leftBytes == 0 {
		d.net.emptied(c, served)
	}
	if it.Bits&calendar.FlagAck != 0 {
		d.send(p, k, it, nowPS)
		return
	}
	rule := &k.classRules[served]
	if f.leftBytes > rule.MinBytes && (!d.traits.RandomMarks || p.drawsMark(d, rule, &it, f.leftBytes)) {
		p.mark(d, &it, nowPS)
		f.marked++
	}
	if d.traits.Telemetry {
		p.writeTelemetry(d, &it, nowPS)
	}
	if d.pfc != nil {
		d.pfc.leaves(p.node, f.came[f.Head-1]^1, &it, bytes[served], nowPS)
	}
	d.send(p, k, it, nowPS)
}

// chooseClasses is ring.choose for a NIC with classes. pickClass then chooses the class.
func (q *classQueues) chooseClasses(p *port, c *nic) {
	d := q.domain
	c.SendPS = never
	for q := range c.classes {
		r := &c.classes[q]
		if r.SendPS < p.freePS {
			r.Choose(p.freePS)
		}
		if !d.pfc.paused(p, q) {
			c.SendPS = min(c.SendPS, r.SendPS)
		}
	}
}

// pickClass returns the class of the packet that a NIC sends at c.SendPS.
func (q *classQueues) pickClass(p *port, c *nic) int {
	d := q.domain
	var bytes [MaxClasses]int64
	ready := uint32(0)
	for q := range c.classes {
		r := &c.classes[q]
		if r.SendPS > c.SendPS || d.pfc.paused(p, q) {
			continue
		}
		ready |= 1 << q
		s := &d.net.flows.senders[r.Places[r.SendAt].Slot]
		bytes[q] = min(s.sizeBytes-s.sentBytes, d.net.params.PayloadBytes) + d.net.params.HeaderBytes
	}
	return d.net.pick(p.classes, ready, &bytes)
}

// sent records that a NIC has sent a packet of a class.
func (q *classQueues) sent(p *port, c *nic, class int) {
	r := &c.classes[class]
	r.Choose(p.freePS)
	if r.SendPS > p.freePS { // nothing of the class waits
		q.domain.net.emptied(p.classes, class)
	}
}
