package topology

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/names"
	"parsimon/stages/rng"
)

// Select returns the cables that a selector names: a tier ("fabric-spine" and "spine-fabric" are the same cables), one
// cable "A:B" by the names or ids of its ends, all cables of a node "A", or patterns with * and ?: "wan*:leaf?" are the
// cables between nodes with such names, "leaf*:Ethernet4*" those with such a port, "wan*" all with an end there.
// Several are separated by commas. A cable is its lower and its higher node id. Each cable occurs once, in order of
// the selector and then of the cables.
func (n *Network) Select(selector string) ([][2]int32, error) {
	var found [][2]int32
	seen := map[[2]int32]bool{}
	for one := range strings.SplitSeq(selector, ",") {
		cables, err := n.selectOne(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		for _, c := range cables {
			if !seen[c] {
				seen[c] = true
				found = append(found, c)
			}
		}
	}
	return found, nil
}

// selectOne resolves one part of a selector: the first of tier, cable, node, patterns that it can be.
func (n *Network) selectOne(selector string) ([][2]int32, error) {
	tiers := map[string]bool{}
	found := n.cablesWhere(func(l *Link) bool {
		tiers[l.Tier] = true
		return l.Tier == selector
	})
	if found != nil {
		return found, nil
	}
	a, b, err := n.Cable(selector)
	if err == nil {
		return [][2]int32{{a, b}}, nil
	}
	id, unknown := n.find(selector)
	near, far, pair := strings.Cut(selector, ":")
	matches := func(name string) bool { return MatchPattern(far, name) }
	found = n.cablesWhere(func(l *Link) bool {
		if unknown == nil {
			return l.Src == id
		}
		ports, _ := n.portsOf(l.ID)
		return MatchPattern(near, n.Name(l.Src)) && (!pair || matches(n.Name(l.Dst)) || slices.ContainsFunc(ports, matches))
	})
	switch {
	case found != nil:
		return found, nil
	case strings.Contains(selector, ":") && !strings.ContainsAny(selector, "*?"):
		return nil, err
	}
	return nil, fmt.Errorf("no cables are of tier %q, and no node matches it; the tiers are %s", selector,
		strings.Join(slices.Sorted(maps.Keys(tiers)), ", "))
}

func (n *Network) cablesWhere(accept func(l *Link) bool) (found [][2]int32) {
	for i := 0; i < len(n.Links); i += 2 {
		forth, back := accept(&n.Links[i]), accept(&n.Links[i+1])
		if forth || back {
			found = append(found, cableKey(n.Links[i].Src, n.Links[i].Dst))
		}
	}
	return found
}

// SelectUp is Select without the cables that are down. None is an error.
func (n *Network) SelectUp(selector string) ([][2]int32, error) {
	cables, err := n.Select(selector)
	cables = slices.DeleteFunc(cables, func(c [2]int32) bool { return n.Links[2*n.cableOf[c]].Failed })
	if err == nil && len(cables) == 0 {
		err = fmt.Errorf("all cables of %q are down", selector)
	}
	return cables, err
}

// DrawCables draws k different cables of a tier that are up. The draw depends on seed and draw only, and the k cables
// are among the k + 1 of a larger draw: they are the first k by a hash of seed, draw and ends.
func (n *Network) DrawCables(tier string, k int, seed, draw uint64) ([][2]int32, error) {
	cables, err := n.SelectUp(tier)
	if err != nil {
		return nil, err
	}
	if k < 1 || k > len(cables) {
		return nil, fmt.Errorf("%d cables of %q cannot be drawn: %d are up", k, tier, len(cables))
	}
	hash := func(c [2]int32) uint64 {
		s := rng.New(seed, rng.Failure, draw, uint64(c[0]), uint64(c[1]))
		return s.Uint64()
	}
	slices.SortFunc(cables, func(a, b [2]int32) int { return cmp.Compare(hash(a), hash(b)) })
	return cables[:k], nil
}

// splits are the two sides of each colon of a text: names may contain colons.
func splits(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i, r := range text {
			if r == ':' && !yield(text[:i], text[i+1:]) {
				return
			}
		}
	}
}

// Pair finds two nodes written "A:B", by name or id.
func (n *Network) Pair(ends string) (a, b int32, err error) {
	for near, far := range splits(ends) {
		x, errX := n.find(near)
		y, errY := n.find(far)
		if errX == nil && errY == nil {
			return x, y, nil
		}
		err = cmp.Or(err, errX, errY)
	}
	return 0, 0, cmp.Or(err, errors.New("want two nodes as A:B"))
}

// Cable finds a cable by its two ends, written "A:B" by name or id. It returns the lower id first.
func (n *Network) Cable(ends string) (a, b int32, err error) {
	x, y, err := n.Pair(ends)
	if err != nil {
		return 0, 0, fmt.Errorf("cable %q: %w", ends, err)
	}
	if _, ok := n.cableOf[cableKey(x, y)]; !ok {
		var near []string
		for _, l := range n.Links {
			if l.Src == x {
				near = append(near, n.Name(l.Dst))
			}
		}
		return 0, 0, fmt.Errorf("cable %q: no cable joins %s and %s; the cables of %s go to %s", ends, n.Name(x), n.Name(y),
			n.Name(x), Listed(near, mostListed))
	}
	return min(x, y), max(x, y), nil
}

// find returns the id of the node with that name or, where no node has the name, with that id.
func (n *Network) find(name string) (int32, error) {
	name = strings.TrimSpace(name)
	if id, ok := n.byName[name]; ok {
		if id < 0 {
			return 0, fmt.Errorf("several nodes are named %q; use an id", name)
		}
		return id, nil
	}
	if id, err := strconv.ParseInt(name, 10, 32); err == nil && n.index.of(int32(id)) >= 0 {
		return int32(id), nil
	}
	all := names.Of(n.Nodes, func(v Node) string { return v.Name })
	return 0, fmt.Errorf("no node has the name or id %q%s", name, names.DidYouMean(name, all))
}

// Name returns the name of a node or, where no node has the id, the id.
func (n *Network) Name(id int32) string {
	if v, known := n.Node(id); known {
		return v.Name
	}
	return strconv.Itoa(int(id))
}

// LinkName names a link by the names of its ends, "A → B".
func (n *Network) LinkName(id int32) string {
	return n.Name(n.Links[id].Src) + " → " + n.Name(n.Links[id].Dst)
}

// Ends names a cable by the names of its ends, "A:B".
func (n *Network) Ends(a, b int32) string { return n.Name(a) + ":" + n.Name(b) }

// HostList finds hosts by name, by id, or by a range of ids such as "0-63". Each host occurs once, in order of id.
func (n *Network) HostList(texts []string) ([]int32, error) {
	var hosts []int32
	for _, text := range texts {
		id, err := n.find(text)
		lo, hi := id, id
		if from, to, ok := Span(text); err != nil && ok && to-from < 1<<24 {
			lo, hi, err = int32(from), int32(to), nil
		}
		if err != nil {
			return nil, err
		}
		for id := int64(lo); id <= int64(hi); id++ {
			if _, isHost := slices.BinarySearch(n.hosts, int32(id)); !isHost {
				return nil, fmt.Errorf("%q: node %d is no host", text, id)
			}
			hosts = append(hosts, int32(id))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}
