package ingest

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// addressBook finds hosts by address, name or node id, and the labels of addresses and ports.
type addressBook struct {
	isHosts map[int32]bool
	cables  map[int32]int // how many a node has
	hosts   ranges[int32]
	rowOf   map[int32][2]string // of the hosts table, the first that names a switch: place, node
	labels  ranges[[]label]
	classes map[string]int32 // by the labels that apply
	classOf []class
}

// ranges keeps values by exact text and by range of addresses.
type ranges[T any] struct {
	byText  map[string]T
	byRange map[netip.Prefix]T
	bits    []int // lengths of the ranges, of IPv6 addresses, longest first
}

func newRanges[T any]() ranges[T] { return ranges[T]{map[string]T{}, map[netip.Prefix]T{}, nil} }

func (r *ranges[T]) get(key string) (v T, ok bool) {
	if p, isRange := parseRange(key); isRange {
		v, ok = r.byRange[p]
	} else {
		v, ok = r.byText[key]
	}
	return v, ok
}

func (r *ranges[T]) set(key string, v T) {
	p, isRange := parseRange(key)
	if !isRange {
		r.byText[key] = v
		return
	}
	r.byRange[p] = v
	if at, found := slices.BinarySearchFunc(r.bits, p.Bits(), func(a, b int) int { return b - a }); !found {
		r.bits = slices.Insert(r.bits, at, p.Bits())
	}
}

// of yields the values of a text: its own, and those of the ranges that an address is in, the longest first.
func (r *ranges[T]) of(text string) iter.Seq[T] {
	return func(yield func(T) bool) {
		if v, ok := r.byText[text]; ok && !yield(v) {
			return
		}
		a, err := netip.ParseAddr(text)
		if err != nil {
			return
		}
		a = netip.AddrFrom16(a.As16())
		for _, bits := range r.bits {
			if p, err := a.Prefix(bits); err == nil {
				if v, ok := r.byRange[p]; ok && !yield(v) {
					return
				}
			}
		}
	}
}

// parseRange parses an address or a CIDR, as a prefix of IPv6 addresses; IPv4 is mapped to IPv6.
func parseRange(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		p = p.Masked()
		if p.Addr().Is4() {
			return netip.PrefixFrom(netip.AddrFrom16(p.Addr().As16()), p.Bits()+96), true
		}
		return p, true
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(netip.AddrFrom16(a.As16()), 128), true
	}
	return netip.Prefix{}, false
}

// checkAddress refuses an empty text, and one that would be a CIDR.
func checkAddress(at, text string) error {
	if _, isRange := parseRange(text); !isRange && (text == "" || strings.Contains(text, "/")) {
		return fmt.Errorf("%s: %q is neither an address, a CIDR nor a name", at, text)
	}
	return nil
}

// newAddressBook returns a book of the hosts of a topology, by id and name. Ids take precedence over names that look
// like ids.
func newAddressBook(n *topology.Network) *addressBook {
	b := &addressBook{isHosts: map[int32]bool{}, hosts: newRanges[int32](), rowOf: map[int32][2]string{},
		cables: map[int32]int{}, labels: newRanges[[]label](), classes: map[string]int32{}, classOf: []class{nil}}
	for _, node := range n.Nodes {
		if node.Name != "" {
			b.hosts.byText[node.Name] = node.ID
		}
	}
	for _, node := range n.Nodes {
		b.hosts.byText[strconv.Itoa(int(node.ID))] = node.ID
	}
	for _, id := range n.Hosts() {
		b.isHosts[id] = true
	}
	for _, l := range n.Links { // two of a cable, one from each end
		b.cables[l.Src]++
	}
	return b
}

func (b *addressBook) addHost(at, address, node string) error {
	address, node = strings.TrimSpace(address), strings.TrimSpace(node)
	id, known := b.hosts.byText[node]
	if !known {
		return fmt.Errorf("%s: node %q is not a node of the topology%s", at, node,
			names.DidYouMean(node, slices.Sorted(maps.Keys(b.hosts.byText))))
	}
	if err := checkAddress(at, address); err != nil {
		return err
	}
	if other, twice := b.hosts.get(address); twice && other != id {
		return fmt.Errorf("%s: %q is already node %d", at, address, other)
	}
	b.hosts.set(address, id)
	if _, listed := b.rowOf[id]; !listed && !b.isHosts[id] {
		b.rowOf[id] = [2]string{at, node}
	}
	return nil
}

// host returns the node of an address, name or id; -1 if there is none.
func (b *addressBook) host(text string) int32 {
	text = strings.TrimSpace(text)
	for id := range b.hosts.of(text) {
		return id
	}
	if n, err := strconv.ParseInt(text, 10, 32); err == nil { // +7, 007
		for id := range b.hosts.of(strconv.Itoa(int(n))) {
			return id
		}
	}
	return -1
}

// isSwitch says which row of the hosts table, a file, gives an address to a switch; empty: none does.
func (b *addressBook) isSwitch(file, text string) string {
	id := b.host(text)
	if id < 0 || b.isHosts[id] {
		return ""
	}
	at, name, but := "", strings.TrimSpace(text), ""
	if row, listed := b.rowOf[id]; listed {
		at, name = file+" "+row[0]+": ", row[1]
	}
	if n := b.cables[id]; n > 1 {
		but = fmt.Sprintf("it has %d cables, and hosts do not forward: map its addresses to a host; if no path uses it, ", n)
	}
	return fmt.Sprintf("%s%s is a switch of the topology; %smake it a host with --host-pattern %[2]s, and the patterns "+
		"of all other hosts: --host-pattern %[2]s,'srv*'", at, name, but)
}

// label is a row of a labels table. A port of -1 is any port.
type label struct {
	port          int32
	service, vnet string
}

func (b *addressBook) addLabel(at, address, port, service, vnet string) error {
	l, name := label{port: -1, service: strings.TrimSpace(service), vnet: strings.TrimSpace(vnet)}, "any"
	if port = strings.TrimSpace(port); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return fmt.Errorf("%s: port %q is not a whole number up to 65535", at, port)
		}
		l.port, name = int32(n), port
	}
	address = strings.TrimSpace(address)
	if err := checkAddress(at, address); err != nil {
		return err
	}
	held, _ := b.labels.get(address)
	for _, other := range held {
		if other.port == l.port && other != l {
			return fmt.Errorf("%s: %s, port %s, is service %q of network %q, and an earlier row says service %q of network %q",
				at, address, name, l.service, l.vnet, other.service, other.vnet)
		}
	}
	b.labels.set(address, append(held, l))
	return nil
}

// A class is the labels of the ranges that addresses are in, of the longest first.
type class [][]label

// class returns the number of the class of an address; 0 is that without labels.
func (b *addressBook) class(text string) int32 {
	fits := class(slices.Collect(b.labels.of(strings.TrimSpace(text))))
	if fits == nil {
		return 0
	}
	key := fmt.Sprintf("%#v", fits)
	c, ok := b.classes[key]
	if !ok {
		c = int32(len(b.classOf))
		b.classes[key], b.classOf = c, append(b.classOf, fits)
	}
	return c
}

// byPort are the labels of a class, by port: of the longest range that has one for it; -1 is any other port.
func (c class) byPort() map[int32]label {
	all := map[int32]label{}
	for _, held := range c {
		if _, others := all[-1]; others {
			break
		}
		for _, l := range held {
			if _, known := all[l.port]; !known {
				all[l.port] = l
			}
		}
	}
	return all
}
