package topology

import (
	"fmt"
	"strings"
)

// A unionFind holds disjoint sets of the integers below its length.
type unionFind []int32

func newUnionFind(n int) unionFind {
	u := make(unionFind, n)
	for i := range u {
		u[i] = int32(i)
	}
	return u
}

// find returns the representative of the set that holds i, and shortens the way there.
func (u unionFind) find(i int32) int32 {
	for u[i] != i {
		u[i] = u[u[i]]
		i = u[i]
	}
	return i
}

// join makes one set of two; the lower representative stays.
func (u unionFind) join(a, b int32) {
	a, b = u.find(a), u.find(b)
	u[max(a, b)] = min(a, b)
}

// An island is a set of nodes that no cable joins to the rest. Failed cables count as cables: a
// failure is a state, an island is a mistake in the description.
type island struct {
	nodes []int // indexes in the draft
	hosts int
}

// checkIslands reports every part of the network but the one with the most hosts, or removes it.
func (d *draft) checkIslands(o *Options) {
	islands := d.islands()
	if len(islands) < 2 {
		return
	}
	main := 0
	for i, s := range islands {
		m := islands[main]
		if s.hosts > m.hosts || s.hosts == m.hosts && len(s.nodes) > len(m.nodes) {
			main = i
		}
	}
	drop := map[int32]bool{}
	for i, s := range islands {
		switch {
		case i == main:
		case d.repair(o, FaultIsland):
			for _, k := range s.nodes {
				drop[d.nodes[k].ID] = true
			}
		case len(s.nodes) == 1 && s.hosts == 1: // checkCables reports a host without a cable
		default:
			d.fault(d.nodeAt[s.nodes[0]], FaultIsland, "%s: no cable joins %s to the other %d nodes",
				d.nameList(s.nodes), pronoun(len(s.nodes)), len(d.nodes)-len(s.nodes))
		}
	}
	if len(drop) > 0 {
		d.dropNodes(drop)
	}
}

func pronoun(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// islands returns the connected parts, in order of their first node.
func (d *draft) islands() []island {
	at := make(map[int32]int32, len(d.nodes))
	for i, v := range d.nodes {
		at[v.ID] = int32(i)
	}
	sets := newUnionFind(len(d.nodes))
	for _, c := range d.cables {
		a, knownA := at[c.A]
		b, knownB := at[c.B]
		if knownA && knownB {
			sets.join(a, b)
		}
	}
	var list []island
	number := map[int32]int{}
	for i, v := range d.nodes {
		root := sets.find(at[v.ID]) // of two nodes with one id the cables are those of the last
		k, known := number[root]
		if !known {
			k = len(list)
			number[root] = k
			list = append(list, island{})
		}
		list[k].nodes = append(list[k].nodes, i)
		if v.Kind == KindHost {
			list[k].hosts++
		}
	}
	return list
}

// nameList names up to three nodes of a draft and counts the rest.
func (d *draft) nameList(nodes []int) string {
	var names []string
	for i, k := range nodes {
		if i == 3 && len(nodes) > 4 {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(nodes)-i)
		}
		name := d.nodes[k].Name
		if name == "" {
			name = fmt.Sprintf("node %d", d.nodes[k].ID)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// dropNodes removes nodes and their cables.
func (d *draft) dropNodes(drop map[int32]bool) {
	kept := 0
	for i, v := range d.nodes {
		if !drop[v.ID] {
			d.nodes[kept], d.nodeAt[kept] = v, d.nodeAt[i]
			kept++
		}
	}
	d.nodes, d.nodeAt = d.nodes[:kept], d.nodeAt[:kept]
	d.keepCables(func(i int) bool { return !drop[d.cables[i].A] && !drop[d.cables[i].B] })
}
