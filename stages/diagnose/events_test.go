package diagnose

import (
	"math"
	"testing"

	"parsimon/simkernel"
	"parsimon/stages/confidence"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/topology/topologytest"
)

// An event of congestion lasts longer, the larger the flows and the load are, but not longer than the
// workload. Its share of the flows decides how much wider the intervals are.
func TestEventShareFollowsFromLoadAndSizes(t *testing.T) {
	m := &step.Model{Network: topologytest.SmallNetwork(t), Params: simkernel.DefaultParams()}
	m.Params.HeaderBytes = 0
	bps := float64(m.Network.Links[0].BandwidthBps)
	share := func(load, seconds float64) float64 {
		l := &route.Loads{Links: make([]route.LinkLoad, len(m.Network.Links)), LastStartNS: int64(seconds * 1e9)}
		bytes := int64(load * seconds * bps / 8)
		l.Links[0] = route.LinkLoad{Flows: 500, Bytes: bytes, Packets: bytes / 1000}
		return eventShare(m, l, confidence.Traffic{Flows: 1000, ByteMeanBytes: bps / 8 / 1000}) // 1 ms to send
	}
	for _, c := range []struct{ load, seconds, want float64 }{
		{0.5, 1, 0.5 * 0.002}, // 1 ms · 0.5 / 0.25
		{0.5, 4, 0.5 * 0.0005},
		{0.8, 1, 0.5 * 0.02},
		{0.99, 1, 0.5},
		{1.5, 1, 0.5},
		{0, 1, 0},
	} {
		got := share(c.load, c.seconds)
		if math.Abs(got-c.want) > 1e-3*c.want {
			t.Errorf("load %v, %v s: %v, want %v", c.load, c.seconds, got, c.want)
		}
	}
}
