package linkcase

import (
	"math"

	"parsimon/simkernel"
)

// runFirstHop simulates a host's uplink. The host is the only queue and never marks: without marks in the feedback
// every rate stays at line rate. The time of an ACK is known when its packet leaves.
func (k *Kernel) runFirstHop() {
	if len(k.c.Feedback) == 0 && k.windowNeverBinds() {
		k.runRounds()
		return
	}
	s := &k.sources[0]
	for {
		if s.count == 0 {
			if k.nextPS == unbounded {
				return
			}
			k.start(s, k.nextPS)
		}
		// Every ACK is known, and its mark.
		const end = 1 << 62
		slot := s.next
		at, known := k.ready(&k.flows[slot], s.freePS, end)
		if s.count > 1 {
			slot, at, _ = k.choose(s, end, at, known)
		}
		if k.nextPS <= at {
			k.start(s, k.nextPS)
			continue
		}
		if !k.sendFirstHop(s, slot, at) {
			return
		}
	}
}

// sendFirstHop sends a packet of the flow in the slot. It returns false if the packet would leave the host after
// the horizon.
func (k *Kernel) sendFirstHop(s *source, slot int32, at int64) bool {
	f := &k.flows[slot]
	payload := min(k.params.PayloadBytes, f.left)
	wire := payload + k.params.HeaderBytes
	leavePS := at + s.wire.PS(wire)
	if leavePS > horizonPS {
		return false
	}
	k.countFirstHop(at, 1, wire, leavePS-at)
	f.left -= payload
	if f.head-f.tail > f.mask {
		k.growRing(f)
	}
	if !k.traits.Embedded {
		k.onSend(f, at)
	}
	upstreamPS := f.upstreamPS
	if f.left == 0 {
		upstreamPS -= k.earlyOf(f.row)
	}
	place := f.head & f.mask
	downstreamPS := upstreamPS + f.behindTarget(leavePS+upstreamPS, k.params.PayloadBytes+k.params.HeaderBytes)
	marked := int64(f.marks>>(place%simkernel.MarkBits)) & ackMarked
	k.acks[f.base+place] = ack{leavePS + f.ackPS + downstreamPS, f.endsWindow | marked}
	f.waitPS += at - max(f.alonePS, f.openPS)
	f.endsWindow = 0
	s.freePS = leavePS
	f.readyPS = at + f.gapPS
	f.alonePS = f.readyPS
	s.next = f.nextSlot
	s.served = f.row
	f.head++
	if f.head == f.nextBlockAt && k.blocks && f.left > 0 {
		k.advanceBlock(f)
	}
	if f.left == 0 {
		k.finish(s, slot, leavePS+downstreamPS, 0)
		k.retire(slot, 0)
	}
	return true
}

// countFirstHop counts packets that the host sends back to back from startPS on.
func (k *Kernel) countFirstHop(startPS, packets, wire, busyPS int64) {
	r := k.r
	r.PacketsSent += packets
	k.busyPS += busyPS
	if wire > r.MaxQueueBytes {
		r.MaxQueueBytes = wire
		r.MaxQueueAtNS = k.firstNS + startPS/simkernel.PSPerNS
	}
}

// windowNeverBinds reports whether no flow of a first hop can ever wait for its window. Full packets leave at
// least one packet time apart, which bounds the number of packets in flight at a flow's turn.
func (k *Kernel) windowNeverBinds() bool {
	p := &k.params
	for _, bps := range k.c.DownstreamBps {
		if bps > 0 && bps < k.c.SourceBps[0] {
			return false
		}
	}
	full := k.sources[0].wire.PS(p.PayloadBytes + p.HeaderBytes)
	for row, delayNS := range k.c.PathDelayNS {
		limits, roundPS := k.limitsOf(k.c, row), 2*delayNS*simkernel.PSPerNS+k.returnPS(row)
		if limits.LineBps < float64(k.c.SourceBps[0]) || !p.SteadyRTT(limits, roundPS+full) ||
			roundPS/full+1 >= p.Packets(limits.WindowBytes) {
			return false
		}
	}
	return true
}

// A hostFlow is the state of a flow of a first hop whose window never binds.
type hostFlow struct {
	row  int32
	left int64 // payload to send

	leftPS int64 // when the packet before left the host; 0: none has

	// For Result.Observed: the number of the next packet, the time when it could be sent if the flow were
	// alone, and index and sum of NIC waits of the present block.
	sent    uint32
	alonePS int64
	block   uint32
	waitPS  int64
}

// addWaits adds the NIC waits of the flow's next packets, which leave flows full packet times apart, from startPS on.
func (k *Kernel) addWaits(f *hostFlow, packets, startPS, fullPS, flows int64) {
	if len(k.r.Observed) == 0 {
		return
	}
	each := (flows - 1) * fullPS
	f.waitPS += startPS - f.alonePS - each
	f.alonePS = startPS + (packets-1)*flows*fullPS + fullPS
	for packets > 0 {
		end := k.layout.End(f.sent)
		n := min(packets, int64(end-f.sent))
		f.waitPS += n * each
		f.sent += uint32(n)
		packets -= n
		if f.sent == end {
			k.recordHostBlock(f)
		}
	}
}

// recordHostBlock records the mean NIC wait of the block that ends before packet f.sent.
func (k *Kernel) recordHostBlock(f *hostFlow) {
	k.recordWait(f.block, f.waitPS, int64(f.sent-k.layout.Start(f.sent-1)))
	f.block++
	f.waitPS = 0
}

// inBlock reports whether the flow has sent a part of a block.
func (k *Kernel) inBlock(f *hostFlow) bool { return f.sent > 0 && f.sent != k.layout.Start(f.sent) }

// runRounds simulates a first hop where no window binds: the host serves its flows round robin, back to back.
// Whole rounds between two changes of the set of flows are one step.
func (k *Kernel) runRounds() {
	c := k.c
	wire := k.sources[0].wire
	payload, header := k.params.PayloadBytes, k.params.HeaderBytes
	fullPS := wire.PS(payload + header)
	hostFlows := k.hostFlows[:0] // by row
	at := 0                      // index of the next flow; len(hostFlows): a flow that starts now, or else the first
	free := int64(0)
	steps := 0 // packets until the next attempt to take whole rounds
	for {
		if len(hostFlows) == 0 {
			if k.nextPS == unbounded {
				break
			}
			free = max(free, k.nextPS)
		}
		for k.nextPS <= free {
			hostFlows = append(hostFlows, hostFlow{row: int32(k.nextRow), left: c.SizeBytes[k.nextRow],
				alonePS: k.nextPS, block: k.nextBlock})
			k.advanceStart()
			steps = 0
		}
		if at >= len(hostFlows) {
			at = 0
		}
		if steps == 0 {
			steps = len(hostFlows)
			if rounds := k.serveRounds(hostFlows, at, free, fullPS); rounds > 0 {
				free += rounds * int64(len(hostFlows)) * fullPS
				if at == 0 {
					at = len(hostFlows)
				}
				continue
			}
		}
		steps--
		f := &hostFlows[at]
		size := min(payload, f.left)
		leave := free + wire.PS(size+header)
		if leave > horizonPS {
			break
		}
		k.countFirstHop(free, 1, size+header, leave-free)
		k.addWaits(f, 1, free, fullPS, 1)
		free = leave
		at++
		if f.left -= size; f.left > 0 {
			f.leftPS = leave
		} else {
			at--
			row := f.row
			if k.inBlock(f) {
				k.recordHostBlock(f)
			}
			passed := leave - k.earlyOf(row)
			if f.leftPS > 0 { // see behindTarget
				passed = max(passed, f.leftPS+slowestWire(c.DownstreamBps, int(row)).PS(payload+header))
			}
			k.record(row, passed+c.PathDelayNS[row]*simkernel.PSPerNS, 0)
			hostFlows = append(hostFlows[:at], hostFlows[at+1:]...)
			steps = 0
		}
	}
	k.hostFlows = hostFlows
}

// serveRounds serves as many whole rounds as it can in one step, from the flow at index at on, and returns their
// number. Every packet of these rounds is full and not its flow's last, starts before the next flow does, and
// leaves before the horizon.
func (k *Kernel) serveRounds(hostFlows []hostFlow, at int, freePS, fullPS int64) int64 {
	least := int64(math.MaxInt64)
	for i := range hostFlows {
		least = min(least, hostFlows[i].left)
	}
	n, payload := int64(len(hostFlows)), k.params.PayloadBytes
	packets := (min(k.nextPS, horizonPS-fullPS) - freePS + fullPS - 1) / fullPS
	rounds := min((least-1)/payload, packets/n)
	if rounds <= 0 {
		return 0
	}
	k.countFirstHop(freePS, rounds*n, payload+k.params.HeaderBytes, rounds*n*fullPS)
	for i := range hostFlows {
		hostFlows[i].left -= rounds * payload
		startPS := freePS + (int64(i-at)+n)%n*fullPS
		hostFlows[i].leftPS = startPS + (rounds-1)*n*fullPS + fullPS
		k.addWaits(&hostFlows[i], rounds, startPS, fullPS, n)
	}
	return rounds
}
