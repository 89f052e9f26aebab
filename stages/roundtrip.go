package stages

import (
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// roundTrips computes the round trips of full packets without waits.
type roundTrips struct {
	net    *topology.Network
	params *simkernel.Params
	ns     []int64 // by link id: what the link adds; 0: not computed yet
}

func newRoundTrips(n *topology.Network, p *simkernel.Params) roundTrips {
	return roundTrips{n, p, make([]int64, len(n.Links))}
}

// of returns the round trip on a path in ns: of a full packet, and of its ACK on the way back.
func (r *roundTrips) of(path []int32) (ns int64) {
	p := r.params
	for _, id := range path {
		if r.ns[id] == 0 {
			l, back := &r.net.Links[id], &r.net.Links[topology.Reverse(id)]
			r.ns[id] = l.DelayNS + back.DelayNS + p.SendNS(p.PayloadBytes+p.HeaderBytes, l.BandwidthBps) +
				p.SendNS(p.AckBytes, back.BandwidthBps)
		}
		ns += r.ns[id]
	}
	return ns
}
