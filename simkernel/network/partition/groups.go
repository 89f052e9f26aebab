package partition

import "slices"

// A network has links, and the links that leave each node.
type network struct {
	links []Link
	hosts []bool
	out   [][]int32 // by node
}

// groups joins each host with its first switch, and joins the ends of links that are so short that they would
// limit how far domains can be simulated ahead. It joins as many of the shortest links as possible while
// groups remain small enough to be divided.
func (n *network) groups(domains int) (groupOf []int32) {
	toHost := make([]bool, len(n.links))  // both links of a host's first cable
	aheads := make([]int64, len(n.links)) // the less of both links of a cable
	for v := range n.out {
		first := slices.IndexFunc(n.out[v], func(l int32) bool { return n.hosts[v] && !n.hosts[n.links[l].Dst] })
		if first >= 0 {
			l := n.out[v][first]
			toHost[l] = true
			toHost[l^1] = true
		}
	}
	for l := range aheads {
		aheads[l] = min(n.links[l].AheadPS, n.links[l^1].AheadPS)
	}
	order := slices.Compact(slices.Sorted(slices.Values(aheads)))
	groupOf, largest := n.components(func(l int32) bool { return toHost[l] })
	var joinPS int64 // links with a smaller one are joined
	for i := 0; i < len(order); i, _ = slices.BinarySearch(order, joinPS) {
		joinPS = 2 * order[i]
		next, size := n.components(func(l int32) bool { return toHost[l] || aheads[l] < joinPS })
		if size > max(len(n.hosts)/(2*domains), largest) {
			break
		}
		groupOf = next
		largest = size
	}
	return groupOf
}

// components returns the component of each node, numbered from 0, and the size of the largest. Links connect
// their ends if joins is true.
func (n *network) components(joins func(link int32) bool) (of []int32, largest int) {
	of = slices.Repeat([]int32{unassigned}, len(n.out))
	component := int32(0)
	for v := range of {
		if of[v] != unassigned {
			continue
		}
		of[v] = component
		members := []int32{int32(v)}
		for i := 0; i < len(members); i++ {
			for _, l := range n.out[members[i]] {
				to := n.links[l].Dst
				if of[to] == unassigned && joins(l) {
					of[to] = component
					members = append(members, to)
				}
			}
		}
		largest = max(largest, len(members))
		component++
	}
	return of, largest
}
