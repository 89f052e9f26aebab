package format

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// A plan infers properties of devices from the cables: which are hosts, the distance of switches to hosts,
// racks and pods.
type plan struct {
	*assembler
	ends      [][2]int32 // by cable: indexes in devices
	adjacent  [][]int32  // by device: its neighbors
	nics      []int      // by device: its ports that are named like those of a host; -1 if another is not
	level     []int      // by device: cables to the nearest host; -1 if none is reached
	top       int        // the highest level of a device in a tier
	pod, rack []int32    // by device; -1: none
	numeric   bool       // device names are ids
}

// nicName matches ports of hosts, as Linux and hypervisors name them.
var nicName = regexp.MustCompile(`(?i)^(eth\d|en[ops]\d|em\d|p\dp\d|bond|ib\d|mlx|hca|nic|vmnic|net\d)`)

// newPlan collects the devices of the cables, applies the node list, and finds the hosts.
func newPlan(s *assembler) *plan {
	p := &plan{assembler: s}
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
	for _, c := range s.cables {
		p.ends = append(p.ends, [2]int32{of(c.a.device, c.at), of(c.b.device, c.at)})
	}
	listed := p.applyNodeList(index)
	p.adjacent = make([][]int32, len(p.devices))
	p.nics = make([]int, len(p.devices))
	for i, e := range p.ends {
		if s.cables[i].Parallel { // its LAG has been counted
			continue
		}
		for k, port := range [2]string{s.cables[i].a.port, s.cables[i].b.port} {
			p.adjacent[e[k]] = append(p.adjacent[e[k]], e[1-k])
			at := &p.nics[e[k]]
			if !nicName.MatchString(port) {
				*at = -1
			} else if *at >= 0 {
				*at++
			}
		}
	}
	p.findHosts(listed)
	p.measure()
	return p
}

// findHosts decides which devices are hosts: those of the node list, otherwise those that match a pattern,
// otherwise the likely ones. It names likely hosts that are missing from the list or the patterns, because as
// switches they would lengthen paths.
func (p *plan) findHosts(listed bool) {
	single, several := p.likelyHosts()
	patterns := len(p.o.HostPatterns) > 0
	switch {
	case listed:
		p.note("hosts: as listed in %s", p.o.NodeList)
		if patterns {
			p.note("hosts: --host-pattern has no effect beside a list of devices")
		}
		p.noteDevices(
			"the list is without these, which look like hosts and are switches now",
			append(single, several...),
		)
	case patterns:
		p.matchHosts(append(single, several...))
	default:
		for _, i := range append(single, several...) {
			p.devices[i].kind = topology.KindHost
		}
		p.count(
			len(single),
			"device",
			"hosts: %s with one cable (inferred; --host-pattern or --nodes decides otherwise)",
		)
		if len(p.Faults) > 0 {
			p.note(
				"hosts and roles: a guess that the faults below disturb; it may change when they are repaired",
			)
		}
		if len(several) > 0 {
			p.note(
				"hosts: %s with several cables, named or cabled like hosts, such as %s (guessed; --host-pattern or "+
					"--nodes decides otherwise)",
				topology.Count(len(several), "device"),
				p.devices[several[0]].name,
			)
		}
	}
	for i := range p.devices {
		p.devices[i].kind = cmp.Or(p.devices[i].kind, topology.KindSwitch)
	}
}

func matchesAny(device string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(s string) bool { return topology.MatchPattern(s, device) })
}

// matchHosts marks as hosts exactly the devices that match a pattern.
func (p *plan) matchHosts(likely []int) {
	var left, forwarding []int
	hosts := 0
	matched := func(i int32) bool { return matchesAny(p.devices[i].name, p.o.HostPatterns) }
	for _, pattern := range p.o.HostPatterns {
		if !slices.ContainsFunc(
			p.devices,
			func(v device) bool { return topology.MatchPattern(pattern, v.name) },
		) {
			p.note("hosts: pattern %s matches no device", pattern)
		}
	}
	slices.Sort(likely)
	for i := range p.devices {
		v := &p.devices[i]
		_, host := slices.BinarySearch(likely, i)
		host = host || v.kind == topology.KindHost
		switch {
		case matched(int32(i)):
			if !host && (v.kind != "" || named(v.name, switchWords) || named(v.name, routerWords) ||
				slices.ContainsFunc(p.adjacent[i], matched)) {
				forwarding = append(forwarding, i)
			}
			hosts++
			v.kind = topology.KindHost
		case host:
			left = append(left, i)
			v.kind = topology.KindSwitch
		}
	}
	p.note("hosts: %s matching %s", topology.Count(hosts, "device"), strings.Join(p.o.HostPatterns, ", "))
	p.noteDevices("no pattern matches these, which look like hosts and are switches now", left)
	p.noteDevices(
		"a pattern matches these, which look like switches; hosts do not forward traffic",
		forwarding,
	)
}

// noteDevices adds a note that names the devices, if there are any.
func (p *plan) noteDevices(what string, devices []int) {
	if len(devices) > 0 {
		p.note("hosts: %s (%d): %s", what, len(devices),
			names.Listed(names.Of(devices, func(i int) string { return p.devices[i].name }), 5))
	}
}

// These words occur in the names of devices.
var (
	hostWords = []string{"host", "server", "srv", "node", "compute", "storage", "stor", "web", "db", "app",
		"gpu", "worker", "vm", "hv", "esx", "esxi", "kvm", "ceph", "hadoop", "client"}
	switchWords = []string{
		"switch",
		"sw",
		"leaf",
		"spine",
		"tor",
		"agg",
		"aggregation",
		"core",
		"fabric",
		"superspine",
		"dist",
		"access",
		"oob",
		"mgmt",
	}
	// routerWords name devices that forward packets but do not belong to a tier of the data center.
	routerWords = []string{
		"router",
		"rtr",
		"wan",
		"border",
		"br",
		"gw",
		"gateway",
		"firewall",
		"fw",
		"isp",
		"internet",
		"dci",
	}
)

// named reports whether a name contains one of the words, delimited by digits or other characters that are
// not letters.
func named(name string, words []string) bool {
	letters := func(r rune) bool { return r < 'a' || r > 'z' }
	return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(name), letters), func(w string) bool {
		return slices.Contains(words, w)
	})
}

// likelyHosts finds hosts among the devices of unknown kind, which have one cable or several. Devices with
// several cables whose names differ only in numbers are decided together (see severalAreHosts).
func (p *plan) likelyHosts() (single, several []int) {
	like := map[string]bool{} // stems of the hosts so far
	groups := map[string][]int{}
	host := make([]bool, len(p.devices))
	for i, v := range p.devices {
		s := stem(v.name)
		one := v.kind == "" && len(p.adjacent[i]) == 1 && !named(v.name, routerWords)
		host[i] = one || v.kind == topology.KindHost
		if host[i] {
			like[s] = true
		} else if v.kind == "" {
			groups[s] = append(groups[s], i)
		}
		if one {
			single = append(single, i)
		}
	}
	for i, v := range p.devices {
		s := stem(v.name)
		if v.kind == "" && !host[i] && groups[s][0] == i && p.severalAreHosts(groups[s], like, host) {
			several = append(several, groups[s]...)
		}
	}
	return single, several
}

// A group of devices with several cables outnumbers its neighbors if three conditions hold. It has at least
// leastGroup devices, each has at most mostUplinks neighbors, and there are at least groupPerNeighbor devices
// for each neighbor of the group.
const (
	leastGroup       = 8
	mostUplinks      = 8
	groupPerNeighbor = 4
)

// severalAreHosts reports whether devices with several cables, whose names differ only in numbers, are hosts.
// They are not if one of them has a cable to another or to a host, or if their name contains a word for
// switches or routers. Otherwise they are hosts if they are named like hosts, if all of their ports are, or
// if they outnumber their neighbors. Servers outnumber leaf switches, while spine switches do not.
func (p *plan) severalAreHosts(group []int, like map[string]bool, host []bool) bool {
	name := p.devices[group[0]].name
	s := stem(name)
	if strings.Trim(s, "0") == "" || named(name, switchWords) || named(name, routerWords) {
		return false
	}
	nics := true
	few := true
	neighbors := map[int32]bool{}
	for _, i := range group {
		nics = nics && p.nics[i] > 0
		own := map[int32]bool{}
		for _, k := range p.adjacent[i] {
			if host[k] || stem(p.devices[k].name) == s {
				return false
			}
			own[k] = true
			neighbors[k] = true
		}
		few = few && len(own) <= mostUplinks
	}
	outnumber := few && len(group) >= leastGroup && len(group) >= groupPerNeighbor*len(neighbors)
	return like[s] || named(name, hostWords) || nics || outnumber
}

var digits = regexp.MustCompile(`[0-9]+`)

// stem returns the part that names of devices of one kind share: dc0-rack0-srv0 for dc1-rack12-srv7.
func stem(name string) string { return digits.ReplaceAllString(strings.ToLower(name), "0") }

// untiered reports whether a switch belongs to no tier, according to the file or to its name.
func (v *device) untiered() bool {
	return v.kind == topology.KindSwitch && (v.stated || named(v.name, routerWords))
}

func (p *plan) measure() {
	p.level = topology.Levels(p.adjacent, func(i int) bool { return p.devices[i].kind == topology.KindHost })
	for i := range p.devices {
		if !p.devices[i].untiered() {
			p.top = max(p.top, p.level[i])
		}
	}
}

// inferRoles assigns roles to switches of unknown role by their distance to the hosts: the nearest are tor,
// the farthest spine, the others fabric. A switch gets no tier if the file states the devices of the tier, or
// if its name is that of a router.
func (p *plan) inferRoles() {
	stated := map[string]bool{}
	inferred := map[string]int{}
	for _, v := range p.devices {
		stated[v.kind] = stated[v.kind] || v.stated
	}
	untiered := 0
	example := ""
	for i := range p.devices {
		v := &p.devices[i]
		if v.kind != topology.KindSwitch || v.stated || p.level[i] < 0 {
			continue
		}
		kind := topology.KindFabric
		switch p.level[i] {
		case 1:
			kind = topology.KindTor
		case p.top:
			kind = topology.KindSpine
		}
		if v.untiered() || stated[kind] {
			untiered++
			example = cmp.Or(example, v.name)
			continue
		}
		v.kind = kind
		inferred[kind]++
	}
	var parts []string
	for _, k := range [][2]string{{topology.KindTor, "next to hosts"}, {topology.KindFabric, "between"},
		{topology.KindSpine, "farthest, " + topology.Count(p.top, "cable") + " away"}} {
		n := inferred[k[0]]
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", n, k[0], k[1]))
		}
	}
	if len(parts) > 0 {
		p.note("roles: %s, inferred from the distance to the hosts", strings.Join(parts, ", "))
	}
	p.count(
		untiered,
		"switch",
		"roles: %s without a tier, such as "+example+": its name is that of a router, or --nodes "+
			"lists the tier's switches without it",
	)
}

// number assigns an id to each device: its name if all names are numbers, otherwise its index among hosts and
// then switches, in natural order of their names (see idsOf). order lists the devices by id.
func (p *plan) number() (ids []int32, order []int) {
	order = p.naturalOrder()
	ids = make([]int32, len(p.devices))
	p.numeric = !slices.ContainsFunc(p.devices, func(v device) bool { _, is := numberOf(v.name); return !is })
	for place, id := range idsOf(names.Of(order, func(i int) string { return p.devices[i].name })) {
		ids[order[place]] = id
	}
	if p.numeric && len(ids) > 0 {
		for i, v := range p.devices {
			ids[i], _ = numberOf(v.name)
		}
		p.note("ids: the devices are named by their ids")
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	return ids, order
}

func (p *plan) naturalOrder() []int {
	order := make([]int, len(p.devices))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		v := &p.devices[a]
		w := &p.devices[b]
		host := v.kind == topology.KindHost
		if host != (w.kind == topology.KindHost) {
			return map[bool]int{true: -1, false: 1}[host]
		}
		return topology.CompareNatural(v.name, w.name)
	})
	return order
}

// inferRacks numbers the racks: as in the node list, otherwise hosts with the same neighbors form a rack. A
// tor belongs to the rack of its hosts if they share one.
func (p *plan) inferRacks() {
	p.rack = p.labelled(func(v *device) string { return v.rack })
	if slices.ContainsFunc(p.rack, func(r int32) bool { return r >= 0 }) {
		return
	}
	numbers := numbering[string]{}
	for _, i := range p.naturalOrder() {
		if p.devices[i].kind != topology.KindHost {
			break
		}
		near := slices.DeleteFunc(slices.Clone(p.adjacent[i]), func(k int32) bool {
			return p.devices[k].kind == topology.KindInner
		})
		slices.Sort(near)
		p.rack[i] = numbers.of(fmt.Sprint(near))
	}
	if len(numbers) > 0 {
		p.note("racks: %d, hosts with the same neighbors (inferred)", len(numbers))
	}
	for i, v := range p.devices {
		if v.kind == topology.KindHost || p.level[i] != 1 {
			continue
		}
		var racks []int32 // of its hosts
		for _, k := range p.adjacent[i] {
			if p.devices[k].kind == topology.KindHost {
				racks = append(racks, p.rack[k])
			}
		}
		if slices.Min(racks) == slices.Max(racks) {
			p.rack[i] = racks[0]
		}
	}
}

// inferPods numbers the pods: as in the node list, otherwise a pod is a part that remains connected without
// the top tier and without switches that have no tier. Only networks of three or more tiers have pods.
func (p *plan) inferPods() {
	p.pod = p.labelled(func(v *device) string { return v.pod })
	if p.top < 3 || slices.ContainsFunc(p.pod, func(r int32) bool { return r >= 0 }) {
		return
	}
	below := func(i int32) bool { return p.level[i] >= 0 && p.level[i] < p.top && !p.devices[i].untiered() }
	cables := slices.DeleteFunc(
		slices.Clone(p.ends),
		func(e [2]int32) bool { return !below(e[0]) || !below(e[1]) },
	)
	lowest := joined(len(p.devices), cables)
	numbers := numbering[int32]{}
	for _, i := range p.naturalOrder() {
		if below(int32(i)) {
			p.pod[i] = numbers.of(lowest[i])
		}
	}
	if len(numbers) > 0 {
		p.note("pods: %d, the parts below the top tier (inferred)", len(numbers))
	}
}

// labelled assigns numbers to labels of devices: the label itself if all labels are numbers, otherwise its
// index in natural order. A device without a label has -1.
func (p *plan) labelled(label func(v *device) string) []int32 {
	labels := names.Of(p.devices, func(v device) string { return label(&v) })
	labels = slices.DeleteFunc(labels, func(text string) bool { return text == "" })
	slices.SortFunc(labels, topology.CompareNatural)
	labels = slices.Compact(labels)
	numeric := !slices.ContainsFunc(labels, func(text string) bool {
		n, err := strconv.ParseInt(text, 10, 32)
		return err != nil || n < 0
	})
	number := make([]int32, len(p.devices))
	for i := range p.devices {
		text := label(&p.devices[i])
		n, _ := slices.BinarySearchFunc(labels, text, topology.CompareNatural)
		switch {
		case text == "":
			n = -1
		case numeric:
			n, _ = strconv.Atoi(text)
		}
		number[i] = int32(n)
	}
	return number
}

// These are the columns of a list of devices.
var (
	listDevice = &column{required: true, several: true,
		names: []string{"device", "node", "name", "hostname", "host", "node_id", "id"}}
	listRole = &column{names: []string{"role", "kind", "device_role", "type"}, several: true}
	listPod  = &column{names: []string{"pod"}}
	listRack = &column{names: []string{"rack"}}
)

// roleNames maps common names of roles to kinds of nodes. Routers, firewalls and the like are switches
// without a tier: they forward packets but do not belong to the tiers of a data center.
var roleNames = map[string]string{
	"host": topology.KindHost, "server": topology.KindHost, "compute": topology.KindHost,
	"storage": topology.KindHost,
	"vm":      topology.KindHost, "gpu": topology.KindHost,
	"tor": topology.KindTor, "leaf": topology.KindTor, "access": topology.KindTor, "edge": topology.KindTor,
	"top-of-rack": topology.KindTor,
	"fabric":      topology.KindFabric, "aggregation": topology.KindFabric, "agg": topology.KindFabric,
	"distribution": topology.KindFabric,
	"spine":        topology.KindSpine, "core": topology.KindSpine, "superspine": topology.KindSpine,
	"super-spine": topology.KindSpine,
	"switch":      "", "devsonic": "", "fanoutleaf": "", "fanoutleafsonic": "", "fanoutroot": "",
	"fanoutrootsonic": "",
	"router":          topology.KindSwitch, "wan": topology.KindSwitch, "border": topology.KindSwitch,
	"gateway": topology.KindSwitch, "firewall": topology.KindSwitch, "load-balancer": topology.KindSwitch,
}

// applyNodeList adds the list of devices that the options name to the plan, and reports whether there is one.
func (p *plan) applyNodeList(index map[string]int32) bool {
	d := p.draft
	o := p.o
	if o.NodeList == "" {
		return false
	}
	t := openTable(d, o.NodeList, listDevice, listRole, listPod, listRack)
	if t == nil {
		return true
	}
	hasRole := t.header(listRole) != ""
	if !hasRole {
		d.note("nodes: %s has no column role; every device in it is a host", t.file)
	}
	listed := map[string]int{}
	for i := range t.rows {
		v := device{
			name:   p.known(t.cell(i, listDevice)),
			at:     t.place(i),
			kind:   topology.KindHost,
			stated: hasRole,
			pod:    t.cell(i, listPod),
			rack:   t.cell(i, listRack),
		}
		switch {
		case v.name == "":
			d.fault(v.at, topology.FaultFormat, "names no device")
			continue
		case d.excluded(v.name):
			continue
		case hasRole:
			v.kind, v.stated = t.role(i)
		}
		if row, again := listed[v.name]; again {
			p.checkAgain(p.devices[index[v.name]], v, t.line[row])
			continue
		}
		listed[v.name] = i
		k, cabled := index[v.name]
		if !cabled {
			d.count(1, "device", "nodes: %s listed without a cable")
			if v.kind != topology.KindHost {
				continue
			}
			k = int32(len(p.devices))
			index[v.name] = k
			p.devices = append(p.devices, v)
			continue
		}
		v.at = p.devices[k].at
		p.devices[k] = v
	}
	return true
}

// role maps a role of the list to a kind of node. stated is false for a plain "switch", whose tier is
// inferred.
func (t *table) role(i int) (kind string, stated bool) {
	text := t.cell(i, listRole)
	kind, known := roleNames[strings.ToLower(strings.ReplaceAll(text, " ", "-"))]
	if text != "" && !known {
		t.fault(t.place(i), topology.FaultRole, "role %q is unknown (%s)", text,
			strings.Join(slices.Sorted(maps.Keys(roleNames)), ", "))
	}
	if kind == "" {
		return topology.KindSwitch, false
	}
	own := strings.ToLower(text)
	if kind != own && kind != topology.KindHost {
		t.count(1, "", fmt.Sprintf("roles: %s is called %s in tiers and in answers", own, kind))
	}
	return kind, true
}

func (p *plan) checkAgain(first, again device, line int) {
	kind := topology.FaultDoubled
	text := "%s is listed before (line %d)"
	if first.kind != again.kind || first.pod != again.pod || first.rack != again.rack {
		kind = topology.FaultContradictory
		text = "%s has another role, pod or rack here than before (line %d)"
	}
	p.repair(again.at, kind, text, again.name, line)
}
