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
