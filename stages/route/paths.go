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

// roundPS rounds a time in ps.
func roundPS(ps float64) int32 { return int32(min(math.Round(ps), math.MaxInt32)) }
