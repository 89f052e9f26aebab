package format

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"parsimon/schema/names"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// An end is a port of a device. The port is empty if the format has no ports.
type end struct{ device, port string }

func (e end) String() string {
	if e.port == "" {
		return e.device
	}
	return e.device + ":" + e.port
}

// A listing is one statement of a file that ports a and b are connected. Device a, if any, makes it.
type listing struct {
	a, b    end
	bps     int64 // 0: not stated; of a breakout, of each lane
	lanes   int   // of a breakout: 4 for 4x25G, whose port may be at the end of four cables; 0 or 1: none
	delayNS int64 // -1: not stated
	down    bool
	at      place
}

// ends returns the cable of the listing: its two ends in a fixed order.
func (s *listing) ends() [2]end {
	if s.a.device < s.b.device || s.a.device == s.b.device && s.a.port <= s.b.port {
		return [2]end{s.a, s.b}
	}
	return [2]end{s.b, s.a}
}

// A device is a node under the name, and with the properties, that the file gives it.
type device struct {
	name      string
	at        place
	kind      string // "" unknown; "switch" for a switch of unknown role
	stated    bool   // the kind is what the file says, even if it is "switch"
	pod, rack string // "" unknown
}

// Listings are the contents of a file, in order. assemble processes them:
//
//	unifyNames   one spelling for each device
//	exclude      without the devices that are no part of the network, and cables at management ports of switches
//	unifyPorts   one spelling for each port
//	findPorts    ports that one end does not know, as the other end lists them
//	group        listings of the same two ports are one cable
//	findStyle    is every cable to be listed from both ends?
//	settle       check the reports and the ports of each cable, settle speed and delay,
//	             join the members of link aggregation groups
//	build        find hosts, roles, racks, pods and ids; fill the draft
type listings struct {
	all []listing
	// devices are the devices that the file describes separately from their cables.
	devices []device
	// reports means that each device reports its own cables. It is nil if cables are listed once, or if the
	// list decides (see bothEnds).
	reports func(device string) bool
	// foldCase treats names that differ only in case as equal.
	foldCase bool
}

// A cable has all listings of the same two ends, and the properties that result from them.
type cable struct {
	draftCable            // whose bandwidth is 0 and delay -1 if nothing states it
	seen       []*listing // the first defines the direction
	a, b       end
	sharedPort bool // another cable has one of its ports, and they are not lanes of a breakout
	oneSided   bool // only one end reports it, and that is repaired
	lanes      int  // of a breakout
	members    int  // of the LAG of which it is the first member that the list proves
}

func (d *draft) assemble(s *listings) {
	a := &assembler{listings: s, draft: d, ports: map[end][]*cable{}}
	a.unifyNames()
	a.exclude()
	a.unifyPorts()
	a.findPorts()
	a.group()
	a.findStyle()
	a.settle()
	a.build()
}

type assembler struct {
	*listings
	*draft
	cables   []*cable
	bothEnds bool              // every cable must be listed from both ends
	ports    map[end][]*cable  // by port: the cables that end there
	spelling map[string]string // by the name of a device in lower case: its only spelling
	// the same by the name without its domain; empty if several have it; nil until needed
	bare   map[string]string
	lags   []*cable       // link aggregation groups
	leaves map[string]int // by device: its neighbors with one cable; nil until it is needed
}

// managementPort matches management ports of switches. It applies only to devices with several ports that
// match switchPort, so that gpu0 is not one.
var managementPort, switchPort = regexp.MustCompile(`(?i)^(eth0|em0|vme)$`),
	regexp.MustCompile(
		`(?i)^([a-z]*(ethernet|gige?)|[xf]?ge|[xc]e|et?|gi|twe?|te|fo|hu|fa|swp|port)?[-_ ]?\d`,
	)

func (s *assembler) exclude() {
	cut := map[[2]end]bool{}
	management := s.managementCables()
	s.devices = slices.DeleteFunc(s.devices, func(v device) bool { return s.excluded(v.name) })
	s.all = slices.DeleteFunc(s.all, func(v listing) bool {
		if s.excluded(v.a.device) || s.excluded(v.b.device) {
			cut[v.ends()] = true
			return true
		}
		return management[v.ends()] != ""
	})
	s.cut = len(cut)
	s.count(
		len(management),
		"cable",
		"left out: %s at management ports of switches (eth0 beside ports of other names): "+
			names.Listed(slices.Compact(slices.Sorted(maps.Values(management))), 5),
	)
}

// managementCables returns the cables at management ports of switches, each with its switch. A device is not
// a switch if it is known to be a host, or if another port, not one for management, connects it to the same
// neighbor. A device with two cables to the same neighbor, or one that is known to be a host, is not a
// switch.
func (s *assembler) managementCables() map[[2]end]string {
	seen := map[end]bool{}
	others := map[string]int{}
	data := map[[2]string]bool{}
	for _, v := range s.all {
		for i, e := range v.ends() {
			if !seen[e] && switchPort.MatchString(e.port) && !nicName.MatchString(e.port) {
				seen[e] = true
				others[e.device]++
			}
			pair := [2]string{e.device, v.ends()[1-i].device}
			data[pair] = data[pair] ||
				!managementPort.MatchString(e.port) // the first has a cable to the second elsewhere
		}
	}
	management := map[[2]end]string{}
	hosts := sync.OnceValue(s.statedHosts)
	for _, v := range s.all {
		if s.excluded(v.a.device) || s.excluded(v.b.device) {
			continue
		}
		for i, e := range v.ends() {
			if others[e.device] > 1 && managementPort.MatchString(e.port) &&
				!data[[2]string{e.device, v.ends()[1-i].device}] &&
				!matchesAny(e.device, s.o.HostPatterns) &&
				!hosts()[e.device] {
				management[v.ends()] = e.device
			}
		}
	}
	return management
}

// statedHosts are the devices that the file or the node list says are hosts.
func (s *assembler) statedHosts() map[string]bool {
	p := &plan{
		assembler: &assembler{draft: newDraft(s.source, s.o), listings: &listings{devices: []device{{}}}},
	}
	p.applyNodeList(map[string]int32{}) // newPlan reports its faults
	hosts := map[string]bool{}
	for _, v := range append(p.devices, s.devices...) {
		hosts[v.name] = hosts[v.name] || v.kind == topology.KindHost
	}
	return hosts
}

// group collects the listings of each cable, in order of its first listing, without self-loops.
func (s *assembler) group() {
	known := make(map[[2]end][]*cable, len(s.all))
	for i := range s.all {
		v := &s.all[i]
		if v.a.device == v.b.device {
			s.repair(v.at, topology.FaultSelfLoop, "%s and %s are the same device", v.a, v.b)
			continue
		}
		c := s.listedAs(v, known[v.ends()])
		if c == nil {
			c = &cable{a: v.a, b: v.b, draftCable: draftCable{Cable: topology.Cable{DelayNS: -1}, at: v.at}}
			known[v.ends()] = append(known[v.ends()], c)
			s.cables = append(s.cables, c)
		}
		c.seen = append(c.seen, v)
	}
}

// listedAs returns the cable of a listing, among the cables with its ends, or nil if it is a new one. If
// repeated listings count as parallel cables, the cable is the first that this end does not list yet.
func (s *assembler) listedAs(v *listing, known []*cable) *cable {
	if len(known) == 0 {
		return nil
	}
	if !s.sums(known[0]) {
		return known[0]
	}
	for _, c := range known {
		if !slices.ContainsFunc(c.seen, func(o *listing) bool { return o.a == v.a }) {
			return c
		}
	}
	return nil
}

// findStyle decides whether each cable must be listed from both ends. If the format does not define it, both
// ends are expected if at least half of the cables are between devices that list cables. A device lists
// cables if it is the first end of a row, or if a device whose name differs only in its numbers is. Servers
// often list none.
func (s *assembler) findStyle() {
	s.bothEnds = s.reports != nil
	if s.bothEnds {
		return
	}
	lists := map[string]bool{} // by stem of a name
	for i := range s.all {
		lists[stem(s.all[i].a.device)] = true
	}
	twice := 0
	between := 0
	for _, c := range s.cables {
		if slices.ContainsFunc(c.seen, func(v *listing) bool { return v.a != c.a }) {
			twice++
		}
		if lists[stem(c.a.device)] && lists[stem(c.b.device)] {
			between++
		}
	}
	s.bothEnds = twice > 0 && 2*twice >= between
	if !s.bothEnds {
		return
	}
	s.reports = func(device string) bool { return lists[stem(device)] }
	of := ""
	if between < len(s.cables) {
		of = " between devices that list any"
	}
	s.note("cables: listed from both ends (%d of %d%s)", twice, between, of)
}

// settle checks the cables and resolves their properties. Parallel cables become members of LAGs.
func (s *assembler) settle() {
	for _, c := range s.cables {
		s.checkReports(c)
	}
	s.joinReports()
	for _, c := range s.cables {
		s.collectPorts(c)
	}
	for _, c := range s.cables {
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
			return false
		}
		if !s.joinLAG(into, c) {
			s.unmerged++
			return true
		}
		return false
	})
	for _, r := range s.o.Speeds {
		if !s.matched[r.String()] {
			s.note("speeds: rule %s applies to no cable", r)
		}
	}
	s.noteLAGs()
}

// noteLAGs lists the link aggregation groups that were inferred from parallel cables.
func (s *assembler) noteLAGs() {
	members := 0
	groups := names.Of(s.lags, func(c *cable) string {
		members += c.members
		speed := topology.FormatBps(c.BandwidthBps)
		return fmt.Sprintf("%s – %s (%d × %s)", c.a.device, c.b.device, c.members, speed)
	})
	if len(groups) > 0 {
		s.note(
			"lag: %s of %d parallel cables with separate ports; a flow takes one member: %s",
			topology.Count(len(groups), "link aggregation group"),
			members,
			names.Listed(groups, 10),
		)
	}
}

// joinReports merges two cables into one if each is reported by one end only, the ends are opposite, and the
// repair is allowed. This happens if each end gives the other's port a name that the other does not use. A
// pair of such reports is never two cables.
func (s *assembler) joinReports() {
	waiting := map[[2]string][]*cable{} // by the reporting and the other device
	joined := map[*cable]bool{}
	example := ""
	for _, c := range s.cables {
		if !c.oneSided {
			continue
		}
		from := [2]string{c.a.device, c.b.device}
		to := [2]string{c.b.device, c.a.device}
		if len(waiting[to]) == 0 {
			waiting[from] = append(waiting[from], c)
			continue
		}
		first := waiting[to][0]
		waiting[to] = waiting[to][1:]
		if example == "" {
			example = fmt.Sprintf("%s – %s and %s – %s", first.a, first.b, c.a, c.b)
		}
		for _, v := range c.seen {
			v.a, v.b = c.a, first.a
		}
		for _, v := range first.seen {
			v.b = c.a
		}
		first.b = c.a
		first.oneSided = false
		first.seen = append(first.seen, c.seen...)
		joined[c] = true
	}
	s.cables = slices.DeleteFunc(s.cables, func(c *cable) bool { return joined[c] })
	if len(joined) > 0 {
		s.note("ports: %s, each end of which names the other's port differently, such as %s",
			topology.Count(len(joined), "cable"), example)
	}
}

// checkReports finds cables that are listed too often, and those that only one end lists although both
// should.
func (s *assembler) checkReports(c *cable) {
	seen := map[end]place{c.a: c.at}
	for _, v := range c.seen[1:] {
		from := v.a
		if !s.bothEnds {
			from = c.a
		}
		at, again := seen[from]
		if !again {
			seen[from] = v.at
		} else if !s.sums(c) && !contradict(c.seen[0], v) { // else resolve reports it
			text := "%s – %s is listed before (%s)"
			if c.a.port == "" && c.b.port == "" {
				text += ", and without ports it is unknown whether these are two cables: --repair doubled makes it one, " +
					"--repair parallel a link aggregation group"
			}
			s.repair(v.at, topology.FaultDoubled, text, v.a, v.b, at.from(v.at))
		}
	}
	if s.bothEnds && len(seen) == 1 && s.reports(c.b.device) {
		c.oneSided = s.repair(
			c.at,
			topology.FaultOneSided,
			"%s reports a cable to %s, which does not report it",
			c.a,
			c.b,
		)
	}
}

// sums reports whether repeated listings of a cable without ports count as parallel cables.
func (s *assembler) sums(c *cable) bool {
	return c.a.port == "" && c.b.port == "" && slices.Contains(s.o.Repair, topology.FaultParallel) &&
		!slices.Contains(s.o.Repair, topology.FaultDoubled)
}

// contradict reports whether two listings of a cable state different speeds or delays.
func contradict(a, b *listing) bool {
	return a.bps != b.bps && a.bps > 0 && b.bps > 0 ||
		a.delayNS != b.delayNS && a.delayNS >= 0 && b.delayNS >= 0
}

// collectPorts records the ports of a cable, and the number of lanes of each.
func (s *assembler) collectPorts(c *cable) {
	for _, v := range c.seen {
		c.lanes = max(c.lanes, v.lanes)
	}
	for _, e := range c.seen[0].ends() {
		if e.port != "" {
			s.ports[e] = append(s.ports[e], c)
		}
	}
}

// checkPorts finds ports that have several cables although they are not lanes of a breakout.
func (s *assembler) checkPorts(c *cable) {
	for _, e := range c.seen[0].ends() {
		at := s.ports[e]
		if len(at) < 2 || at[0] == c ||
			!slices.ContainsFunc(at, func(o *cable) bool { return o.lanes < len(at) }) {
			continue
		}
		for _, o := range at {
			o.sharedPort = true
		}
		other := at[0].a
		if other == e {
			other = at[0].b
		}
		s.repair(
			c.at,
			topology.FaultSharedPort,
			"port %s is cabled to %s as well (%s)",
			e,
			other,
			at[0].at.from(c.at),
		)
	}
}

// share returns the number of cables that divide the port at an end: the number of lanes of a breakout,
// otherwise 1.
func (s *assembler) share(c *cable, e end) int64 {
	if c.lanes > 1 && !c.sharedPort {
		return max(1, int64(len(s.ports[e])))
	}
	return 1
}

// resolve determines the bandwidth, the delay, the state and the ports of a cable.
func (s *assembler) resolve(c *cable) {
	for _, v := range c.seen {
		c.failed = c.failed || v.down
		s.takeSpeed(c, v)
		if v.delayNS >= 0 && c.DelayNS >= 0 && v.delayNS != c.DelayNS {
			s.repair(
				v.at,
				topology.FaultContradictory,
				"%s – %s has a delay of %d ns here and %d ns before (%s)",
				v.a,
				v.b,
				v.delayNS,
				c.DelayNS,
				c.at.from(v.at),
			)
		}
		c.DelayNS = max(c.DelayNS, v.delayNS)
	}
	if c.BandwidthBps > 0 && c.lanes > 1 { // of one lane so far
		cables := max(s.share(c, c.a), s.share(c, c.b))
		c.BandwidthBps *= max(1, int64(c.lanes)/cables)
	}
	s.checkSpeed(c)
	if c.DelayNS < 0 {
		c.DelayNS = cmp.Or(s.o.DefaultDelayNS, DefaultDelayNS)
		s.count(1, "cable", fmt.Sprintf("delays: %%s without delay or length: %d ns by default", c.DelayNS))
	}
	if c.failed {
		s.count(1, "cable", "status: %s down")
	}
	if c.a.port != "" && c.b.port != "" {
		c.ports = topology.Ports{A: c.a.port, B: c.b.port}
	}
}

// takeSpeed applies the speed of a listing to the cable. Two speeds are a fault.
func (s *assembler) takeSpeed(c *cable, v *listing) {
	switch {
	case v.bps == 0 || v.bps == c.BandwidthBps:
	case c.BandwidthBps == 0:
		c.BandwidthBps = v.bps
	default:
		s.repair(v.at, topology.FaultContradictory, "%s – %s has %s here and %s before (%s)", v.a, v.b,
			topology.FormatBps(v.bps), topology.FormatBps(c.BandwidthBps), c.at.from(v.at))
		c.BandwidthBps = min(c.BandwidthBps, v.bps)
	}
}

// checkSpeed compares the speed of a cable with the names of its ports, and reports a cable that has no speed
// in the list.
func (s *assembler) checkSpeed(c *cable) {
	bps := c.BandwidthBps
	named := s.named(c)
	if min(bps, named) > 0 && (bps > 100*named || named > 100*bps) {
		s.fault(
			c.at,
			topology.FaultFormat,
			"%s – %s has %s by its speed and %s by the name of a port; a header with a "+
				"unit, such as speed_kbps, says what numbers mean",
			c.a,
			c.b,
			topology.FormatBps(bps),
			topology.FormatBps(named),
		)
	}
	text := s.applyRules(c)
	if text != "" {
		s.count(1, "cable", text)
	}
	if c.BandwidthBps == 0 {
		s.fault(
			c.at,
			topology.FaultUnknownSpeed,
			"%s – %s has no speed; give one with --speed, such as --speed '%s=25G' "+
				"for this cable, or all with --default-speed",
			c.a,
			c.b,
			s.ofThisCable(c),
		)
	}
}

// ofThisCable returns a pattern for --speed that matches the cable but no cable of another tier: a port if
// one is known, otherwise the device that has fewest neighbors without other cables.
func (s *assembler) ofThisCable(c *cable) string {
	switch {
	case c.a.port != "":
		return c.a.String()
	case c.b.port != "":
		return c.b.String()
	}
	if s.leaves == nil {
		s.leaves = s.countLeaves()
	}
	if s.leaves[c.a.device] > 0 && s.leaves[c.b.device] < s.leaves[c.a.device] {
		return c.b.device
	}
	return c.a.device
}

// countLeaves counts, for each device, its neighbors that have no other cable.
func (s *assembler) countLeaves() map[string]int {
	cables := map[string]int{}
	leaves := map[string]int{}
	for i := range s.all {
		cables[s.all[i].a.device]++
		cables[s.all[i].b.device]++
	}
	for i := range s.all {
		a := s.all[i].a.device
		b := s.all[i].b.device
		if cables[a] == 1 {
			leaves[b]++
		}
		if cables[b] == 1 {
			leaves[a]++
		}
	}
	return leaves
}

// named returns the speed that the names of the cable's ports imply, in bps. It is the lower of two, and 0 if
// neither name implies one.
func (s *assembler) named(c *cable) int64 {
	a := portSpeed(c.a.port) / s.share(c, c.a)
	b := portSpeed(c.b.port) / s.share(c, c.b)
	if min(a, b) == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// applyRules sets the speed of a cable that has none: that of the first rule that matches, otherwise the
// speed that its ports' names imply, otherwise the default. Lanes of a breakout divide the speed of their
// common port. It returns a note that counts such cables. The note is empty if the file states the speed, or
// if there is none.
func (s *assembler) applyRules(c *cable) (text string) {
	if c.BandwidthBps > 0 {
		return ""
	}
	for _, r := range s.o.Speeds {
		for _, e := range []end{c.a, c.b} {
			if r.matches(e) {
				s.matched[r.String()] = true
				c.BandwidthBps = r.BandwidthBps / s.share(c, e)
				return "speeds: %s from --speed rules"
			}
		}
	}
	c.BandwidthBps = s.named(c)
	switch {
	case c.BandwidthBps > 0:
		return "speeds: %s by the names of their ports"
	case s.o.DefaultSpeedBps == 0:
		return ""
	}
	c.BandwidthBps = s.o.DefaultSpeedBps
	return "speeds: %s without a speed: " + topology.FormatBps(
		c.BandwidthBps,
	) + " by default (--default-speed)"
}

// joinLAG makes a cable a member of the LAG of an earlier one between the same devices, the first. It does so
// if the two have different ports at both ends, are reported by both, and have equal speeds, and for other
// parallel cables if the options allow it. Otherwise it returns false and reports a fault.
func (s *assembler) joinLAG(first, c *cable) bool {
	none := topology.Ports{}
	alike := first.BandwidthBps == c.BandwidthBps && c.BandwidthBps > 0
	members := alike && first.ports != none && c.ports != none
	proven := !c.sharedPort && !c.oneSided && !first.oneSided
	switch {
	case members && proven:
		if first.members == 0 {
			first.members = 1
			s.lags = append(s.lags, first)
		}
		first.members++
	case !s.repair(c.at, topology.FaultParallel, "%s – %s: a second cable between %s and %s (the first: %s)",
		c.a, c.b, c.a.device, c.b.device, first.at.from(c.at)):
		return false
	}
	c.Parallel = true
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
		c.A = ids[p.ends[i][0]]
		c.B = ids[p.ends[i][1]]
		c.BandwidthBps = cmp.Or(c.BandwidthBps, simkernel.MinBps) // an unknown one is a fault already
		s.draft.cables = append(s.draft.cables, c.draftCable)
	}
}
