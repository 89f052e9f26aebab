package route

import (
	"math"

	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// RoundTrips has the part of each link, by link id, in the round trips of its paths, in ns.
type RoundTrips []int64

// NewRoundTrips returns the round trips of a network.
func NewRoundTrips(n *topology.Network, p *simkernel.Params) RoundTrips {
	trips := make(RoundTrips, len(n.Links))
	for id, l := range n.Links {
		trips[id] = l.DelayNS + n.Links[topology.Reverse(l.ID)].DelayNS + sendAndAckNS(p, n, l)
	}
	return trips
}

// PathNS returns the round trip on a path without waits, in ns: that of a full packet and of its ACK.
func (t RoundTrips) PathNS(path []int32) (ns int64) {
	for _, id := range path {
		ns += t[id]
	}
	return ns
}

// Bandwidths appends the bandwidths of the links of a path to bps.
func Bandwidths(n *topology.Network, path []int32, bps []int64) []int64 {
	for _, id := range path {
		bps = append(bps, n.Links[id].BandwidthBps)
	}
	return bps
}

// SlowestHop returns the last hop with the lowest bandwidth behind hop 0, or 0 if the path has one hop only.
// bps has the bandwidths of the links of the path.
func SlowestHop(bps []int64) int {
	slowest := min(1, len(bps)-1)
	for h := 2; h < len(bps); h++ {
		if bps[h] <= bps[slowest] {
			slowest = h
		}
	}
	return slowest
}

// betweenPS returns the transmission time per byte, in ps, of the links between hop 0 and a hop, as in
// simkernel.Case.BetweenPS. For hop 0, it is that of the links between it and the slowest hop. bps has the
// bandwidths of the links of the path.
func betweenPS(bps []int64, hop int) int32 {
	if hop == 0 {
		hop = SlowestHop(bps)
	}
	var ps float64
	for h := 1; h < hop; h++ {
		ps += 8e12 / float64(bps[h])
	}
	return int32(min(math.Round(ps), math.MaxInt32))
}

// slowestLinks returns the bandwidths of the slowest link before a hop and of the slowest link behind it, as
// in simkernel.Case.UpstreamBps and DownstreamBps. It returns 0 if the link case does not need the value. bps
// has the bandwidths of the links of the path.
//
// A link matters if it is slower than the links that the case simulates, because those already space a flow's
// packets. Before the hop, it is compared with the source. Behind the hop, it is compared with the target. At
// hop 0, the slowest link matters even if it is as fast as the source, because waits before it move packets
// together.
func slowestLinks(bps []int64, hop int) (upstream, downstream int64) {
	if hop == 0 {
		slowest := SlowestHop(bps)
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
