package topology

import "math"

// ECMP: the choice between equal-cost links is rendezvous hashing (Thaler and Ravishankar, 1998). Of the links
// that lead nearer to the destination, a flow takes the one with the highest hash of (seed, flow id, node,
// link). The hash differs from node to node, so that choices at successive hops are independent (no
// polarisation). It is consistent: without a cable only the flows that crossed it move, since the winner of
// every other flow remains. A flow's key is made in Router.AppendPath, the salts of links in
// NewRouter.

// choose returns the link of a set with the highest hash for the flow; the lowest id breaks ties.
func (r *Router) choose(flow uint64, lo, hi int32) int32 {
	links := r.setLink[lo:hi]
	if len(links) == 1 {
		return links[0]
	}
	if r.hash.Polarized {
		return r.chooseAlike(linkHash(flow, 0), lo, hi)
	}
	salts := r.setSalt[lo:hi]
	salts = salts[:len(links)]
	if r.weights != nil {
		best := lo
		for k := lo + 1; k < hi; k++ {
			if r.rank(flow, k) > r.rank(flow, best) {
				best = k
			}
		}
		return r.setLink[best]
	}
	best, bestHash := links[0], linkHash(flow, salts[0])
	for i := 1; i < len(links); i++ {
		if h := linkHash(flow, salts[i]); h > bestHash {
			best, bestHash = links[i], h
		}
	}
	return best
}

// chooseAlike chooses by a hash that all switches have in common: its value modulo the links or, with weights, the link
// in whose part of the sum of weights it falls.
func (r *Router) chooseAlike(hash uint64, lo, hi int32) int32 {
	if r.weights == nil {
		return r.setLink[lo+int32(hash%uint64(hi-lo))]
	}
	sum := 0.0
	for _, w := range r.weights[lo:hi] {
		sum += w
	}
	rest := (float64(hash>>11) + 0.5) / (1 << 53) * sum
	for k := lo; k < hi-1; k++ {
		if rest -= r.weights[k]; rest < 0 {
			return r.setLink[k]
		}
	}
	return r.setLink[hi-1]
}

// rank is what a flow takes the link at setLink[k] by: its hash or, with weights, by weighted rendezvous hashing
// (Schindelhauer and Schomaker, SPAA'05), u being the hash in (0, 1), the reverse order of -ln(u) / weight.
func (r *Router) rank(flow uint64, k int32) uint64 {
	h := linkHash(flow, r.setSalt[k])
	if r.weights == nil {
		return h
	}
	u := (float64(h>>11) + 0.5) / (1 << 53)
	return ^math.Float64bits(-math.Log(u) / r.weights[k])
}

// linkHash hashes a flow's key and a link's salt. Both are well mixed, so one more round of mixing
// makes the hashes of two links independent.
func linkHash(flow, salt uint64) uint64 {
	x := flow ^ salt
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// firstCost orders the switches of a host by how near they lead to an attachment: twice the number of links, but one
// less for the switch inside of a server, which two hosts prefer to a leaf that they share.
func (r *Router) firstCost(sw int32, base int) int {
	d := int(r.dist[base+int(sw)])
	if d == unreachableDist {
		return d
	}
	if d *= 2; r.Net.Nodes[r.nodeOf[sw]].Kind == KindInner {
		d--
	}
	return d
}

// firstLink returns the flow's link out of a host with several links, or -1.
func (r *Router) firstLink(flow uint64, from *routeHost, base int, dst int32) int32 {
	best, bestDist, bestHash := int32(-1), unreachableDist, uint64(0)
	for k := from.from; k < from.to; k++ {
		l := r.setLink[k]
		d := unreachableDist
		if sw := r.switchOf[l]; sw >= 0 {
			d = r.firstCost(sw, base)
		} else if r.Net.Links[l].Dst == dst {
			d = 0
		}
		if d == unreachableDist || d > bestDist {
			continue
		}
		if h := r.rank(flow, k); d < bestDist || h > bestHash {
			best, bestDist, bestHash = l, d, h
		}
	}
	return best
}
