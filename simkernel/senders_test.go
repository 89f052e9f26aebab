package simkernel

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// line is a path of 10 Gbps with four hops and the window of the paper.
var line = Limits{LineBps: 10e9, WindowBytes: 18_000, Hops: 4}

// sender returns a sender on the line, and the default constants of its transport.
func sender(t Transport) (Sender, *Params) {
	p := ParamsOf(t)
	s := NewSender(t)
	s.Start(&p, line)
	return s, &p
}

// rates checks the rate of a sender, in Gbps.
func rates(t *testing.T, s Sender, what string, wantGbps float64) {
	t.Helper()
	bps, lineBps := s.Rate()
	if math.Abs(bps/1e9-wantGbps) > 1e-5 || lineBps != 10e9 {
		t.Errorf("%s: %.6f Gbps, want %.6f", what, bps/1e9, wantGbps)
	}
}

// DCTCP by hand. The first mark halves the rate, because alpha begins at 1. There is one cut per window. Of
// the first 19 packets two are marked, so alpha becomes 15/16 + 2/19/16, and a window without marks later
// 15/16 of that.
func TestDCTCPByHand(t *testing.T) {
	s, p := sender(DCTCP)
	for _, ack := range []struct {
		acked, sent int64
		marked      bool
		gbps        float64
	}{
		{1000, 18_000, false, 10}, {2000, 19_000, true, 5}, {19_000, 25_000, true, 5}, {20_000, 25_000, false, 5},
		{25_000, 26_000, false, 5}, {26_000, 30_000, false, 5.615}, {27_000, 30_000, true, 3.1301546},
		{30_000, 30_500, true, 3.1301546}, {31_000, 35_000, false, 3.7451546},
	} {
		before, _ := s.Rate()
		changed := s.OnAck(p, &AckInfo{AckedBytes: ack.acked, SentBytes: ack.sent, Marked: ack.marked})
		rates(t, s, fmt.Sprintf("ACK of %d", ack.acked), ack.gbps)
		after, _ := s.Rate()
		if changed != (after != before) {
			t.Errorf("ACK of %d: changed is %v", ack.acked, changed)
		}
	}
	d := s.(*DCTCPSender)
	w := d.Window()
	if w != 6741 { // 18,000 × 0.37452
		t.Errorf("window of %d bytes", w)
	}
	if !d.WindowEnds(35_001) || d.WindowEnds(35_000) {
		t.Error("the window ends elsewhere")
	}
	for n := range int64(50) { // no rate is below the minimum
		s.OnAck(p, &AckInfo{AckedBytes: 40_000 + 1000*n, SentBytes: 40_000 + 1000*n, Marked: true})
	}
	rates(t, s, "many marks", 1)
}

// DCQCN by hand, in µs: a mark at 0 starts the timers of alpha (every 50) and, 1 ns later, of cuts. A cut
// starts that of increases (every 55). The first increase goes half the way back; the second raises the
// target by 2 Mbps, later ones by 20.
func TestDCQCNByHand(t *testing.T) {
	s, p := sender(DCQCN)
	const us = 1e6 // ps
	s.OnAck(p, &AckInfo{Marked: false})
	if s.NextTick() != Never {
		t.Errorf("timers run without a mark: %d", s.NextTick())
	}
	s.OnAck(p, &AckInfo{Marked: true})
	if s.NextTick() != 50*us {
		t.Errorf("first tick at %d", s.NextTick())
	}
	alpha := 255.0 / 256
	second := alpha*alpha*alpha*alpha + 1.0/256
	cut := 8.7548828125 * (1 - second/2)
	half := (cut + 8.7548828125) / 2
	more := (half + 8.7568828125) / 2
	for _, at := range []struct {
		us, gbps float64
		mark     bool
	}{
		{50, 10, false}, {50.001, 10 * (1 - alpha/2), false}, {105, 10 * (1 - alpha/2), false},
		{105.001, 7.509765625, false},
		{160.001, 8.7548828125, true}, {200, 8.7548828125, false}, {200.001, cut, false}, {255.001, half, false},
		{310.001, more, false}, {365.001, (more + 8.7768828125) / 2, false},
	} {
		s.Tick(p, int64(math.Round(at.us*us)))
		rates(t, s, fmt.Sprintf("at %v µs", at.us), at.gbps)
		if at.mark {
			s.OnAck(p, &AckInfo{Marked: true, NowPS: int64(at.us * us)})
		}
	}
}

// TIMELY by hand: RTTs above 500 µs, and rising ones above 50 µs, cut the rate. All others raise it by 10
// Mbps, and by 50 after five raises.
func TestTIMELYByHand(t *testing.T) {
	s, p := sender(TIMELY)
	acked := int64(0)
	ack := func(rttUS float64) bool {
		acked += 1000
		return s.OnAck(p, &AckInfo{AckedBytes: acked, SentBytes: acked, RTTPS: int64(rttUS * 1e6)})
	}
	steps := []struct{ us, gbps float64 }{
		{10, 10}, {600, 10 * (1 - 0.8/6)}, {100, 8.666667 + 0.01}, {110, 8.686667},
		// Differences of 590, -500 and 10 µs, smoothed by 7/8, are -37.9. With 40 more they are 30.3, above a
		// round trip of 20.
		{150, 1}, {40, 1.01}, {41, 1.02}, {42, 1.03}, {43, 1.04}, {44, 1.05}, {45, 1.1}, {46, 1.15},
	}
	for i, step := range steps {
		ack(step.us)
		rates(t, s, fmt.Sprintf("ACK %d", i), step.gbps)
	}
	// From 60 to 64 µs the difference is 3.5 µs of 20: a cut by 0.8 of that.
	s.Start(p, line)
	acked = 0
	ack(60)
	if !ack(64) {
		t.Error("a changed rate is not reported")
	}
	rates(t, s, "a rising RTT", 8.6)
	s.OnAck(p, &AckInfo{AckedBytes: acked, SentBytes: acked + 1, RTTPS: 9e8})
	rates(t, s, "an ACK within the window", 8.6)
	s.Start(p, line)
	acked = 0
	ack(500)
	ack(500)
	rates(t, s, "at the upper threshold", 10)
	if s.NextTick() != Never {
		t.Errorf("TIMELY has a timer: %d", s.NextTick())
	}
	// On a path of 34.4 µs, thresholds are 20 µs higher.
	long := line
	long.RoundTripNS = 34_400
	for rttPS, want := range map[int64]bool{520_000_000: true, 520_000_001: false} {
		if p.SteadyRTT(long, rttPS) != want || p.SteadyRTT(line, rttPS-20e6) != want {
			t.Errorf("an RTT of %d ps leaves the rate: %v", rttPS, !want)
		}
	}
}

// Swift by hand. The target is 25 µs, 1 for each hop, and more for small windows: all of 125 µs at 0.1
// packets, none at 100. A cut takes at most a half, and once per round trip.
func TestSwiftByHand(t *testing.T) {
	s, p := sender(Swift)
	for packets, want := range map[float64]float64{100: 29_000, 400: 29_000, 0.1: 154_000, 0.01: 154_000,
		25: 33_081.93, 18: 34_539.27} {
		got := p.Swift.TargetPS(packets, 4)
		if math.Abs(got/1000-want) > 0.01 {
			t.Errorf("target of %v packets is %v ns, want %v", packets, got/1000, want)
		}
	}
	target := p.Swift.TargetPS(18, 4)
	for i, ack := range []struct {
		nowPS int64
		rtt   float64
		gbps  float64
	}{
		{0, target - 1, 10}, {100, 2 * target, 6}, {200, 2 * target, 6},
		// The window is 10.8 packets, whose target is 37.34 µs: a cut by 0.8 of 31.74 µs of 69.08.
		{100 + int64(2*target), 2 * target, 3.794541}, {900e6, 900e6, 3.794541}, {2e9, 900e6, 1.897271},
		// A packet more, divided by the window of 3.415 packets, and then of 3.708.
		{2.1e9, 20e6, 2.05994}, {5e9, 1, 2.20977},
	} {
		s.OnAck(p, &AckInfo{NowPS: ack.nowPS, RTTPS: int64(ack.rtt)})
		rates(t, s, fmt.Sprintf("ACK %d", i), ack.gbps)
	}
	long := line
	long.RoundTripNS = 15_400
	for rttPS, want := range map[int64]bool{26_000_000: false, 25_999_999: true} {
		if p.SteadyRTT(long, rttPS) != want || p.SteadyRTT(line, rttPS-1e6) != want {
			t.Errorf("an RTT of %d ps leaves the rate: %v", rttPS, !want)
		}
	}
	s.Start(p, long)
	s.OnAck(p, &AckInfo{RTTPS: int64(target) + 999_000})
	rates(t, s, "below the target of a longer path", 10)
	s.OnAck(p, &AckInfo{RTTPS: int64(target) + 1_001_000})
	bps, _ := s.Rate()
	if bps >= 10e9 {
		t.Error("above the target of a longer path: no cut")
	}
}

// HPCC by hand. A link that sent 9,000 bytes in 7.2 µs is fully used; the sender then takes 95% and 80
// bytes in 18,000 more. A queue of 6,000 bytes is a third of a round trip of 14.4 µs.
func TestHPCCByHand(t *testing.T) {
	s, p := sender(HPCC)
	const stepGbps = 10 * 80.0 / 18_000
	ack := func(acked, sent, atPS, sentB, left int64, link int32, feedback float64) {
		s.OnAck(p, &AckInfo{AckedBytes: acked, SentBytes: sent, Feedback: feedback,
			Links: []Telemetry{{AtPS: atPS, SentBytes: sentB, LeftBytes: left, Bps: 10e9, Link: link}}})
	}
	ack(1000, 18_000, 0, 0, 0, 1, 0)
	rates(t, s, "the first ACK", 10)
	ack(2000, 18_000, 7_200_000, 9000, 6000, 1, 0)
	rates(t, s, "a full link", 9.5+stepGbps)
	// 4,500 bytes are a half, and with the queue 5/6. The average with 1 is 11/12, below the target.
	ack(19_000, 30_000, 14_400_000, 13_500, 9000, 1, 0)
	rates(t, s, "below the target", 10)
	// Others deny 30%. Alone, the link would allow 0.95 / U of the reference rate: here all.
	ack(20_000, 30_000, 21_600_000, 22_500, 0, 1, 0.3)
	rates(t, s, "others bound the rate", 7)
	r := s.(Reducer).Reduction()
	if math.Abs(r-(1-min(1, 0.95/(23.0/24)+0))) > 0.01 {
		t.Errorf("reduction %v", r)
	}
	// Another path: the rate stays that of the last ACK, and the next ACK is compared with this one.
	before, _ := s.Rate()
	ack(21_000, 30_000, 22_000_000, 5, 0, 2, 0.3)
	rates(t, s, "another path", before/1e9)
	if p.Utilization() != 0.95 {
		t.Errorf("utilization %v", p.Utilization())
	}
	p.HPCC.Target = 1.5
	d := DefaultParams()
	if p.Utilization() != 1 || d.Utilization() != 1 {
		t.Errorf("utilizations %v and %v", p.Utilization(), d.Utilization())
	}
	// Beyond five raises in a row, the utilization sets the rate, although it is below the target: 0.95 / 0.5
	// of 2 Gbps.
	h := hpcc{Rates: Rates{2e9, 10e9}, refBps: 2e9, use: 0.5}
	for i, want := range []float64{2, 2, 2, 2, 2, 3.8, 2} {
		h.compute(p, true)
		p.HPCC.Target = 0.95
		if i > 0 && math.Abs(h.ownBps/1e9-want) > 1e-9 {
			t.Errorf("raise %d: %v", i, h.ownBps)
		}
	}
}

// Switches mark from 3 KB per Gbps on. If windows are fitted to paths, links of more than 84 µs mark from a
// seventh of their round trip on, unless the threshold is stated.
func TestThresholdsOfMarks(t *testing.T) {
	for _, c := range []struct {
		kind         Transport
		bps, delayNS int64
		window       int64
		stated       bool
		want         int64
	}{
		{DCTCP, 10e9, 1000, 18_000, false, 30_000}, {DCTCP, 25e9, 1000, 18_000, false, 75_000},
		{DCTCP, 2_500_000_000, 1000, 18_000, false, 7500}, {DCTCP, 10e9, 1_000_000, 18_000, false, 30_000},
		{DCTCP, 10e9, 1_000_000, AutoWindow, false, 357_142}, {DCTCP, 10e9, 1_000_000, AutoWindow, true, 30_000},
		{DCTCP, 10e9, 84_000, AutoWindow, false, 30_000}, {DCTCP, 10e9, 85_000, AutoWindow, false, 30_357},
		{HPCC, 10e9, 1000, 18_000, false, Unreachable}, {DCQCN, 10e9, 1000, 18_000, false, 30_000},
	} {
		p := ParamsOf(c.kind)
		p.SetWindow(c.window)
		p.StatedMarks = c.stated
		from, always := p.MarkBytes(c.bps, c.delayNS)
		if from != c.want || always != c.want {
			t.Errorf("%+v: from %d, always from %d", c, from, always)
		}
	}
	p := ParamsOf(DCQCN)
	p.DCQCN.MaxMarkPerGbps = 8000
	from, always := p.MarkBytes(10e9, 1000)
	if from != 30_000 || always != 80_000 {
		t.Errorf("random marks from %d to %d", from, always)
	}
	r := p.MarkRule(5, 7)
	if r != (MarkRule{5, 7, 0.2}) {
		t.Errorf("%+v", r)
	}
	got := PerGbps(1<<30, 1e15)
	if got != 1<<30*1_000_000 {
		t.Errorf("the largest threshold is %d", got)
	}
}

// The defaults are those of the papers. Another value would change all estimates of a transport.
func TestConstantsOfThePapers(t *testing.T) {
	all := map[Transport]string{
		DCTCP:  "1000 48 60 18000 1e+09 | 0.0625 6.15e+08 3000",
		DCQCN:  "1000 48 60 18000 1e+09 | {0.00390625 50000 50000 55000 2e+06 2e+07 3000 3000 0.2}",
		TIMELY: "1000 56 60 18000 1e+09 | {0.875 0.8 50000 500000 20000 1e+07 5e+07 5}",
		HPCC:   "1000 90 88 18000 1e+09 | {0.95 5 80 14400}",
		Swift:  "1000 56 60 18000 1e+09 | {25000 1000 1 0.8 0.5 125000 0.1 100}",
	}
	for kind, want := range all {
		p := ParamsOf(kind)
		own := fmt.Sprint(p.Gain, p.AdditiveIncreaseBps, p.MarkBytesPerGbps)
		switch c := p.Constants().(type) {
		case *DCQCNParams:
			own = fmt.Sprint(*c)
		case *TIMELYParams:
			own = fmt.Sprint(*c)
		case *HPCCParams:
			own = fmt.Sprint(*c)
		case *SwiftParams:
			own = fmt.Sprint(*c)
		}
		got := fmt.Sprint(p.PayloadBytes, p.HeaderBytes, p.AckBytes, p.WindowBytes, p.MinRateBps) + " | " + own
		if got != want {
			t.Errorf("%v: %s, want %s", kind, got, want)
		}
	}
	got := AckClockedTransports()
	if !slices.Equal(got, []Transport{NewReno, CUBIC, DCTCPWindow}) {
		t.Errorf("TCP: %v", got)
	}
	unknown := Transport(99).String()
	if unknown != "transport 99" {
		t.Error(unknown)
	}
	var parsed Transport
	if err := parsed.UnmarshalText([]byte("swift")); err != nil || parsed != Swift || !DCTCP.Marks() ||
		Swift.Marks() {
		t.Errorf("%v, %v", parsed, err)
	}
	if err := parsed.UnmarshalText([]byte("fast")); err == nil ||
		!strings.Contains(err.Error(), `is "fast", must be one of [dctcp`) {
		t.Errorf("error %v", err)
	}
}

// Windows, relations of constants and TCP in link cases are refused with the reason.
func TestRefusedConstants(t *testing.T) {
	for want, change := range map[string]func(p *Params){
		"window is -1":            func(p *Params) { p.WindowBytes = -1 },
		"window is 1099511627777": func(p *Params) { p.WANWindowBytes = 1<<40 + 1 },
		"timely thresholds are 50 and 49 ns": func(p *Params) {
			p.Transport = TIMELY
			p.TIMELY.LowNS = 50
			p.TIMELY.HighNS = 49
		},
		"dcqcn marks from 5 to 4 bytes": func(p *Params) {
			p.Transport = DCQCN
			p.DCQCN.MinMarkPerGbps = 5
			p.DCQCN.MaxMarkPerGbps = 4
		},
		"swift scales from 2 to 2 packets": func(p *Params) {
			p.Transport = Swift
			p.Swift.MinScaling = 2
			p.Swift.MaxScaling = 2
		},
		"senders of cubic send when ACKs come":    func(p *Params) { p.Transport = CUBIC },
		"dctcp gain is 0, must be above 0 and at": func(p *Params) { p.Gain = 0 },
		"payload is 65537, must be 1 to 65536 b":  func(p *Params) { p.PayloadBytes = 1<<16 + 1 },
	} {
		p := DefaultParams()
		change(&p)
		err := p.CheckLinkCases()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, change := range []func(p *Params){
		func(p *Params) { p.SetWindow(1 << 40) }, func(p *Params) { p.SetWindow(0) },
		func(p *Params) { p.PayloadBytes = 1 << 16 },
		func(p *Params) {
			p.Transport = TIMELY
			p.TIMELY.LowNS = 50
			p.TIMELY.HighNS = 50
		},
		func(p *Params) {
			p.Transport = DCQCN
			p.DCQCN.MinMarkPerGbps = 5
			p.DCQCN.MaxMarkPerGbps = 5
		},
	} {
		p := DefaultParams()
		change(&p)
		if err := p.CheckLinkCases(); err != nil {
			t.Error(err)
		}
	}
}

// Sizes of packets, times and random numbers by hand.
func TestPacketsAndTimes(t *testing.T) {
	p := DefaultParams()
	for size, want := range map[int64][2]int64{1: {1, 49}, 1000: {1, 1048}, 1001: {2, 49}, 2500: {3, 548}} {
		if p.Packets(size) != want[0] || p.LastBytes(size) != want[1] {
			t.Errorf("%d bytes: %d packets, the last of %d", size, p.Packets(size), p.LastBytes(size))
		}
	}
	if p.SendNS(1048, 10e9) != 838 || p.SendNS(1048, 40e9) != 210 || p.SendNS(1048, 1e6) != 8_384_000 {
		t.Errorf("%d, %d and %d ns", p.SendNS(1048, 10e9), p.SendNS(1048, 40e9), p.SendNS(1048, 1e6))
	}
	if MixKey(0, 0) != 0xe220a8397b1dcdaf || MixKey(0, 1) != 0x6e789e6aa1b965f4 ||
		MarkKey(7, 3) != MixKey(MixKey(7, 0x6d61726b), 3) {
		t.Errorf("%#x, %#x", MixKey(0, 0), MixKey(0, 1))
	}
	l := Limits{LineBps: 10e9, WindowBytes: 18_000}
	if l.WindowAt(5e9) != 9000 || l.WindowAt(1) != 1 {
		t.Errorf("windows of %d and %d bytes", l.WindowAt(5e9), l.WindowAt(1))
	}
}

// Paths of 200 µs and more have a separate window. A window that is too small costs, for each wait, the
// difference between the round trip and the time that the window lasts: 5 packets with a window of two wait
// twice for 5,772 - 1,676 ns.
func TestWindowsOfPaths(t *testing.T) {
	p := DefaultParams()
	p.WANWindowBytes = 90_000
	if !p.NeedsPaths() || p.NominalWindow() != 18_000 {
		t.Errorf("nominal window %d", p.NominalWindow())
	}
	for trip, want := range map[int64]int64{199_999: 18_000, 200_000: 90_000} {
		got := p.Limits(10e9, Path{Hops: 2, SlowestBps: 5e9, RoundTripNS: trip})
		if got.WindowBytes != want || got.LineBps != 10e9 {
			t.Errorf("%d ns: %+v", trip, got)
		}
	}
	path := Path{Hops: 2, SlowestBps: 10e9, RoundTripNS: 5772}
	for _, c := range []struct{ window, size, want int64 }{
		{2000, 5000, 2 * 4096}, {2000, 2000, 0}, {2000, 2001, 4096}, {6000, 50_000, 8 * (5772 - 5030)},
		{7000, 50_000, 0}, {0, 50_000, 0},
	} {
		p.SetWindow(c.window)
		got := p.WindowDelayNS(path, c.size)
		if got != c.want {
			t.Errorf("%+v: %d ns", c, got)
		}
	}
	if p.NeedsPaths() != true || p.NominalWindow() != 18_000 {
		t.Errorf("fitted windows: nominal %d", p.NominalWindow())
	}
	p.SetWindow(1000)
	if p.NeedsPaths() || p.NominalWindow() != 1000 {
		t.Errorf("nominal window %d", p.NominalWindow())
	}
}

// Times and sizes at the edges: rounding, flows of one packet, windows of TCP, the largest flow and sums.
func TestEdgesOfTimesAndSizes(t *testing.T) {
	p := DefaultParams()
	var path IdealPath
	path.Reset(&p)
	path.Add(10e9, 1000)
	path.Add(10e9, 1000)
	// 2 µs, and 838.4 ns for each link and each packet more. A last packet of 1 byte takes 39.2 ns.
	for size, want := range map[int64]int64{1000: 3677, 2000: 4516, 1001: 3716, 1: 2079, 5000: 7031} {
		got := path.FCTNS(size)
		if got != want {
			t.Errorf("%d bytes take %d ns, want %d", size, got, want)
		}
	}
	// A byte takes 2,666.7 ps at 3 Gbps.
	w := NewWireTime(3e9)
	if w.PS(1) != 2667 || w.PS(3) != 8000 || NewWireTime(10e9).PS(1048) != 838_400 {
		t.Errorf("%d and %d ps", w.PS(1), w.PS(3))
	}
	if MaxPackets != 268_435_456 || WANRoundTripNS != 200_000 || MaxWindowBytes != 1_099_511_627_776 {
		t.Errorf("limits %d, %d, %d", MaxPackets, WANRoundTripNS, int64(MaxWindowBytes))
	}
	// TCP reaches its receive window after slow start, which has sent about a window: five of seven packets
	// are left.
	tcp := ParamsOf(CUBIC)
	tcp.TCP.ReceiveWindow = 2000
	for size, want := range map[int64]int64{7000: 2 * 4096, 3000: 0, 2000: 0, 5000: 4096} {
		got := tcp.WindowDelayNS(Path{Hops: 2, SlowestBps: 10e9, RoundTripNS: 5772}, size)
		if got != want {
			t.Errorf("%d bytes of TCP: %d ns, want %d", size, got, want)
		}
	}
	// Other links limit this flow to 1 of 10 Gbps. Alone, its links would allow 0.95 / 0.5 of 5.
	hpccParams := ParamsOf(HPCC)
	h := hpcc{Rates: Rates{2e9, 10e9}, refBps: 5e9, ownBps: 2e9, use: 0.5, windowEnd: 1}
	h.OnAck(&hpccParams, &AckInfo{AckedBytes: 1, Feedback: 0.9})
	r := h.Reduction()
	if math.Abs(r-0.05) > 1e-12 || math.Abs(h.RateBps-1e9) > 1 {
		t.Errorf("reduction %v, rate %v", r, h.RateBps)
	}
	for _, c := range []struct {
		sum  Sum
		want int64
	}{{Sum{0, Never}, Never}, {Sum{0, Never - 1}, Never - 1}, {Sum{0, Never + 1}, Never}, {Sum{1, 0}, Never},
		{Sum{}, 0}} {
		got := c.sum.Int64()
		if got != c.want {
			t.Errorf("%+v is %d", c.sum, got)
		}
	}
}
