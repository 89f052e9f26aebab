package topology

import (
	"cmp"
	"slices"

	"parsimon/schema/names"
)

// ExpectedLoads returns the expected weight on each link, by id, in the unit of the weights given. They are distributed
// as the router's choices do on average: weight(i, j) goes from the hosts of group i to those of group j, equally over
// all pairs of two different hosts, and at every node equally over the links of equal cost. The result is the exact
// expectation of Path over random flow ids, not a sample. Weight between hosts that no path joins is on no link.
//
// Weights are at least 0 and finite; that of a group of one host to itself is 0. Groups are of hosts of the network,
// and no host is in two.
//
// The cost is one traversal of the network for each set of switches that a group's hosts are attached
// to (one per rack of a data centre).
func (r *Router) ExpectedLoads(groups [][]int32, weight func(i, j int) float64) []float64 {
	parts := names.Of(groups, r.partition)
	w := &spreader{r: r, load: make([]float64, len(r.Net.Links)), mass: make([]float64, r.switches)}
	var order []int32
	for j := range groups {
		for k := range parts[j] {
			d := &parts[j][k]
			order = r.farthestFirst(d.attachment, order[:0])
			for i := range groups {
				x := weight(i, j)
				for m := 0; x > 0 && m < len(parts[i]); m++ {
					own := i == j && m == k
					if each := perHost(x, len(groups[i]), len(groups[j]), len(d.hosts), i == j, own); each > 0 {
						w.send(&parts[i][m], d, each)
					}
				}
			}
			w.deliver(d, order)
		}
	}
	return w.load
}

// perHost returns what one of from hosts sends to part of the to hosts of a group, of a weight between the groups. No
// host sends to itself: sameGroup says that the groups are one, own that the sender is in the part.
func perHost(weight float64, from, to, part int, sameGroup, own bool) float64 {
	if sameGroup {
		to--
	}
	if own {
		part--
	}
	return weight / float64(from) * float64(part) / float64(to)
}

// A groupPart is the hosts of a group that the router treats alike: they have the same attachment
// and no cable to another host. A host with such a cable is a part of its own.
type groupPart struct {
	attachment int32
	hosts      []int32 // indexes of nodes
}

// partition divides a group by attachment.
func (r *Router) partition(group []int32) (parts []groupPart) {
	of := map[int32]int{}
	for _, id := range group {
		i := r.Net.place(id)
		h := &r.hosts[i]
		p, known := of[h.attachment]
		if !known || h.direct {
			p = len(parts)
			parts = append(parts, groupPart{attachment: h.attachment})
		}
		if !h.direct {
			of[h.attachment] = p
		}
		parts[p].hosts = append(parts[p].hosts, i)
	}
	return parts
}

// farthestFirst appends the switches that reach an attachment, the farthest first.
func (r *Router) farthestFirst(attachment int32, order []int32) []int32 {
	dist := r.dist[int(attachment)*r.switches : (int(attachment)+1)*r.switches]
	for s, d := range dist {
		if d != unreachableDist {
			order = append(order, int32(s))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(dist[b], dist[a]), cmp.Compare(a, b))
	})
	return order
}

// A spreader computes expected loads: it moves weight from sources over their first links (send), then through the
// switches to the destination, farthest switch first (deliver), in equal parts over equal-cost links.
type spreader struct {
	r    *Router
	load []float64 // by link id
	mass []float64 // by switch: weight that has arrived and is not forwarded yet
}

// send moves weight over the first links of the paths of one part's hosts, perHost from each, and leaves it at the
// switches (mass). Hosts with several cables use those that begin a shortest path, in equal parts.
func (w *spreader) send(from, to *groupPart, perHost float64) {
	r := w.r
	base := int(to.attachment) * r.switches
	var ways []int32
	for _, i := range from.hosts {
		h := &r.hosts[i]
		best := unreachableDist
		ways = ways[:0]
		for _, l := range r.setLink[h.from:h.to] {
			// Only a part of one host can be the other end of a cable between hosts: then it is the first.
			if d := r.firstCost(l, base, r.Net.Nodes[to.hosts[0]].ID); d < best {
				best, ways = d, append(ways[:0], l)
			} else if d == best {
				ways = append(ways, l)
			}
		}
		if best == unreachableDist {
			continue
		}
		each := perHost / float64(len(ways))
		for _, l := range ways {
			w.load[l] += each
			if sw := r.switchOf[l]; sw >= 0 {
				w.mass[sw] += each
			}
		}
	}
}

// deliver moves the weight at the switches to the destination. order is farthestFirst: when a switch's turn comes, all
// that reaches it has arrived, because every path leads from a farther switch to a nearer one. It leaves mass zero.
func (w *spreader) deliver(to *groupPart, order []int32) {
	r := w.r
	base := int(to.attachment) * r.switches
	for _, s := range order {
		x := w.mass[s]
		if x == 0 {
			continue
		}
		w.mass[s] = 0
		set := r.next[base+int(s)]
		if set == setArrive {
			each := x / float64(len(to.hosts))
			for _, i := range to.hosts {
				h := &r.hosts[i]
				for _, l := range r.setLink[h.from:h.to] {
					if r.switchOf[l] == s {
						w.load[Reverse(l)] += each
					}
				}
			}
			continue
		}
		links := r.setLink[r.setAt[set]:r.setAt[set+1]]
		each := x / float64(len(links))
		for _, l := range links {
			w.load[l] += each
			w.mass[r.switchOf[l]] += each
		}
	}
}
