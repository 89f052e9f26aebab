package linkcase

import "parsimon/simkernel"

// train sends a packet train in one step: the packets that the source's only flow sends back to back while no
// other source is active and the target is idle. The first one arrives at the target now. The train ends before the
// flow's last packet, before the next flow start and before the first packet with feedback. train returns when the
// train's last packet arrives; ok is false if there is no train.
//
// In a train every packet leaves fullPS after the previous one, finds the target idle, and is acknowledged
// after the same time. If the packets in flight have the same spacing and the window does not bind at line
// rate, the only further event is the end of a window once per round trip. Nothing is marked, and the
// rate stays at line rate.
func (k *Kernel) train(s *source, f *flow, now int64) (last int64, ok bool) {
	t := &k.target
	payload := k.params.PayloadBytes
	full := payload + k.params.HeaderBytes
	if f.dctcp.RateBps != f.dctcp.LineBps || t.freePS > now || t.wire > s.wire {
		return 0, false
	}
	if s.feeder >= 0 && k.feeders[s.feeder].wire > s.wire {
		return 0, false
	}
	fullPS := s.wire.PS(full)
	if f.gapPS != fullPS || max(f.upWire, f.downWire) > s.wire || now != s.sendPS+fullPS+s.delayPS {
		return 0, false
	}
	servicePS := t.wire.PS(full)
	ahead := min(k.nextPS, horizonPS-servicePS) - now
	packets := k.trainLength(f, (ahead+fullPS-1)/fullPS)
	if packets < trainLeast {
		return 0, false
	}
	// The ACK of the train's first packet, and the number of packets sent before an ACK is back.
	backPS := now + servicePS + f.ackPS
	trip := (backPS - (now - s.delayPS - fullPS) + fullPS - 1) / fullPS
	out := int64(f.head - f.tail)
	if out == 0 || trip > int64(f.mask)+1 || trip > f.windowPackets {
		return 0, false
	}
	if !k.trainAcks(f, packets, trip, backPS, fullPS) {
		return 0, false
	}
	k.skip(f, uint32(packets))
	f.tail = f.head - uint32(min(trip, out+packets))
	f.left -= packets * payload
	f.endsWindow = 0
	last = now + (packets-1)*fullPS
	t.passIdle(packets, full, servicePS, last+servicePS)
	f.alonePS = t.freePS
	f.upPassedPS, f.downPassedPS = last, t.freePS
	s.freePS = last - s.delayPS
	f.readyPS = s.freePS
	if s.feeder >= 0 {
		fd := &k.feeders[s.feeder]
		fd.freePS = last + fd.wire.PS(full)
	}
	return last, true
}

// trainLength returns how many of the flow's next packets, limit at most, can be a train: full ones without
// feedback.
func (k *Kernel) trainLength(f *flow, limit int64) int64 {
	limit = min(limit, (f.left-1)/k.params.PayloadBytes)
	if len(k.c.Feedback) == 0 {
		return limit
	}
	if f.nicWaitPS|f.upstreamPS|f.downstreamPS|int64(f.marks) != 0 {
		return 0
	}
	n, end := int64(f.nextBlockAt-f.head), f.nextBlockAt
	for b := f.block + 1; n < limit && k.c.Feedback[b] == (simkernel.Block{}); b++ {
		next := k.layout.End(end)
		n += int64(next - end)
		end = next
	}
	return min(n, limit)
}

// trainAcks processes the ACKs of a train, the first of which is back at backPS, trip packet times after it was
// sent: those that are back when the train's last packet is sent, and the ring of the others. It returns false, and
// changes nothing, if the packets in flight are not spaced like the train.
func (k *Kernel) trainAcks(f *flow, packets, trip, backPS, fullPS int64) bool {
	out := int64(f.head - f.tail)
	// The packet whose ACK ends the window, relative to the train's first packet, which it is if no packet in
	// flight does.
	windowEnd := int64(0)
	for i := int64(1); i <= out; i++ {
		a := k.acks[f.base+(f.head-uint32(i))&f.mask]
		if a.at != backPS-i*fullPS || a.flags&^ackEndsWindow != 0 {
			return false
		}
		if a.flags&ackEndsWindow != 0 {
			windowEnd = -i
		}
	}
	payload, sent := k.params.PayloadBytes, k.sent(f)
	for windowEnd+trip < packets {
		f.dctcp.Update(&k.params, sent+(windowEnd+1)*payload, sent+(windowEnd+trip)*payload, false)
		windowEnd += trip
	}
	for i := packets - min(trip, out+packets); i < packets; i++ {
		flags := int64(0)
		if i == windowEnd {
			flags = ackEndsWindow
		}
		k.acks[f.base+(f.head+uint32(i))&f.mask] = ack{backPS + i*fullPS, flags}
	}
	return true
}

// skip advances the flow by packets that did not wait.
func (k *Kernel) skip(f *flow, packets uint32) {
	f.head += packets
	if !k.blocks || f.head < f.nextBlockAt {
		return
	}
	k.recordBlock(f, f.nextBlockAt-k.layout.Start(f.nextBlockAt-1))
	for f.nextBlockAt <= f.head {
		f.block++
		f.nextBlockAt = k.layout.End(f.nextBlockAt)
	}
	k.loadBlock(f)
}

// trainLeast is the shortest train worth the overhead.
const trainLeast = 8
