package topology

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A plan infers from the cables what devices are: hosts and switches, the switches' distance to the
// hosts, racks and pods.
type plan struct {
	devices   []device
	ends      [][2]int32 // by cable: indexes in devices
	adjacent  [][]int32  // by device: its neighbours
	level     []int      // by device: cables to the nearest host; -1 where none is reached
	top       int        // the highest level
	pod, rack []int32    // by device; -1: none
	numeric   bool       // device names are ids
}

// newPlan collects the devices of the cables, applies the node list, and finds the hosts.
func newPlan(s *sightings, d *draft, o *Options, cables []namedCable) *plan {
	p := &plan{devices: slices.Clone(s.devices)}
	index := make(map[string]int32, len(p.devices))
	for i, v := range p.devices {
		index[v.name] = int32(i)
	}
	of := func(name string, at place) int32 {
		i, known := index[name]
		if !known {
			i = int32(len(p.devices))
			index[name] = i
			p.devices = append(p.devices, device{name: name, at: at})
		}
		return i
	}
	for _, c := range cables {
		p.ends = append(p.ends, [2]int32{of(c.a.device, c.at), of(c.b.device, c.at)})
	}
	listed := p.applyNodeList(d, o, index)
	p.adjacent = make([][]int32, len(p.devices))
	for _, e := range p.ends {
		p.adjacent[e[0]] = append(p.adjacent[e[0]], e[1])
		p.adjacent[e[1]] = append(p.adjacent[e[1]], e[0])
	}
	p.findHosts(d, o, listed)
	p.measure()
	return p
}

// findHosts decides which devices are hosts: those of the node list, else those that match a
// pattern, else those that the format calls hosts and those with one cable of which it says nothing.
func (p *plan) findHosts(d *draft, o *Options, listed bool) {
	matched, single, stated := 0, 0, 0
	for i := range p.devices {
		v := &p.devices[i]
		switch {
		case listed:
			if v.kind == "" {
				v.kind = KindSwitch
			}
		case len(o.HostPatterns) > 0:
			isHost := slices.ContainsFunc(o.HostPatterns, func(p string) bool { return matchPattern(p, v.name) })
			if isHost {
				v.kind = KindHost
				matched++
			} else if v.kind == KindHost || v.kind == "" {
				v.kind = KindSwitch
			}
		case v.kind == KindHost:
			stated++
		case v.kind == "" && len(p.adjacent[i]) == 1:
			v.kind = KindHost
			single++
		case v.kind == "":
			v.kind = KindSwitch
		}
	}
	switch {
	case listed:
		d.note("hosts: as listed in %s", o.NodeList)
	case len(o.HostPatterns) > 0:
		d.note("hosts: %s matching %s", count(matched, "device"), strings.Join(o.HostPatterns, ", "))
	default:
		if stated > 0 {
			d.note("hosts: %s that the file calls hosts", count(stated, "device"))
		}
		if single > 0 {
			d.note("hosts: %s with one cable (inferred; --host-pattern or --nodes decides otherwise)",
				count(single, "device"))
			p.noteLookalikes(d)
		}
	}
}

// noteLookalikes warns of switches that are named like the hosts: hosts with several cables.
func (p *plan) noteLookalikes(d *draft) {
	stems := map[string]bool{}
	for _, v := range p.devices {
		if v.kind == KindHost {
			stems[stem(v.name)] = true
		}
	}
	delete(stems, "")
	like := 0
	example := ""
	for _, v := range p.devices {
		if v.kind != KindHost && stems[stem(v.name)] {
			if like == 0 {
				example = v.name
			}
			like++
		}
	}
	if like > 0 {
		d.note("warning: %s named like hosts, with several cables, counted as switches (%s); "+
			"if they are hosts, use --host-pattern '%s*'",
			count(like, "device"), example, stem(example))
	}
}

// stem is a name up to its first digit.
func stem(name string) string {
	if i := strings.IndexAny(name, "0123456789"); i >= 0 {
		return name[:i]
	}
	return name
}

// measure computes each device's distance to the nearest host.
func (p *plan) measure() {
	p.level = make([]int, len(p.devices))
	var queue []int32
	for i, v := range p.devices {
		p.level[i] = -1
		if v.kind == KindHost {
			p.level[i] = 0
			queue = append(queue, int32(i))
		}
	}
	for k := 0; k < len(queue); k++ {
		for _, next := range p.adjacent[queue[k]] {
			if p.level[next] < 0 {
				p.level[next] = p.level[queue[k]] + 1
				p.top = max(p.top, p.level[next])
				queue = append(queue, next)
			}
		}
	}
}

// inferRoles names the switches whose role is unknown by their distance to the hosts: the nearest are
// tor, the farthest spine, those between fabric.
func (p *plan) inferRoles(d *draft) {
	inferred := map[string]int{}
	for i := range p.devices {
		v := &p.devices[i]
		if v.kind != KindSwitch || p.level[i] < 0 {
			continue
		}
		switch p.level[i] {
		case 1:
			v.kind = KindTor
		case p.top:
			v.kind = KindSpine
		default:
			v.kind = KindFabric
		}
		inferred[v.kind]++
	}
	var parts []string
	farthest := "farthest, " + count(p.top, "cable") + " away"
	for _, k := range []struct{ kind, where string }{
		{KindTor, "next to hosts"}, {KindFabric, "between"}, {KindSpine, farthest},
	} {
		if inferred[k.kind] > 0 {
			parts = append(parts, strconv.Itoa(inferred[k.kind])+" "+k.kind+" ("+k.where+")")
		}
	}
	if len(parts) > 0 {
		d.note("roles: %s, inferred from the distance to the hosts", strings.Join(parts, ", "))
	}
}

// number gives every device an id: its name where all names are numbers, else hosts and then
// switches, each in natural order of their names.
func (p *plan) number(d *draft) []int32 {
	ids := make([]int32, len(p.devices))
	p.numeric = len(p.devices) > 0
	for i, v := range p.devices {
		id, err := strconv.ParseInt(v.name, 10, 32)
		if err != nil || id < 0 || strconv.FormatInt(id, 10) != v.name {
			p.numeric = false
			break
		}
		ids[i] = int32(id)
	}
	if p.numeric {
		d.note("ids: the devices are named by their ids")
		return ids
	}
	for id, i := range p.naturalOrder() {
		ids[i] = int32(id)
	}
	return ids
}

// naturalOrder lists the hosts and then the switches by name.
func (p *plan) naturalOrder() []int {
	order := make([]int, len(p.devices))
	for i := range order {
		order[i] = i
	}
	isSwitch := func(i int) int {
		if p.devices[i].kind == KindHost {
			return 0
		}
		return 1
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(isSwitch(a), isSwitch(b)), compareNatural(p.devices[a].name, p.devices[b].name))
	})
	return order
}

// compareNatural orders names with numbers in them by value: leaf2 before leaf10.
func compareNatural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		nx, restX := leadingDigits(x)
		ny, restY := leadingDigits(y)
		if nx != "" && ny != "" {
			zx, zy := strings.TrimLeft(nx, "0"), strings.TrimLeft(ny, "0")
			if c := cmp.Or(cmp.Compare(len(zx), len(zy)), strings.Compare(zx, zy)); c != 0 {
				return c
			}
			x, y = restX, restY
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

func leadingDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// count writes a number of things: "1 cable", "3 switches".
func count(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ch"):
		thing += "es"
	default:
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}
