package format

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parsimon/schema/names"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// An end is a port of a device. The port is empty where the format has none.
type end struct{ device, port string }

func (e end) String() string {
	if e.port == "" {
		return e.device
	}
	return e.device + ":" + e.port
}

// A listing is one statement that two ports are joined, made at a or about a.
type listing struct {
	a, b    end
	bps     int64 // 0: not stated
	delayNS int64 // -1: not stated
	down    bool
	at      place
}

// ends is the cable that the listing is about: its ends in a fixed order.
func (s *listing) ends() [2]end {
	if s.a.device < s.b.device || s.a.device == s.b.device && s.a.port <= s.b.port {
		return [2]end{s.a, s.b}
	}
	return [2]end{s.b, s.a}
}

// A device is a node as a file names it, with its properties there.
type device struct {
	name      string
	at        place
	kind      string // "" unknown; "switch" for a switch of unknown role
	stated    bool   // the kind is what the file says, even if it is "switch"
	pod, rack string // "" unknown
}

// Listings are all that a file says, in order. assemble processes it:
//
//	exclude      without the devices that are no part of the network, and cables at management ports of switches
//	unifyNames   one spelling for each device
//	group        listings of the same two ports are one cable
//	findStyle    is every cable to be listed from both ends?
//	settle       check the reports and the ports of each cable, settle speed and delay,
//	             join the members of link aggregation groups
//	build        find hosts, roles, racks, pods and ids; fill the draft
type listings struct {
	all []listing
	// devices that the file describes apart from their cables.
	devices []device
	// reports says that a device reports its own cables; nil where cables are listed once, or where
	// it depends on the list (see bothEnds).
	reports func(device string) bool
	// foldCase takes names that differ in case only as the same.
	foldCase bool
}

// A cable is the listings of the same two ends, and the cable that results from them.
type cable struct {
	draftCable            // whose bandwidth is 0 and delay -1 where nothing says it
	seen       []*listing // the first defines the direction
	a, b       end
	sharedPort bool // another cable has one of its ports
}

func (d *draft) assemble(s *listings) {
	a := &assembler{listings: s, draft: d, ports: map[end]*cable{}}
	a.exclude()
	a.unifyNames()
	a.group()
	a.findStyle()
	a.settle()
	a.build()
}

type assembler struct {
	*listings
	*draft
	cables   []*cable
	bothEnds bool           // every cable is to be listed from both ends
	ports    map[end]*cable // by port: the first cable that ends there
	// Link aggregation groups, the cables in them, and the first.
	lags, members int
	firstLAG      string
}

// managementPort matches management ports of switches: of devices with several ports that switchPort matches, not gpu0.
var managementPort, switchPort = regexp.MustCompile(`(?i)^(eth0|em0|vme)$`),
	regexp.MustCompile(`(?i)^([a-z]*(ethernet|gige?)|[xf]?ge|[xc]e|et?|gi|twe?|te|fo|hu|fa|swp|port)?[-_ ]?\d`)

func (s *assembler) exclude() {
	cut, management := map[[2]end]bool{}, s.managementCables()
	s.devices = slices.DeleteFunc(s.devices, func(v device) bool { return s.excluded(v.name) })
	s.all = slices.DeleteFunc(s.all, func(v listing) bool {
		if s.excluded(v.a.device) || s.excluded(v.b.device) {
			cut[v.ends()] = true
			return true
		}
		return management[v.ends()] != ""
	})
	s.cut = len(cut)
	s.count(len(management), "cable", "left out: %s at management ports of switches (eth0 beside ports of other names): "+
		names.Listed(slices.Compact(slices.Sorted(maps.Values(management))), 5))
}

// managementCables returns the cables at management ports of switches, each with the switch, without those of excluded
// devices. A device that another cable joins with the same one, or that is known to be a host, is no switch.
func (s *assembler) managementCables() map[[2]end]string {
	seen, others, data := map[end]bool{}, map[string]int{}, map[[2]string]bool{}
	for _, v := range s.all {
		for i, e := range v.ends() {
			if !seen[e] && switchPort.MatchString(e.port) && !nicName.MatchString(e.port) {
				seen[e] = true
				others[e.device]++
			}
			pair := [2]string{e.device, v.ends()[1-i].device}
			data[pair] = data[pair] || !managementPort.MatchString(e.port) // the first has a cable to the second elsewhere
		}
	}
	management, hosts := map[[2]end]string{}, sync.OnceValue(s.statedHosts)
	for _, v := range s.all {
		if s.excluded(v.a.device) || s.excluded(v.b.device) {
			continue
		}
		for i, e := range v.ends() {
			if others[e.device] > 1 && managementPort.MatchString(e.port) && !data[[2]string{e.device, v.ends()[1-i].device}] &&
				!matchesAny(e.device, s.o.HostPatterns) && !hosts()[e.device] {
				management[v.ends()] = e.device
			}
		}
	}
	return management
}

// statedHosts are the devices that the file or the node list says are hosts.
func (s *assembler) statedHosts() map[string]bool {
	p := &plan{assembler: &assembler{draft: newDraft(s.source, s.o), listings: &listings{devices: []device{{}}}}}
	p.applyNodeList(map[string]int32{}) // newPlan reports its faults
	hosts := map[string]bool{}
	for _, v := range append(p.devices, s.devices...) {
		hosts[v.name] = hosts[v.name] || v.kind == topology.KindHost
	}
	return hosts
}

func (s *assembler) unifyNames() {
	spelling := map[string]string{} // by the name in lower case
	reported := map[string]bool{}
	unify := func(name *string, at place) {
		folded := strings.ToLower(*name)
		first, known := spelling[folded]
		if !known {
			spelling[folded] = *name
		}
		if !known || first == *name {
			return
		}
		if !s.foldCase && !reported[*name] {
			reported[*name] = true
			s.repair(at, topology.FaultSimilarNames, "%s is also written %s: one device or two?", *name, first)
		}
		if s.foldCase || slices.Contains(s.o.Repair, topology.FaultSimilarNames) {
			*name = first
		}
	}
	for i := range s.devices {
		unify(&s.devices[i].name, s.devices[i].at)
	}
	for i := range s.all {
		unify(&s.all[i].a.device, s.all[i].at)
		unify(&s.all[i].b.device, s.all[i].at)
	}
}

// group collects the listings of each cable, in order of its first listing, without self-loops.
func (s *assembler) group() {
	known := make(map[[2]end]*cable, len(s.all))
	for i := range s.all {
		v := &s.all[i]
		if v.a.device == v.b.device {
			s.repair(v.at, topology.FaultSelfLoop, "%s and %s are the same device", v.a, v.b)
			continue
		}
		c := known[v.ends()]
		if c == nil {
			c = &cable{a: v.a, b: v.b, draftCable: draftCable{Cable: topology.Cable{DelayNS: -1}, at: v.at}}
			known[v.ends()] = c
			s.cables = append(s.cables, c)
		}
		c.seen = append(c.seen, v)
	}
}

// findStyle decides whether cables are to be listed from both ends. Where the format does not say, the list does: they
// are if at least half of its cables are, or half of those between devices that list any: servers often list none.
func (s *assembler) findStyle() {
	if s.bothEnds = s.reports != nil; s.bothEnds {
		return
	}
	twice := 0
	for _, c := range s.cables {
		if slices.ContainsFunc(c.seen, func(v *listing) bool { return v.a != c.a }) {
			twice++
		}
	}
	if s.bothEnds = twice > 0 && 2*twice >= len(s.cables); s.bothEnds {
		s.note("cables: listed from both ends (%d of %d)", twice, len(s.cables))
		return
	}
	lists, between := map[string]bool{}, 0
	for i := range s.all {
		lists[s.all[i].a.device] = true
	}
	for _, c := range s.cables {
		if lists[c.a.device] && lists[c.b.device] {
			between++
		}
	}
	if s.bothEnds = twice > 0 && 2*twice >= between; s.bothEnds {
		s.reports = func(device string) bool { return lists[device] }
		s.note("cables: listed from both ends (%d of %d between devices that list any)", twice, between)
	}
}

// settle checks the cables and settles what they are. Those that are parallel become one.
func (s *assembler) settle() {
	for _, c := range s.cables {
		s.checkReports(c)
		s.checkPorts(c)
	}
	parallel := map[[2]string]*cable{}
	s.cables = slices.DeleteFunc(s.cables, func(c *cable) bool {
		s.resolve(c)
		ends := c.seen[0].ends()
		pair := [2]string{ends[0].device, ends[1].device}
		into := parallel[pair]
		if into == nil {
			parallel[pair] = c
		} else if !s.mergeParallel(into, c) {
			s.unmerged++
		}
		return into != nil
	})
	for _, r := range s.o.Speeds {
		if !s.matched[r.String()] {
			s.note("speeds: rule %s applies to no cable", r)
		}
	}
	if s.lags > 0 {
		s.note("lag: %s of %d parallel cables, each one link of the summed bandwidth, all of which one flow may use (%s)",
			topology.Count(s.lags, "link aggregation group"), s.members, s.firstLAG)
	}
}

// checkReports finds cables that are listed too often or, where both ends should list them, by one end only.
func (s *assembler) checkReports(c *cable) {
	seen := map[end]place{c.a: c.at}
	for _, v := range c.seen[1:] {
		from := v.a
		if !s.bothEnds {
			from = c.a
		}
		if at, again := seen[from]; !again {
			seen[from] = v.at
		} else if !s.sums(c) && !contradict(c.seen[0], v) { // else resolve adds the bandwidth, or reports it
			text := "%s – %s is listed before (%s)"
			if c.a.port == "" && c.b.port == "" {
				text += ", and without ports it is unknown whether these are two cables: --repair doubled makes it one, " +
					"--repair parallel one of the summed bandwidth"
			}
			s.repair(v.at, topology.FaultDoubled, text, v.a, v.b, at.from(v.at))
		}
	}
	if s.bothEnds && len(seen) == 1 && (s.reports == nil || s.reports(c.b.device)) {
		s.repair(c.at, topology.FaultOneSided, "%s reports a cable to %s, which does not report it", c.a, c.b)
	}
}

// sums reports whether repeated listings of a cable without ports count as parallel cables.
func (s *assembler) sums(c *cable) bool {
	return c.a.port == "" && c.b.port == "" && slices.Contains(s.o.Repair, topology.FaultParallel) &&
		!slices.Contains(s.o.Repair, topology.FaultDoubled)
}

// contradict reports whether two listings of a cable state different speeds or delays.
func contradict(a, b *listing) bool {
	return a.bps != b.bps && a.bps > 0 && b.bps > 0 || a.delayNS != b.delayNS && a.delayNS >= 0 && b.delayNS >= 0
}

func (s *assembler) checkPorts(c *cable) {
	for _, e := range c.seen[0].ends() {
		if before := s.ports[e]; e.port != "" && before == nil {
			s.ports[e] = c
		} else if e.port != "" {
			before.sharedPort, c.sharedPort = true, true
			other := before.a
			if other == e {
				other = before.b
			}
			s.repair(c.at, topology.FaultSharedPort, "port %s is cabled to %s as well (%s)", e, other, before.at.from(c.at))
		}
	}
}

func (s *assembler) resolve(c *cable) {
	sum := s.sums(c)
	for _, v := range c.seen {
		c.failed = c.failed || v.down
		switch {
		case v.bps == 0 || v.bps == c.BandwidthBps && !sum:
		case c.BandwidthBps == 0:
			c.BandwidthBps = v.bps
		case sum && v.a == c.a:
			c.BandwidthBps += v.bps
			s.repaired(topology.FaultParallel)
		case sum:
		default:
			s.repair(v.at, topology.FaultContradictory, "%s – %s has %s here and %s before (%s)",
				v.a, v.b, topology.FormatBps(v.bps), topology.FormatBps(c.BandwidthBps), c.at.from(v.at))
			c.BandwidthBps = min(c.BandwidthBps, v.bps)
		}
		if v.delayNS >= 0 && c.DelayNS >= 0 && v.delayNS != c.DelayNS {
			s.repair(v.at, topology.FaultContradictory, "%s – %s has a delay of %d ns here and %d ns before (%s)",
				v.a, v.b, v.delayNS, c.DelayNS, c.at.from(v.at))
		}
		c.DelayNS = max(c.DelayNS, v.delayNS)
	}
	bps, named := c.BandwidthBps, c.named()
	if min(bps, named) > 0 && (bps > 100*named || named > 100*bps) {
		s.fault(c.at, topology.FaultFormat, "%s – %s has %s by its speed and %s by the name of a port; a header "+
			"with a unit, such as speed_kbps, says what numbers mean", c.a, c.b, topology.FormatBps(bps), topology.FormatBps(named))
	}
	if text := s.applyRules(c); text != "" {
		s.count(1, "cable", text)
	}
	if c.BandwidthBps == 0 {
		s.fault(c.at, topology.FaultUnknownSpeed,
			"%s – %s has no speed; give one with --speed, such as --speed '%s=25G', or all with --default-speed",
			c.a, c.b, c.a.device)
	}
	if c.DelayNS < 0 {
		c.DelayNS = cmp.Or(s.o.DefaultDelayNS, DefaultDelayNS)
		s.count(1, "cable", fmt.Sprintf("delays: %%s without delay or length: %d ns by default", c.DelayNS))
	}
	if c.failed {
		s.count(1, "cable", "status: %s down")
	}
	if c.each = c.BandwidthBps; c.a.port != "" && c.b.port != "" {
		c.ports = topology.Ports{A: []string{c.a.port}, B: []string{c.b.port}}
	}
}

// named is the speed that the names of the cable's ports say, the lower of two, in bps; 0 where they say none.
func (c *cable) named() int64 {
	a, b := portSpeed(c.a.port), portSpeed(c.b.port)
	if min(a, b) == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// applyRules gives a cable without a speed that of the first rule that matches, else what its ports' names say, else
// the default. It returns a note that counts such cables; empty where the file has the speed, or nothing says it.
func (s *assembler) applyRules(c *cable) (text string) {
	if c.BandwidthBps > 0 {
		return ""
	}
	for _, r := range s.o.Speeds {
		if r.matches(c.a) || r.matches(c.b) {
			s.matched[r.String()] = true
			c.BandwidthBps = r.BandwidthBps
			return "speeds: %s from --speed rules"
		}
	}
	switch c.BandwidthBps = c.named(); {
	case c.BandwidthBps > 0:
		return "speeds: %s by the names of their ports"
	case s.o.DefaultSpeedBps == 0:
		return ""
	}
	c.BandwidthBps = s.o.DefaultSpeedBps
	return "speeds: %s without a speed: " + topology.FormatBps(c.BandwidthBps) + " by default (--default-speed)"
}

// Names of ports that say their speed in Gbps: 100GE1/0/1, TwentyFiveGigE1/0/1 and short forms (Cisco, Huawei, SONiC
// aliases), xe-0/0/1 (Junos, whose et- are 25 to 400 Gbps and say nothing).
var (
	portName   = regexp.MustCompile(`(?i)^(?:(\d+)(?:ge|gbe|gige)|([a-z]*?)(gige|gigabitethernet)?)-?\d`)
	portCounts = map[string]int64{"": 1, "ten": 10, "twentyfive": 25, "forty": 40, "fifty": 50, "hundred": 100,
		"twohundred": 200, "fourhundred": 400, "eighthundred": 800}
	portWords = map[string]int64{"ge": 1, "gi": 1, "te": 10, "xe": 10, "twe": 25, "fo": 40, "hu": 100}
)

// portSpeed is the speed that the name of a port says, in bps; 0 where it says none.
func portSpeed(name string) int64 {
	m := portName.FindStringSubmatch(name)
	switch {
	case m == nil:
		return 0
	case m[1] != "":
		gbps, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil || gbps > 1600 {
			return 0
		}
		return gbps * 1e9
	case m[3] != "":
		return portCounts[strings.ToLower(m[2])] * 1e9
	}
	return portWords[strings.ToLower(m[2])] * 1e9
}

// mergeParallel adds a cable to an earlier one between the same devices: the members of a LAG, with ports of their own
// and one speed, and other parallel cables where the options allow it. Else it returns false, with a fault.
func (s *assembler) mergeParallel(into, c *cable) bool {
	switch lag := len(into.ports.A) > 0 && len(c.ports.A) > 0 && into.each == c.each && c.each > 0 && !c.sharedPort; {
	case lag:
		if len(into.ports.A) == 1 {
			s.lags++
			s.members++
		}
		s.members++
		s.firstLAG = cmp.Or(s.firstLAG, c.a.device+" – "+c.b.device)
	case !s.repair(c.at, topology.FaultParallel, "%s – %s: a second cable between %s and %s (the first: %s)",
		c.a, c.b, c.a.device, c.b.device, into.at.from(c.at)):
		return false
	}
	into.join(c.draftCable, c.a.device != into.a.device)
	return true
}

func (s *assembler) build() {
	s.infers = true
	p := newPlan(s)
	p.inferRoles()
	p.inferRacks()
	p.inferPods()
	ids, order := p.number()
	for _, i := range order {
		v := p.devices[i]
		name := v.name
		if p.numeric {
			name = ""
		}
		if v.rack != "" {
			s.nameRack(p.rack[i], v.rack)
		}
		s.addNode(topology.Node{ID: ids[i], Name: name, Kind: v.kind, Pod: p.pod[i], Rack: p.rack[i]}, v.at)
	}
	for i, c := range s.cables {
		c.A, c.B = ids[p.ends[i][0]], ids[p.ends[i][1]]
		c.BandwidthBps = cmp.Or(c.BandwidthBps, simkernel.MinBps) // an unknown one is a fault already
		s.draft.cables = append(s.draft.cables, c.draftCable)
	}
}
