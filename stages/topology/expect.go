package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// Expected is what each link can expect to carry.
type Expected struct {
	// Share is, by link id, the expected weight that crosses the link.
	Share []float64
	// Unreachable is the weight between hosts that no path joins; it is in no link's share.
	Unreachable float64
}

// ExpectedLoads spreads weights over the links as the router's choices do on average: weight(i, j)
// goes from the hosts of group i to those of group j, equally between all pairs of two different
// hosts, and at every node equally between the links of equal cost. It is exact, not a sample: the
// expectation of what Path does over random flow ids.
//
// weight must be at least 0 and finite; a group's weight to itself must be 0 where the group has
// only one host. No host may be in two groups, and all must be hosts of the network.
//
// The cost is one walk of the network for each set of switches that a group's hosts hang on (one
// per rack of a data centre), and so small beside generating flows.
func (r *Router) ExpectedLoads(groups [][]int32, weight func(i, j int) float64) (*Expected, error) {
	parts, err := r.partition(groups)
	if err != nil {
		return nil, err
	}
	e := &Expected{Share: make([]float64, len(r.Net.Links))}
	w := &spreader{r: r, out: e, mass: make([]float64, r.switches)}
	var order []int32
	for j := range groups {
		for k := range parts[j] {
			d := &parts[j][k]
			order = r.farthestFirst(d.attachment, order[:0])
			for i := range groups {
				x := weight(i, j)
				if !(x >= 0) || x > 1e300 {
					return nil, fmt.Errorf("weight from group %d to group %d is %v", i, j, x)
				}
				if x == 0 {
					continue
				}
				if i == j && len(groups[i]) == 1 {
					return nil, fmt.Errorf("group %d sends to itself and has only host %d", i, groups[i][0])
				}
				for m := range parts[i] {
					s := &parts[i][m]
					// Each host of s sends this much to all of d.
					perHost := x / float64(len(groups[i])) * float64(len(d.hosts)) / float64(len(groups[j]))
					if i == j {
						others := len(d.hosts)
						if m == k {
							others--
						}
						perHost = x / float64(len(groups[i])) * float64(others) / float64(len(groups[j])-1)
					}
					if perHost > 0 {
						w.send(s, d, perHost)
					}
				}
			}
			w.deliver(d, order)
		}
	}
	return e, nil
}

// A groupPart is the hosts of a group that are alike to the router: they have the same attachment
// and no cable to another host; a host with such a cable is a part of its own.
type groupPart struct {
	attachment int32
	hosts      []int32 // places of nodes
}

func (r *Router) partition(groups [][]int32) ([][]groupPart, error) {
	parts := make([][]groupPart, len(groups))
	taken := make([]bool, len(r.hosts))
	for g, ids := range groups {
		if len(ids) == 0 {
			return nil, fmt.Errorf("group %d has no host", g)
		}
		of := map[int32]int{}
		for _, id := range ids {
			i := r.Net.index.of(id)
			if i < 0 || r.hosts[i].attachment < 0 {
				return nil, fmt.Errorf("group %d: node %d is no host of the network", g, id)
			}
			if taken[i] {
				return nil, fmt.Errorf("host %d stands in two groups", id)
			}
			taken[i] = true
			h := &r.hosts[i]
			if h.direct {
				parts[g] = append(parts[g], groupPart{h.attachment, []int32{i}})
				continue
			}
			p, ok := of[h.attachment]
			if !ok {
				p = len(parts[g])
				of[h.attachment] = p
				parts[g] = append(parts[g], groupPart{attachment: h.attachment})
			}
			parts[g][p].hosts = append(parts[g][p].hosts, i)
		}
	}
	return parts, nil
}

// farthestFirst lists the switches that reach an attachment, the farthest first.
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

// A spreader carries weight from sources over their first links (send), then all at once through
// the switches to the destination (deliver).
type spreader struct {
	r    *Router
	out  *Expected
	mass []float64 // by switch: weight that has arrived and not gone on
}

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

// distOver is how many links lie between the far end of a host's link and the destination.
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
