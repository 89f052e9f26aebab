package topology

import (
	"fmt"
	"slices"
	"sort"
)

// Racks returns the ids of each rack's hosts, by rack number, as traffic matrices count them. Hosts
// without a rack number form a rack per set of neighbours, after the numbered racks and in order of
// their lowest host. Rack numbers without hosts are left out. The slices belong to the network.
func (n *Network) Racks() [][]int32 { return n.racks }

// findRacks groups the hosts as Racks documents.
func (n *Network) findRacks() [][]int32 {
	groups := map[string][]int32{}
	var keys []string
	add := func(key string, host int32) {
		if _, known := groups[key]; !known {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], host)
	}
	unnumbered := false
	for _, h := range n.hosts {
		v := n.Nodes[n.index.of(h)]
		if v.Rack < 0 {
			unnumbered = true
		} else {
			add(fmt.Sprintf("rack %010d", v.Rack), h)
		}
	}
	sort.Strings(keys) // numbered racks first, in order of their number
	if unnumbered {
		neighbours := map[int32][]int32{}
		for _, l := range n.Links {
			neighbours[l.Src] = append(neighbours[l.Src], l.Dst)
		}
		for _, h := range n.hosts {
			if v := n.Nodes[n.index.of(h)]; v.Rack < 0 {
				s := neighbours[h]
				slices.Sort(s)
				add(fmt.Sprint(s), h)
			}
		}
	}
	racks := make([][]int32, len(keys))
	for i, k := range keys {
		racks[i] = groups[k]
	}
	return racks
}

// Pods returns the number of pods that have hosts; it is 1 where the topology names none.
func (n *Network) Pods() int {
	pods := map[int32]bool{}
	for _, h := range n.hosts {
		pods[n.Nodes[n.index.of(h)].Pod] = true
	}
	return max(1, len(pods))
}
