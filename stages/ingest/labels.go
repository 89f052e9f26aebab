package ingest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// allPorts is the number of ports.
const allPorts = 1 << 16

// A label is a row of a labels table: the service and the virtual network of the ports lo to hi.
type label struct {
	lo, hi        int
	service, vnet string
}

func (l label) anyPort() bool { return l.lo == 0 && l.hi == allPorts-1 }

func (l label) ports() string {
	switch {
	case l.anyPort():
		return "any"
	case l.lo == l.hi:
		return strconv.Itoa(l.lo)
	}
	return fmt.Sprintf("%d-%d", l.lo, l.hi)
}

// parsePorts parses a port or a range of them, such as 6800-6815. An empty text means any port.
func parsePorts(text string) (lo, hi int, err error) {
	if text == "" {
		return 0, allPorts - 1, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	a, errA := strconv.ParseUint(wholeText(from), 10, 16)
	b, errB := strconv.ParseUint(wholeText(to), 10, 16)
	if errA != nil || errB != nil || a > b {
		return 0, 0, fmt.Errorf("port %q is not a whole number up to 65535, or a range of them such as 6800-6815",
			text)
	}
	return int(a), int(b), nil
}

// wholeText returns a whole number without the fraction that spreadsheets add.
func wholeText(text string) string {
	text = strings.TrimSpace(text)
	whole, fraction, cut := strings.Cut(text, ".")
	if cut && strings.Trim(fraction, "0") == "" {
		return whole
	}
	return text
}

func (b *addressBook) addLabel(address, port, service, vnet string) error {
	lo, hi, err := parsePorts(strings.TrimSpace(port))
	if err != nil {
		return err
	}
	l := label{lo, hi, strings.TrimSpace(service), strings.TrimSpace(vnet)}
	address = b.bare(address)
	if err := checkAddress(address); err != nil {
		return err
	}
	held, _ := b.labels.get(address)
	for _, other := range held {
		if other.lo == l.lo && other.hi == l.hi && other != l {
			return fmt.Errorf("%s, port %s, is service %q of network %q, and an earlier row says service %q of "+
				"network %q",
				address, l.ports(), l.service, l.vnet, other.service, other.vnet)
		}
	}
	b.labels.set(address, append(held, l))
	return nil
}

// addTraffic adds the model of a service (column traffic_model), as parsimon run --traffic has it. An empty
// model states nothing. The model is not parsed.
func (b *addressBook) addTraffic(service, model string) error {
	service = strings.TrimSpace(service)
	model = strings.TrimSpace(model)
	other, known := b.traffic[service]
	switch {
	case model == "":
		return nil
	case service == "" || service == "*":
		return fmt.Errorf("traffic_model %q is that of one service, and the row has service %q", model, service)
	case known && other != model:
		return fmt.Errorf("traffic_model of service %q is %q, and an earlier row says %q", service, model, other)
	}
	b.traffic[service] = model
	return nil
}

// A rangeLabels has the labels of a range of addresses, and the length of the range in bits.
type rangeLabels struct {
	bits   int
	labels []label
}

// A class has the labels of the ranges that contain an address, the longest first.
type class []rangeLabels

// class returns the number of the class of an address. Class 0 has no labels.
func (b *addressBook) class(text string) int32 {
	var fits class
	for bits, held := range b.labels.of(b.bare(text)) {
		fits = append(fits, rangeLabels{bits, held})
	}
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

// A portLabel is the label of a class for the ports lo to hi. Both are -1 for any port.
type portLabel struct {
	lo, hi int
	rank   int64
	label
}

// byPort lists the ranges of ports for which a class has another label than for any port. The label of a port
// is that of the longest range of addresses that has one for the port. Within this range, it is that with the
// fewest ports.
func (c class) byPort() (all []portLabel) {
	at := []int{0, allPorts} // where another label may begin
	for _, held := range c {
		for _, l := range held.labels {
			at = append(at, l.lo, l.hi+1)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	for i, lo := range at[:len(at)-1] {
		l, found := c.at(lo)
		if found && !l.anyPort() {
			all = append(all, portLabel{lo, at[i+1] - 1, l.rank, l.label})
		}
	}
	return all
}

// at returns the label of a port.
func (c class) at(port int) (best portLabel, found bool) {
	for _, held := range c {
		for _, l := range held.labels {
			if l.lo <= port && port <= l.hi && (!found || l.hi-l.lo < best.label.hi-best.label.lo) {
				best = portLabel{port, port, held.rank(l), l}
				found = true
			}
		}
		if found {
			return best, true
		}
	}
	return best, false
}

// others returns the label of any port.
func (c class) others() (portLabel, bool) {
	for _, held := range c {
		for _, l := range held.labels {
			if l.anyPort() {
				return portLabel{-1, -1, held.rank(l), l}, true
			}
		}
	}
	return portLabel{}, false
}

// rank orders the labels of the two ends of a flow: it is higher for fewer ports, then for a longer range of
// addresses.
func (r rangeLabels) rank(l label) int64 { return int64(allPorts-(l.hi-l.lo))*1000 + int64(r.bits) }
