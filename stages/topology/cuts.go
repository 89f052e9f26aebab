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
	start   []int32 // by switch: its first edge; one more than switches
	links   []int32 // by edge
	hostsOf []int   // by attachment
	own     []int   // by switch: hosts that are attached to no other
	total   int     // hosts with a switch
}

// newSwitchGraph lists, for each switch, its links to other switches.
func newSwitchGraph(r *Router) *switchGraph {
	g := &switchGraph{r: r, start: make([]int32, r.switches+1), hostsOf: make([]int, len(r.attached)),
		own: make([]int, r.switches)}
	number := make([]int32, len(r.Net.Nodes))
	for i := range number {
		number[i] = -1
	}
	for s, i := range r.nodeOf {
		number[i] = int32(s)
	}
	between := func(l *Link) int32 { // the switch that a link between switches leaves, or -1
		if l.Failed || r.switchOf[l.ID] < 0 {
			return -1
		}
		return number[r.Net.index.of(l.Src)]
	}
	for i := range r.Net.Links {
		if s := between(&r.Net.Links[i]); s >= 0 {
			g.start[s+1]++
		}
	}
	for s := range r.switches {
		g.start[s+1] += g.start[s]
	}
	g.links = make([]int32, g.start[r.switches])
	next := slices.Clone(g.start)
	for i := range r.Net.Links {
		if s := between(&r.Net.Links[i]); s >= 0 {
			g.links[next[s]] = int32(i)
			next[s]++
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
func (d *Description) findCuts(r *Router) {
	g := newSwitchGraph(r)
	points, bridges := g.candidates()
	part := make([]int32, r.switches)
	var queue []int32
	for s := range r.switches {
		own := g.own[s]
		lost := own
		if points[s] {
			lost = g.lost(int32(s), -1, part, &queue)
		}
		if lost > own {
			d.CutSwitches = append(d.CutSwitches, Cut{r.Net.Nodes[r.nodeOf[s]].Name, lost})
		} else if lost > 0 {
			d.OwnHostsOnly++
		}
	}
	for _, l := range bridges {
		if lost := g.lost(-1, l, part, &queue); lost > 0 {
			cable := r.Net.Links[l&^1]
			a, _ := r.Net.Node(cable.Src)
			b, _ := r.Net.Node(cable.Dst)
			d.CutCables = append(d.CutCables, Cut{a.Name + " – " + b.Name, lost})
		}
	}
	byHosts := func(a, b Cut) int { return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), CompareNatural(a.Name, b.Name)) }
	slices.SortFunc(d.CutSwitches, byHosts)
	slices.SortFunc(d.CutCables, byHosts)
}

// lost counts the hosts outside the largest part that remains without a switch or without a cable;
// -1 stands for neither.
func (g *switchGraph) lost(without, cable int32, part []int32, queue *[]int32) int {
	for s := range part {
		part[s] = -1
	}
	parts := int32(0)
	for s := range part {
		if part[s] >= 0 || int32(s) == without {
			continue
		}
		part[s] = parts
		*queue = append((*queue)[:0], int32(s))
		for k := 0; k < len(*queue); k++ {
			at := (*queue)[k]
			for _, l := range g.links[g.start[at]:g.start[at+1]] {
				to := g.r.switchOf[l]
				if part[to] < 0 && to != without && l != cable && Reverse(l) != cable {
					part[to] = parts
					*queue = append(*queue, to)
				}
			}
		}
		parts++
	}
	hosts := make([]int, parts)
	for a, at := range g.r.attached {
		for k, s := range at {
			// A host with switches in several parts belongs to each, once.
			again := slices.ContainsFunc(at[:k], func(t int32) bool { return part[t] == part[s] })
			if part[s] >= 0 && !again {
				hosts[part[s]] += g.hostsOf[a]
			}
		}
	}
	largest := 0
	for _, n := range hosts {
		largest = max(largest, n)
	}
	return g.total - largest
}

// candidates finds the articulation points and the bridges of the graph by depth-first search
// (Tarjan, 1972), with an explicit stack: a chain of switches may be long. Where the switches are
// several parts, which only hosts with several links join, every switch is a candidate.
func (g *switchGraph) candidates() (points []bool, bridges []int32) {
	n := g.r.switches
	points = make([]bool, n)
	// when a switch was found, from 1; the earliest that its subtree reaches
	order, low := make([]int32, n), make([]int32, n)
	from := make([]int32, n) // the link from the parent; -1 for a root
	next := slices.Clone(g.start[:n])
	found, parts := int32(0), 0
	var stack []int32
	enter := func(s, link int32) {
		found++
		order[s], low[s], from[s] = found, found, link
		stack = append(stack, s)
	}
	for root := range int32(n) {
		if order[root] != 0 {
			continue
		}
		enter(root, -1)
		parts++
		children := 0
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			if next[at] < g.start[at+1] {
				l := g.links[next[at]]
				next[at]++
				to := g.r.switchOf[l]
				switch {
				case from[at] >= 0 && l == Reverse(from[at]): // back over the same cable
				case order[to] != 0:
					low[at] = min(low[at], order[to])
				default:
					enter(to, l)
				}
				continue
			}
			stack = stack[:len(stack)-1]
			if len(stack) == 0 {
				break
			}
			parent := stack[len(stack)-1]
			low[parent] = min(low[parent], low[at])
			switch {
			case parent == root:
				children++
			case low[at] >= order[parent]:
				points[parent] = true
			}
			if low[at] > order[parent] {
				bridges = append(bridges, from[at])
			}
		}
		points[root] = points[root] || children > 1
	}
	for s := range points {
		points[s] = points[s] || parts > 1
	}
	return points, bridges
}
