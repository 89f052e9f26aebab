package topology

import (
	"cmp"
	"slices"
)

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
	out  *Expected
	mass []float64 // by switch: weight that has arrived and is not forwarded yet
}

// send moves weight over the first links of the paths of one part's hosts, perHost from each, and leaves it at the
// switches (mass). Hosts with several cables use those that begin a shortest path, in equal parts.
func (w *spreader) send(from, to *groupPart, perHost float64) {
	r := w.r
	base := int(to.attachment) * r.switches
	for _, i := range from.hosts {
		h := &r.hosts[i]
		best, ways := unreachableDist, 0
		for _, l := range r.setLink[h.from:h.to] {
			if d := w.distOver(l, base, to); d < best {
				best, ways = d, 1
			} else if d == best {
				ways++
			}
		}
		if best == unreachableDist {
			w.out.Unreachable += perHost
			continue
		}
		each := perHost / float64(ways)
		for _, l := range r.setLink[h.from:h.to] {
			if w.distOver(l, base, to) == best {
				w.out.Share[l] += each
				if sw := r.switchOf[l]; sw >= 0 {
					w.mass[sw] += each
				}
			}
		}
	}
}

// distOver returns the number of links between the far end of a host's link and the destination.
func (w *spreader) distOver(link int32, base int, to *groupPart) int {
	r := w.r
	if sw := r.switchOf[link]; sw >= 0 {
		return int(r.dist[base+int(sw)])
	}
	// Only a part of one host can be the other end of a cable between hosts.
	if len(to.hosts) == 1 && r.Net.Nodes[to.hosts[0]].ID == r.Net.Links[link].Dst {
		return 0
	}
	return unreachableDist
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
						w.out.Share[Reverse(l)] += each
					}
				}
			}
			continue
		}
		links := r.setLink[r.setAt[set]:r.setAt[set+1]]
		each := x / float64(len(links))
		for _, l := range links {
			w.out.Share[l] += each
			w.mass[r.switchOf[l]] += each
		}
	}
}
