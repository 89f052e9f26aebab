package topology

import (
	"slices"
	"strings"
)

// An end is a port of a device. The port is empty where the format has none.
type end struct{ device, port string }

func (e end) String() string {
	if e.port == "" {
		return e.device
	}
	return e.device + ":" + e.port
}

// A sighting is one statement that two ports are joined, made at a or about a.
type sighting struct {
	a, b    end
	bps     int64 // 0: not stated
	delayNS int64 // -1: not stated
	down    bool
	at      place
}

// ends is the cable that the sighting is about: its ends in a fixed order.
func (s *sighting) ends() [2]end {
	if s.a.device < s.b.device || s.a.device == s.b.device && s.a.port <= s.b.port {
		return [2]end{s.a, s.b}
	}
	return [2]end{s.b, s.a}
}

// A device is a node as a file names it, with what the file says about it.
type device struct {
	name      string
	at        place
	kind      string // "" unknown; "switch" for a switch of unknown role
	pod, rack string // "" unknown
}

// A sightings is all that a file says, in order.
type sightings struct {
	list []sighting
	// devices that the file describes apart from their cables.
	devices []device
	// reports says that a device reports its own cables; nil where cables are listed once, or where
	// it depends on the list (see bothEnds).
	reports func(device string) bool
	// foldCase takes names that differ in case only as the same.
	foldCase bool
}

// A cableGroup is one cable: the sightings of the same two ends.
type cableGroup struct {
	ends      [2]end
	sightings []int // indexes in sightings.list; the first defines the cable's direction
}

// assemble turns sightings into the nodes and cables of a draft.
func (s *sightings) assemble(d *draft, o *Options) {
	s.unifyNames(d, o)
	groups := s.group(d, o)
	both := s.bothEnds(d, groups)
	parallel := map[[2]string]int{}
	ports := map[end]int{}
	usedRules := make([]bool, len(o.Speeds))
	counts := assemblyCounts{}
	var cables []namedCable
	for g := range groups {
		group := &groups[g]
		s.checkReports(d, o, group, both)
		first := s.list[group.sightings[0]]
		s.checkPorts(d, o, group, ports, g, groups)
		c := s.resolve(d, o, group, usedRules, &counts)
		pair := [2]string{group.ends[0].device, group.ends[1].device}
		if k, again := parallel[pair]; again {
			if s.mergeParallel(d, o, &cables[k], c, first) {
				continue
			}
		} else {
			parallel[pair] = len(cables)
		}
		cables = append(cables, c)
	}
	counts.report(d, o, usedRules)
	s.build(d, o, cables)
}

// unifyNames finds devices whose names differ in case only.
func (s *sightings) unifyNames(d *draft, o *Options) {
	spelling := map[string]string{}
	reported := map[string]bool{}
	unify := func(name *string, at place) {
		folded := strings.ToLower(*name)
		first, known := spelling[folded]
		switch {
		case !known:
			spelling[folded] = *name
		case first == *name:
		case s.foldCase:
			*name = first
		case reported[*name]:
			if slices.Contains(o.Repair, FaultSimilarNames) {
				*name = first
			}
		default:
			reported[*name] = true
			if d.repair(o, FaultSimilarNames) {
				*name = first
				return
			}
			d.fault(at, FaultSimilarNames, "%s is also written %s: one device or two?", *name, first)
		}
	}
	for i := range s.devices {
		unify(&s.devices[i].name, s.devices[i].at)
	}
	for i := range s.list {
		unify(&s.list[i].a.device, s.list[i].at)
		unify(&s.list[i].b.device, s.list[i].at)
	}
}

// group collects the sightings of each cable, in order of its first sighting, without self-loops.
func (s *sightings) group(d *draft, o *Options) []cableGroup {
	var groups []cableGroup
	known := make(map[[2]end]int, len(s.list))
	for i := range s.list {
		v := &s.list[i]
		if v.a.device == v.b.device {
			if !d.repair(o, FaultSelfLoop) {
				d.fault(v.at, FaultSelfLoop, "%s and %s are the same device", v.a, v.b)
			}
			continue
		}
		key := v.ends()
		g, again := known[key]
		if !again {
			g = len(groups)
			known[key] = g
			groups = append(groups, cableGroup{ends: key})
		}
		groups[g].sightings = append(groups[g].sightings, i)
	}
	return groups
}

// bothEnds reports whether cables are to be listed from both ends. Where the format does not say,
// the list decides: it does if at least half of its cables stand there from both ends.
func (s *sightings) bothEnds(d *draft, groups []cableGroup) bool {
	if s.reports != nil {
		return true
	}
	twice := 0
	for _, g := range groups {
		first := s.list[g.sightings[0]].a
		if slices.ContainsFunc(g.sightings, func(i int) bool { return s.list[i].a != first }) {
			twice++
		}
	}
	if twice == 0 || 2*twice < len(groups) {
		return false
	}
	d.note("cables: listed from both ends (%d of %d)", twice, len(groups))
	return true
}

// checkReports finds cables that are listed too often or, where both ends should list them, by one
// end only.
func (s *sightings) checkReports(d *draft, o *Options, g *cableGroup, both bool) {
	first := s.list[g.sightings[0]]
	seen := map[end]place{first.a: first.at}
	for _, i := range g.sightings[1:] {
		v := s.list[i]
		from := v.a
		if !both {
			from = first.a
		}
		at, again := seen[from]
		if !again {
			seen[from] = v.at
			continue
		}
		switch {
		case s.sums(o, g) || s.contradict(first, v): // resolve adds the bandwidth, or reports the contradiction
		case d.repair(o, FaultDoubled):
		case first.a.port == "" && first.b.port == "":
			d.fault(v.at, FaultDoubled,
				"%s – %s is listed before (%s), and no ports tell whether these are two cables: "+
					"--repair doubled makes it one, --repair parallel one of the summed bandwidth", v.a, v.b, at.from(v.at))
		default:
			d.fault(v.at, FaultDoubled, "%s – %s is listed before (%s)", v.a, v.b, at.from(v.at))
		}
	}
	if !both || len(seen) > 1 {
		return
	}
	other := first.b
	if s.reports != nil && !s.reports(other.device) {
		return
	}
	if !d.repair(o, FaultOneSided) {
		d.fault(first.at, FaultOneSided, "%s reports a cable to %s, which does not report it", first.a, other)
	}
}

// sums reports whether repeated listings of a cable without ports count as parallel cables.
func (s *sightings) sums(o *Options, g *cableGroup) bool {
	return g.ends[0].port == "" && g.ends[1].port == "" && slices.Contains(o.Repair, FaultParallel) &&
		!slices.Contains(o.Repair, FaultDoubled)
}

// contradict reports whether two sightings of a cable state different speeds or delays.
func (s *sightings) contradict(a, b sighting) bool {
	return a.bps != b.bps && a.bps > 0 && b.bps > 0 || a.delayNS != b.delayNS && a.delayNS >= 0 && b.delayNS >= 0
}

// checkPorts finds ports that several cables end at.
func (s *sightings) checkPorts(d *draft, o *Options, g *cableGroup, ports map[end]int, number int,
	groups []cableGroup) {
	first := s.list[g.sightings[0]]
	for _, e := range g.ends {
		if e.port == "" {
			continue
		}
		k, taken := ports[e]
		if !taken {
			ports[e] = number
			continue
		}
		other := groups[k].ends[0]
		if other == e {
			other = groups[k].ends[1]
		}
		if !d.repair(o, FaultSharedPort) {
			d.fault(first.at, FaultSharedPort, "port %s is cabled to %s as well (%s)", e, other,
				s.list[groups[k].sightings[0]].at.from(first.at))
		}
	}
}
