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

// The window after each ACK of a NewReno connection, by hand: 10 packets of 1,000 B at first, an ACK for every second,
// and packet 4 is lost.
func TestNewRenoWindows(t *testing.T) {
	c := newTCP(NewReno, 10)
	step := func(what string, acked, sent, wantWindow int64, wantResend bool) {
		t.Helper()
		if resend := c.OnACK(0, acked, sent); resend != wantResend || c.Window() != wantWindow {
			t.Fatalf("%s: window %d, resend %v, want %d, %v", what, c.Window(), resend, wantWindow, wantResend)
		}
	}
	step("slow start: one packet for an ACK of two", 2000, 10_000, 11_000, false)
	step("slow start", 4000, 13_000, 12_000, false)
	step("first duplicate", 4000, 16_000, 12_000, false)
	step("second duplicate", 4000, 16_000, 12_000, false)
	step("third: half of 12 in flight, and 3", 4000, 16_000, 9000, true)
	for i := range int64(8) { // packets 8 to 15
		step("inflation", 4000, 16_000, 10_000+1000*i, false)
	}
	step("all there: half of the flight", 16_000, 21_000, 6000, false)
	for i := range int64(5) {
		step("congestion avoidance", 17_000+1000*i, 22_000, 6000, false)
	}
	step("a window was acknowledged", 22_000, 27_000, 7000, false)

	// Two losses in one window: a partial ACK resends the second at once and deflates by what it acknowledges, plus one.
	for i := range 3 {
		step("duplicates", 22_000, 29_000, []int64{7000, 7000, 6500}[i], i == 2) // flight 7,000: 3,500 + 3,000
	}
	step("partial", 25_000, 29_000, 4500, true)
	step("full: the flight is 2,000, and one more", 29_000, 31_000, 3000, false)
	step("slow start up to the threshold of 3,500", 30_000, 32_000, 4000, false)

	// Timeouts: one packet, half of the flight as the threshold, not halved again for the same packet.
	c.OnTimeout(38_000)
	if c.Window() != 1000 || c.threshold != 4000 {
		t.Fatalf("after a timeout: %d, threshold %d", c.Window(), c.threshold)
	}
	c.OnTimeout(38_000)
	if c.threshold != 4000 {
		t.Fatalf("after another: threshold %d", c.threshold)
	}
	for range 5 { // of the packets that were in flight before the timeout
		step("duplicates after a timeout", 30_000, 38_000, 1000, false)
	}
	step("slow start", 31_000, 38_000, 2000, false)
	c.OnACK(0, 4_000_000, 4_000_000)
	for acked := int64(4_000_000); c.Window() < c.most && acked < 1<<36; acked += c.Window() {
		c.OnACK(0, acked, acked)
	}
	if c.OnACK(0, 1<<37, 1<<37); c.Window() != 6<<20 {
		t.Errorf("the window is %d, of a receiver with %d", c.Window(), 6<<20)
	}
}

// The retransmission timeout of RFC 6298: R + 4 × R/2, then 7/8 and 3/4 of the old. Packets sent twice are not timed.
func TestTCPTimeout(t *testing.T) {
	c := newTCP(NewReno, 10)
	const ms = 1_000_000_000
	if c.TimeoutPS() != 200*ms {
		t.Errorf("at least %d ps, want 200 ms", c.TimeoutPS())
	}
	c.OnSend(1000, 0)
	c.OnSend(2000, 100*ms) // not timed: one is
	c.OnACK(400*ms, 2000, 10_000)
	if c.TimeoutPS() != 1200*ms {
		t.Errorf("%d ps after 400 ms, want 1.2 s", c.TimeoutPS())
	}
	c.OnSend(11_000, 500*ms)
	c.OnACK(700*ms, 11_000, 12_000)
	if c.TimeoutPS() != 1175*ms { // 375 + 4 × 200
		t.Errorf("%d ps after 200 ms more, want 1,175 ms", c.TimeoutPS())
	}
	c.OnSend(12_000, 700*ms)
	c.OnTimeout(12_000)
	c.OnACK(9000*ms, 12_000, 12_000)
	if c.TimeoutPS() != 1175*ms {
		t.Errorf("%d ps: a packet that was sent twice is timed", c.TimeoutPS())
	}
}

// CUBIC by the formulas of RFC 9438: 100 packets are lost, 70 remain, and K = ∛(30/0.4) s = 4.217 s later there are 100
// again. At short round trips it is as fast as Reno with α = 9/17: 70 ACKs raise 70 packets by 0.53.
func TestCUBICWindows(t *testing.T) {
	c := newTCP(CUBIC, 100)
	for range 3 {
		c.OnACK(0, 0, 100_000)
	}
	if c.threshold != 70_000 {
		t.Fatalf("threshold %d, want 70,000", c.threshold)
	}
	c.OnACK(0, 100_000, 170_000) // the end of recovery: 70 packets in flight
	if c.Window() != 70_000 {
		t.Fatalf("window %d, want 70,000", c.Window())
	}
	g := c.growth.(*cubic)
	for i := range int64(70) {
		c.OnACK(1e9, 101_000+1000*i, 170_000+1000*i)
	}
	if w := c.Window(); w < 70_500 || w > 70_530 {
		t.Errorf("Reno-friendly: window %d, want 70,527 at most and nearly that", w)
	}
	if want := math.Cbrt(75); math.Abs(g.k-want) > 1e-9 || math.Abs(g.at(0)-70) > 1e-9 || math.Abs(g.at(want)-100) > 1e-9 ||
		math.Abs(g.at(2*want)-130) > 1e-9 {
		t.Errorf("K = %v, W(0) = %v, W(K) = %v, W(2K) = %v", g.k, g.at(0), g.at(want), g.at(2*want))
	}
	acked := int64(170_000)
	for tenth := int64(1); tenth <= 45; tenth++ { // round trips of 100 ms: Reno would come to 94 packets
		for range 10 {
			acked += c.Window() / 10
			c.OnACK(tenth*1e11, acked, acked+c.Window())
		}
	}
	if w := c.Window(); w < 99_000 || w > 100_100 {
		t.Errorf("after K: window %d, want W_max, 100,000", w)
	}

	c = newTCP(CUBIC, 90)
	c.growth.(*cubic).maximum = 100
	for range 3 {
		c.OnACK(0, 0, 90_000)
	}
	if m := c.growth.(*cubic).maximum; math.Abs(m-76.5) > 1e-9 {
		t.Errorf("fast convergence: W_max %v, want 90 × 0.85", m)
	}
	c.OnTimeout(90_000)
	if c.Window() != 1000 || c.growth.(*cubic).maximum != 0 {
		t.Errorf("after a timeout: window %d, W_max %v", c.Window(), c.growth.(*cubic).maximum)
	}
}
