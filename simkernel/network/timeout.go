package network

import (
	"parsimon/simkernel"
)

// maxBackoff is the maximum number of times that a timeout is doubled.
const maxBackoff = 10

// recoverNS is the minimum retransmission timeout of a network with Forwarding and unlimited buffers: the
// InfiniBand local ACK timeout with exponent 10, 4.096 µs × 2^10.
const (
	recoverNS    = 4_194_304
	recoverTrips = 8 // queues may hold several bandwidth-delay products
)

// timeoutPS returns the retransmission timeout of flows on a path. The default is the longest time until the
// ACK of a packet arrives. At every switch, the packet waits for the longest possible queue (Alpha/(1+Alpha)
// of the buffer). Its ACK waits for one packet, and for as many ACKs as such a queue has packets. With
// unlimited buffers it is recoverNS or, on long paths, recoverTrips round trips without a queue.
func (n *Network) timeoutPS(path []int32) int64 {
	if n.buffer.RetransmitNS > 0 {
		return n.buffer.RetransmitNS * simkernel.PSPerNS
	}
	if n.buffer.PFC {
		return pfcTimeoutNS * simkernel.PSPerNS
	}
	idlePS := int64(0)
	for _, l := range path {
		there := n.worst(l)
		back := n.worst(l ^ 1)
		idlePS += simkernel.NewWireTime(float64(there.BandwidthBps)).PS(n.fullBytes) +
			simkernel.NewWireTime(float64(back.BandwidthBps)).PS(n.params.AckBytes) +
			(there.DelayNS+back.DelayNS)*simkernel.PSPerNS
	}
	if n.buffers == nil {
		return max(recoverNS*simkernel.PSPerNS, recoverTrips*idlePS)
	}
	deepest := loneQueue(n.buffer.Alpha, n.buffer.SwitchBytes) + float64(n.buffer.ReservedBytes)
	if n.classes != nil { // earlier packets of others may take longer still
		deepest = float64(n.buffer.SwitchBytes)
	}
	sum := 2 * float64(idlePS)
	for _, l := range path {
		sum += 2 * deepest * 8e12 / float64(min(n.worst(l).BandwidthBps, n.worst(l^1).BandwidthBps))
	}
	return int64(min(sum, horizonPS/4))
}

// A timer is a time at which the sender of a flow checks for lost packets. The deadline of the flow may have
// moved since the timer was set.
type timer struct {
	atPS int64
	row  int64
	slot int32
}

// Before orders timers by time, and timers with equal times by the row of the flow.
func (t timer) Before(o timer) bool { return t.atPS < o.atPS || t.atPS == o.atPS && t.row < o.row }

// startTimer sets the timer of a flow that has sent a packet, unless it has one.
func (x *retransmission) startTimer(c *nic, slot int32, nowPS int64) {
	f := &x.net.flows[slot]
	if !f.timerSet {
		x.setTimer(c, slot, f, nowPS)
	}
}

// setTimer sets the timer of a flow to the end of its timeout.
func (x *retransmission) setTimer(c *nic, slot int32, f *recoveryFlow, nowPS int64) {
	d := x.domain
	f.deadlinePS = nowPS + min(f.patiencePS(), horizonPS/4>>f.backoff)<<f.backoff
	f.timerSet = true
	c.timerPS = min(c.timerPS, f.deadlinePS)
	c.timers.Push(timer{f.deadlinePS, d.net.flows.info[slot].row, slot})
}

// nextTimer returns when the first timer of a NIC expires, from now on.
func (x *retransmission) nextTimer(c *nic, nowPS int64) int64 {
	d := x.domain
	for len(c.timers) > 0 {
		t := c.timers[0]
		f := &d.net.recovery.flows[t.slot]
		switch {
		case f.done || d.net.flows.info[t.slot].row != t.row:
			c.timers.Pop()
		case f.deadlinePS > t.atPS && t.atPS <= nowPS: // not before: with IRN a deadline can move either way
			t.atPS = f.deadlinePS
			c.timers.Replace(t)
		default:
			return t.atPS
		}
	}
	return never
}

// timeout processes the first timer of a NIC when it expires. If there was no progress since it was set, the
// sender goes back to the first unacknowledged packet.
func (x *retransmission) timeout(c *nic) {
	d := x.domain
	t := c.timers.Pop()
	f := &d.net.recovery.flows[t.slot]
	s := &d.net.flows.senders[t.slot]
	f.timerSet = false
	goesBack := d.tcp == nil && !x.net.irn
	// nothing is in flight: the next packet sets the timer
	if f.next == f.una && (goesBack || f.maxSent == f.una) {
		return
	}
	if x.net.irn && f.tooEarly(c, t) {
		return
	}
	d.journal.losses.Timeouts++
	s.goBack(&d.net.params, f)
	if d.traits.Timers {
		c.noteReady(d, s, t.atPS)
	}
	f.plb.label++
	if d.tcp != nil {
		f.attempt = max(1, f.attempt)
		f.lostTo = s.external.handedTo
		f.sentAgain = f.una
		s.external.tcp.OnTimeout(min(s.sizeBytes, s.external.handedTo*d.net.params.PayloadBytes))
		s.handOver(&d.net.params, f, t.atPS)
	}
	if x.net.irn {
		s.begin(f)
		f.recoverTo = f.maxSent
		f.sentAgain = f.una
		f.lostTo = f.maxSent
		x.skipAcked(t.slot, f)
	}
	f.backoff = min(f.backoff+1, maxBackoff)
	x.setTimer(c, t.slot, f, t.atPS)
	d.updateOpen(c, s, f.open(s), t.atPS)
}
