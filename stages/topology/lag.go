package topology

import (
	"slices"

	"parsimon/stages/rng"
)

// Link aggregation groups (LAGs, IEEE 802.1AX). All cables that join the same two nodes are the members of a
// LAG. A flow takes one member, so it never has more than the bandwidth of one. In the choice between
// equal-cost links, a LAG is one next hop: ECMP first chooses the LAG, then a second hash chooses the member
// among those that are up. If a member fails, only the flows that crossed it move, and only to the other
// members.

// Members returns the cables that join two nodes, by their index, in ascending order. A LAG has several
// members. If no cable joins the nodes, there are none. The slice belongs to the network.
func (n *Network) Members(a, b int32) []int32 {
	key := cableKey(a, b)
	group := n.lags[key]
	if group != nil {
		return group
	}
	c, ok := n.cableOf[key]
	if !ok {
		return nil
	}
	return []int32{c}
}

// LinksBetween returns the links that join two nodes, in both directions, in ascending order. There are none
// if no cable joins the nodes.
func (n *Network) LinksBetween(a, b int32) (links []int32) {
	for _, c := range n.Members(a, b) {
		links = append(links, 2*c, 2*c+1)
	}
	return links
}

// membersUp returns the links that are up among the members of a link's LAG, in the direction of the link.
func (n *Network) membersUp(link int32) (links []int32) {
	src := n.Links[link].Src
	for _, c := range n.Members(src, n.Links[link].Dst) {
		l := &n.Links[2*c]
		if l.Src != src {
			l = &n.Links[2*c+1]
		}
		if !l.Failed {
			links = append(links, l.ID)
		}
	}
	return links
}

// MembersUp returns the number of cables that are up between the nodes of a link.
func (n *Network) MembersUp(link int32) int { return len(n.membersUp(link)) }

// HasLAGs reports whether several cables join the same two nodes anywhere.
func (n *Network) HasLAGs() bool { return len(n.lags) > 0 }

// addToLAG records a cable between two nodes that an earlier cable joins.
func (n *Network) addToLAG(key [2]int32, first, cable int32) {
	if n.lags == nil {
		n.lags = map[[2]int32][]int32{}
	}
	group := n.lags[key]
	if group == nil {
		group = []int32{first}
	}
	n.lags[key] = append(slices.Clip(group), cable) // a clone of the network may share the group
}

// memberNumber returns the number of a link's cable in its LAG, from 1, or 0 if no other cable joins its
// nodes.
func (n *Network) memberNumber(link int32) int {
	if len(n.lags) == 0 {
		return 0
	}
	l := &n.Links[link]
	return 1 + slices.Index(n.lags[cableKey(l.Src, l.Dst)], link/2)
}

// firstMember returns the link of the first member of a link's LAG, in the same direction.
func (n *Network) firstMember(link int32) int32 {
	first := 2 * n.Members(n.Links[link].Src, n.Links[link].Dst)[0]
	if n.Links[first].Src != n.Links[link].Src {
		first++
	}
	return first
}

// groupMembers sorts links that leave a node such that the members of a LAG follow each other, at the place
// of the first.
func (n *Network) groupMembers(out []int32) {
	first := func(link int32) int32 {
		l := &n.Links[link]
		return n.cableOf[cableKey(l.Src, l.Dst)]
	}
	slices.SortStableFunc(out, func(a, b int32) int { return int(first(a)) - int(first(b)) })
}

// A router of a network with LAGs stores the members that are up one after the other in setLink. run has, for
// each place of setLink, the number of places from there to the last member of its LAG. It is nil if the
// network has no LAGs.

// saltMembers computes the salts of the members of LAGs. A member is known by its number in the LAG.
func (r *Router) saltMembers() {
	if !r.Net.HasLAGs() {
		return
	}
	r.memberSalts = make([]uint64, len(r.salts))
	for i, salt := range r.salts {
		r.memberSalts[i] = rng.MixKey(salt, uint64(r.Net.memberNumber(int32(i))))
	}
}

// sizeOf returns the number of members that are up of the LAG whose first member is at a place of setLink.
func (r *Router) sizeOf(place int32) int32 {
	if r.run == nil {
		return 1
	}
	return r.run[place]
}

// findRuns fills run for links that addLink has added since the last call. A LAG's members are in one
// set, and no set has a LAG twice.
func (r *Router) findRuns() {
	if !r.Net.HasLAGs() {
		return
	}
	from := len(r.run)
	r.run = append(r.run, slices.Repeat([]int32{1}, len(r.setLink)-from)...)
	for k := len(r.setLink) - 2; k >= from; k-- {
		a := &r.Net.Links[r.setLink[k]]
		b := &r.Net.Links[r.setLink[k+1]]
		if a.Src == b.Src && a.Dst == b.Dst && a.ID != b.ID {
			r.run[k] = r.run[k+1] + 1
		}
	}
}

// lagsIn returns the number of LAGs in places lo to hi - 1 of setLink. A single link counts as one.
func (r *Router) lagsIn(lo, hi int32) (count int) {
	for k := lo; k < hi; k += r.sizeOf(k) {
		count++
	}
	return count
}

// chooseLAG returns the place of the LAG that a flow takes, by the hashes and the weights of the LAGs in
// places lo to hi - 1 of setLink. The weight of a LAG is the sum of the weights of its members.
func (r *Router) chooseLAG(flow uint64, lo, hi int32) (place int32) {
	if r.Hash.Polarized {
		return r.chooseLAGAlike(linkHash(flow, 0), lo, hi)
	}
	most := uint64(0)
	place = lo
	for k := lo; k < hi; k += r.run[k] {
		h := linkHash(flow, r.setSalt[k])
		if r.weights != nil {
			h = weigh(h, r.weightOf(k))
		}
		if h > most {
			place = k
			most = h
		}
	}
	return place
}

// weightOf returns the weight of the LAG whose first member is at a place of setLink.
func (r *Router) weightOf(place int32) (sum float64) {
	for _, w := range r.weights[place : place+r.sizeOf(place)] {
		sum += w
	}
	return sum
}

// member returns the member of the LAG at a place of setLink that a flow takes. Members are chosen by
// rendezvous hashing.
func (r *Router) member(flow uint64, place int32) int32 {
	links := r.setLink[place : place+r.sizeOf(place)]
	if len(links) == 1 {
		return links[0]
	}
	if r.Hash.Polarized {
		return links[linkHash(flow, 0)%uint64(len(links))]
	}
	best := links[0]
	most := uint64(0)
	for _, l := range links {
		h := linkHash(flow, r.memberSalts[l])
		if h > most {
			best = l
			most = h
		}
	}
	return best
}

// chooseLAGAlike is like chooseLAG, with the same hash at all switches.
func (r *Router) chooseLAGAlike(hash uint64, lo, hi int32) (place int32) {
	sum := 0.0
	weight := func(k int32) float64 {
		if r.weights == nil {
			return 1
		}
		return r.weightOf(k)
	}
	for k := lo; k < hi; k += r.run[k] {
		sum += weight(k)
	}
	rest := unit(hash) * sum
	for k := lo; k < hi; k += r.run[k] {
		rest -= weight(k)
		place = k
		if rest < 0 {
			break
		}
	}
	return place
}
