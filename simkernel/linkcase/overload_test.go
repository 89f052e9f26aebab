package linkcase

import (
	"testing"

	"parsimon/simkernel"
)

// With 64 bits, the sum of the waits at a link that is overloaded for hours would silently overflow. 19,980
// packets of 60 KB wait for a link of 10 kbps, 480,000 s on average: the sum of their waits exceeds 2^63 ns.
func TestSumOfWaitsExceedsInt64(t *testing.T) {
	// they count waits in different places
	for _, kind := range []simkernel.Transport{simkernel.DCTCP, simkernel.HPCC} {
		p := simkernel.ParamsOf(kind)
		p.PayloadBytes = 60_000
		p.HeaderBytes = 0
		p.SetWindow(1 << 30)
		const flows, packets = 111, 180
		c := columns(true, 2, flows, packets*p.PayloadBytes, 0)
		c.TargetBps = 10_000
		c.MarkBytes = simkernel.Unreachable
		c.MaxMarkBytes = simkernel.Unreachable
		var r Result
		if err := mustKernel(t, p).Simulate(c, &r); err != nil {
			t.Fatal(err)
		}
		sendS := float64(p.PayloadBytes) * 8 / float64(c.TargetBps)
		wantS := sendS * flows * packets / 2
		meanS := r.WaitSumNS / float64(r.PacketsSent) / 1e9
		if meanS < 0.9*wantS || meanS > 1.1*wantS {
			t.Errorf("%v: the mean wait is %.0f s, want about %.0f", kind, meanS, wantS)
		}
	}
}
