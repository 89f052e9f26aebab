package network

import (
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/faults"
)

// The timeout doubles with each timeout in a row, ten times at most. The link loses all packets until 3,000
// timeouts have passed. The packet is retransmitted after 1, 3, 7, …, 1,023, 2,047 and 3,071 timeouts. If the
// timeout doubled once more, the last attempt would be after 4,095 timeouts: a long outage would be followed
// by one that is as long.
func TestTimeoutsDoubleTenTimes(t *testing.T) {
	const timeoutNS = 10_000 // the round trip takes 5.8 µs
	e := overSwitch(simkernel.DCTCP, 1, 1000, 0)
	outage := faults.Fault{Link: 0, ToNS: 3000 * timeoutNS, Share: 1}
	n, r := runMoving(t, &e, BufferParams{SwitchBytes: 1 << 30, Alpha: 1, RetransmitNS: timeoutNS},
		Forwarding{Failures: faults.Failures{Faults: []faults.Fault{outage}}}, nil, 1)
	l := n.Losses()
	if l.Timeouts != 12 || l.Again != 12 {
		t.Errorf("%d timeouts and %d retransmissions, want 12", l.Timeouts, l.Again)
	}
	want := 3071*timeoutNS + r.IdealNS[0]
	if r.FCTNS[0] != want {
		t.Errorf("FCT %d ns, want %d", r.FCTNS[0], want)
	}
}

// A receiver requests a lost packet again after 500 µs or, on a longer path, after a round trip. Earlier, the
// packet cannot have arrived, and each request makes the sender repeat all packets after the lost one.
func TestTimeBetweenRequestsOfAPacket(t *testing.T) {
	for _, c := range []struct{ delayNS, leastPS, mostPS int64 }{
		{1000, 500_000_000, 500_000_000}, {300_000, 1_200_000_000, 1_210_000_000},
	} {
		e := overSwitch(simkernel.DCTCP, 1, 1000, 0)
		for i := range e.links {
			e.links[i].DelayNS = c.delayNS
		}
		n, _ := runMoving(t, &e, BufferParams{}, losesACKs(0), nil, 1)
		got := n.recovery.receivers[0].waitPS
		if got < c.leastPS || got > c.mostPS {
			t.Errorf("links of %d ns: %d ps, want %d to %d", c.delayNS, got, c.leastPS, c.mostPS)
		}
	}
}

// The default timeouts are those of InfiniBand, and of long paths. Shorter ones would retransmit packets that
// only wait in queues. Values are worked out by hand: 4.096 µs × 2^10, 4.096 µs × 2^14 with PFC, and eight
// times the way of a packet (838.4 ns on each link) and of its ACK (48 ns) with links of 300 µs.
func TestDefaultTimeoutsByHand(t *testing.T) {
	for _, c := range []struct {
		delayNS int64
		buffer  BufferParams
		wantPS  int64
	}{
		{1000, BufferParams{}, 4_194_304_000},
		{300_000, BufferParams{}, 8 * 2 * (838_400 + 48_000 + 600_000_000)},
		{1000, BufferParams{SwitchBytes: 1 << 24, Alpha: 1, PFC: true}, 67_108_864_000},
	} {
		e := overSwitch(simkernel.DCTCP, 1, 1000, 0)
		for i := range e.links {
			e.links[i].DelayNS = c.delayNS
		}
		n := newExampleNetwork(t, &e, c.buffer, 7)
		got := n.timeoutPS([]int32{0, 3})
		if got != c.wantPS {
			t.Errorf("links of %d ns, %+v: %d ps, want %d", c.delayNS, c.buffer, got, c.wantPS)
		}
	}
}

// With up to three packets in flight, senders of IRN wait for RTO_low: 100 µs, or three round trips if these
// take longer (Mittal et al., SIGCOMM'18, §3.1 and §4.1).
func TestLowTimeoutOfIRNByHand(t *testing.T) {
	e := overSwitch(simkernel.DCTCP, 1, 1000, 0)
	n := newExampleNetwork(t, &e, BufferParams{}, 7)
	n.recover()
	n.recovery.irn = true
	for roundTripNS, wantPS := range map[int64]int64{10_000: 100_000_000, 50_000: 150_000_000} {
		flow := newFlow{size: 1000, path: []int32{0, 3}}
		if err := n.recovery.prepare(&flow, roundTripNS); err != nil {
			t.Fatal(err)
		}
		if flow.lowPS != wantPS {
			t.Errorf("round trip of %d ns: %d ps, want %d", roundTripNS, flow.lowPS, wantPS)
		}
	}
	for inFlight, want := range map[int64]int64{3: 1, 4: 2} {
		f := recoveryFlow{lowPS: 1, timeoutPS: 2, una: 10, maxSent: 10 + inFlight}
		if f.patiencePS() != want {
			t.Errorf("%d packets in flight: %d, want %d", inFlight, f.patiencePS(), want)
		}
	}
}

// With limited buffers, the default timeout is the longest time until the ACK of a packet arrives. By hand,
// for two links of 10 Gbps and 1 µs and a buffer of 100,000 bytes: twice the idle round trip of 5,772,800 ps,
// and for each link twice the time of the longest queue. With alpha 1 that is half of the buffer, and its
// reserve. With classes it is the whole buffer. The clock has room for four of the longest timeout.
func TestTimeoutsOfLimitedBuffers(t *testing.T) {
	const idlePS = 2 * (838_400 + 48_000 + 2_000_000)
	for _, c := range []struct {
		name    string
		buffer  BufferParams
		classes []Class
		bps     int64 // of the link to the destination
		wantPS  int64
	}{
		{"half of the buffer", BufferParams{SwitchBytes: 100_000, Alpha: 1}, nil, 10e9, 2*idlePS + 2*2*50_000*800},
		{"alpha 4", BufferParams{SwitchBytes: 100_000, Alpha: 4}, nil, 10e9, 2*idlePS + 2*2*80_000*800},
		{"a reserve", BufferParams{SwitchBytes: 100_000, Alpha: 1, ReservedBytes: 2000}, nil, 10e9,
			2*idlePS + 2*2*52_000*800},
		{"classes", BufferParams{SwitchBytes: 100_000, Alpha: 1}, []Class{{Weight: 1}, {Weight: 2}}, 10e9,
			2*idlePS + 2*2*100_000*800},
		{"slower in one direction", BufferParams{SwitchBytes: 100_000, Alpha: 1}, nil, 5e9,
			2*(idlePS+838_400) + 2*50_000*800 + 2*50_000*1600},
		{"stated", BufferParams{SwitchBytes: 100_000, Alpha: 1, RetransmitNS: 1}, nil, 10e9, 1000},
		{"the limit", BufferParams{SwitchBytes: 1 << 60, Alpha: 1}, nil, 10e9, 1 << 59},
	} {
		e := overSwitch(simkernel.DCTCP, 1, 1000, 0)
		e.links[3].BandwidthBps = c.bps
		e.classes = c.classes
		n := newExampleNetwork(t, &e, c.buffer, 7)
		got := n.timeoutPS([]int32{0, 3})
		if got != c.wantPS {
			t.Errorf("%s: %d ps, want %d", c.name, got, c.wantPS)
		}
	}
}

// A sender doubles its timeout as often as it has expired, as long as the clock has room for it. The NIC
// looks at its timers at the earliest deadline. Timers that expire at the same time are processed by row.
func TestDeadlinesOfTimers(t *testing.T) {
	e := overSwitch(simkernel.DCTCP, 1, 1000, 0)
	n := newExampleNetwork(t, &e, BufferParams{SwitchBytes: 1 << 20, Alpha: 1}, 7)
	n.flows.info = make([]flowInfo, 1)
	x := &retransmission{domain: &domain{net: n}, net: n.recovery}
	for _, c := range []struct {
		timeoutPS int64
		backoff   uint8
		timerPS   int64 // of the NIC
		wantPS    int64
	}{
		{7000, 0, never, 8000}, {7000, 3, never, 57_000}, {7000, 3, 50_000, 57_000},
		{horizonPS / 4, 0, never, 1000 + horizonPS/4}, {horizonPS / 4, 5, never, 1000 + horizonPS/4>>5<<5},
		{horizonPS / 8, 1, never, 1000 + horizonPS/8*2}, {horizonPS/8 - 1, 1, never, 1000 + horizonPS/8*2 - 2},
	} {
		nic := &nic{timerPS: c.timerPS}
		f := &recoveryFlow{timeoutPS: c.timeoutPS, backoff: c.backoff}
		x.setTimer(nic, 0, f, 1000)
		if f.deadlinePS != c.wantPS || !f.timerSet || nic.timerPS != min(c.timerPS, c.wantPS) ||
			len(nic.timers) != 1 || nic.timers[0].atPS != c.wantPS {
			t.Errorf("%+v: a deadline at %d, the NIC looks at %d", c, f.deadlinePS, nic.timerPS)
		}
	}
	early := timer{atPS: 5, row: 9}
	for _, c := range []struct {
		other  timer
		before bool
	}{{timer{6, 1, 0}, true}, {timer{4, 10, 0}, false}, {timer{5, 10, 0}, true}, {timer{5, 9, 0}, false},
		{timer{5, 8, 0}, false}} {
		if early.Before(c.other) != c.before {
			t.Errorf("%+v before %+v: %v", early, c.other, !c.before)
		}
	}
}

// A timer of IRN for few packets is extended once to the other timeout if more packets are in flight when it
// expires. The next one counts as a loss.
func TestTimersOfFewPackets(t *testing.T) {
	few := recoveryFlow{lowPS: 10, timeoutPS: 25, maxSent: 3}
	more := recoveryFlow{lowPS: 10, timeoutPS: 25, maxSent: 4}
	waited := more
	waited.waited = true
	long := recoveryFlow{lowPS: 25, timeoutPS: 25, maxSent: 4}
	none := recoveryFlow{timeoutPS: 25, maxSent: 4}
	for _, c := range []struct {
		name string
		f    recoveryFlow
		want bool
	}{{"few", few, false}, {"more", more, true}, {"once", waited, false}, {"equal timeouts", long, false},
		{"without IRN", none, false}} {
		f := c.f
		nic := &nic{timerPS: 900}
		got := f.tooEarly(nic, timer{atPS: 100, row: 7, slot: 3})
		if got != c.want || f.waited != c.want || f.timerSet != c.want || len(nic.timers) > 0 != c.want {
			t.Errorf("%s: extended %v, %+v", c.name, got, f)
		}
		if got && (f.deadlinePS != 115 || nic.timerPS != 115 || nic.timers[0] != timer{115, 7, 3}) {
			t.Errorf("%s: until %d, the NIC looks at %d, timers %v", c.name, f.deadlinePS, nic.timerPS, nic.timers)
		}
	}
}

// Two packets in flight must differ in the bits of their numbers that an item has: 31 bits, without flags and
// attempts (10) and tags (7). Half of the range tells earlier packets from later ones.
func TestPacketsThatCanBeInFlight(t *testing.T) {
	for _, c := range []struct {
		kind    simkernel.Transport
		tags    bool
		packets int64 // of the window, and of a flow
		size    int64
		ok      bool
	}{
		{simkernel.DCTCP, false, 1<<21 - 1, 1 << 30, true}, {simkernel.DCTCP, false, 1 << 21, 1 << 30, false},
		{simkernel.DCTCP, false, 1 << 30, 1<<21 - 1, true}, {simkernel.DCTCP, false, 1 << 30, 1 << 21, false},
		{simkernel.DCTCP, true, 1<<14 - 1, 1 << 30, true}, {simkernel.DCTCP, true, 1 << 14, 1 << 30, false},
		{simkernel.CUBIC, false, 1<<21 - 1, 1 << 30, true}, {simkernel.CUBIC, false, 1 << 21, 1 << 30, false},
	} {
		e := overSwitch(c.kind, 1, 1000, 0)
		n := newExampleNetwork(t, &e, BufferParams{}, 7)
		n.recover()
		if c.tags {
			n.numberShift += 7
		}
		flow := &newFlow{size: c.size * 1000}
		flow.limits.WindowBytes = c.packets * 1000
		if n.traits.AckClocked {
			n.params.TCP.ReceiveWindow = c.packets * 1000
			flow.limits.WindowBytes = 1
		}
		err := n.recovery.check(flow)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		for _, near := range []int64{0, 1 << 20, 1<<40 + 5} {
			half := int64(1) << (31 - n.numberShift)
			for _, number := range []int64{near, near + half - 1, max(0, near-half)} {
				got := n.nearest(near, uint32(number)<<n.numberShift|31)
				if got != number {
					t.Errorf("%+v: near %d, number %d is read as %d", c, near, number, got)
				}
			}
		}
	}
}

// Attempts of retransmitted packets are 1 to 31, and then 1 again: 0 is that of packets that are sent once.
func TestNumbersOfAttempts(t *testing.T) {
	f := &recoveryFlow{}
	for i := range 70 {
		(&sender{}).begin(f)
		if int(f.attempt) != i%31+1 {
			t.Fatalf("attempt %d has number %d", i+1, f.attempt)
		}
	}
}

// Of the timers of a NIC, those of flows that have ended are removed. A timer whose deadline has moved is set
// to it, once it has expired. The next one is then the first.
func TestNextTimerOfANIC(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      recoveryFlow
		row    int64 // of the flow in the slot; that of the timer is 7
		nowPS  int64
		want   int64
		timers int
	}{
		{"it expires", recoveryFlow{deadlinePS: 100}, 7, 100, 100, 2},
		{"it is later", recoveryFlow{deadlinePS: 100}, 7, 50, 100, 2},
		{"the deadline has moved", recoveryFlow{deadlinePS: 150}, 7, 100, 150, 2},
		{"the deadline has moved far", recoveryFlow{deadlinePS: 900}, 7, 100, 200, 2},
		{"the deadline has moved, and is later", recoveryFlow{deadlinePS: 150}, 7, 99, 100, 2},
		{"the flow has ended", recoveryFlow{deadlinePS: 100, done: true}, 7, 100, 200, 1},
		{"another flow is in its slot", recoveryFlow{deadlinePS: 100}, 8, 100, 200, 1},
	} {
		n, d := lossy(t, simkernel.DCTCP, 5)
		n.recovery.flows[0] = c.f
		n.recovery.flows[1].deadlinePS = 200
		n.flows.info[0].row = c.row
		n.flows.info[1].row = 9
		nic := &nic{}
		nic.timers.Push(timer{100, 7, 0})
		nic.timers.Push(timer{200, 9, 1})
		got := d.recovery.nextTimer(nic, c.nowPS)
		if got != c.want || len(nic.timers) != c.timers {
			t.Errorf("%s: at %d, %d timers", c.name, got, len(nic.timers))
		}
	}
	_, d := lossy(t, simkernel.DCTCP, 5)
	if d.recovery.nextTimer(&nic{}, 0) != never {
		t.Error("a NIC without timers has a next one")
	}
}

// After a timeout, a sender goes back to the first packet that is not acknowledged, in another attempt, and
// its next timeout is doubled. If nothing is in flight, the next packet sets the timer. All packets that TCP
// has handed to its NIC count as lost.
func TestTimeoutsByHand(t *testing.T) {
	for _, c := range []struct {
		kind    simkernel.Transport
		next    int64
		backoff uint8
		want    recoveryFlow // some of its fields
		counts  int64
	}{
		{simkernel.DCTCP, 5, 0, recoveryFlow{next: 2, attempt: 1, backoff: 1, deadlinePS: 1000 + 2*70_000}, 1},
		{simkernel.DCTCP, 5, 9, recoveryFlow{next: 2, attempt: 1, backoff: 10, deadlinePS: 1000 + 1024*70_000}, 1},
		{simkernel.DCTCP, 5, 10, recoveryFlow{next: 2, attempt: 1, backoff: 10, deadlinePS: 1000 + 1024*70_000}, 1},
		{simkernel.DCTCP, 2, 0, recoveryFlow{next: 2}, 0},
		{simkernel.CUBIC, 5, 0, recoveryFlow{next: 2, attempt: 1, backoff: 1, deadlinePS: 1000 + 2*70_000,
			lostTo: 5, sentAgain: 3}, 1},
	} {
		n, d := lossy(t, c.kind, 9)
		f := &n.recovery.flows[0]
		s := &n.flows.senders[0]
		nic := &d.nics[n.portOf[0]-d.first]
		s.place = nic.Add(0, 0)
		f.timeoutPS = 70_000
		f.una = 2
		f.acked.AddThrough(1)
		f.maxSent = c.next
		f.backoff = c.backoff
		f.timerSet = true
		s.setNext(&n.params, f, c.next)
		if d.tcp != nil {
			s.external.handedTo = 5
		}
		nic.timers.Push(timer{1000, 0, 0})
		d.recovery.timeout(nic)
		want := c.want
		if f.next != want.next || f.attempt != want.attempt || f.backoff != want.backoff ||
			f.deadlinePS != want.deadlinePS || f.lostTo != want.lostTo || f.sentAgain != want.sentAgain ||
			f.timerSet != (c.counts > 0) || d.journal.losses.Timeouts != c.counts ||
			int64(f.plb.label) != c.counts {
			t.Errorf("%v, next %d: %+v", c.kind, c.next, f)
		}
	}
}

// A sender storms once it has retransmitted each packet more than 20 times.
func TestSendersThatStorm(t *testing.T) {
	for resent, want := range map[int64]int64{79: 0, 80: 1} {
		n, d := lossy(t, simkernel.DCTCP, 9)
		f := &n.recovery.flows[0]
		f.maxSent = 4
		f.next = 3
		f.attempt = 5
		f.resent = resent
		attempt := d.recovery.onSend(0, 600)
		l := d.journal.losses
		if attempt != 5 || d.journal.storming != want || f.resent != resent+1 || l.Sent != 1 || l.Again != 1 ||
			f.next != 4 || f.sentAgain != 4 || f.inNetwork != 1 {
			t.Errorf("after %d: attempt %d, %d storm, %+v", resent, attempt, d.journal.storming, f)
		}
		if d.recovery.onSend(0, 700) != 0 || f.maxSent != 5 || d.journal.losses.Again != 1 {
			t.Errorf("a new packet: %+v", f)
		}
	}
}
