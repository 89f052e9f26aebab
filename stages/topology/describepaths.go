package topology

import (
	"cmp"
	"maps"
	"slices"
)

// A NextHops is how many equal-cost links the switches of a kind choose from: the largest choice of
// each switch, over all destinations.
type NextHops struct {
	Kind string `json:"kind"`
	Min  int    `json:"min"`
	Max  int    `json:"max"`
}

// A PathCount counts the shortest paths between pairs of racks that are equally far apart. A rack is
// here a set of hosts with the same switches.
type PathCount struct {
	Hops      int     `json:"hops"` // links, the hosts' own included
	RackPairs int     `json:"rack_pairs"`
	Min       float64 `json:"paths_min"`
	Median    float64 `json:"paths_median"`
	Max       float64 `json:"paths_max"`
}

// maxPathRacks bounds the pairs that pathCounts looks at.
const maxPathRacks = 4096

// nextHops looks at the sets of links in the router's tables. A switch that only reaches hosts of its
// own makes no choice and is left out.
func (r *Router) nextHops() (list []NextHops) {
	widest := make([]int32, r.switches)
	for a := range r.attached {
		for s := range r.switches {
			if set := r.next[a*r.switches+s]; set >= 0 {
				widest[s] = max(widest[s], r.setAt[set+1]-r.setAt[set])
			}
		}
	}
	kinds := map[string]*NextHops{}
	for s, width := range widest {
		kind := r.Net.Nodes[r.nodeOf[s]].Kind
		k := kinds[kind]
		switch {
		case width == 0: // all hosts that it reaches are its own
		case k == nil:
			kinds[kind] = &NextHops{kind, int(width), int(width)}
		default:
			k.Min, k.Max = min(k.Min, int(width)), max(k.Max, int(width))
		}
	}
	for _, kind := range sortedKinds(maps.Keys(kinds)) {
		list = append(list, *kinds[kind])
	}
	return list
}

// A pathClass is the pairs of racks with equally long and equally many paths.
type pathClass struct {
	hops  int
	paths float64
}

// pathCounts counts the shortest paths between every ordered pair of racks, and the pairs that no
// path joins. It counts nothing where there are more than maxPathRacks racks.
func (r *Router) pathCounts() (list []PathCount, unreachable int) {
	if len(r.attached) > maxPathRacks {
		return nil, 0
	}
	pairs := map[pathClass]int{}
	used := make([]bool, len(r.attached))
	for _, h := range r.hosts {
		if h.attachment > 0 {
			used[h.attachment] = true
		}
	}
	paths := make([]float64, r.switches)
	var order []int32
	for a := range r.attached {
		if !used[a] {
			continue
		}
		order = r.farthestFirst(int32(a), order[:0])
		slices.Reverse(order)
		r.countPaths(a, order, paths)
		for b, from := range r.attached {
			if b == a || !used[b] {
				continue
			}
			best, total := unreachableDist, 0.0
			for _, s := range from {
				switch d := int(r.dist[a*r.switches+int(s)]); {
				case d < best:
					best, total = d, paths[s]
				case d == best && d != unreachableDist:
					total += paths[s]
				}
			}
			if best == unreachableDist {
				unreachable++
			} else {
				pairs[pathClass{best + 1, total}]++
			}
		}
	}
	return pathClasses(pairs), unreachable
}

// pathClasses turns the number of pairs of each class into one row for each number of hops.
func pathClasses(pairs map[pathClass]int) (list []PathCount) {
	byHops := map[int][]pathClass{}
	for c := range pairs {
		byHops[c.hops] = append(byHops[c.hops], c)
	}
	for _, hops := range slices.Sorted(maps.Keys(byHops)) {
		classes := byHops[hops]
		slices.SortFunc(classes, func(a, b pathClass) int { return cmp.Compare(a.paths, b.paths) })
		p := PathCount{Hops: hops, Min: classes[0].paths, Max: classes[len(classes)-1].paths}
		for _, c := range classes {
			p.RackPairs += pairs[c]
		}
		left := p.RackPairs / 2
		for _, c := range classes {
			p.Median = c.paths
			if left -= pairs[c]; left < 0 {
				break
			}
		}
		list = append(list, p)
	}
	return list
}

// countPaths sets the number of shortest paths from each switch of order, nearest first, to an
// attachment.
func (r *Router) countPaths(a int, order []int32, paths []float64) {
	for _, s := range order {
		set := r.next[a*r.switches+int(s)]
		if set == setArrive {
			paths[s] = 1
			continue
		}
		paths[s] = 0
		for _, l := range r.setLink[r.setAt[set]:r.setAt[set+1]] {
			paths[s] += paths[r.switchOf[l]]
		}
	}
}
