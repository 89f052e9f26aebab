package topology

// ECMP: the choice between equal-cost links is rendezvous hashing (Thaler and Ravishankar, 1998). Of the links
// that lead nearer to the destination, a flow takes the one with the highest hash of (seed, flow id, node,
// link). The hash differs from node to node, so that choices at successive hops are independent (no
// polarisation). It is consistent: without a cable only the flows that crossed it move, since the winner of
// every other flow remains. A flow's key is made in Router.AppendPath (router.go), the salts of nodes in
// routetables.go.

// choose returns the link of a set with the highest hash for the flow; the lowest id breaks ties.
func (r *Router) choose(flow uint64, lo, hi int32) int32 {
	links := r.setLink[lo:hi]
	if len(links) == 1 {
		return links[0]
	}
	salts := r.setSalt[lo:hi]
	salts = salts[:len(links)]
	best, bestHash := links[0], linkHash(flow, salts[0])
	for i := 1; i < len(links); i++ {
		if h := linkHash(flow, salts[i]); h > bestHash {
			best, bestHash = links[i], h
		}
	}
	return best
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

// firstLink returns the flow's link out of a host with several links, or -1.
func (r *Router) firstLink(flow uint64, from *routeHost, base int, dst int32) int32 {
	best, bestDist, bestHash := int32(-1), unreachableDist, uint64(0)
	for k := from.from; k < from.to; k++ {
		l := r.setLink[k]
		d := unreachableDist
		if sw := r.switchOf[l]; sw >= 0 {
			d = int(r.dist[base+int(sw)])
		} else if r.Net.Links[l].Dst == dst {
			d = 0
		}
		if d == unreachableDist || d > bestDist {
			continue
		}
		if h := linkHash(flow, r.setSalt[k]); d < bestDist || h > bestHash {
			best, bestDist, bestHash = l, d, h
		}
	}
	return best
}
