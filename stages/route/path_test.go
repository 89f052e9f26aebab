package route

import (
	"math"
	"testing"

	"parsimon/stages/topology"
)

// placesOf returns the places of a path over links with these bandwidths, and its slowest hop.
func placesOf(bps []int64) (all []place, slowest int) {
	var p places
	var path []int32
	for id, b := range bps {
		p.classes = append(p.classes, linkClass{bps: b})
		p.classOf = append(p.classOf, int32(id))
		path = append(path, int32(id))
	}
	slowest = p.add(path)
	return p.all, slowest
}

// The slowest links of a path matter if both the source and the target are faster.
func TestSlowestLinks(t *testing.T) {
	for _, c := range []struct {
		bps                  []int64 // by hop
		hop                  int
		upstream, downstream int64
		between              int32 // for Gbps: 8000 ps / bandwidth
	}{
		{[]int64{10}, 0, 0, 0, 0},
		{[]int64{10, 10}, 0, 0, 10, 0},
		{[]int64{40, 10, 40}, 0, 0, 10, 0},
		{[]int64{10, 40, 40, 10}, 0, 0, 10, 400},
		{[]int64{40, 10, 40, 40}, 1, 0, 0, 0},
		{[]int64{40, 10, 40, 40}, 2, 10, 0, 800}, // the link before
		{[]int64{40, 10, 40, 40}, 3, 10, 0, 1000},
		{[]int64{10, 40, 40, 10}, 1, 0, 10, 0},
		{[]int64{10, 40, 40, 10}, 2, 0, 10, 200},
		{[]int64{10, 40, 40, 10}, 3, 0, 0, 400},
		{[]int64{100, 25, 10, 40, 25, 100}, 3, 10, 25, 1120},
		{[]int64{100, 25, 10, 40, 25, 100}, 4, 10, 0, 1320},
	} {
		var bps []int64
		for _, gbps := range c.bps {
			bps = append(bps, gbps*1e9)
		}
		all, slowest := placesOf(bps)
		got := all[c.hop]
		if slowest != slowestHop(bps) {
			t.Errorf("%v: hop %d is the slowest, want %d", c.bps, slowest, slowestHop(bps))
		}
		if got.upBps != c.upstream*1e9 || got.downBps != c.downstream*1e9 || got.betweenPS != c.between {
			t.Errorf("%v, hop %d: %+v, want %d, %d and %d", c.bps, c.hop, got, c.upstream, c.downstream, c.between)
		}
	}
	slow, _ := placesOf([]int64{1000, 1000, 1000})
	if slow[2].betweenPS != math.MaxInt32 {
		t.Errorf("a slow link: %d ps", slow[2].betweenPS)
	}
}

// bandwidths returns the bandwidths of the links of a path.
func bandwidths(n *topology.Network, path []int32) (bps []int64) {
	for _, id := range path {
		bps = append(bps, n.Links[id].BandwidthBps)
	}
	return bps
}

// slowestHop returns the last hop with the lowest bandwidth behind hop 0, or 0 if the path has one hop only.
// bps has the bandwidths of the links of the path.
func slowestHop(bps []int64) int {
	slowest := min(1, len(bps)-1)
	for h := 2; h < len(bps); h++ {
		if bps[h] <= bps[slowest] {
			slowest = h
		}
	}
	return slowest
}

// slowestLinks returns the bandwidths of the slowest link before a hop and of the slowest one behind it, or
// 0 if they do not matter, by their definition. bps has the bandwidths of the links of the path.
func slowestLinks(bps []int64, hop int) (upstream, downstream int64) {
	if hop == 0 {
		slowest := slowestHop(bps)
		if slowest > 0 {
			downstream = bps[slowest]
		}
		return 0, downstream
	}
	return slower(bps[1:hop], bps[0]), slower(bps[hop+1:], bps[hop])
}

// slower returns the lowest of the bandwidths that are below a bandwidth, or 0.
func slower(bps []int64, than int64) (slowest int64) {
	for _, b := range bps {
		if b < than {
			than = b
			slowest = b
		}
	}
	return slowest
}

// betweenPS returns the transmission time of a byte, in ps, on the links between hop 0 and a hop, or for
// hop 0 between it and the slowest hop.
func betweenPS(bps []int64, hop int) int32 {
	if hop == 0 {
		hop = slowestHop(bps)
	}
	ps := 0.0
	for h := 1; h < hop; h++ {
		ps += 8e12 / float64(bps[h])
	}
	return roundPS(ps)
}
