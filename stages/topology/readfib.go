package topology

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// addressFile is the file of a directory of routes that says which node has an address.
const addressFile = "hosts.csv"

// fibFiles are the files of a directory of routes.
type fibFiles struct {
	n        *Network
	dir      string
	switches []int32              // ids
	tables   []*fibTable          // by switch; nil: there is no file
	nodeOf   map[netip.Addr]int32 // ids, of hosts and switches
	address  []netip.Addr         // by host
	ports    map[fibPort]int32    // links
}

type fibPort struct {
	node int32
	name string
}

// A fibTable is the routes of a switch.
type fibTable struct {
	routes map[netip.Prefix]*fibRoute
	bits   []int // lengths of prefixes, longest first
}

// A fibEntry is a route as `show ip route json` of FRR's zebra has it (zebra_vty.c).
type fibEntry struct {
	Protocol string
	Selected bool
	Nexthops []fibNexthop
}

type fibNexthop struct {
	FIB, Active, Recursive, Duplicate, LinkDown bool
	Direct                                      bool `json:"directlyConnected"`
	Unreachable, Blackhole, Reject              bool // it discards
	IP, InterfaceName                           string
	Weight                                      *int64
}

// A fibRoute is where a switch sends packets to a prefix.
type fibRoute struct {
	nexthops []fibNexthop
	resolved bool
	set      int32   // place in FIB.Sets, or setNone
	direct   bool    // to hosts that are attached to the switch
	hosts    []int32 // to these, which are attached
}

// ReadFIB reads the routes of a network's switches from a directory: of each switch SWITCH.json, as FRR and SONiC write
// it (vtysh -c 'show ip route json'), and hosts.csv with columns address and node. Of a switch's selected routes the
// longest prefix counts that has the host's first address, and of its next hops those in the forwarding table. A next
// hop is the cable at its interface or, where the topology names no such port, to the node with its address.
func ReadFIB(n *Network, dir string) (*FIB, error) {
	x := &fibFiles{n: n, dir: dir, switches: n.switches(), nodeOf: map[netip.Addr]int32{},
		address: make([]netip.Addr, len(n.hosts)), ports: map[fibPort]int32{}}
	for _, l := range n.Links {
		names, _ := n.portsOf(l.ID)
		for _, name := range names {
			x.ports[fibPort{l.Src, name}] = l.ID
		}
	}
	if err := x.readAddresses(); err != nil {
		return nil, err
	}
	if err := x.readTables(); err != nil {
		return nil, err
	}
	f := &FIB{files: x}
	near, sets, rows := n.nearHosts(), map[string]int32{}, interned{ids: map[string]int32{}}
	for i := range n.hosts {
		row := make([]int32, len(x.tables))
		for s := range row {
			var err error
			if row[s], err = x.next(f, sets, near[n.hosts[i]], int32(i), int32(s)); err != nil {
				return nil, err
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

// readAddresses reads hosts.csv.
func (x *fibFiles) readAddresses() error {
	path := filepath.Join(x.dir, addressFile)
	data, err := ReadFile(path)
	if err != nil {
		return err
	}
	in := csv.NewReader(strings.NewReader(string(data)))
	in.Comment, in.TrimLeadingSpace = '#', true
	head, err := in.Read()
	at := slices.Index(head, "address")
	of := slices.IndexFunc(head, func(name string) bool { return name == "node" || name == "node_id" })
	if err != nil || at < 0 || of < 0 {
		return fmt.Errorf("%s: want the columns address and node: %w", path, cmp.Or(err, io.EOF))
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		line, _ := in.FieldPos(0)
		text, _, _ := strings.Cut(row[at], "/")
		addr, err := netip.ParseAddr(text)
		var id int32
		if err == nil {
			id, err = x.n.find(row[of])
		}
		if other, taken := x.nodeOf[addr]; err == nil && taken && other != id {
			err = fmt.Errorf("%s is the address of %s too", addr, x.n.Name(other))
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", path, line, err)
		}
		x.nodeOf[addr] = id
		if host, isHost := slices.BinarySearch(x.n.hosts, id); isHost && !x.address[host].IsValid() {
			x.address[host] = addr
		}
	}
}

// readTables reads the files of all switches.
func (x *fibFiles) readTables() error {
	number := map[int32]int{}
	for i, id := range x.switches {
		number[id] = i
	}
	x.tables = make([]*fibTable, len(number))
	files, err := filepath.Glob(filepath.Join(x.dir, "*.json"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: holds no routes, SWITCH.json: %w", x.dir, os.ErrNotExist)
	}
	for _, file := range files {
		if err != nil {
			return err
		}
		id, unknown := x.n.find(strings.TrimSuffix(filepath.Base(file), ".json"))
		place, isSwitch := number[id]
		if unknown != nil || !isSwitch {
			return fmt.Errorf("%s: routes of no switch of the topology: %w", file, cmp.Or(unknown, errors.New("it is a host")))
		}
		x.tables[place], err = x.readTable(file, id)
	}
	return err
}

// readTable reads the selected routes of a switch. Those of protocol local say which addresses it has.
func (x *fibFiles) readTable(file string, id int32) (*fibTable, error) {
	data, err := ReadFile(file)
	if err != nil {
		return nil, err
	}
	var entries map[string][]fibEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	t := &fibTable{routes: map[netip.Prefix]*fibRoute{}}
	for text, all := range entries {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		at := slices.IndexFunc(all, func(e fibEntry) bool { return e.Selected })
		if at < 0 {
			continue
		}
		route, inFIB := &fibRoute{set: setNone}, false
		for _, h := range all[at].Nexthops {
			inFIB = inFIB || h.FIB
		}
		for _, h := range all[at].Nexthops {
			if (h.FIB || !inFIB && h.Active) && !h.Recursive && !h.Duplicate && !h.LinkDown {
				route.nexthops = append(route.nexthops, h)
			}
			if h.Weight != nil && (*h.Weight < 1 || *h.Weight > 1<<20) {
				return nil, fmt.Errorf("%s, route %s: a next hop has a weight of %d, must be 1 to 2^20", file, p, *h.Weight)
			}
		}
		t.routes[p.Masked()] = route
		if !slices.Contains(t.bits, p.Bits()) {
			t.bits = append(t.bits, p.Bits())
		}
		if _, known := x.nodeOf[p.Addr()]; !known && all[at].Protocol == "local" && p.IsSingleIP() {
			x.nodeOf[p.Addr()] = id
		}
	}
	slices.SortFunc(t.bits, func(a, b int) int { return b - a })
	return t, nil
}

// match returns the route of a switch with the longest prefix that has the address of a host; nil: there is none.
func (x *fibFiles) match(host, sw int32) (netip.Prefix, *fibRoute) {
	if t := x.tables[sw]; t != nil && x.address[host].IsValid() {
		for _, bits := range t.bits {
			p, err := x.address[host].Prefix(bits)
			if route := t.routes[p]; err == nil && route != nil {
				return p, route
			}
		}
	}
	return netip.Prefix{}, nil
}

// next is where a switch sends what is for a host: a set of links, setNone or setArrive. near are the host's switches.
func (x *fibFiles) next(f *FIB, sets map[string]int32, near []int32, host, sw int32) (int32, error) {
	id := x.switches[sw]
	v, _ := x.n.Node(id)
	attached := slices.Contains(near, id)
	_, route := x.match(host, sw)
	switch {
	case route == nil && attached && v.Kind == KindInner && x.tables[sw] == nil:
		return setArrive, nil // switches inside of servers have no routes
	case route == nil:
		return setNone, nil
	}
	if !route.resolved {
		weights := map[int32]int64{}
		for i := range route.nexthops {
			if err := x.resolve(route, id, &route.nexthops[i], weights); err != nil {
				return 0, fmt.Errorf("%s: %w", x.where(host, sw), err)
			}
		}
		if route.resolved = true; len(weights) > 0 {
			route.set = f.newSet(sets, weights)
		}
	}
	if attached && (route.direct || slices.Contains(route.hosts, x.n.hosts[host])) {
		return setArrive, nil
	}
	return route.set, nil
}

// resolve adds where a next hop of a switch leads: links with their weights, or hosts.
func (x *fibFiles) resolve(r *fibRoute, id int32, h *fibNexthop, weights map[int32]int64) error {
	if h.Unreachable || h.Blackhole || h.Reject {
		return nil
	}
	link, found := x.ports[fibPort{id, h.InterfaceName}]
	if addr, err := netip.ParseAddr(h.IP); !found && err == nil {
		to, known := x.nodeOf[addr]
		if links, cabled := x.n.CableOf(id, to); known && cabled {
			link, found = links[0], true
			if x.n.Links[link].Src != id {
				link = links[1]
			}
		}
	}
	r.direct = r.direct || h.Direct
	switch dst := x.n.Links[link].Dst; {
	case !found && h.Direct:
	case !found:
		return fmt.Errorf("next hop %q at interface %q: %s has no cable at such a port, nor to a node with this address (%s)",
			h.IP, h.InterfaceName, x.n.Name(id), addressFile)
	case slices.Contains(x.n.hosts, dst):
		r.hosts = append(r.hosts, dst)
	default:
		weight := int64(1)
		if h.Weight != nil {
			weight = *h.Weight
		}
		weights[link] += weight
	}
	return nil
}

// where names the file of a switch and its route to a host.
func (x *fibFiles) where(host, sw int32) string {
	p, _ := x.match(host, sw)
	return fmt.Sprintf("%s, route %s", x.file(sw), p)
}

func (x *fibFiles) file(sw int32) string {
	return filepath.Join(x.dir, x.n.Name(x.switches[sw])+".json")
}

// why says why a switch has no route to a host.
func (x *fibFiles) why(host, sw int32) string {
	_, route := x.match(host, sw)
	switch {
	case !x.address[host].IsValid():
		return filepath.Join(x.dir, addressFile) + " has no address of it"
	case x.tables[sw] == nil:
		return x.file(sw) + " is missing"
	case route == nil:
		return fmt.Sprintf("%s has no route to %s", x.file(sw), x.address[host])
	case route.set == setNone:
		return x.where(host, sw) + " leads nowhere"
	}
	return x.where(host, sw) + " leads to cables that are down"
}
