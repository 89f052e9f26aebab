package ingest

import (
	"fmt"
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
	hosts   map[string]int32       // by exact text
	ranges  map[netip.Prefix]int32 // by CIDR
	bits    []int                  // prefix lengths in ranges, of IPv6 addresses, longest first

	labels     []label
	labelNames map[string][]int // by exact text: places in labels
	labelRange map[netip.Prefix][]int
	labelBits  []int
	classes    map[string]int32 // by the list of labels that apply
	classOf    [][]int          // by class: places in labels, most specific first
}

// newAddressBook returns a book of the hosts of a topology, by id and name.
func newAddressBook(n *topology.Network) *addressBook {
	b := &addressBook{
		isHosts: map[int32]bool{},
		hosts:   map[string]int32{}, ranges: map[netip.Prefix]int32{},
		labelNames: map[string][]int{}, labelRange: map[netip.Prefix][]int{},
		classes: map[string]int32{"": 0}, classOf: [][]int{nil},
	}
	for _, node := range n.Nodes {
		if node.Name != "" {
			b.hosts[node.Name] = node.ID
		}
	}
	for _, id := range n.Hosts() {
		b.isHosts[id] = true
	}
	for _, node := range n.Nodes { // ids take precedence over names that look like ids
		b.hosts[strconv.Itoa(int(node.ID))] = node.ID
	}
	return b
}

func (b *addressBook) isHost(node int32) bool { return b.isHosts[node] }

// addHost adds a row of a hosts table. The node may be an id or a name.
func (b *addressBook) addHost(at, address, node string) error {
	address, node = strings.TrimSpace(address), strings.TrimSpace(node)
	id, known := b.hosts[node]
	if !known {
		return fmt.Errorf("%s: node %q is not a node of the topology%s", at, node, names.DidYouMean(node, slices.Sorted(maps.Keys(b.hosts))))
	}
	if address == "" {
		return fmt.Errorf("%s: has no address", at)
	}
	p, isRange := parseRange(address)
	if !isRange {
		if other, twice := b.hosts[address]; twice && other != id {
			return fmt.Errorf("%s: %q is already node %d", at, address, other)
		}
		b.hosts[address] = id
		return nil
	}
	if other, twice := b.ranges[p]; twice && other != id {
		return fmt.Errorf("%s: %q is already node %d", at, address, other)
	}
	b.ranges[p] = id
	b.bits = withBits(b.bits, p.Bits())
	return nil
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

// withBits adds a prefix length to a list, longest first.
func withBits(list []int, bits int) []int {
	at, found := slices.BinarySearchFunc(list, bits, func(a, b int) int { return b - a })
	if found {
		return list
	}
	return slices.Insert(list, at, bits)
}

// host returns the node of an address, name or id; -1 if there is none.
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
