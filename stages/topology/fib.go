package topology

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/schema/names"
	"parsimon/schema/tree"
)

// A FIB has the forwarding tables of all switches, which do not change during a run. Switches are the nodes
// that are not hosts, in the order of Network.Nodes. Hosts are those of Network.Hosts. ReadFIB creates a FIB.
// It is stored as JSON.
type FIB struct {
	Sets  [][]int32 `json:"sets"`   // pairs of a link out of a switch and its weight
	Rows  [][]int32 `json:"rows"`   // by switch: index into Sets, or setNone or setArrive
	RowOf []int32   `json:"row_of"` // by host: index into Rows

	where func(host, sw int32) string // names the route in errors; nil: not read from files
}

func (f *FIB) name(host, sw int32) string {
	if f.where == nil {
		return "routes of files"
	}
	return f.where(host, sw)
}

// switches returns the ids of the switches, in the order that a FIB uses.
func (n *Network) switches() (ids []int32) {
	for _, v := range n.Nodes {
		if v.Kind != KindHost {
			ids = append(ids, v.ID)
		}
	}
	return ids
}

// check returns an error if the FIB cannot be that of the network's switches: it has links of other nodes, or
// routes that loop.
func (f *FIB) check(n *Network) error {
	switches := n.switches()
	ok := len(f.RowOf) == len(n.hosts)
	out := func(s int, m []int32) bool { // whether m is a link from switch s to another switch
		return len(m) == 2 && m[0] >= 0 && int(m[0]) < len(n.Links) && m[1] > 0 &&
			n.Links[m[0]].Src == switches[s] &&
			!n.FromHost(Reverse(m[0]))
	}
	for _, row := range f.Rows {
		ok = ok && len(row) == len(switches)
		for s, set := range row {
			ok = ok && set >= setArrive && int(set) < len(f.Sets)
			if ok && set >= 0 {
				for m := range slices.Chunk(f.Sets[set], 2) {
					ok = ok && out(s, m)
				}
			}
		}
	}
	if !ok ||
		slices.ContainsFunc(f.RowOf, func(row int32) bool { return row < 0 || int(row) >= len(f.Rows) }) {
		return errors.New("routes of files: they are not those of the network's switches")
	}
	checked := make([]bool, len(f.Rows))
	for host, row := range f.RowOf {
		known := make([]bool, len(switches)) // by switch: all routes from there end
		for s := 0; s < len(switches) && !checked[row]; s++ {
			if err := f.follow(n, switches, int32(host), int32(s), known, nil); err != nil {
				return err
			}
		}
		checked[row] = true
	}
	return nil
}

// follow follows all routes to a host from switch s. before has the switches on the way to s.
func (f *FIB) follow(n *Network, switches []int32, host, s int32, known []bool, before []int32) error {
	at := slices.Index(before, s)
	if at >= 0 {
		loop := names.Of(append(before[at:], s), func(at int32) string { return n.Name(switches[at]) })
		return fmt.Errorf("%s: packets to %s take a loop: %s", f.name(host, s), n.Name(n.hosts[host]),
			names.Listed(loop, mostListed))
	}
	set := f.Rows[f.RowOf[host]][s]
	if set >= 0 && !known[s] {
		for m := range slices.Chunk(f.Sets[set], 2) {
			next, _ := slices.BinarySearch(switches, n.Links[m[0]].Dst)
			if err := f.follow(n, switches, host, int32(next), known, append(before, s)); err != nil {
				return err
			}
		}
	}
	known[s] = true
	return nil
}

// SetRoutes makes the switches use the routes of a FIB instead of shortest paths. If f is nil, nothing
// changes. Hosts choose among their links as before. Links that are down are removed. SetRoutes must not run
// while others use the router.
func (r *Router) SetRoutes(f *FIB) error {
	if f == nil {
		return nil
	}
	if err := f.check(r.Net); err != nil {
		return err
	}
	of := len(r.toHost) // the links of hosts remain
	r.fib = f
	r.setLink = r.setLink[:of]
	r.setSalt = r.setSalt[:of]
	r.setAt = []int32{int32(of)}
	r.weights = slices.Repeat([]float64{1}, of)
	if r.run != nil {
		r.run = r.run[:of]
	}
	place := make([]int32, len(f.Sets))
	for i, set := range f.Sets {
		for m := range slices.Chunk(set, 2) {
			up := r.Net.membersUp(m[0])
			for _, l := range up {
				r.addLink(l)
				r.weights = append(r.weights, float64(m[1])/float64(len(up)))
			}
		}
		r.findRuns()
		place[i] = setNone
		if len(r.setLink) > int(r.setAt[len(r.setAt)-1]) {
			place[i] = r.pathSets()
			r.setAt = append(r.setAt, int32(len(r.setLink)))
		}
	}
	dist := r.dist
	attached := r.attached
	known := map[[2]int32]int32{}
	r.dist = nil
	r.next = nil
	r.attached = nil
	for i, id := range r.Net.hosts { // hosts with the same row and attachment share an attachment
		h := &r.hosts[r.Net.place(id)]
		key := [2]int32{f.RowOf[i], h.attachment}
		if _, shared := known[key]; !shared {
			known[key] = int32(len(known))
			r.dist = append(r.dist, dist[int(h.attachment)*r.switches:][:r.switches]...)
			r.attached = append(r.attached, attached[h.attachment])
			for s, set := range f.Rows[f.RowOf[i]] {
				if set >= 0 {
					set = place[set]
				} else if !slices.Contains(attached[h.attachment], int32(s)) {
					set = setNone
				}
				r.next = append(r.next, set)
			}
		}
		h.attachment = known[key]
	}
	return nil
}

type fibFiles struct {
	n        *Network
	dir      string
	switches []int32                      // ids
	tables   []map[netip.Prefix]*fibRoute // by switch; nil: no file
	nodeOf   map[netip.Addr]int32         // ids of hosts and switches
	address  []netip.Addr                 // by host
	ports    map[[2]string]int32          // links by switch and interface
	sets     interned                     // of FIB.Sets
}

// A fibEntry is a route in the output of `show ip route json` of FRR's zebra (zebra_vty.c).
type fibEntry struct {
	Selected bool
	Nexthops []fibNexthop
}

type fibNexthop struct {
	FIB, Active, Recursive, Duplicate, LinkDown bool
	Direct                                      bool `json:"directlyConnected"`
	Unreachable, Blackhole, Reject              bool // packets are discarded
	IP, InterfaceName                           string
	Weight                                      *int32
}

// A fibRoute says where a switch sends packets to a prefix.
type fibRoute struct {
	nexthops []fibNexthop
	resolved bool
	set      int32   // index into FIB.Sets, or setNone
	direct   bool    // to hosts attached to the switch
	hosts    []int32 // the next hops that are hosts
}

// ReadFIB reads the routes of a network's switches from a directory. Each switch has a file SWITCH.json, as
// FRR and SONiC write it (vtysh -c 'show ip route json'). File hosts.csv has columns address and node. The
// first address of each host is used. Of a switch's selected routes, the one with the longest prefix that
// contains the address applies, with its next hops in the forwarding table. A next hop is the cable at its
// interface or, if the topology does not name such a port, the cable to the node with its address. If it is
// one of several parallel cables, it stands for their LAG, and next hops of one LAG add up their weights. A
// switch without a file has routes to its own hosts.
func ReadFIB(n *Network, dir string) (*FIB, error) {
	x := &fibFiles{n: n, dir: dir, switches: n.switches(), nodeOf: map[netip.Addr]int32{},
		address: make([]netip.Addr, len(n.hosts)), ports: map[[2]string]int32{},
		sets: interned{ids: map[string]int32{}}}
	for _, l := range n.Links {
		port, _ := n.portsOf(l.ID)
		if port != "" {
			x.ports[[2]string{n.Name(l.Src), port}] = n.firstMember(l.ID)
		}
	}
	if err := x.readAddresses(filepath.Join(dir, "hosts.csv")); err != nil {
		return nil, err
	}
	x.tables = make([]map[netip.Prefix]*fibRoute, len(x.switches))
	files, err := fs.Glob(os.DirFS(dir), "*.json")
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: holds no routes, SWITCH.json: %w", dir, cmp.Or(err, io.EOF))
	}
	for _, file := range files {
		id, unknown := n.find(strings.TrimSuffix(file, ".json"))
		file = filepath.Join(dir, file)
		place, isSwitch := slices.BinarySearch(x.switches, id)
		if unknown != nil || !isSwitch {
			return nil, fmt.Errorf(
				"%s: routes of no switch: %w",
				file,
				cmp.Or(unknown, errors.New("it is a host")),
			)
		}
		if x.tables[place], err = readRoutes(file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	f := &FIB{where: x.where}
	near := n.nearHosts()
	rows := interned{ids: map[string]int32{}}
	for i, id := range n.hosts {
		row := make([]int32, len(x.tables))
		for s, at := range x.switches {
			if row[s], err = x.next(f, slices.Contains(near[id], at), int32(i), int32(s)); err != nil {
				return nil, fmt.Errorf("%s: %w", x.where(int32(i), int32(s)), err)
			}
		}
		number, added := rows.of(row)
		if added {
			f.Rows = append(f.Rows, row)
		}
		f.RowOf = append(f.RowOf, number)
	}
	return f, f.check(n)
}

func (x *fibFiles) readAddresses(file string) error {
	data, err := ReadFile(file)
	if err != nil {
		return err
	}
	err = tree.CSV(
		bytes.NewReader(data),
		[]string{"address", "node", "*"},
		func(_ int, cells []string) error {
			text, _, _ := strings.Cut(cells[0], "/")
			addr, bad := netip.ParseAddr(text)
			id, unknown := x.n.find(cells[1])
			if other, taken := x.nodeOf[addr]; taken && other != id {
				bad = fmt.Errorf("%s is the address of %s too", addr, x.n.Name(other))
			}
			x.nodeOf[addr] = id
			host, isHost := slices.BinarySearch(x.n.hosts, id)
			if isHost && !x.address[host].IsValid() {
				x.address[host] = addr
			}
			return cmp.Or(bad, unknown)
		},
	)
	if err != nil {
		return fmt.Errorf("%s, %w", file, err)
	}
	return nil
}

// readRoutes reads the selected routes of a switch from an object that has a list of routes for each prefix.
func readRoutes(file string) (map[netip.Prefix]*fibRoute, error) {
	data, err := ReadFile(file)
	if err != nil {
		return nil, err
	}
	top, err := tree.JSONOf(
		file,
		data,
		func(string) bool { return false },
	) // json.Unmarshal does not detect repeated keys
	if err != nil {
		return nil, err
	}
	var entries map[string][]fibEntry
	if err := tree.Unmarshal(data, &entries); err != nil {
		return nil, err
	}
	routes := map[netip.Prefix]*fibRoute{}
	for _, text := range top.Value.Keys {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("route %q: want a prefix such as 10.0.0.0/24", text)
		}
		for _, e := range entries[text] {
			if !e.Selected {
				continue
			}
			if routes[p.Masked()] != nil {
				return nil, fmt.Errorf(
					"%s: a second selected route to %s: which one counts?",
					text,
					p.Masked(),
				)
			}
			inFIB := slices.ContainsFunc(e.Nexthops, func(h fibNexthop) bool { return h.FIB })
			e.Nexthops = slices.DeleteFunc(e.Nexthops, func(h fibNexthop) bool {
				return inFIB && !h.FIB || !inFIB && !h.Active || h.Recursive || h.Duplicate || h.LinkDown
			})
			routes[p.Masked()] = &fibRoute{nexthops: e.Nexthops, set: setNone}
		}
	}
	return routes, nil
}

// match returns the route of a switch with the longest prefix that contains the address of a host. The route
// is nil if there is none.
func (x *fibFiles) match(host, sw int32) (netip.Prefix, *fibRoute) {
	for bits := x.address[host].BitLen(); bits >= 0 && x.tables[sw] != nil; bits-- {
		p, err := x.address[host].Prefix(bits)
		route := x.tables[sw][p]
		if err == nil && route != nil {
			return p, route
		}
	}
	return netip.Prefix{}, nil
}

// next returns where a switch sends packets to a host: a set of links, setNone or setArrive.
func (x *fibFiles) next(f *FIB, attached bool, host, sw int32) (int32, error) {
	_, route := x.match(host, sw)
	if route == nil {
		if attached && x.tables[sw] == nil {
			return setArrive, nil
		}
		return setNone, nil
	}
	if !route.resolved {
		weights := map[int32]int32{}
		for i := range route.nexthops {
			if err := x.resolve(route, x.switches[sw], &route.nexthops[i], weights); err != nil {
				return 0, err
			}
		}
		route.resolved = true
		if len(weights) > 0 {
			var set []int32
			for _, link := range slices.Sorted(maps.Keys(weights)) {
				set = append(set, link, weights[link])
			}
			var added bool
			route.set, added = x.sets.of(set)
			if added {
				f.Sets = append(f.Sets, set)
			}
		}
	}
	if attached && (route.direct || slices.Contains(route.hosts, x.n.hosts[host])) {
		return setArrive, nil
	}
	return route.set, nil
}

// resolve adds the destination of a next hop of a switch: a link and its weight, or a host.
func (x *fibFiles) resolve(r *fibRoute, id int32, h *fibNexthop, weights map[int32]int32) error {
	if h.Unreachable || h.Blackhole || h.Reject {
		return nil
	}
	addr, _ := netip.ParseAddr(h.IP)
	to, known := x.nodeOf[addr]
	link, found := x.ports[[2]string{x.n.Name(id), h.InterfaceName}]
	links := x.n.LinksBetween(id, to)
	if !found && known && len(links) > 0 {
		found = true
		link = links[0]
		if x.n.Links[link].Src != id {
			link = links[1]
		}
	}
	weight := int32(1)
	if h.Weight != nil {
		weight = *h.Weight
	}
	r.direct = r.direct || h.Direct
	switch {
	case weight < 1 || weight > 1<<20:
		return fmt.Errorf(
			"next hop %q at %q has a weight of %d, must be 1 to 2^20",
			h.IP,
			h.InterfaceName,
			weight,
		)
	case !found && !h.Direct:
		return fmt.Errorf(
			"next hop %q at %q: %s has no cable at such an interface, nor to a node with this address (hosts.csv)",
			h.IP,
			h.InterfaceName,
			x.n.Name(id),
		)
	case !found:
	case x.n.FromHost(Reverse(link)):
		r.hosts = append(r.hosts, x.n.Links[link].Dst)
	default:
		weights[link] += weight
	}
	return nil
}

func (x *fibFiles) where(host, sw int32) string {
	file := filepath.Join(x.dir, x.n.Name(x.switches[sw])+".json")
	p, route := x.match(host, sw)
	if route != nil {
		return fmt.Sprintf("%s, route %s", file, p)
	}
	return fmt.Sprintf("%s, no route to %s (address %v)", file, x.n.Name(x.n.hosts[host]), x.address[host])
}
