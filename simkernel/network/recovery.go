package network

import (
	"cmp"
	"fmt"
	"slices"

	"parsimon/simkernel"
)

// Recovery from losses is go-back-N, as in RDMA NICs and the HPCC simulator. A receiver accepts packets in order only,
// and acknowledges them. It discards packets beyond the expected one and answers the first of them, and then one
// per nackEveryNS or round trip without progress, by a NACK; the sender goes back to the expected packet. It also
// discards duplicates. A timeout covers the loss of a flow's last packets. The transport processes a NACK like an ACK
// of what was acknowledged before; losses have no other effect on it.
//
// With BufferParams.Selective recovery is IRN's.
//
// An ACK or NACK carries the number of the packet that it answers. Receivers that take packets in order have all packets
// before that number. Those that take them in any order say so by flagThrough: then a lost ACK costs nothing when the
// next one arrives.
//
// Copies of a packet that was sent again can be in the network when their flow has been delivered. What they meet is
// counted between epochs (lateStat), as long as their flow was not delivered; and a flow's slot is free only when
// nothing of it is in the network.

// nackEveryNS is the least time between two NACKs for the same packet (the HPCC simulator's default). On paths with a
// longer round trip it is that: what the first makes the sender send again cannot be there before.
const nackEveryNS = 500_000

// maxBackoff bounds how often a timeout is doubled.
const maxBackoff = 10

// recovery is the state of senders and receivers that recover from losses, by slot of the flow.
type recovery struct {
	net       *Network
	flows     []recoveryFlow
	receivers []receiver
	lasts     []lateStat // scratch
}

// A recoveryFlow belongs to the domain of the source, between epochs to the coordinator.
type recoveryFlow struct {
	packets    int64
	una        int64 // packets acknowledged
	next       int64 // the next packet to send
	maxSent    int64 // number of packets that have been sent at least once
	timeoutPS  int64 // of the first timeout in a row
	deadlinePS int64
	deliverPS  int64 // when the last packet was delivered; never before
	inNetwork  int32 // packets and ACKs
	resent     int64 // packets sent again
	attempt    uint8 // of packets that are sent again: 1 to 2^attemptBits - 1, round and round
	backoff    uint8 // timeouts in a row
	received   int64 // clocked by ACKs: number of packets that the receiver has
	lostTo     int64 // likewise, and with IRN: those before that it has not are lost
	sentAgain  int64 // likewise: those before that it has not were sent again
	recoverTo  int64 // with IRN: up to there losses are of the present event
	lowPS      int64 // with IRN: RTO_low
	waited     bool  // likewise: beyond RTO_low
	timerSet   bool  // its NIC has a timer for it
	done       bool
	again      int32     // packets sent again before the last was delivered
	acked      packetSet // if the receiver accepts packets in any order
	plb        plbRounds
}

// A receiver belongs to the domain of the destination.
type receiver struct {
	got       packetSet // if it accepts packets in any order
	highest   int64     // of the packets that were sent once, received so far
	reordered int32     // of those, the packets that came after one with a higher number (RFC 4737)
	expected  int64     // packets received in order
	nacked    int64     // 1 + the packet that the last NACK asked for
	nackPS    int64     // when the next NACK for it may be sent
	waitPS    int64     // from one NACK for a packet to the next
	beyond    int64     // clocked by ACKs: 1 + the highest packet received
	coming    packetSet // likewise: those that left the last port (dependencies.go)
	sent      int64     // packets that will be received in order, of those that left the last port (dependencies.go)
}

// A lateStat is what a packet that was sent again met at a hop: a mark, its wait, or that it was sent again.
type lateStat struct {
	item
	startPS     int64
	link        int32 // where it waited
	mark, again bool
}

// A finish is a flow whose last packet was delivered.
type finish struct {
	atPS int64
	slot int32
}

// Losses count packets. Sent = Delivered + Dropped + Discarded + Lost when all flows have finished.
type Losses struct {
	Sent      int64 // by hosts, retransmissions included
	Delivered int64 // in order
	Dropped   int64 // by switches
	Discarded int64 // by receivers: out of order, or duplicate
	Lost      int64 // on links that were down or lost packets, and where no route was left (Move)
	Again     int64 // retransmissions
	NACKs     int64 // sent by receivers
	Timeouts  int64
}

func (l *Losses) add(o *Losses) {
	l.Sent += o.Sent
	l.Delivered += o.Delivered
	l.Dropped += o.Dropped
	l.Discarded += o.Discarded
	l.Lost += o.Lost
	l.Again += o.Again
	l.NACKs += o.NACKs
	l.Timeouts += o.Timeouts
}

// recoveryShift is where the number of a packet begins.
const recoveryShift = flagBits + attemptBits

// recover makes senders recover from losses.
func (n *Network) recover() {
	n.recovery = &recovery{net: n}
	n.numberShift = recoveryShift
}

// check returns an error if the packets in flight of a flow could have equal numbers.
func (r *recovery) check(size int64) error {
	p := &r.net.params
	window := p.WindowBytes
	if p.Transport.Traits().AckClocked {
		window = p.TCP.ReceiveWindow
	}
	if most := min(p.Packets(size), p.Packets(window)); most >= 1<<(31-r.net.numberShift) {
		return fmt.Errorf("%d of its packets can be in flight, with limited buffers at most %d can be", most,
			1<<(31-r.net.numberShift)-1)
	}
	return nil
}

// start sets up a new flow.
func (r *recovery) start(slot int32, f *newFlow) {
	acked, got, coming := r.flows[slot].acked, r.receivers[slot].got, r.receivers[slot].coming
	acked.reset()
	got.reset()
	coming.reset()
	if s := &r.net.flows.senders[slot]; s.external != nil && s.external.tcp != nil {
		f.timeoutPS = s.external.tcp.TimeoutPS()
	}
	r.flows[slot] = recoveryFlow{packets: r.net.params.Packets(f.size), timeoutPS: f.timeoutPS, lowPS: f.lowPS,
		deliverPS: never, acked: acked}
	r.receivers[slot] = receiver{got: got, coming: coming, waitPS: f.nackPS}
}

// timeoutPS returns the retransmission timeout of flows of a path. By default it covers a packet that waits behind
// the largest possible queue (Alpha/(1+Alpha) of the buffer) at every switch, and whose ACK waits at each for one
// packet and for as many ACKs as such a queue has packets. With unlimited buffers it is recoverNS or, on long paths,
// recoverTrips round trips without a queue.
func (n *Network) timeoutPS(path []int32) int64 {
	if n.buffer.RetransmitNS > 0 {
		return n.buffer.RetransmitNS * simkernel.PSPerNS
	}
	if n.buffer.PFC {
		return pfcTimeoutNS * simkernel.PSPerNS
	}
	idlePS := int64(0)
	for _, l := range path {
		there, back := n.worst(l), n.worst(l^1)
		idlePS += simkernel.NewWireTime(float64(there.BandwidthBps)).PS(n.fullBytes) +
			simkernel.NewWireTime(float64(back.BandwidthBps)).PS(n.params.AckBytes) +
			(there.DelayNS+back.DelayNS)*simkernel.PSPerNS
	}
	if n.buffers == nil {
		return max(recoverNS*simkernel.PSPerNS, recoverTrips*idlePS)
	}
	deepest := loneQueue(n.buffer.Alpha, n.buffer.SwitchBytes) + float64(n.buffer.ReservedBytes)
	if n.classes != nil { // what others send before it may take longer still
		deepest = float64(n.buffer.SwitchBytes)
	}
	sum := 2 * float64(idlePS)
	for _, l := range path {
		sum += 2 * deepest * 8e12 / float64(min(n.worst(l).BandwidthBps, n.worst(l^1).BandwidthBps))
	}
	return int64(min(sum, horizonPS/4))
}

// nearest returns the number closest to near whose lowest bits are those of an item's number.
func (n *Network) nearest(near int64, itemBits uint32) int64 {
	return near + int64(int32(itemBits-uint32(near)<<n.numberShift)>>n.numberShift)
}

// onSend counts a packet that is sent, and returns in which attempt.
func (d *domain) onSend(slot int32, nowPS int64) (attempt uint32) {
	f := &d.net.recovery.flows[slot]
	d.losses.Sent++
	if f.next < f.maxSent {
		d.losses.Again++
		if f.resent++; f.resent > stormRatio*f.maxSent {
			d.storming++
		}
		attempt = uint32(f.attempt)
		if !d.clocked {
			f.sentAgain = f.next + 1
		}
		d.late = append(d.late, lateStat{item: item{hop: d.net.flows.info[slot].firstHop}, startPS: nowPS, again: true})
	}
	f.next++
	f.maxSent = max(f.maxSent, f.next)
	f.inNetwork++
	d.skipAcked(slot, f)
	return attempt
}

// skipAcked moves the next packet to send behind those that the receiver has.
func (d *domain) skipAcked(slot int32, f *recoveryFlow) {
	next := f.next
	if d.irn { // a lost packet, or a new one
		if next = f.acked.next(max(f.una, f.sentAgain)); next >= f.lostTo {
			next = f.maxSent
		}
	}
	if next < f.maxSent {
		next = min(f.acked.next(next), f.maxSent)
	}
	if next != f.next {
		d.net.flows.senders[slot].setNext(&d.net.params, f, next)
	}
}

// receiveInOrder processes a data packet at its destination and turns it into its ACK or NACK; false if there is none.
func (d *domain) receiveInOrder(it *item) bool {
	slot := d.net.flows.hops[it.hop].flow
	r := &d.net.recovery.receivers[slot]
	number := d.net.nearest(r.expected, it.bits)
	r.countOrder(it, number)
	switch {
	case d.selective:
		d.receiveAny(slot, r, number, it.atPS)
		it.bits = it.bits&^flagLast | r.throughFlag(number)
	case number == r.expected:
		r.expected++
		d.losses.Delivered++
		if it.bits&flagLast != 0 {
			d.finished = append(d.finished, finish{it.atPS, slot})
		}
	case number < r.expected:
		d.losses.Discarded++
		if d.moves == nil { // its ACK was not lost
			d.gone = append(d.gone, slot)
			return false
		}
	default:
		d.losses.Discarded++
		if r.nacked == r.expected+1 && it.atPS < r.nackPS {
			d.gone = append(d.gone, slot)
			return false
		}
		r.nacked, r.nackPS = r.expected+1, it.atPS+r.waitPS
		it.bits |= flagNack
		d.losses.NACKs++
	}
	it.bits |= flagAck
	return true
}

// countOrder counts a data packet that was overtaken.
func (r *receiver) countOrder(it *item, number int64) {
	if it.bits&attemptMask != 0 || number < r.expected || r.got.has(number) {
		return
	}
	if number < r.highest {
		r.reordered++
	}
	r.highest = max(r.highest, number)
}

// receiveAny processes a data packet that the receiver takes in any order.
func (d *domain) receiveAny(slot int32, r *receiver, number, atPS int64) {
	if r.got.has(number) {
		d.losses.Discarded++
		return
	}
	d.losses.Delivered++
	r.got.add(number)
	if r.expected = r.got.base; r.expected == d.net.recovery.flows[slot].packets {
		d.finished = append(d.finished, finish{atPS, slot})
	}
}

// throughFlag returns flagThrough if the receiver has all packets up to the number.
func (r *receiver) throughFlag(number int64) uint32 {
	if number < r.expected {
		return flagThrough
	}
	return 0
}

// receiveAck processes an ACK or a NACK at the source.
func (d *domain) receiveAck(c *nic, slot int32, s *sender, it *item) {
	f, p, sentBytes := &d.net.recovery.flows[slot], &d.net.params, s.sentBytes
	if d.returned(slot, f) {
		return
	}
	number := d.net.nearest(f.una, it.bits)
	d.repath(f, number, it.bits&flagMarked != 0)
	known := it.bits&flagNack == 0 && (number < f.una || d.selective && it.bits&flagThrough == 0 && f.acked.has(number))
	if it.bits&flagNack != 0 {
		s.goBack(p, f)
	} else if !known {
		una := number + 1
		if d.selective {
			if it.bits&flagThrough != 0 { // ACKs before this one may have been lost
				f.acked.addThrough(number)
			}
			f.acked.add(number)
			una = f.acked.base
		}
		if una > f.una {
			f.una = una
			f.backoff = 0
			f.deadlinePS = it.atPS + f.patiencePS()
			s.ackedBytes = min(s.sizeBytes, f.una*p.PayloadBytes)
		} else if !d.irn && number == f.next-1 && !f.open(s) && f.next < f.packets {
			s.goBack(p, f) // the window is full, its last packet is there, its first is not: that counts as lost
		}
		if f.next < f.una { // it had gone back to before packets still in flight
			s.setNext(p, f, f.una)
		}
		if d.irn {
			s.findLosses(f)
		}
		d.skipAcked(slot, f)
	}
	if d.ended(c, slot, s, f) {
		return
	}
	if !known {
		if o := s.external; o != nil {
			s.onAck(d, it, uint32(number), it.bits&attemptMask>>flagBits)
			o.acked = uint32(f.una)
		} else {
			s.updateDCTCP(p, it)
		}
	}
	if d.ticks && s.sentBytes < sentBytes {
		d.noteReady(c, s, it.atPS)
	}
	d.updateOpen(c, s, f.open(s), it.atPS)
}

// returned counts what of a flow has left the network: an ACK or a NACK that is back at the source, or what was lost on
// the way. It reports whether the flow had ended before.
func (d *domain) returned(slot int32, f *recoveryFlow) bool {
	f.inNetwork--
	if f.done && f.inNetwork == 0 {
		d.free(slot)
	}
	return f.done
}

// ended ends a flow if all of its packets are acknowledged, and reports whether it did.
func (d *domain) ended(c *nic, slot int32, s *sender, f *recoveryFlow) bool {
	if f.una != f.packets {
		return false
	}
	f.done = true
	d.ringOf(c, s).vacate(s.place)
	if f.inNetwork == 0 {
		d.free(slot)
	}
	return true
}

// open reports whether a flow has a packet to send and its window allows it.
func (f *recoveryFlow) open(s *sender) bool {
	return f.next < f.packets && s.sentBytes-s.ackedBytes < s.windowBytes
}

// goBack makes the sender send again from the first packet that is not acknowledged.
func (s *sender) goBack(p *simkernel.Params, f *recoveryFlow) {
	if f.next > f.una {
		s.begin(f)
	}
	s.setNext(p, f, f.una)
}

// begin begins another attempt.
func (s *sender) begin(f *recoveryFlow) {
	f.attempt = f.attempt%(1<<attemptBits-1) + 1
	if s.external != nil {
		s.external.makeTelemetry(uint32(f.attempt))
	}
}

func (s *sender) setNext(p *simkernel.Params, f *recoveryFlow, next int64) {
	f.next, s.next = next, uint32(next)
	s.sentBytes = min(s.sizeBytes, next*p.PayloadBytes)
}

// A timer is when the sender of a flow should look whether packets were lost, or later.
type timer struct {
	atPS int64
	row  int64
	slot int32
}

// Before orders by time, and equal times by the row of the flow.
func (t timer) Before(o timer) bool { return t.atPS < o.atPS || t.atPS == o.atPS && t.row < o.row }

func (d *domain) setTimer(c *nic, slot int32, f *recoveryFlow, nowPS int64) {
	f.deadlinePS = nowPS + min(f.patiencePS(), horizonPS/4>>f.backoff)<<f.backoff
	f.timerSet = true
	c.timerPS = min(c.timerPS, f.deadlinePS)
	c.timers.push(timer{f.deadlinePS, d.net.flows.info[slot].row, slot})
}

// nextTimer returns when the first timer of a NIC goes off, from now on.
func (d *domain) nextTimer(c *nic, nowPS int64) int64 {
	for len(c.timers) > 0 {
		t := c.timers[0]
		f := &d.net.recovery.flows[t.slot]
		switch {
		case f.done || d.net.flows.info[t.slot].row != t.row:
			c.timers.pop()
		case f.deadlinePS > t.atPS && t.atPS <= nowPS: // not before: with IRN a deadline can move either way
			t.atPS = f.deadlinePS
			c.timers.replace(t)
		default:
			return t.atPS
		}
	}
	return never
}

// timeout processes the first timer of a NIC, which goes off: without progress for the timeout the sender goes back to
// the first packet that is not acknowledged.
func (d *domain) timeout(c *nic) {
	t := c.timers.pop()
	f, s := &d.net.recovery.flows[t.slot], &d.net.flows.senders[t.slot]
	f.timerSet = false
	if f.next == f.una && (!d.clocked && !d.irn || f.maxSent == f.una) { // nothing is in flight: the next sets the timer
		return
	}
	if d.irn && f.tooEarly(c, t) {
		return
	}
	d.losses.Timeouts++
	s.goBack(&d.net.params, f)
	if d.ticks {
		d.noteReady(c, s, t.atPS)
	}
	f.plb.label++
	if d.clocked {
		f.attempt, f.lostTo, f.sentAgain = max(1, f.attempt), s.external.handedTo, f.una
		s.external.tcp.OnTimeout(min(s.sizeBytes, s.external.handedTo*d.net.params.PayloadBytes))
		s.handOver(&d.net.params, f, t.atPS)
	}
	if d.irn {
		s.begin(f)
		f.recoverTo, f.sentAgain, f.lostTo = f.maxSent, f.una, f.maxSent
		d.skipAcked(t.slot, f)
	}
	f.backoff = min(f.backoff+1, maxBackoff)
	d.setTimer(c, t.slot, f, t.atPS)
	d.updateOpen(c, s, f.open(s), t.atPS)
}

// settleLasts keeps of the last packets of flows that were sent several times what the latest met at each hop.
func (r *recovery) settleLasts() {
	slices.SortFunc(r.lasts, func(a, b lateStat) int {
		return cmp.Or(cmp.Compare(a.startPS, b.startPS), cmp.Compare(a.link, b.link))
	})
	for _, l := range r.lasts {
		r.net.flows.lastPS[l.hop] = l.startPS - l.atPS
	}
	r.lasts = r.lasts[:0]
}

// settle counts between epochs what concerns flows of several domains, and frees those that have left the network.
func (r *recovery) settle() {
	n := r.net
	t := &n.flows
	for i := range n.domains {
		for _, e := range n.domains[i].finished {
			r.flows[e.slot].deliverPS = e.atPS
		}
	}
	for i := range n.domains {
		d := &n.domains[i]
		for k := range d.late {
			l := &d.late[k]
			if n.moves != nil && !l.mark && !l.again {
				n.moves.waits[l.link].Add(l.startPS - l.atPS)
			}
			switch f := &r.flows[t.hops[l.hop].flow]; {
			case l.startPS > f.deliverPS:
			case l.again:
				f.again++
			case l.mark:
				t.stats[l.hop].marks++
			default:
				t.stats[l.hop].addWait(l.startPS - l.atPS)
				if l.bits&flagLast != 0 {
					r.lasts = append(r.lasts, *l)
				}
			}
		}
		d.late = d.late[:0]
	}
	r.settleLasts()
	for i := range n.domains {
		d := &n.domains[i]
		for _, e := range d.finished {
			d.results.add(t, e.slot, e.atPS)
			row := &d.results.rows[len(d.results.rows)-1]
			if n.moves != nil { // packets that overtake each other, or a faster path
				row.idealNS = min(row.idealNS, simkernel.CeilNS(row.atPS-row.startPS))
			}
			row.again, row.reordered = r.flows[e.slot].again, r.receivers[e.slot].reordered
		}
		d.finished = d.finished[:0]
		for _, slot := range d.gone {
			n.domains[t.info[slot].domain].returned(slot, &r.flows[slot])
		}
		d.gone = d.gone[:0]
	}
}

// Selective recovery of transports with a rate is that of IRN (Mittal et al., SIGCOMM'18, §3). Receivers take
// packets in any order, and each ACK names its packet. A packet is lost if one that was sent behind it is
// acknowledged. The sender then sends all such packets again, each once, and new ones again until all that it had
// sent is acknowledged. At most a window, by default one bandwidth-delay product (Params.WindowBytes), is between
// the first packet that is not acknowledged and the last that was sent. The timeout is RTO_low with up to irnFew
// packets in flight and RTO_high, which is RetransmitNS, with more. After it all that is not acknowledged is lost, as
// in TCP (RFC 6675, §5.1), where IRN takes the first packet only: of a window whose end is lost it would then wait for
// a timeout for each packet.
//
// Where paths move, packets overtake each other, and only timeouts and full windows find losses (moves.go).
const (
	irnFew   = 3       // N (§3.1)
	irnLowNS = 100_000 // RTO_low (§4.1) of paths whose round trip is a third of it or less; else three round trips
)

// findLosses follows an ACK.
func (s *sender) findLosses(f *recoveryFlow) {
	top := f.acked.highest(1)
	if top <= f.una {
		return
	}
	if f.una >= f.recoverTo {
		f.recoverTo, f.sentAgain = f.maxSent, f.una
		s.begin(f)
	}
	f.lostTo = max(f.lostTo, top)
}

// patiencePS returns the timeout with the packets that are in flight.
func (f *recoveryFlow) patiencePS() int64 {
	if f.lowPS > 0 && f.maxSent-f.una <= irnFew {
		return min(f.lowPS, f.timeoutPS)
	}
	return f.timeoutPS
}

// tooEarly sets the timer of a flow again that had few packets in flight when it was set, and has more now.
func (f *recoveryFlow) tooEarly(c *nic, t timer) bool {
	if f.lowPS == 0 || f.lowPS >= f.timeoutPS || f.patiencePS() < f.timeoutPS || f.waited {
		f.waited = false
		return false
	}
	f.waited, f.timerSet = true, true
	f.deadlinePS = t.atPS + f.timeoutPS - f.lowPS
	c.timerPS = min(c.timerPS, f.deadlinePS)
	c.timers.push(timer{f.deadlinePS, t.row, t.slot})
	return true
}
