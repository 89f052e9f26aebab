package ingest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"parsimon/stages/topology"
)

// An addressBook finds hosts by address, name or node id, and the labels of addresses and ports.
type addressBook struct {
	isHosts map[int32]bool
	hosts   map[string]int32       // by exact text
	ranges  map[netip.Prefix]int32 // by CIDR
	bits    []int                  // prefix lengths in ranges, v4 in v6 (0 to 128), longest first

	labels     []label
	labelNames map[string][]int // by exact text: places in labels
	labelRange map[netip.Prefix][]int
	labelBits  []int
	classes    map[string]int32 // by the labels that fit, in words
	classOf    [][]int          // by class: places in labels, best first
}

// A label is a line of a labels table. A port of -1 is any.
type label struct {
	port          int32
	service, vnet string
}

// newAddressBook knows the hosts of the topology by their ids and names.
func newAddressBook(n *topology.Network) *addressBook {
	b := &addressBook{
		isHosts: map[int32]bool{},
		hosts:   map[string]int32{}, ranges: map[netip.Prefix]int32{},
		labelNames: map[string][]int{}, labelRange: map[netip.Prefix][]int{}, classes: map[string]int32{"": 0}, classOf: [][]int{nil},
	}
	for _, node := range n.Nodes {
		if node.Name != "" {
			b.hosts[node.Name] = node.ID
		}
	}
	for _, id := range n.Hosts() {
		b.isHosts[id] = true
	}
	for _, node := range n.Nodes { // where a name looks like an id, it is the id
		b.hosts[strconv.Itoa(int(node.ID))] = node.ID
	}
	return b
}

func (b *addressBook) isHost(node int32) bool { return b.isHosts[node] }

// parseRange reads an address or a CIDR, as a prefix of v6 addresses (v4 in v6 where it is v4).
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

// addHost adds a line of a hosts table. The node may be an id or a name.
func (b *addressBook) addHost(at, address, node string) error {
	address, node = strings.TrimSpace(address), strings.TrimSpace(node)
	id, known := b.hosts[node]
	if !known {
		return fmt.Errorf("%s: node_id %q is no node of the topology", at, node)
	}
	if address == "" {
		return fmt.Errorf("%s: has no address", at)
	}
	p, isRange := parseRange(address)
	if !isRange {
		if other, twice := b.hosts[address]; twice && other != id {
			return fmt.Errorf("%s: %q is node %d already", at, address, other)
		}
		b.hosts[address] = id
		return nil
	}
	if other, twice := b.ranges[p]; twice && other != id {
		return fmt.Errorf("%s: %q is node %d already", at, address, other)
	}
	b.ranges[p] = id
	b.bits = withBits(b.bits, p.Bits())
	return nil
}

// withBits adds a prefix length to a list of them, longest first.
func withBits(list []int, bits int) []int {
	at, found := slices.BinarySearchFunc(list, bits, func(a, b int) int { return b - a })
	if found {
		return list
	}
	return slices.Insert(list, at, bits)
}

// addLabel adds a line of a labels table.
func (b *addressBook) addLabel(at, address, port, service, vnet string) error {
	l := label{port: -1, service: strings.TrimSpace(service), vnet: strings.TrimSpace(vnet)}
	if port = strings.TrimSpace(port); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return fmt.Errorf("%s: port %q is not a whole number up to 65535", at, port)
		}
		l.port = int32(n)
	}
	b.labels = append(b.labels, l)
	place := len(b.labels) - 1
	address = strings.TrimSpace(address)
	if p, isRange := parseRange(address); isRange {
		b.labelRange[p] = append(b.labelRange[p], place)
		b.labelBits = withBits(b.labelBits, p.Bits())
		return nil
	}
	if address == "" || strings.Contains(address, "/") {
		return fmt.Errorf("%s: %q is neither an address, a CIDR nor a name", at, address)
	}
	b.labelNames[address] = append(b.labelNames[address], place)
	return nil
}

// host is the node an address, name or id stands for; -1 for none.
func (b *addressBook) host(text string) int32 {
	text = strings.TrimSpace(text)
	if id, ok := b.hosts[text]; ok {
		return id
	}
	if a, err := netip.ParseAddr(text); err == nil {
		a = netip.AddrFrom16(a.As16())
		for _, bits := range b.bits {
			if p, err := a.Prefix(bits); err == nil {
				if id, ok := b.ranges[p]; ok {
					return id
				}
			}
		}
		return -1
	}
	if n, err := strconv.ParseInt(text, 10, 32); err == nil { // +7, 007
		if id, ok := b.hosts[strconv.Itoa(int(n))]; ok {
			return id
		}
	}
	return -1
}

// class numbers the set of labels that fit an address; 0 is the empty one.
func (b *addressBook) class(text string) int32 {
	if len(b.labels) == 0 {
		return 0
	}
	text = strings.TrimSpace(text)
	fits := b.portsFirst(b.labelNames[text])
	if a, err := netip.ParseAddr(text); err == nil {
		a = netip.AddrFrom16(a.As16())
		for _, bits := range b.labelBits {
			if p, err := a.Prefix(bits); err == nil {
				fits = append(fits, b.portsFirst(b.labelRange[p])...)
			}
		}
	}
	key := fmt.Sprint(fits)
	if len(fits) == 0 {
		return 0
	}
	c, ok := b.classes[key]
	if !ok {
		c = int32(len(b.classOf))
		b.classes[key] = c
		b.classOf = append(b.classOf, fits)
	}
	return c
}

// portsFirst puts the labels of one range that say a port before those that do not.
func (b *addressBook) portsFirst(places []int) []int {
	sorted := slices.Clone(places)
	slices.SortStableFunc(sorted, func(x, y int) int {
		switch px, py := b.labels[x].port >= 0, b.labels[y].port >= 0; {
		case px == py:
			return 0
		case px:
			return -1
		}
		return 1
	})
	return sorted
}

// A classLabel is what a class comes to at a port; -1 is any other port.
type classLabel struct {
	class, port   int32
	service, vnet string
}

// classLabels spells out what every class comes to, port by port: the longest prefix wins, and
// within it the label that says the port.
func (b *addressBook) classLabels() []classLabel {
	var all []classLabel
	for c, fits := range b.classOf {
		seen := map[int32]bool{}
		for _, place := range fits {
			l := b.labels[place]
			if seen[-1] { // all ports are spoken for
				break
			}
			if !seen[l.port] {
				seen[l.port] = true
				all = append(all, classLabel{int32(c), l.port, l.service, l.vnet})
			}
		}
	}
	return all
}
