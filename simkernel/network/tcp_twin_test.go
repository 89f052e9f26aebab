package network

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
)

// twinTCP is TCP of a flow in a Buffered: the scoreboard of RFC 6675, packet by packet, without any ranges or
// counters.
type twinTCP struct {
	tcp     *simkernel.TCP
	sacked  map[int64]bool // the receiver has it, as the sender knows
	lost    map[int64]bool
	again   int64          // packets before it were retransmitted, if they are missing
	handed  []int64        // packets that wait in the NIC
	known   int64          // number of packets that were given to it at least once
	got     map[int64]bool // of the receiver
	highest int64          // 1 + the highest of got
}

// A delayedACK is an ACK with the latest time at which it is sent, and the data packet that it acknowledges.
type delayedACK struct {
	port   int32
	atPS   int64
	packet *bufferedPacket
}

// delayedItem marks the event for a delayed ACK.
const delayedItem = -99 // pauses have -16 to -1

func (n *Buffered) startTCP(f *bufferedFlow) {
	if f.tcp, _ = f.sender.(*simkernel.TCP); f.tcp != nil {
		f.gap, f.timeoutPS = 0, f.tcp.TimeoutPS()
		f.sacked = map[int64]bool{}
		f.lost = map[int64]bool{}
		f.got = map[int64]bool{}
	}
}

// above returns how many packets are selectively acknowledged behind one.
func (f *bufferedFlow) above(number int64) (count int64) {
	for k := range f.sacked {
		if k > number {
			count++
		}
	}
	return count
}

func (f *bufferedFlow) pipe() (count int64) {
	for k := f.una; k < f.known; k++ {
		if !f.sacked[k] && !f.lost[k] {
			count++
		}
		if !f.sacked[k] && k < f.again {
			count++
		}
	}
	return count
}

// nextSeg is NextSeg of RFC 6675. It returns f.known for a new packet.
func (f *bufferedFlow) nextSeg() int64 {
	for k := max(f.una, f.again); k < f.known; k++ { // rule 1
		if !f.sacked[k] && f.lost[k] {
			return k
		}
	}
	if f.known < f.packets || !f.tcp.Recovers() { // rule 2
		return f.known
	}
	for k := max(f.una, f.again); k < f.known; k++ { // rule 3
		if !f.sacked[k] && f.above(k) > 0 {
			return k
		}
	}
	return f.known
}

// handOver hands to the NIC the packets that the window allows.
func (n *Buffered) handOver(f *bufferedFlow, nowPS int64) {
	for k := f.nextSeg(); k < f.packets &&
		(f.pipe()+1)*n.params.PayloadBytes <= f.tcp.Window(); k = f.nextSeg() {
		again := k < f.known
		if again {
			f.again = k + 1
		} else {
			f.known++
		}
		f.handed = append(f.handed, k)
		f.tcp.OnSend(n.bytes(f, k+1), n.params.PayloadBytes, nowPS, again)
	}
	f.chooseHanded()
}

func (f *bufferedFlow) chooseHanded() {
	f.nxt = f.maxSent
	if len(f.handed) > 0 {
		f.nxt = f.handed[0]
	}
}

func (n *Buffered) timeoutTCP(f *bufferedFlow, nowPS int64) {
	if f.tcp == nil {
		return
	}
	for k := f.una; k < f.known; k++ {
		f.lost[k] = true
	}
	f.again = f.una
	f.tcp.OnTimeout(n.bytes(f, f.known))
	n.handOver(f, nowPS)
}

// receiveTCP processes a data packet at its destination.
func (n *Buffered) receiveTCP(port int32, k *bufferedPacket, nowPS int64) {
	n.sendDelayed(port, nowPS)
	f := k.flow
	inOrder := k.number == f.expected && f.highest <= k.number
	if f.got[k.number] {
		n.Losses.Discarded++
	} else {
		n.Losses.Delivered++
		f.got[k.number] = true
		for f.got[f.expected] {
			f.expected++
		}
		if f.expected == f.packets {
			n.finished = append(n.finished, bufferedFinish{f, nowPS})
		}
	}
	f.highest = max(f.highest, k.number+1)
	k.ack = true
	k.wire = n.params.AckBytes
	k.hop--
	k.answers = append(k.answers[:0], k.number)
	if i := slices.IndexFunc(n.delayed, func(w delayedACK) bool {
		return w.packet.flow == f && w.packet.marked != k.marked
	}); i >= 0 {
		n.ports[port].acks.put(n.delayed[i].packet)
		n.scheduleSend(port, max(nowPS, n.ports[port].freePS))
		n.delayed = slices.Delete(n.delayed, i, i+1)
	}
	if i := slices.IndexFunc(n.delayed, func(w delayedACK) bool { return w.packet.flow == f }); i >= 0 {
		k.answers = append(k.answers, n.delayed[i].packet.number)
		n.release(n.delayed[i].packet)
		n.delayed = slices.Delete(n.delayed, i, i+1)
	} else if delayPS := n.params.TCP.DelayedAckNS * simkernel.PSPerNS; inOrder && k.number > 0 &&
		k.number < f.packets-1 && delayPS > 0 {
		n.delayed = append(n.delayed, delayedACK{port, nowPS + delayPS, k})
		n.push(event{atPS: nowPS + delayPS, port: port, item: delayedItem})
		return
	}
	n.ports[port].acks.put(k)
	n.scheduleSend(port, max(nowPS, n.ports[port].freePS))
}

// sendDelayed sends the ACKs of a host that are due.
func (n *Buffered) sendDelayed(port int32, nowPS int64) {
	for i := 0; i < len(n.delayed); i++ {
		w := n.delayed[i]
		if w.port == port && w.atPS <= nowPS {
			n.ports[port].acks.put(w.packet)
			n.scheduleSend(port, max(nowPS, n.ports[port].freePS))
			n.delayed = slices.Delete(n.delayed, i, i+1)
			i--
		}
	}
}

func (n *Buffered) receiveTCPAck(port int32, p *bufferedPort, k *bufferedPacket, nowPS int64) {
	f := k.flow
	una := k.flow.una
	delivered := int64(0)
	for _, number := range k.answers {
		if !f.sacked[number] && number >= una {
			f.sacked[number] = true
			delivered++
		}
	}
	for f.sacked[una] {
		una++
	}
	before := f.una
	f.una = una
	for number := before; number < una; number++ {
		delete(f.sacked, number)
	}
	a := simkernel.TCPAck{NowPS: nowPS, AckedBytes: n.bytes(f, una),
		DeliveredBytes: delivered * n.params.PayloadBytes, SentBytes: n.bytes(f, f.known),
		Lost:   f.above(una) >= n.params.TCP.DuplicateAckMax,
		Marked: k.marked, Duplicate: slices.Max(k.answers) >= una}
	partial := f.tcp.Partial(a.AckedBytes) && f.above(una) < n.params.TCP.DuplicateAckMax && !f.lost[una]
	for number := una; f.tcp.MayRecover(a.AckedBytes) && number < f.known; number++ {
		if f.above(number) >= n.params.TCP.DuplicateAckMax || number == una && f.tcp.Partial(a.AckedBytes) {
			a.NewLoss = a.NewLoss || !f.lost[number] && !f.sacked[number]
			f.lost[number] = true
		}
	}
	a.PipeBytes = f.pipe() * n.params.PayloadBytes
	f.tcp.OnACK(&a)
	if una > before {
		f.backoff, f.timeoutPS = 0, f.tcp.TimeoutPS()
		if f.tcp.RestartsTimer(partial) {
			f.deadlinePS = nowPS + f.timeoutPS
		}
	}
	if una == f.packets {
		n.endFlow(p, f)
	} else {
		n.handOver(f, nowPS)
		n.updateOpen(p, f, nowPS)
		n.scheduleSend(port, max(nowPS, p.freePS))
	}
	n.release(k)
}

// TCP agrees with the slow twin in every bit, with losses and reordered ACK delays, and with PFC.
func TestClockedAgreesWithTwin(t *testing.T) {
	var all Losses
	for _, kind := range simkernel.AckClockedTransports() {
		for _, seed := range kerneltest.Seeds(150, 3) {
			e := randomNetworkOf(kind, seed)
			rng := rand.New(rand.NewPCG(seed, 12))
			e.params.TCP.DelayedAckNS = kerneltest.Pick[int64](rng, 0, 40e6, 100_000)
			e.params.TCP.MinTimeoutNS = kerneltest.Pick[int64](rng, 1e6, 200e6)
			e.params.TCP.InitialWindow = kerneltest.Pick[int64](rng, 1, 10, 30)
			packet := e.params.PayloadBytes + e.params.HeaderBytes
			b := BufferParams{SwitchBytes: packet * kerneltest.Pick[int64](rng, 3, 8, 30, 1000), Alpha: 8}
			if seed%4 == 1 && len(e.links)/2 == len(e.hosts)-1 {
				b = pfcBuffer(t, &e, rng, 0)
			}
			want := runBuffered(t, &e, b, 3)
			n, got := runIn(t, &e, b, nil, 1, 1000)
			got.StartNS = nil
			got.Again = nil
			got.Reordered = nil // the twin does not report them
			if !reflect.DeepEqual(got, &want.Results) || n.Losses() != want.Losses {
				t.Fatalf("%v, seed %d, %+v: %s\n%+v\ntwin:\n%+v", kind, seed, b,
					kerneltest.FirstDifference(got, &want.Results), n.Losses(), want.Losses)
			}
			l := n.Losses()
			all.add(&l)
		}
	}
	if all.Dropped < 1000 || all.Again < all.Dropped || all.Timeouts == 0 {
		t.Errorf("hardly anything is lost, the test tests nothing: %+v", all)
	}
}
