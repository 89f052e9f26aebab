package ingest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// label is a row of a labels table. A port of -1 is any port.
type label struct {
	port          int32
	service, vnet string
}

// addLabel adds a row of a labels table.
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
		if err := b.checkOnce(at, address, l, b.labelRange[p]); err != nil {
			return err
		}
		b.labelRange[p] = append(b.labelRange[p], place)
		b.labelBits = withBits(b.labelBits, p.Bits())
		return nil
	}
	if address == "" || strings.Contains(address, "/") {
		return fmt.Errorf("%s: %q is neither an address, a CIDR nor a name", at, address)
	}
	if err := b.checkOnce(at, address, l, b.labelNames[address]); err != nil {
		return err
	}
	b.labelNames[address] = append(b.labelNames[address], place)
	return nil
}

// checkOnce returns an error if an address or range has another label of the same port already.
func (b *addressBook) checkOnce(at, address string, l label, held []int) error {
	for _, place := range held {
		if other := b.labels[place]; other.port == l.port && other != l {
			return fmt.Errorf("%s: %s, port %s, is service %q of network %q, and an earlier row says service %q of network %q", at,
				address, portName(l.port), l.service, l.vnet, other.service, other.vnet)
		}
	}
	return nil
}

func portName(port int32) string {
	if port < 0 {
		return "any"
	}
	return strconv.Itoa(int(port))
}

// class returns the number of the set of labels that apply to an address; 0 is the empty set.
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

// portsFirst sorts the labels of one range: those with a port first.
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

// classLabel is the label of a class at a port; -1 is any other port.
type classLabel struct {
	class, port   int32
	service, vnet string
}

// classLabels lists the labels of every class by port: of the longest prefix, and within it of the label with the port.
func (b *addressBook) classLabels() []classLabel {
	var all []classLabel
	for c, fits := range b.classOf {
		seen := map[int32]bool{}
		for _, place := range fits {
			l := b.labels[place]
			if seen[-1] { // all ports have labels
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
