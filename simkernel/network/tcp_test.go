package network

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
	"parsimon/simkernel/network/calendar"
)

// twoHosts is a flow of the given number of packets from one host over a switch to another. Both links have
// 10 Gbps and 100 µs.
func twoHosts(kind simkernel.Transport, packets int64) netExample {
	return netExample{
		params: simkernel.ParamsOf(kind), hosts: []bool{true, true, false},
		links: []Link{{0, 2, 10e9, 100_000}, {2, 0, 10e9, 100_000}, {1, 2, 10e9, 100_000}, {2, 1, 10e9, 100_000}},
		flows: Flows{SizeBytes: []int64{packets * 1000}, StartNS: []int64{0}, PathEnds: []int32{2},
			PathLinks: []int32{0, 3}},
	}
}

// Slow start of 40 packets, computed by hand. A packet takes 838.4 ns on a link, an ACK 48 ns; the round trip
// is 401.7728 µs.
//
// With an ACK for each packet: 10 packets, then 20, the last 10 from 2 round trips on, one after the other.
// With an ACK for the first and then for every second: 10 packets, 2 for the first ACK and 3 for each of the
// next four, and from the ACK for packets 9 and 10 on, after 2 round trips, the last 16.
func TestClockedSlowStartByHand(t *testing.T) {
	for _, kind := range simkernel.AckClockedTransports() {
		for delayNS, want := range map[int64]int64{
			0:    1_012_768, // 2 × 401,772.8 + 9 × 838.4 + 2 × 100,838.4
			40e6: 1_017_799, // 2 × 401,772.8 + 15 × 838.4 + 2 × 100,838.4
		} {
			if kind != simkernel.NewReno && delayNS > 0 {
				want -= 3354 // 4 packets for each pair: only 12 are left then
			}
			e := twoHosts(kind, 40)
			e.params.TCP.DelayedAckNS = delayNS
			n, r := runIn(t, &e, BufferParams{}, nil, 1, 1)
			if r.FCTNS[0] != want || n.Losses() != (Losses{Sent: 40, Delivered: 40}) {
				t.Errorf("%v, ACKs delayed by %d ns: FCT %d ns, want %d; %+v", kind, delayNS, r.FCTNS[0], want,
					n.Losses())
			}
		}
	}
	// A window of one packet, and then of 2, with an ACK for both.
	e := twoHosts(simkernel.NewReno, 4)
	e.params.TCP.InitialWindow = 1
	_, r := runIn(t, &e, BufferParams{}, nil, 1, 1)
	got := r.FCTNS[0]
	if got != 1_006_061 { // 2 × 401,772.8 + 838.4 + 2 × 100,838.4
		t.Errorf("window of a packet: FCT %d ns", got)
	}
}

// Two hosts fill a port that holds only three packets. Losses are found by duplicate ACKs, without a timeout,
// and everything arrives.
func TestClockedFastRetransmit(t *testing.T) {
	e := netExample{params: simkernel.ParamsOf(simkernel.NewReno), hosts: []bool{true, true, true, false}}
	for h := range int32(3) {
		e.links = append(e.links, Link{h, 3, 10e9, 1000}, Link{3, h, 10e9, 1000})
	}
	e.flows = Flows{SizeBytes: []int64{200_000, 200_000}, StartNS: []int64{0, 0}, PathEnds: []int32{2, 4},
		PathLinks: []int32{0, 5, 2, 5}}
	n, r := runIn(t, &e, BufferParams{SwitchBytes: 20 * 1048, Alpha: 1024}, nil, 1, 1)
	l := n.Losses()
	if l.Dropped == 0 || l.Delivered != 400 || l.NACKs != 0 || len(r.Row) != 2 {
		t.Errorf("%+v", l)
	}
}

// All of a flow's last packets are lost, and no later packet reveals it. Each would need an ACK that its
// receiver delays by 40 ms. A timeout ends that 200 ms after the first such ACK.
func TestClockedTailIsLost(t *testing.T) {
	for _, kind := range simkernel.AckClockedTransports() {
		e := twoHosts(kind, 400)
		e.params.TCP.InitialWindow = 400
		e.links[2].BandwidthBps = 1e9
		e.links[3].BandwidthBps = 1e9
		n, r := runIn(t, &e, BufferParams{SwitchBytes: 100 * 1048, Alpha: 1024}, nil, 1, 1)
		l := n.Losses()
		if l.Timeouts != 1 || r.FCTNS[0] > 250e6 {
			t.Errorf("%v: FCT %d ns, %+v", kind, r.FCTNS[0], l)
		}
	}
}

// With TCP every flow finishes, and not before its ideal FCT. Every packet is delivered once. Every packet
// that was sent was delivered, dropped or discarded. Nothing remains in the network, and results do not
// depend on domains, workers or chunks. With PFC nothing is dropped.
func TestClockedLaws(t *testing.T) {
	var all Losses
	for _, kind := range simkernel.AckClockedTransports() {
		for _, seed := range kerneltest.Seeds(150, 3) {
			e := randomNetworkOf(kind, seed)
			rng := rand.New(rand.NewPCG(seed, 8))
			e.params.TCP.DelayedAckNS = kerneltest.Pick[int64](rng, 0, 40e6, 100_000)
			e.params.TCP.MinTimeoutNS = kerneltest.Pick[int64](rng, 1e6, 200e6)
			packet := e.params.PayloadBytes + e.params.HeaderBytes
			b := BufferParams{}
			if seed%4 > 0 {
				b = BufferParams{SwitchBytes: packet * kerneltest.Pick[int64](rng, 3, 8, 30), Alpha: 8}
			}
			if seed%4 == 1 && len(e.links)/2 == len(e.hosts)-1 {
				b = pfcBuffer(t, &e, rng, 0)
			}
			n, r := runIn(t, &e, b, nil, 1, 1000)
			packets := int64(0)
			for i, row := range r.Row {
				packets += e.params.Packets(e.flows.SizeBytes[row])
				if r.FCTNS[i] < r.IdealNS[i] {
					t.Fatalf("%v, seed %d, flow %d: FCT %d ns, ideal %d", kind, seed, row, r.FCTNS[i], r.IdealNS[i])
				}
			}
			l := n.Losses()
			if len(r.Row) != len(e.flows.StartNS) || l.Delivered != packets ||
				l.Sent != l.Delivered+l.Dropped+l.Discarded ||
				l.Again != l.Sent-packets || b.PFC && l.Dropped > 0 {
				t.Fatalf("%v, seed %d: %d flows of %d, %d packets, %+v", kind, seed, len(r.Row), len(e.flows.StartNS),
					packets, l)
			}
			for link := range n.ports {
				p := &n.ports[link]
				if p.heldBytes != 0 || p.leftBytes != 0 || !p.data.Empty() {
					t.Fatalf("%v, seed %d: link %d is not empty", kind, seed, link)
				}
			}
			m, again := runIn(t, &e, b, randomDomains(rng, len(e.hosts)), 2, 3)
			if !reflect.DeepEqual(r, again) || m.Losses() != l {
				t.Fatalf("%v, seed %d: other results in several domains", kind, seed)
			}
			all.add(&l)
		}
	}
	if all.Dropped < 1000 || all.Timeouts == 0 || all.Again < all.Dropped {
		t.Errorf("hardly anything is lost, the test tests nothing: %+v", all)
	}
}

// Flows that wait for others start when these are delivered, regardless of what was lost on the way.
func TestClockedDependencies(t *testing.T) {
	e := netExample{params: simkernel.ParamsOf(simkernel.CUBIC), hosts: []bool{true, true, true, false}}
	for h := range int32(3) {
		e.links = append(e.links, Link{h, 3, 10e9, 1000}, Link{3, h, 10e9, 1000})
	}
	for i := range int64(6) { // 0 and 1 at once, each followed by two
		e.flows.SizeBytes = append(e.flows.SizeBytes, 300_000)
		e.flows.StartNS = append(e.flows.StartNS, 0)
		e.flows.PathLinks = append(e.flows.PathLinks, int32(i%2*2), 5)
		e.flows.PathEnds = append(e.flows.PathEnds, int32(2*i+2))
		if i > 1 {
			e.flows.After = append(e.flows.After, i-2)
			e.flows.DelayNS = append(e.flows.DelayNS, 500)
		}
		e.flows.AfterEnds = append(e.flows.AfterEnds, int32(len(e.flows.After)))
	}
	n, r := runIn(t, &e, BufferParams{SwitchBytes: 20 * 1048, Alpha: 1024}, nil, 1, 10)
	if n.Losses().Dropped == 0 || len(r.Row) != 6 {
		t.Fatalf("%d flows, %+v", len(r.Row), n.Losses())
	}
	end := map[int64]int64{}
	for i, row := range r.Row {
		end[row] = r.StartNS[i] + r.FCTNS[i]
		if row > 1 && r.StartNS[i] != end[row-2]+500 {
			t.Errorf("flow %d starts at %d ns, flow %d ended at %d", row, r.StartNS[i], row-2, end[row-2])
		}
	}
}

// A receiver of TCP acknowledges every second packet in order, and others at once: the first and the last of
// a flow, packets out of order, those that fill a gap, and duplicates. A delayed ACK is sent with the next
// one. If their marks differ, both are sent. Bits are worked out by hand.
func TestAnswersOfAClockedReceiver(t *testing.T) {
	const delayPS = 40_000_000
	const through = calendar.FlagAck | calendar.FlagThrough
	const both = through | calendar.FlagNack
	n, d := lossy(t, simkernel.CUBIC, 99)
	n.params.TCP.DelayedAckNS = delayPS / 1000
	var acks calendar.Fifo
	c := &nic{}
	type sent struct {
		number uint32
		flags  uint32
		atPS   int64
	}
	for _, x := range []struct {
		name   string
		number uint32
		flags  uint32
		atPS   int64
		sent   []sent // ACKs
		waits  int    // delayed ACKs
	}{
		{"the first", 0, 0, 10, []sent{{0, through, 10}}, 0},
		{"the second", 1, 0, 20, nil, 1},
		{"the third", 2, 0, 30, []sent{{2, both, 30}}, 0},
		{"out of order", 4, 0, 40, []sent{{4, calendar.FlagAck, 40}}, 0},
		{"a packet that fills a gap", 3, 0, 50, []sent{{4, through, 50}}, 0},
		{"a duplicate", 1, 0, 60, []sent{{4, through, 60}}, 0},
		{"in order again", 5, 0, 70, nil, 1},
		{"with a mark", 6, calendar.FlagMarked, 80, []sent{{5, through, 80}}, 1},
		{"with another one", 7, calendar.FlagMarked, 90, []sent{{7, both | calendar.FlagMarked, 90}}, 0},
		{"before its ACK is due", 8, 0, 100, nil, 1},
		{"when it is due", 9, 0, 100 + delayPS, []sent{{8, through, 100 + delayPS}}, 1},
		{"the last", 10, calendar.FlagLast, 200 + delayPS, []sent{{10, both, 200 + delayPS}}, 0},
	} {
		before := len(acks.Buf)
		it := &calendar.Item{AtPS: x.atPS, Hop: 2, Bits: x.number<<n.numberShift | x.flags}
		d.tcp.receiveClocked(c, it, &acks)
		var got []sent
		for _, it := range acks.Buf[before:] {
			got = append(got, sent{it.Bits >> n.numberShift, it.Bits & (1<<n.numberShift - 1), it.AtPS})
		}
		if !slices.Equal(got, x.sent) || len(c.delayed) != x.waits {
			t.Errorf("%s: %+v, %d are delayed, want %+v, %d", x.name, got, len(c.delayed), x.sent, x.waits)
		}
	}
	want := Losses{Delivered: 11, Discarded: 1}
	if d.journal.losses != want || len(d.journal.gone) != 3 {
		t.Errorf("%+v, %d ACKs are not sent", d.journal.losses, len(d.journal.gone))
	}
}

// Packets count as in the network if they are not lost, and if they were retransmitted (RFC 6675, SetPipe).
// Of packets 2 to 9, without 3 and 6, packets 5, 7, 8 and 9 are not lost, and packet 2 was retransmitted.
func TestPacketsInThePipe(t *testing.T) {
	s := &sender{external: &externalSender{handedTo: 10}}
	f := &recoveryFlow{lostTo: 5, sentAgain: 4}
	f.acked.AddThrough(1)
	f.acked.Add(3)
	f.acked.Add(6)
	for _, c := range []struct{ lostTo, sentAgain, want int64 }{
		{5, 4, 5}, {5, 0, 4}, {0, 0, 6}, {10, 10, 6}, {6, 3, 4}, {10, 0, 0},
	} {
		f.lostTo = c.lostTo
		f.sentAgain = c.sentAgain
		got := s.pipe(f)
		if got != c.want {
			t.Errorf("%+v: %d packets", c, got)
		}
	}
	f.receive(6)
	f.receive(7)
	if f.received != 1 {
		t.Errorf("the receiver has %d more packets", f.received)
	}
}

// A packet counts as lost when the receiver has three later ones (RFC 5681, §3.2, and RFC 6675). The sender
// then retransmits it. ACKs are counted once, also those of packets that are out of order.
func TestThreeLaterPacketsRevealALoss(t *testing.T) {
	n, d := lossy(t, simkernel.CUBIC, 99)
	f := &n.recovery.flows[0]
	s := &n.flows.senders[0]
	c := &d.nics[n.portOf[0]-d.first]
	s.place = c.Add(0, 0)
	s.handOver(&n.params, f, 0)
	if len(s.external.handed) != 10 || s.external.handedTo != 10 {
		t.Fatalf("%d packets in the first window, up to %d", len(s.external.handed), s.external.handedTo)
	}
	s.external.handed = s.external.handed[:0]
	f.maxSent = 10
	f.inNetwork = 10
	for _, x := range []struct {
		number           uint32
		received, lostTo int64
		attempt          uint8
	}{{2, 1, 0, 0}, {1, 2, 0, 0}, {2, 2, 0, 0}, {4, 3, 1, 1}, {5, 4, 2, 1}} {
		it := &calendar.Item{AtPS: 1000, Bits: x.number<<n.numberShift | calendar.FlagAck}
		d.tcp.receiveClockedAck(c, 0, s, it)
		if f.received != x.received || f.lostTo != x.lostTo || f.attempt != x.attempt || f.una != 0 {
			t.Errorf("after packet %d: %+v", x.number, f)
		}
	}
	if !slices.Equal(s.external.handed, []int64{10, 11, 0}) { // one for each of the first two (RFC 3042)
		t.Errorf("packets %v are sent", s.external.handed)
	}
}
