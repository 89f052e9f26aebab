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

// roundPS rounds a time in ps.
func roundPS(ps float64) int32 { return int32(min(math.Round(ps), math.MaxInt32)) }
