package network

import (
	"fmt"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/packetset"
)

// Recovery from losses is go-back-N, as in RDMA NICs and the HPCC simulator. A receiver accepts packets only
// in order, and acknowledges them. It discards packets beyond the expected one. It sends a NACK for the first
// of these, and then one per nackEveryNS or round trip without progress. The sender goes back to the expected
// packet. The receiver also discards duplicates. A timeout covers the loss of a flow's last packets. The
// transport processes a NACK like an ACK for what was acknowledged before. Losses have no other effect on the
// transport.
//
// With BufferParams.Selective, recovery follows IRN (irn.go). TCP has its own (tcp.go).
//
// An ACK or NACK has the number of the packet that caused it. A receiver that accepts packets in order has
// all packets before that number. One that accepts them in any order sets calendar.FlagThrough then. A lost
// ACK therefore has no effect once the next one arrives.
//
// Copies of a retransmitted packet can still be in the network when their flow has been delivered. Their
// marks and waits are counted between epochs (lateStat), if they occur before the delivery. The slot of a
// flow becomes free only when no packet or ACK of the flow is in the network.

// retransmission is the recovery from losses of the hosts of a domain.
type retransmission struct {
	domain *domain
	net    *recovery
}

// recovery is the state of senders and receivers that recover from losses, by slot of the flow.
type recovery struct {
	net       *Network
	selective bool // receivers of paced transports take packets in any order
	irn       bool // senders recover as IRN
	flows     []recoveryFlow
	receivers []receiver
	lasts     []lateStat // scratch
}

// A recoveryFlow is the sending end of a flow. It belongs to the domain of the source, and between epochs to
// the coordinator.
type recoveryFlow struct {
	packets    int64
	una        int64 // packets acknowledged
	next       int64 // the next packet to send
	maxSent    int64 // number of packets that have been sent at least once
	timeoutPS  int64 // of the first timeout in a row
	deadlinePS int64
	deliverPS  int64 // when the last packet was delivered; never before
	inNetwork  int32 // packets and ACKs
	resent     int64 // retransmitted packets
	attempt    uint8 // of packets that are retransmitted: 1 to 2^calendar.AttemptBits - 1, then 1 again
	backoff    uint8 // consecutive timeouts
	received   int64 // clocked by ACKs: number of packets that the receiver has
	lostTo     int64 // clocked by ACKs, and with IRN: packets before it that the receiver does not have are lost
	sentAgain  int64 // as lostTo: packets before it that the receiver does not have were retransmitted
	recoverTo  int64 // with IRN: losses before it belong to the current event
	lowPS      int64 // with IRN: RTO_low
	waited     bool  // with IRN: the timer was extended beyond RTO_low
	timerSet   bool  // its NIC has a timer for it
	done       bool
	again      int32         // packets retransmitted before the last was delivered
	acked      packetset.Set // if the receiver accepts packets in any order
	plb        plbRounds
}

// recoveryShift is the position of the number of a packet.
const recoveryShift = calendar.FlagBits + calendar.AttemptBits

// recover makes senders recover from losses.
func (n *Network) recover() {
	n.recovery = &recovery{net: n}
	n.numberShift = recoveryShift
}

// check returns an error if two packets in flight of a flow could have equal numbers in items.
func (r *recovery) check(flow *newFlow) error {
	p := &r.net.params
	window := flow.limits.WindowBytes
	if p.Transport.Traits().AckClocked {
		window = p.TCP.ReceiveWindow
	}
	most := min(p.Packets(flow.size), p.Packets(window))
	if most >= 1<<(31-r.net.numberShift) {
		return fmt.Errorf("%d of its packets can be in flight, with limited buffers at most %d can be", most,
			1<<(31-r.net.numberShift)-1)
	}
	return nil
}

// prepare sets the timeouts of a flow with a path.
func (r *recovery) prepare(flow *newFlow, roundTripNS int64) error {
	if err := r.check(flow); err != nil {
		return err
	}
	flow.timeoutPS = r.net.timeoutPS(flow.path)
	flow.nackPS = max(nackEveryNS, roundTripNS) * simkernel.PSPerNS
	if r.irn {
		flow.lowPS = max(irnLowNS, 3*roundTripNS) * simkernel.PSPerNS
	}
	return nil
}

// start sets up a new flow.
func (r *recovery) start(slot int32, f *newFlow) {
	acked := r.flows[slot].acked
	got := r.receivers[slot].got
	coming := r.receivers[slot].coming
	acked.Reset()
	got.Reset()
	coming.Reset()
	s := &r.net.flows.senders[slot]
	if s.external != nil && s.external.tcp != nil {
		f.timeoutPS = s.external.tcp.TimeoutPS()
	}
	r.flows[slot] = recoveryFlow{packets: r.net.params.Packets(f.size), timeoutPS: f.timeoutPS, lowPS: f.lowPS,
		deliverPS: never, acked: acked}
	r.receivers[slot] = receiver{got: got, coming: coming, waitPS: f.nackPS}
}

// nearest returns the number closest to near whose lowest bits are those of the number in an item.
func (n *Network) nearest(near int64, itemBits uint32) int64 {
	return near + int64(int32(itemBits-uint32(near)<<n.numberShift)>>n.numberShift)
}

// onSend counts a packet that is sent, and returns the number of its attempt.
func (x *retransmission) onSend(slot int32, nowPS int64) (attempt uint32) {
	d := x.domain
	f := &d.net.recovery.flows[slot]
	d.journal.losses.Sent++
	if f.next < f.maxSent {
		d.journal.losses.Again++
		f.resent++
		if f.resent > stormRatio*f.maxSent {
			d.journal.storming++
		}
		attempt = uint32(f.attempt)
		if d.tcp == nil {
			f.sentAgain = f.next + 1
		}
		firstHop := d.net.flows.info[slot].firstHop
		d.journal.late = append(d.journal.late, lateStat{Item: calendar.Item{Hop: firstHop}, startPS: nowPS,
			again: true})
	}
	f.next++
	f.maxSent = max(f.maxSent, f.next)
	f.inNetwork++
	x.skipAcked(slot, f)
	return attempt
}

// skipAcked advances the next packet to send past those that the receiver already has.
func (x *retransmission) skipAcked(slot int32, f *recoveryFlow) {
	d := x.domain
	next := f.next
	if x.net.irn { // a lost packet, or a new one
		next = f.acked.Next(max(f.una, f.sentAgain))
		if next >= f.lostTo {
			next = f.maxSent
		}
	}
	if next < f.maxSent {
		next = min(f.acked.Next(next), f.maxSent)
	}
	if next != f.next {
		d.net.flows.senders[slot].setNext(&d.net.params, f, next)
	}
}

// receiveAck processes an ACK or a NACK at the source.
func (x *retransmission) receiveAck(c *nic, slot int32, s *sender, it *calendar.Item) {
	d := x.domain
	f := &d.net.recovery.flows[slot]
	p := &d.net.params
	sentBytes := s.sentBytes
	if x.returned(slot, f) {
		return
	}
	number := d.net.nearest(f.una, it.Bits)
	if d.paths != nil {
		d.paths.repath(f, number, it.Bits&calendar.FlagMarked != 0)
	}
	repeats := x.net.selective && it.Bits&calendar.FlagThrough == 0 && f.acked.Has(number)
	known := it.Bits&calendar.FlagNack == 0 && (number < f.una || repeats)
	if it.Bits&calendar.FlagNack != 0 {
		s.goBack(p, f)
	} else if !known {
		una := number + 1
		if d.recovery.net.selective {
			if it.Bits&calendar.FlagThrough != 0 { // ACKs before this one may have been lost
				f.acked.AddThrough(number)
			}
			f.acked.Add(number)
			una = f.acked.Base
		}
		if una > f.una {
			f.una = una
			f.backoff = 0
			f.deadlinePS = it.AtPS + f.patiencePS()
			s.ackedBytes = min(s.sizeBytes, f.una*p.PayloadBytes)
		} else if !x.net.irn && number == f.next-1 && !f.open(s) && f.next < f.packets {
			s.goBack(p, f) // the window is full, its last packet is there, its first is not: that counts as lost
		}
		if f.next < f.una { // it had gone back to before packets still in flight
			s.setNext(p, f, f.una)
		}
		if x.net.irn {
			s.findLosses(f)
		}
		x.skipAcked(slot, f)
	}
	if x.ended(c, slot, s, f) {
		return
	}
	if !known {
		o := s.external
		if o != nil {
			s.onAck(d, it, uint32(number), it.Bits&calendar.AttemptMask>>calendar.FlagBits)
			o.acked = uint32(f.una)
		} else {
			s.updateDCTCP(p, it)
		}
	}
	if d.traits.Timers && s.sentBytes < sentBytes {
		c.noteReady(d, s, it.AtPS)
	}
	d.updateOpen(c, s, f.open(s), it.AtPS)
}

// returned counts a packet or an ACK of a flow that has left the network: it was lost, or an ACK or a NACK
// has returned to the source. It reports whether the flow had ended before.
func (x *retransmission) returned(slot int32, f *recoveryFlow) bool {
	d := x.domain
	f.inNetwork--
	if f.done && f.inNetwork == 0 {
		d.free(slot)
	}
	return f.done
}

// ended ends a flow if all of its packets are acknowledged, and reports whether it did.
func (x *retransmission) ended(c *nic, slot int32, s *sender, f *recoveryFlow) bool {
	d := x.domain
	if f.una != f.packets {
		return false
	}
	f.done = true
	c.ringOf(d, s).Vacate(s.place)
	if f.inNetwork == 0 {
		d.free(slot)
	}
	return true
}

// open reports whether a flow has a packet to send and its window allows it.
func (f *recoveryFlow) open(s *sender) bool {
	return f.next < f.packets && s.sentBytes-s.ackedBytes < s.windowBytes
}

// goBack makes the sender retransmit from the first unacknowledged packet.
func (s *sender) goBack(p *simkernel.Params, f *recoveryFlow) {
	if f.next > f.una {
		s.begin(f)
	}
	s.setNext(p, f, f.una)
}

// begin begins another attempt.
func (s *sender) begin(f *recoveryFlow) {
	f.attempt = f.attempt%(1<<calendar.AttemptBits-1) + 1
	if s.external != nil {
		s.external.makeTelemetry(uint32(f.attempt))
	}
}

func (s *sender) setNext(p *simkernel.Params, f *recoveryFlow, next int64) {
	f.next, s.next = next, uint32(next)
	s.sentBytes = min(s.sizeBytes, next*p.PayloadBytes)
}
