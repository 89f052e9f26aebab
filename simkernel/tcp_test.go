package simkernel

import (
	"math"
	"testing"
)

func newTCP(kind Transport, windowPackets int64) *TCP {
	p := ParamsOf(kind)
	p.TCP.InitialWindow = windowPackets
	t := NewSender(kind).(*TCP)
	t.Start(&p, Limits{})
	return t
}

func ack(c *TCP, nowPS, acked, sent int64, lost bool) {
	c.OnACK(&TCPAck{NowPS: nowPS, AckedBytes: acked, SentBytes: sent, PipeBytes: sent - acked, Lost: lost})
}

// The window after each ACK of a NewReno connection, by hand: 10 packets of 1,000 B at first, an ACK for
// every second, and packet 4 is lost. Proportional rate reduction sends one packet for every two that arrive.
func TestNewRenoWindows(t *testing.T) {
	c := newTCP(NewReno, 10)
	step := func(what string, acked, sent, delivered, pipe int64, lost bool, wantWindow int64, wantBegins bool) {
		t.Helper()
		a := TCPAck{AckedBytes: acked, SentBytes: sent, DeliveredBytes: delivered, PipeBytes: pipe, Lost: lost}
		begins := c.OnACK(&a)
		if begins != wantBegins || c.Window() != wantWindow {
			t.Fatalf("%s: window %d, begins %v, want %d, %v", what, c.Window(), begins, wantWindow, wantBegins)
		}
	}
	send := func(bytes int64) { c.OnSend(0, bytes, 0, true) }
	step("slow start: one packet for an ACK of two", 2000, 10_000, 2000, 8000, false, 11_000, false)
	step("slow start", 4000, 13_000, 2000, 9000, false, 12_000, false)
	step("first duplicate", 4000, 16_000, 1000, 11_000, false, 12_000, false)
	step("second: limited transmit by the pipe", 4000, 16_000, 1000, 10_000, false, 12_000, false)
	// threshold 7,000 of 14,000
	step("third: the first packet at once", 4000, 18_000, 1000, 10_000, true, 11_000, true)
	send(1000)
	step("one for two", 4000, 18_000, 1000, 10_000, true, 10_000, false)
	step("one for two", 4000, 18_000, 1000, 9000, true, 9500, false) // 3,000 × 7 / 14 - 1,000
	step("below the threshold: as much as arrives, and one", 4000, 18_000, 4000, 5000, true, 7000, false)
	send(2000)
	step("all there: the threshold", 18_000, 23_000, 4000, 5000, false, 7000, false)
	for i := range int64(6) {
		step("congestion avoidance", 19_000+1000*i, 24_000, 1000, 6000, false, 7000, false)
	}
	step("a window was acknowledged", 25_000, 30_000, 1000, 5000, false, 8000, false)

	// Timeouts: one packet, half of the flight as the threshold, not halved again for the same packet.
	c.OnTimeout(33_000)
	if c.Window() != 1000 || c.threshold != 4000 {
		t.Fatalf("after a timeout: %d, threshold %d", c.Window(), c.threshold)
	}
	c.OnTimeout(29_000)
	if c.threshold != 4000 {
		t.Fatalf("after another: threshold %d", c.threshold)
	}
	step("losses of before the timeout", 25_000, 33_000, 0, 1000, true, 1000, false)
	step("slow start", 26_000, 33_000, 1000, 0, false, 2000, false)
	for acked := int64(4_000_000); c.Window() < c.most && acked < 1<<36; acked += c.Window() {
		c.OnACK(&TCPAck{AckedBytes: acked, SentBytes: acked})
	}
	c.OnACK(&TCPAck{AckedBytes: 1 << 37, SentBytes: 1 << 37})
	if c.Window() != 6<<20 {
		t.Errorf("the window is %d, of a receiver with %d", c.Window(), 6<<20)
	}
}

// The retransmission timeout of RFC 6298: R + 4 × R/2, then 7/8 and 3/4 of the old. Packets sent twice are
// not timed.
func TestTCPTimeout(t *testing.T) {
	c := newTCP(NewReno, 10)
	const ms = 1_000_000_000
	if c.TimeoutPS() != 200*ms {
		t.Errorf("at least %d ps, want 200 ms", c.TimeoutPS())
	}
	// Before the first sample, R is the round trip of the idle path.
	p := ParamsOf(NewReno)
	c.Start(&p, Limits{RoundTripNS: 100_000_000})
	if c.TimeoutPS() != 300*ms {
		t.Errorf("%d ps for a path of 100 ms, want 300 ms", c.TimeoutPS())
	}
	c.Start(&p, Limits{})
	c.OnSend(1000, 1000, 0, false)
	c.OnSend(2000, 1000, 100*ms, false) // not timed: one is
	ack(c, 400*ms, 2000, 10_000, false)
	if c.TimeoutPS() != 1200*ms {
		t.Errorf("%d ps after 400 ms, want 1.2 s", c.TimeoutPS())
	}
	c.OnSend(11_000, 1000, 500*ms, false)
	ack(c, 700*ms, 11_000, 12_000, false)
	if c.TimeoutPS() != 1175*ms { // 375 + 4 × 200
		t.Errorf("%d ps after 200 ms more, want 1,175 ms", c.TimeoutPS())
	}
	c.OnSend(12_000, 1000, 700*ms, false)
	c.OnTimeout(12_000)
	ack(c, 9000*ms, 12_000, 12_000, false)
	if c.TimeoutPS() != 1175*ms {
		t.Errorf("%d ps: a packet that was sent twice is timed", c.TimeoutPS())
	}
}

// CUBIC by the formulas of RFC 9438: 100 packets are lost, 70 remain, and K = ∛(30/0.4) s = 4.217 s later
// there are 100 again. At short round trips it is as fast as Reno with α = 9/17: 70 ACKs raise 70 packets by
// 0.53.
func TestCUBICWindows(t *testing.T) {
	c := newTCP(CUBIC, 100)
	ack(c, 0, 0, 100_000, true)
	if c.threshold != 70_000 {
		t.Fatalf("threshold %d, want 70,000", c.threshold)
	}
	ack(c, 0, 100_000, 170_000, false) // the end of recovery: 70 packets in flight
	if c.Window() != 70_000 {
		t.Fatalf("window %d, want 70,000", c.Window())
	}
	g := c.growth.(*cubic)
	for i := range int64(70) {
		ack(c, 1e9, 101_000+1000*i, 170_000+1000*i, false)
	}
	w := c.Window()
	if w < 70_500 || w > 70_530 {
		t.Errorf("Reno-friendly: window %d, want 70,527 at most and nearly that", w)
	}
	want := math.Cbrt(75)
	if math.Abs(g.k-want) > 1e-9 || math.Abs(g.at(0)-70) > 1e-9 || math.Abs(g.at(want)-100) > 1e-9 ||
		math.Abs(g.at(2*want)-130) > 1e-9 {
		t.Errorf("K = %v, W(0) = %v, W(K) = %v, W(2K) = %v", g.k, g.at(0), g.at(want), g.at(2*want))
	}
	acked := int64(170_000)
	for tenth := int64(1); tenth <= 45; tenth++ { // round trips of 100 ms: Reno would reach 94 packets
		for range 10 {
			acked += c.Window() / 10
			ack(c, tenth*1e11, acked, acked+c.Window(), false)
		}
	}
	if w := c.Window(); w < 99_000 || w > 100_100 {
		t.Errorf("after K: window %d, want W_max, 100,000", w)
	}

	c = newTCP(CUBIC, 90)
	c.growth.(*cubic).maximum = 100
	ack(c, 0, 0, 90_000, true)
	m := c.growth.(*cubic).maximum
	if math.Abs(m-76.5) > 1e-9 {
		t.Errorf("fast convergence: W_max %v, want 90 × 0.85", m)
	}
	c.OnTimeout(90_000)
	if c.Window() != 1000 || c.growth.(*cubic).maximum != 0 {
		t.Errorf("after a timeout: window %d, W_max %v", c.Window(), c.growth.(*cubic).maximum)
	}
}

// DCTCP over windows by hand: a window is reduced once, for marks and losses; α follows the bytes of
// cumulative ACKs. All of those that are marked keep it 1: a mark halves.
func TestDCTCPWindowReducesOnce(t *testing.T) {
	c := newTCP(DCTCPWindow, 10)
	step := func(what string, a TCPAck, wantThreshold int64, wantRecovers bool) {
		t.Helper()
		a.PipeBytes = a.SentBytes - a.AckedBytes
		c.OnACK(&a)
		alpha := c.growth.(*dctcpWindow).alpha
		if c.threshold != wantThreshold || c.Recovers() != wantRecovers || alpha != 1 {
			t.Fatalf("%s: threshold %d, recovers %v, want %d, %v; alpha %v", what, c.threshold, c.Recovers(),
				wantThreshold, wantRecovers, alpha)
		}
	}
	step("a mark", TCPAck{AckedBytes: 2000, SentBytes: 10_000, Marked: true}, 5000, false)
	step("another", TCPAck{AckedBytes: 4000, SentBytes: 11_000, Marked: true}, 5000, false)
	step("a SACK without", TCPAck{AckedBytes: 4000, SentBytes: 11_000, DeliveredBytes: 1000, Duplicate: true},
		5000, false)
	step("a loss of that window", TCPAck{AckedBytes: 4000, SentBytes: 12_000, DeliveredBytes: 1000, Lost: true},
		5000, true)
	step("a mark in recovery", TCPAck{AckedBytes: 6000, SentBytes: 13_000, Marked: true}, 5000, true)
	step("its end: the mark is of before", TCPAck{AckedBytes: 12_000, SentBytes: 16_000, Marked: true}, 5000,
		false)
	again := TCPAck{AckedBytes: 12_000, SentBytes: 16_000, Duplicate: true, Marked: true}
	step("after it, a mark of the same data", again, 5000, false)
	step("a mark of the next window", TCPAck{AckedBytes: 13_000, SentBytes: 17_000, Marked: true}, 2500, false)
	step("and of the one after, at its end", TCPAck{AckedBytes: 18_000, SentBytes: 40_000, Marked: true}, 2000,
		false)
	step("a loss of the one after that", TCPAck{AckedBytes: 42_000, SentBytes: 62_000, Marked: true, Lost: true},
		10_000, true)
}

// In slow start, an ACK of many packets raises the window by one packet (NewReno) or two (Linux's). More
// would be bursts at line rate.
func TestSlowStartIsBounded(t *testing.T) {
	for kind, want := range map[Transport]int64{NewReno: 11_000, CUBIC: 12_000, DCTCPWindow: 12_000} {
		c := newTCP(kind, 10)
		ack(c, 0, 5000, 10_000, false)
		if c.Window() != want {
			t.Errorf("%v: window %d, want %d", kind, c.Window(), want)
		}
	}
}

// Once the estimate of Reno's window is as large as before the loss, it grows as Reno's does, by a packet for
// each window (RFC 9438, §4.3).
func TestRenoEstimateOfCUBIC(t *testing.T) {
	c := newTCP(CUBIC, 100)
	for reno, want := range map[float64]float64{70: 70.01, 69: 69 + 9.0/17/100} {
		g := cubic{window: 100, maximum: 100, prior: 70, reno: reno}
		g.avoid(c, 0, 1000)
		if math.Abs(g.reno-want) > 1e-9 {
			t.Errorf("from %v to %v, want %v", reno, g.reno, want)
		}
	}
}

// An ACK is partial if it acknowledges new bytes, but not all that were sent when the recovery began (RFC
// 6582, §3.2, step 3). Outside of a recovery, and while only a mark is answered, no ACK is partial. Otherwise
// packets that are on their way would count as lost.
func TestPartialACKs(t *testing.T) {
	c := newTCP(NewReno, 10)
	ack(c, 0, 2000, 10_000, false)
	if c.Partial(3000) || c.MayRecover(-2) || !c.MayRecover(0) {
		t.Error("a partial ACK without a recovery")
	}
	ack(c, 0, 4000, 10_000, true)
	for acked, want := range map[int64]bool{4000: false, 4001: true, 9999: true, 10_000: false, 12_000: false} {
		if c.Partial(acked) != want {
			t.Errorf("in a recovery of 4,000 to 10,000, an ACK of %d is partial: %v", acked, !want)
		}
	}
	c.OnTimeout(20_000)
	for acked, want := range map[int64]bool{19_999: false, 20_000: true} {
		if c.MayRecover(acked) != want || c.Partial(acked) {
			t.Errorf("after a timeout with 20,000 bytes sent, losses beyond %d are recovered: %v", acked, !want)
		}
	}
	marked := newTCP(DCTCPWindow, 10)
	marked.OnACK(&TCPAck{AckedBytes: 2000, SentBytes: 10_000, Marked: true})
	if marked.Partial(5000) {
		t.Error("a partial ACK after a mark")
	}
}
