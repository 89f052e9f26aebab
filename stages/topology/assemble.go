package topology

import (
	"slices"
	"strings"
)

// A cableGroup is one cable: the sightings of the same two ends.
type cableGroup struct {
	ends      [2]end
	sightings []int // indexes in sightings.list; the first defines the cable's direction
}

// assemble turns sightings into the nodes and cables of a draft.
func (s *sightings) assemble(d *draft, o *Options) {
	a := &assembler{sightings: s, d: d, o: o, ports: map[end]int{}, usedRules: make([]bool, len(o.Speeds))}
	a.unifyNames()
	a.group()
	a.findStyle()
	a.build(a.cables())
}

// An assembler holds what assemble has found so far.
type assembler struct {
	*sightings
	d         *draft
	o         *Options
	groups    []cableGroup
	bothEnds  bool        // every cable is to be listed from both ends
	ports     map[end]int // by port: the first group that ends there
	usedRules []bool      // by speed rule
	counts    assemblyCounts
}

// cables checks the groups and makes one cable of each, or of those that are parallel.
func (s *assembler) cables() (cables []namedCable) {
	parallel := map[[2]string]int{}
	for i := range s.groups {
		g := &s.groups[i]
		s.checkReports(g)
		s.checkPorts(i)
		c := s.resolve(g)
		pair := [2]string{g.ends[0].device, g.ends[1].device}
		if k, again := parallel[pair]; !again {
			parallel[pair] = len(cables)
		} else if s.mergeParallel(&cables[k], c) {
			continue
		}
		cables = append(cables, c)
	}
	s.counts.report(s.d, s.o, s.usedRules)
	return cables
}

// unifyNames finds devices whose names differ in case only.
func (s *assembler) unifyNames() {
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
			if slices.Contains(s.o.Repair, FaultSimilarNames) {
				*name = first
			}
		default:
			reported[*name] = true
			if s.d.repair(s.o, FaultSimilarNames) {
				*name = first
				return
			}
			s.d.fault(at, FaultSimilarNames, "%s is also written %s: one device or two?", *name, first)
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
func (s *assembler) group() {
	known := make(map[[2]end]int, len(s.list))
	for i := range s.list {
		v := &s.list[i]
		if v.a.device == v.b.device {
			if !s.d.repair(s.o, FaultSelfLoop) {
				s.d.fault(v.at, FaultSelfLoop, "%s and %s are the same device", v.a, v.b)
			}
			continue
		}
		key := v.ends()
		g, again := known[key]
		if !again {
			g = len(s.groups)
			known[key] = g
			s.groups = append(s.groups, cableGroup{ends: key})
		}
		s.groups[g].sightings = append(s.groups[g].sightings, i)
	}
}

// findStyle decides whether cables are to be listed from both ends. Where the format does not say,
// the list does: they are if at least half of its cables are.
func (s *assembler) findStyle() {
	if s.reports != nil {
		s.bothEnds = true
		return
	}
	twice := 0
	for _, g := range s.groups {
		first := s.list[g.sightings[0]].a
		if slices.ContainsFunc(g.sightings, func(i int) bool { return s.list[i].a != first }) {
			twice++
		}
	}
	if s.bothEnds = twice > 0 && 2*twice >= len(s.groups); s.bothEnds {
		s.d.note("cables: listed from both ends (%d of %d)", twice, len(s.groups))
	}
}

// checkReports finds cables that are listed too often or, where both ends should list them, by one
// end only.
func (s *assembler) checkReports(g *cableGroup) {
	first := s.list[g.sightings[0]]
	seen := map[end]place{first.a: first.at}
	for _, i := range g.sightings[1:] {
		v := s.list[i]
		from := v.a
		if !s.bothEnds {
			from = first.a
		}
		at, again := seen[from]
		if !again {
			seen[from] = v.at
			continue
		}
		switch {
		case s.sums(g) || contradict(first, v): // resolve adds the bandwidth, or reports the contradiction
		case s.d.repair(s.o, FaultDoubled):
		case first.a.port == "" && first.b.port == "":
			s.d.fault(v.at, FaultDoubled,
				"%s – %s is listed before (%s), and without ports it is unknown whether these are two cables: "+
					"--repair doubled makes it one, --repair parallel one of the summed bandwidth", v.a, v.b, at.from(v.at))
		default:
			s.d.fault(v.at, FaultDoubled, "%s – %s is listed before (%s)", v.a, v.b, at.from(v.at))
		}
	}
	if !s.bothEnds || len(seen) > 1 {
		return
	}
	other := first.b
	if s.reports != nil && !s.reports(other.device) {
		return
	}
	if !s.d.repair(s.o, FaultOneSided) {
		s.d.fault(first.at, FaultOneSided, "%s reports a cable to %s, which does not report it", first.a, other)
	}
}

// sums reports whether repeated listings of a cable without ports count as parallel cables.
func (s *assembler) sums(g *cableGroup) bool {
	return g.ends[0].port == "" && g.ends[1].port == "" && slices.Contains(s.o.Repair, FaultParallel) &&
		!slices.Contains(s.o.Repair, FaultDoubled)
}

// contradict reports whether two sightings of a cable state different speeds or delays.
func contradict(a, b sighting) bool {
	return a.bps != b.bps && a.bps > 0 && b.bps > 0 || a.delayNS != b.delayNS && a.delayNS >= 0 && b.delayNS >= 0
}

// checkPorts finds ports that several cables end at.
func (s *assembler) checkPorts(number int) {
	g := &s.groups[number]
	first := s.list[g.sightings[0]]
	for _, e := range g.ends {
		if e.port == "" {
			continue
		}
		k, taken := s.ports[e]
		if !taken {
			s.ports[e] = number
			continue
		}
		before := &s.groups[k]
		other := before.ends[0]
		if other == e {
			other = before.ends[1]
		}
		if !s.d.repair(s.o, FaultSharedPort) {
			s.d.fault(first.at, FaultSharedPort, "port %s is cabled to %s as well (%s)",
				e, other, s.list[before.sightings[0]].at.from(first.at))
		}
	}
}
