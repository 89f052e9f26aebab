package ingest

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// addressBook finds hosts by address, name or node id, and the labels of addresses and ports.
//
// The kind of a text follows from one rule. A text that parses as an IP address is an address, even if it is
// the name of a node. It is looked up in the ranges of the hosts table and among the names. Any other text is
// a name if the hosts table or the topology has it. Otherwise it is an id if it is a whole number. A number
// that is the name of one node and the id of another is an error.
type addressBook struct {
	isHosts map[int32]bool
	cables  map[int32]int // number of cables by node
	domains []string      // each begins with a point
	off     []netip.Prefix
	allOff  bool // every address and name that is not a host is off the fabric
	hosts   ranges[int32]
	ids     map[string]int32
	unclear map[string]string   // texts that may be several nodes, and why
	rowOf   map[int32][2]string // of the hosts table, the first row that names a switch: place, node
	labels  ranges[[]label]
	classes map[string]int32 // by the labels that apply
	classOf []class
	traffic map[string]string // models of services
}

// ranges stores values by exact text and by range of addresses.
type ranges[T any] struct {
	byText  map[string]T
	byRange map[netip.Prefix]T
	bits    []int // lengths of the ranges, of IPv6 addresses, longest first
}

func newRanges[T any]() ranges[T] { return ranges[T]{map[string]T{}, map[netip.Prefix]T{}, nil} }

func (r *ranges[T]) get(key string) (v T, ok bool) {
	p, isRange := parseRange(key)
	if isRange {
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
	at, found := slices.BinarySearchFunc(r.bits, p.Bits(), func(a, b int) int { return b - a })
	if !found {
		r.bits = slices.Insert(r.bits, at, p.Bits())
	}
}

// of yields the values of a text with their number of bits: its own value, and those of the ranges that
// contain the address, the longest first. A text that is not an address has all 128 bits.
func (r *ranges[T]) of(text string) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		if v, ok := r.byText[text]; ok && !yield(128, v) {
			return
		}
		a, err := netip.ParseAddr(text)
		if err != nil {
			return
		}
		a = netip.AddrFrom16(a.As16())
		for _, bits := range r.bits {
			p, err := a.Prefix(bits)
			if err != nil {
				continue
			}
			if v, ok := r.byRange[p]; ok && !yield(bits, v) {
				return
			}
		}
	}
}

// parseRange parses an address or a CIDR as a prefix of IPv6 addresses. IPv4 addresses are mapped to IPv6. A
// CIDR with bits beyond its length, such as 10.1.1.12/24, is a single address: address management tools write
// the address of a host with the length of its network.
func parseRange(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		a := p.Addr()
		bits := p.Bits()
		if p.Masked() != p {
			bits = a.BitLen()
		}
		if a.Is4() {
			bits += 96
		}
		return netip.PrefixFrom(netip.AddrFrom16(a.As16()), bits), true
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(netip.AddrFrom16(a.As16()), 128), true
	}
	return netip.Prefix{}, false
}

// checkAddress returns an error for an empty text, and for one that would be a CIDR.
func checkAddress(text string) error {
	_, isRange := parseRange(text)
	if !isRange && (text == "" || strings.Contains(text, "/")) {
		return fmt.Errorf("%q is neither an address, a CIDR nor a name", text)
	}
	return nil
}

// newAddressBook returns a book of the hosts of a topology. Names that end with one of the domains can also
// be written without it, and names without a domain with each of them.
func newAddressBook(n *topology.Network, domains []string) *addressBook {
	b := &addressBook{
		isHosts: map[int32]bool{}, cables: map[int32]int{}, hosts: newRanges[int32](), ids: map[string]int32{},
		unclear: map[string]string{}, rowOf: map[int32][2]string{}, labels: newRanges[[]label](),
		classes: map[string]int32{}, classOf: []class{nil}, traffic: map[string]string{},
	}
	for _, d := range domains {
		b.domains = append(b.domains, "."+strings.Trim(strings.TrimSpace(d), "."))
	}
	for _, node := range n.Nodes {
		b.ids[strconv.Itoa(int(node.ID))] = node.ID
	}
	for _, node := range n.Nodes {
		if node.Name != "" {
			b.addName(n, b.bare(node.Name), node.ID)
		}
	}
	for _, id := range n.Hosts() {
		b.isHosts[id] = true
	}
	for _, l := range n.Links { // a cable is two links, one from each end
		b.cables[l.Src]++
	}
	return b
}

func (b *addressBook) addName(n *topology.Network, name string, id int32) {
	other, taken := b.hosts.get(name)
	if taken && other != id {
		b.unclear[name] = fmt.Sprintf("nodes %d and %d have that name", other, id)
	}
	if other, isID := b.ids[name]; isID && other != id {
		b.unclear[name] = fmt.Sprintf("it is the name of the node with id %d, and the id of the node named %q", id,
			n.Name(other))
	}
	b.hosts.set(name, id)
}

// bare returns a name without a domain of the options.
func (b *addressBook) bare(name string) string {
	name = strings.TrimSpace(name)
	for _, d := range b.domains {
		rest, cut := strings.CutSuffix(strings.TrimSuffix(name, "."), d)
		if cut && rest != "" {
			return rest
		}
	}
	return name
}

// setOff sets the addresses that are off the fabric unless they are hosts: CIDRs, or "any".
func (b *addressBook) setOff(ranges []string) error {
	for _, text := range ranges {
		text = strings.TrimSpace(text)
		p, isRange := parseRange(text)
		switch {
		case text == "any":
			b.allOff = true
		case !isRange:
			return fmt.Errorf("--off-fabric %q: must be an address, a CIDR, or any", text)
		default:
			b.off = append(b.off, p)
		}
	}
	return nil
}

// isOff reports whether an address that is not a host is off the fabric.
func (b *addressBook) isOff(text string) bool {
	if b.allOff {
		return true
	}
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil {
		return false
	}
	a = netip.AddrFrom16(a.As16())
	return slices.ContainsFunc(b.off, func(p netip.Prefix) bool { return p.Contains(a) })
}

// number parses a text as a whole number, which may also be written as +7, 007 or 7.0.
var number = regexp.MustCompile(`^\+?0*([0-9]+)(?:\.0*)?$`)

// find returns the node of an address, name or id, or -1 if there is none.
func (b *addressBook) find(text string) int32 {
	text = b.bare(text)
	for _, id := range b.hosts.of(text) {
		return id
	}
	digits := number.FindStringSubmatch(text)
	if digits != nil {
		if id, known := b.ids[digits[1]]; known {
			return id
		}
	}
	return -1
}

// host returns the node of an address, name or id, or -1 if there is none. If there are several, it returns
// an error.
func (b *addressBook) host(text string) (int32, error) {
	why := b.unclear[b.bare(text)]
	if why != "" {
		return -1, fmt.Errorf("%q may be several nodes: %s; rename a node of the topology", strings.TrimSpace(text),
			why)
	}
	return b.find(text), nil
}

// nodeNames lists the names of nodes, for suggestions.
func (b *addressBook) nodeNames() []string {
	return append(slices.Sorted(maps.Keys(b.hosts.byText)), slices.Sorted(maps.Keys(b.ids))...)
}

func (b *addressBook) addHost(at, address, node string) error {
	address, node = b.bare(address), strings.TrimSpace(node)
	id, err := b.host(node)
	switch {
	case err != nil:
		return fmt.Errorf("node %w", err)
	case id < 0:
		return fmt.Errorf("node %q is not a node of the topology%s%s", node, names.DidYouMean(node, b.nodeNames()),
			b.domainHint(node))
	}
	if err := checkAddress(address); err != nil {
		return err
	}
	if _, other := b.unclear[address]; other {
		_, err := b.host(address)
		return err
	}
	other, taken := b.hosts.get(address)
	if !taken {
		other, taken = b.ids[address]
	}
	if taken && other != id {
		return fmt.Errorf("%q is already node %d", address, other)
	}
	b.hosts.set(address, id)
	if _, listed := b.rowOf[id]; !listed && !b.isHosts[id] {
		b.rowOf[id] = [2]string{at, node}
	}
	return nil
}

// domainHint returns a hint if a name differs from that of a node only by its domain.
func (b *addressBook) domainHint(name string) string {
	short, domain, qualified := strings.Cut(strings.TrimSuffix(name, "."), ".")
	_, isAddress := parseRange(name)
	if isAddress || !qualified {
		for known := range b.hosts.byText {
			rest, cut := strings.CutPrefix(known, name+".")
			if cut && !qualified && !isAddress {
				return "; --domain " + rest + " makes it " + known
			}
		}
		return ""
	}
	if _, known := b.hosts.byText[short]; known {
		return "; --domain " + domain + " makes it " + short
	}
	return ""
}

// isSwitch returns the row of the hosts table that assigns an address to a switch, or "" if there is none.
func (b *addressBook) isSwitch(file, text string) string {
	id := b.find(text)
	if id < 0 || b.isHosts[id] {
		return ""
	}
	at := ""
	name := strings.TrimSpace(text)
	but := ""
	if row, listed := b.rowOf[id]; listed {
		at = file + " " + row[0] + ": "
		name = row[1]
	}
	n := b.cables[id]
	if n > 1 {
		but = fmt.Sprintf("it has %d cables, and hosts do not forward: map its addresses to a host; if no path "+
			"uses it, ", n)
	}
	return fmt.Sprintf("%s%s is a switch of the topology; %smake it a host with --host-pattern %[2]s, and the "+
		"patterns of all other hosts: --host-pattern %[2]s,'srv*'", at, name, but)
}
