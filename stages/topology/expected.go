package topology

import "fmt"

// Expected is the expected weight on each link, in the unit of the weights that were given: bytes per second, or a
// share of all traffic.
type Expected struct {
	// Share is, by link id, the expected weight that crosses the link.
	Share []float64
	// Unreachable is the weight between hosts that no path joins. No link's share includes it.
	Unreachable float64
}

// ExpectedLoads distributes weights over the links as the router's choices do on average. weight(i, j)
// goes from the hosts of group i to those of group j, equally over all pairs of two different hosts,
// and at every node equally over the links of equal cost. The result is the exact expectation of Path
// over random flow ids, not a sample.
//
// weight must be at least 0 and finite; a group's weight to itself must be 0 where the group has only
// one host. No host may be in two groups, and all must be hosts of the network.
//
// The cost is one traversal of the network for each set of switches that a group's hosts are attached
// to (one per rack of a data centre).
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
					own := i == j && m == k
					if each := perHost(x, len(groups[i]), len(groups[j]), len(d.hosts), i == j, own); each > 0 {
						w.send(&parts[i][m], d, each)
					}
				}
			}
			w.deliver(d, order)
		}
	}
	return e, nil
}

// perHost returns what one of from hosts sends to part of the to hosts of a group, of a weight
// between the groups. No host sends to itself: sameGroup says that the groups are one, own that the
// sender is in the part.
func perHost(weight float64, from, to, part int, sameGroup, own bool) float64 {
	if !sameGroup {
		return weight / float64(from) * float64(part) / float64(to)
	}
	if own {
		part--
	}
	return weight / float64(from) * float64(part) / float64(to-1)
}

// A groupPart is the hosts of a group that the router treats alike: they have the same attachment
// and no cable to another host. A host with such a cable is a part of its own.
type groupPart struct {
	attachment int32
	hosts      []int32 // indexes of nodes
}

// partition divides each group by attachment. A group without hosts, an id that is no host and a host in two groups are
// errors.
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
				return nil, fmt.Errorf("group %d: node %d is not a host of the network", g, id)
			}
			if taken[i] {
				return nil, fmt.Errorf("host %d is in two groups", id)
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
