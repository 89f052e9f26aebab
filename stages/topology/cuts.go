package topology

import (
	"cmp"
	"slices"
)

// A Cut is a switch or a cable without which hosts lose the other hosts.
type Cut struct {
	Name  string `json:"name"`
	Hosts int    `json:"hosts"` // outside the largest part that remains
}

// A switchGraph is the switches and the cables between them that are up, and where hosts attach.
// Hosts do not forward, so they are not vertices.
type switchGraph struct {
	r       *Router
	out     [][]int32 // by switch: its links to other switches
	hostsOf []int     // by attachment
	own     []int     // by switch: hosts that are attached to no other
	total   int       // hosts with a switch
}

func newSwitchGraph(r *Router, linksUp [][]int32) *switchGraph {
	g := &switchGraph{r: r, out: make([][]int32, r.switches), hostsOf: make([]int, len(r.attached)),
		own: make([]int, r.switches)}
	for s, node := range r.nodeOf {
		for _, l := range linksUp[node] {
			if r.switchOf[l] >= 0 {
				g.out[s] = append(g.out[s], l)
			}
		}
	}
	for _, h := range r.hosts {
		if h.attachment > 0 {
			g.hostsOf[h.attachment]++
			g.total++
			if at := r.attached[h.attachment]; len(at) == 1 {
				g.own[at[0]]++
			}
		}
	}
	return g
}

// findCuts fills in the single points of failure.
func (d *Description) findCuts(r *Router, linksUp [][]int32) {
	g := newSwitchGraph(r, linksUp)
	points, bridges := g.candidates()
	for s, own := range g.own {
		lost := own
		if points[s] {
			lost = g.lost(int32(s), -1)
		}
		if lost > own {
			d.CutSwitches = append(d.CutSwitches, Cut{r.Net.Nodes[r.nodeOf[s]].Name, lost})
		} else if lost > 0 {
			d.OwnHostsOnly++
		}
	}
	for _, l := range bridges {
		if lost := g.lost(-1, l); lost > 0 {
			cable := r.Net.Links[l&^1]
			d.CutCables = append(d.CutCables, Cut{r.Net.Name(cable.Src) + " – " + r.Net.Name(cable.Dst), lost})
		}
	}
	byHosts := func(a, b Cut) int { return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), CompareNatural(a.Name, b.Name)) }
	slices.SortFunc(d.CutSwitches, byHosts)
	slices.SortFunc(d.CutCables, byHosts)
}

// lost counts the hosts outside the largest part that remains without a switch or without a cable;
// -1 stands for neither.
func (g *switchGraph) lost(without, cable int32) int {
	part := make([]int, len(g.out)) // by switch, from 1; 0: not reached yet
	var queue []int32
	parts := 0
	for root := range g.out {
		if part[root] > 0 || int32(root) == without {
			continue
		}
		parts++
		part[root] = parts
		queue = append(queue[:0], int32(root))
		for k := 0; k < len(queue); k++ {
			for _, l := range g.out[queue[k]] {
				to := g.r.switchOf[l]
				if part[to] == 0 && to != without && l != cable && Reverse(l) != cable {
					part[to] = parts
					queue = append(queue, to)
				}
			}
		}
	}
	hosts := make([]int, parts+1)
	for a, at := range g.r.attached {
		for k, s := range at {
			// A host with switches in several parts belongs to each, once.
			again := slices.ContainsFunc(at[:k], func(t int32) bool { return part[t] == part[s] })
			if part[s] > 0 && !again {
				hosts[part[s]] += g.hostsOf[a]
			}
		}
	}
	return g.total - slices.Max(hosts)
}

// candidates finds the articulation points and the bridges of the graph by depth-first search (Tarjan, 1972). Where the
// switches are several parts, which only hosts with several links join, every switch is a candidate.
func (g *switchGraph) candidates() (points []bool, bridges []int32) {
	points = make([]bool, len(g.out))
	// When a switch was found, from 1; the earliest that its subtree reaches.
	order, low := make([]int32, len(g.out)), make([]int32, len(g.out))
	found, parts := int32(0), 0
	var visit func(s, from int32)
	visit = func(s, from int32) {
		found++
		order[s], low[s] = found, found
		children := 0
		for _, l := range g.out[s] {
			to := g.r.switchOf[l]
			switch {
			case from >= 0 && l == Reverse(from): // back over the same cable
			case order[to] != 0:
				low[s] = min(low[s], order[to])
			default:
				children++
				visit(to, l)
				low[s] = min(low[s], low[to])
				points[s] = points[s] || from >= 0 && low[to] >= order[s]
				if low[to] > order[s] {
					bridges = append(bridges, l)
				}
			}
		}
		points[s] = points[s] || from < 0 && children > 1
	}
	for s := range int32(len(g.out)) {
		if order[s] == 0 {
			parts++
			visit(s, -1)
		}
	}
	for s := range points {
		points[s] = points[s] || parts > 1
	}
	return points, bridges
}
