package topology

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/names"
	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/rng"
)

// Select returns the cables that a selector names, as the lower and the higher node id of each. A selector is
// one of the following, or several separated by commas: a tier ("fabric-spine" and "spine-fabric" are the
// same cables), a cable "A:B" by the names or ids of its ends, a node "A" for all of its cables, or patterns
// with * and ?. "wan*:leaf?" selects the cables between nodes with such names, "leaf*:Ethernet4*" those with
// such a port, and "wan*" all cables with such an end. Each cable occurs once, in the order of the selector
// and then of the cables. The two nodes of a LAG stand for all of its members.
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

// selectOne resolves one part of a selector. It tries tier, cable, node and patterns, in this order.
func (n *Network) selectOne(selector string) ([][2]int32, error) {
	found := n.cablesWhere(func(l *Link) bool { return l.Tier == selector })
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
		port, _ := n.portsOf(l.ID)
		return MatchPattern(near, n.Name(l.Src)) && (!pair || matches(n.Name(l.Dst)) || port != "" && matches(port))
	})
	switch {
	case found != nil:
		return found, n.wholeLAGs(selector, found)
	case strings.Contains(selector, ":") && !strings.ContainsAny(selector, "*?"):
		return nil, err
	}
	tiers := slices.Compact(names.Of(speedCounts(n), func(c SpeedCount) string { return c.Tier }))
	leaf := ""
	if strings.Contains(selector, "leaf") && strings.Contains(strings.Join(tiers, " "), KindTor) {
		leaf = " (leaf switches are called " + KindTor + ")"
	}
	return nil, fmt.Errorf("no cables are of tier %q, and no node matches it; the tiers are %s%s", selector,
		strings.Join(tiers, ", "), leaf)
}

func (n *Network) cablesWhere(accept func(l *Link) bool) (found [][2]int32) {
	for i := 0; i < len(n.Links); i += 2 {
		forth := accept(&n.Links[i])
		back := accept(&n.Links[i+1])
		if forth || back {
			found = append(found, cableKey(n.Links[i].Src, n.Links[i].Dst))
		}
	}
	return found
}

// wholeLAGs returns an error if a selector found some members of a LAG only. found has the ends of a LAG once
// for each member that was found.
func (n *Network) wholeLAGs(selector string, found [][2]int32) error {
	times := map[[2]int32]int{}
	for _, c := range found {
		times[c]++
	}
	for _, c := range found {
		members := len(n.Members(c[0], c[1]))
		if times[c] != members {
			return fmt.Errorf("%q selects %d of %d members of the LAG %s: name the LAG, for all of its members "+
				"(--fail DEVICE:PORT takes down one)", selector, times[c], members, n.Ends(c[0], c[1]))
		}
	}
	return nil
}

// SelectUp is like Select, but omits cables that are down, and LAGs without a member that is up. It returns
// an error if none remain.
func (n *Network) SelectUp(selector string) ([][2]int32, error) {
	cables, err := n.Select(selector)
	cables = slices.DeleteFunc(cables, func(c [2]int32) bool { return n.MembersUp(2*n.cableOf[c]) == 0 })
	if err == nil && len(cables) == 0 {
		err = fmt.Errorf("all cables of %q are down", selector)
	}
	return cables, err
}

// DrawCables draws k different cables of a tier that are up. A LAG counts as one cable. The result depends
// only on seed and draw. Draws,
// which count from 1, have no cable in common until fewer than k cables are left; then all are drawn again,
// in another order. The first draw of k + 1 cables includes the first draw of k.
func (n *Network) DrawCables(tier string, k int, seed, draw uint64) ([][2]int32, error) {
	cables, err := n.SelectUp(tier)
	if err != nil {
		return nil, err
	}
	if k < 1 || k > len(cables) {
		return nil, fmt.Errorf("%d cables of %q cannot be drawn: %d are up", k, tier, len(cables))
	}
	draws := uint64(len(cables) / k) // before all are drawn again
	turn := draw - 1
	hash := func(c [2]int32) uint64 {
		s := rng.New(seed, rng.Failure, turn/draws, uint64(c[0]), uint64(c[1]))
		return s.Uint64()
	}
	slices.SortFunc(cables, func(a, b [2]int32) int { return cmp.Compare(hash(a), hash(b)) })
	first := int(turn%draws) * k
	return cables[first : first+k], nil
}

// splits yields the two sides of each colon of a text, because names may contain colons.
func splits(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i, r := range text {
			if r == ':' && !yield(text[:i], text[i+1:]) {
				return
			}
		}
	}
}

// Pair finds two nodes written as "A:B", by name or id.
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

// Cable finds a cable by its two ends, written as "A:B", by name or id. It returns the lower id first.
func (n *Network) Cable(ends string) (a, b int32, err error) {
	x, y, err := n.Pair(ends)
	if err != nil {
		return 0, 0, fmt.Errorf("cable %q: %w", ends, err)
	}
	if _, ok := n.cableOf[cableKey(x, y)]; !ok {
		var near []string
		for _, l := range n.Links {
			if l.Src == x && !slices.Contains(near, n.Name(l.Dst)) {
				near = append(near, n.Name(l.Dst))
			}
		}
		return 0, 0, fmt.Errorf(
			"cable %q: no cable joins %s and %s; the cables of %s go to %s",
			ends,
			n.Name(x),
			n.Name(y),
			n.Name(x),
			names.Listed(near, mostListed),
		)
	}
	return min(x, y), max(x, y), nil
}

// find returns the id of the node with the given name or, if no node has this name, with the given id. A
// number that is the name of one node and the id of another is an error, because it is ambiguous.
func (n *Network) find(name string) (int32, error) {
	name = strings.TrimSpace(name)
	named, isName := n.byName[name]
	if isName && named < 0 {
		return 0, fmt.Errorf("several nodes are named %q; use an id", name)
	}
	id, isNumber := n.idOf(name)
	switch {
	case isName && isNumber && id != named:
		return 0, fmt.Errorf("%q is the name of node %d and the id of node %q: rename the nodes", name, named,
			n.Name(id))
	case isName:
		return named, nil
	case isNumber:
		return id, nil
	}
	all := names.Of(n.Nodes, func(v Node) string { return v.Name })
	return 0, fmt.Errorf("no node has the name or id %q%s", name, names.DidYouMean(name, all))
}

// idOf parses the id of a node.
func (n *Network) idOf(text string) (id int32, ok bool) {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, false
	}
	return int32(number), n.place(int32(number)) >= 0
}

// Name returns the name of a node or, if no node has the id, the id.
func (n *Network) Name(id int32) string {
	v, known := n.Node(id)
	if known {
		return v.Name
	}
	return strconv.Itoa(int(id))
}

// LinkName returns the names of a link's ends, "A → B", and for a member of a LAG its port or its number:
// "A → B (Ethernet49)", "A → B (member 2)". View link_names has the same names.
func (n *Network) LinkName(id int32) string {
	return n.Name(n.Links[id].Src) + " → " + n.Name(n.Links[id].Dst) + n.memberName(id)
}

// CableName returns the names of a cable's ends, "A:B", and for a member of a LAG what LinkName adds.
func (n *Network) CableName(cable int32) string {
	l := &n.Links[2*cable]
	return n.Ends(l.Src, l.Dst) + n.memberName(l.ID)
}

func (n *Network) memberName(link int32) string {
	number := n.memberNumber(link)
	port, _ := n.portsOf(link)
	switch {
	case number == 0:
		return ""
	case port == "" || n.sharesPort(link, port):
		return fmt.Sprintf(" (member %d)", number)
	}
	return " (" + port + ")"
}

// sharesPort reports whether another member of a link's LAG has the same port at the source of the link.
func (n *Network) sharesPort(link int32, port string) bool {
	for _, other := range n.LinksBetween(n.Links[link].Src, n.Links[link].Dst) {
		of, _ := n.portsOf(other)
		if of == port && other != link && n.Links[other].Src == n.Links[link].Src {
			return true
		}
	}
	return false
}

// Ends returns the names of a cable's ends, "A:B".
func (n *Network) Ends(a, b int32) string { return n.Name(a) + ":" + n.Name(b) }

// HostList finds hosts by name, by id, or by a range of ids such as "0-63". Each host occurs once, in order
// of id.
func (n *Network) HostList(texts []string) ([]int32, error) {
	var hosts []int32
	for _, text := range texts {
		id, err := n.find(text)
		lo := id
		hi := id
		if from, to, ok := Span(text); err != nil && ok && to-from < 1<<24 && strings.Contains(text, "-") {
			lo = int32(from)
			hi = int32(to)
			err = nil
		}
		if err != nil {
			return nil, err
		}
		for id := int64(lo); id <= int64(hi); id++ {
			_, isHost := slices.BinarySearch(n.hosts, int32(id))
			if !isHost {
				return nil, fmt.Errorf("%q: node %d is not a host", text, id)
			}
			hosts = append(hosts, int32(id))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}

// Ports has the names of the ports at the two ends of a cable, or "" for a port that is unknown. A is at the
// source of its first link.
type Ports struct{ A, B string }

// Reversed returns the ports in the other direction.
func (p Ports) Reversed() Ports { return Ports{A: p.B, B: p.A} }

// SetPorts sets the port names of a cable, that is of links 2 × cable and 2 × cable + 1. Names with commas
// are dropped: in table links, earlier versions joined the ports of a LAG with commas.
func (n *Network) SetPorts(cable int, p Ports) {
	if strings.Contains(p.A+p.B, ",") {
		return
	}
	for len(n.ports) < len(n.Links)/2 {
		n.ports = append(n.ports, Ports{})
	}
	n.ports[cable] = p
}

// portsOf returns the ports at the source and at the destination of a link.
func (n *Network) portsOf(link int32) (src, dst string) {
	if int(link/2) >= len(n.ports) {
		return "", ""
	}
	p := n.ports[link/2]
	if link%2 == 0 {
		return p.A, p.B
	}
	return p.B, p.A
}

// A Failure is the failed part of a cable, with the ids of its ends, the lower first.
type Failure struct {
	Ends   [2]int32
	Member int // number of the member of a LAG that failed, from 1; 0: all cables between the ends are down
}

// FailNamed takes down what a text names: a cable "A:B", the cables of a pattern with * or ?, all cables of a
// node "A", or the cable at a port "DEVICE:PORT". The latter is the only one that takes down a single member
// of a LAG. Nodes are given by name or id.
func (n *Network) FailNamed(text string) (all []Failure, err error) {
	a, b, err := n.Cable(text)
	cables := [][2]int32{{a, b}}
	_, unknown := n.find(text)
	if err != nil && (unknown == nil || strings.ContainsAny(text, "*?")) {
		cables, err = n.Select(text)
	}
	if err == nil {
		for _, c := range cables {
			all = append(all, Failure{Ends: c})
			err = errors.Join(err, n.Fail(c[0], c[1]))
		}
		return all, err
	}
	for device, port := range splits(text) {
		id, unknown := n.find(device)
		if unknown != nil {
			continue
		}
		f, failed := n.failPort(id, strings.TrimSpace(port))
		if failed == nil {
			return []Failure{f}, nil
		}
		_, _, isPair := n.Pair(text)
		if isPair != nil {
			err = failed
		}
	}
	if !strings.Contains(text, ":") {
		err = fmt.Errorf(
			"%w; cables are named A:B by their ends, or DEVICE:PORT: their labels are not kept",
			unknown,
		)
	}
	return nil, err
}

func (n *Network) failPort(id int32, port string) (f Failure, err error) {
	var known, near []string
	for i := range n.Links {
		l := &n.Links[i]
		if l.Src != id {
			continue
		}
		src, _ := n.portsOf(l.ID)
		near = append(near, n.Name(l.Dst))
		if src == "" {
			continue
		}
		known = append(known, src)
		if strings.EqualFold(src, port) {
			n.Links[l.ID].Failed = true
			n.Links[Reverse(l.ID)].Failed = true
			return Failure{cableKey(l.Src, l.Dst), n.memberNumber(l.ID)}, nil
		}
	}
	if len(known) == 0 {
		return f, fmt.Errorf(
			"no cable joins %s and %q%s, and the topology names no ports of %s",
			n.Name(id),
			port,
			names.DidYouMean(port, near),
			n.Name(id),
		)
	}
	slices.SortFunc(known, CompareNatural)
	return f, fmt.Errorf(
		"%s has neither a port nor a neighbor %q%s; its ports with cables are %s",
		n.Name(id),
		port,
		names.DidYouMean(port, append(near, known...)),
		names.Listed(known, mostListed),
	)
}

const mostListed = 20

// A DelayRule sets the propagation delay of the cables of a selector (see Select).
type DelayRule struct {
	Selector string
	DelayNS  int64
}

// ParseDelayRule parses SELECTOR=DELAY, such as tor-spine=500ns or wan*:*=2ms.
func ParseDelayRule(text string) (r DelayRule, err error) {
	at := strings.LastIndex(text, "=")
	if at < 1 {
		return r, fmt.Errorf("%q: want CABLES=DELAY, such as tor-spine=500ns or 'wan*:*=2ms'", text)
	}
	r.Selector = strings.TrimSpace(text[:at])
	if r.DelayNS, err = ParseDelay(text[at+1:]); err != nil {
		err = fmt.Errorf("%q: the delay %w", text, err)
	}
	return r, err
}

// SetDelays applies rules in order and describes each. A rule that matches no cable is an error.
func (n *Network) SetDelays(rules []DelayRule) (notes []string, err error) {
	for _, r := range rules {
		cables, err := n.Select(r.Selector)
		if err != nil {
			return nil, fmt.Errorf("delay %s: %w", r.Selector, err)
		}
		var ends []string
		for _, c := range cables {
			if err := n.SetDelay(c[0], c[1], r.DelayNS); err != nil {
				return nil, err
			}
			ends = append(ends, n.Ends(c[0], c[1]))
		}
		notes = append(
			notes,
			fmt.Sprintf("delays: %s of %s have %d ns (%s)", Count(len(cables), "cable"), r.Selector,
				r.DelayNS, names.Listed(ends, 3)),
		)
	}
	return notes, nil
}

// each changes the links of all cables between two nodes.
func (n *Network) each(a, b int32, change func(l *Link)) error {
	links := n.LinksBetween(a, b)
	if len(links) == 0 {
		return fmt.Errorf("no cable joins %s and %s", n.Name(a), n.Name(b))
	}
	for _, l := range links {
		change(&n.Links[l])
	}
	return nil
}

// Fail takes the cable between two nodes down, in both directions, or all members of their LAG. They may
// already be down.
func (n *Network) Fail(a, b int32) error { return n.each(a, b, func(l *Link) { l.Failed = true }) }

// SetBandwidth changes the bandwidth of the cable between two nodes, in both directions, or that of each
// member of their LAG.
func (n *Network) SetBandwidth(a, b int32, bps int64) error {
	if bps < simkernel.MinBps || bps > linkcase.MaxBps {
		return fmt.Errorf("bandwidth is %d bps, must be 10,000 to 10^14", bps)
	}
	return n.each(a, b, func(l *Link) { l.BandwidthBps = bps })
}

// SetDelay changes the propagation delay of the cable between two nodes, in both directions, or that of all
// members of their LAG.
func (n *Network) SetDelay(a, b int32, ns int64) error {
	if ns < 0 || ns > maxDelayNS {
		return fmt.Errorf("delay is %d ns, must be 0 to 10^12", ns)
	}
	return n.each(a, b, func(l *Link) { l.DelayNS = ns })
}

// AddCable joins two nodes. If a cable joins them already, both are members of a LAG. The links of the new
// cable get the next ids, so all other links keep theirs.
func (n *Network) AddCable(c Cable) error {
	kind, what := checkCable(c, n.place(c.A) >= 0, n.place(c.B) >= 0)
	if kind != "" {
		return fmt.Errorf("cable %s: %s", n.Ends(c.A, c.B), what)
	}
	n.addCable(c)
	n.racks = n.findRacks()
	return nil
}
