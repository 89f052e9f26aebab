package simkernel

import "testing"

// A fitted window is the bandwidth-delay product of the path plus a full packet at each hop of the way back,
// in whole packets. With less, flows in both directions wait for ACKs while their links are idle. With more,
// flows leave queues.
func TestFittedWindow(t *testing.T) {
	for _, c := range []struct {
		name        string
		bps         []int64
		delayNS     int64
		windowBytes int64
	}{
		// 4,000 ns of propagation and 2 × (838 + 48) ns of transmission are 5,772 ns. With 2 × 838 ns for the
		// way back they are 7,447 ns, in which 8.9 packets of 838.4 ns are sent.
		{"two equal links", []int64{10e9, 10e9}, 1000, 9000},
		// 4,000 ns, (838 + 48) + (84 + 5) ns, and 922 ns for the way back: 5,897 ns are 7.03 packets.
		{"a faster link", []int64{10e9, 100e9}, 1000, 8000},
		{"short cables", []int64{10e9}, 10, 4000},
	} {
		p := DefaultParams()
		p.SetWindow(AutoWindow)
		var path IdealPath
		path.Reset(&p)
		for _, bps := range c.bps {
			path.Add(bps, c.delayNS)
		}
		if path.Path().Hops != len(c.bps) {
			t.Errorf("%s: %d links, want %d", c.name, path.Path().Hops, len(c.bps))
		}
		got := p.Limits(float64(c.bps[0]), path.Path()).WindowBytes
		if got != c.windowBytes {
			t.Errorf("%s: window of %d B, want %d B", c.name, got, c.windowBytes)
		}
	}
}

// Thresholds of delay grow with the idle round trip and with what an ACK waits on its way back, beyond the
// round trip that the defaults are for. A stated window does not change them.
func TestThresholdsOfDelayFollowThePath(t *testing.T) {
	p := ParamsOf(TIMELY)
	path := Path{Hops: 4, SlowestBps: 10e9, RoundTripNS: 20_000, SendNS: 4464}
	stated := p.Limits(10e9, path)
	p.SetWindow(AutoWindow)
	fitted := p.Limits(10e9, path)
	returnNS := path.SendNS * (p.PayloadBytes + p.HeaderBytes) / (p.PayloadBytes + p.HeaderBytes + p.AckBytes)
	want := 20_000 + returnNS - 14_400
	if stated.moreNS() != 0 || fitted.moreNS() != want {
		t.Errorf("thresholds are %d ns higher with a stated window, want 0, and %d ns with a fitted one, want %d",
			stated.moreNS(), fitted.moreNS(), want)
	}
}
