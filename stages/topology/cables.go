package topology

import (
	"slices"

	"parsimon/simkernel"
)

// A namedCable is a cable whose ends are devices.
type namedCable struct {
	a, b    end
	bps     int64 // 0: unknown, which is a fault
	delayNS int64
	failed  bool
	at      place
}

// assemblyCounts counts where speeds and delays come from.
type assemblyCounts struct{ ruled, defaulted, failed int }

func (c *assemblyCounts) report(d *draft, o *Options, usedRules []bool) {
	if c.ruled > 0 {
		d.note("speeds: %s from --speed rules", count(c.ruled, "cable"))
	}
	for i, used := range usedRules {
		if !used {
			d.note("speeds: rule %s applies to no cable", o.Speeds[i])
		}
	}
	if c.defaulted > 0 {
		d.note("delays: %s without delay or length: %d ns by default", count(c.defaulted, "cable"), o.defaultDelay())
	}
	if c.failed > 0 {
		d.note("status: %s down", count(c.failed, "cable"))
	}
}

func (o *Options) defaultDelay() int64 {
	if o.DefaultDelayNS > 0 {
		return o.DefaultDelayNS
	}
	return DefaultDelayNS
}

// resolve settles the speed and the delay of a cable.
func (s *assembler) resolve(g *cableGroup) namedCable {
	first := s.list[g.sightings[0]]
	c := namedCable{a: first.a, b: first.b, delayNS: -1, at: first.at}
	sum := s.sums(g)
	for _, i := range g.sightings {
		v := s.list[i]
		c.failed = c.failed || v.down
		switch {
		case v.bps == 0 || v.bps == c.bps && !sum:
		case c.bps == 0:
			c.bps = v.bps
		case sum && v.a == first.a:
			c.bps += v.bps
			s.d.repair(s.o, FaultParallel)
		case sum:
		default:
			if !s.d.repair(s.o, FaultContradictory) {
				s.d.fault(v.at, FaultContradictory, "%s – %s has %s here and %s before (%s)",
					v.a, v.b, FormatBps(v.bps), FormatBps(c.bps), first.at.from(v.at))
			}
			c.bps = min(c.bps, v.bps)
		}
		if v.delayNS >= 0 && c.delayNS >= 0 && v.delayNS != c.delayNS && !s.d.repair(s.o, FaultContradictory) {
			s.d.fault(v.at, FaultContradictory, "%s – %s has a delay of %d ns here and %d ns before (%s)",
				v.a, v.b, v.delayNS, c.delayNS, first.at.from(v.at))
		}
		c.delayNS = max(c.delayNS, v.delayNS)
	}
	c.applyRules(s.o, s.usedRules, &s.counts)
	if c.bps == 0 {
		s.d.fault(c.at, FaultUnknownSpeed, "%s – %s has no speed; give one with --speed, such as --speed '%s=25G'",
			c.a, c.b, c.a.device)
	}
	if c.delayNS < 0 {
		c.delayNS = s.o.defaultDelay()
		s.counts.defaulted++
	}
	if c.failed {
		s.counts.failed++
	}
	return c
}

func (c *namedCable) applyRules(o *Options, usedRules []bool, counts *assemblyCounts) {
	if c.bps > 0 {
		return
	}
	for i, r := range o.Speeds {
		if r.matches(c.a) || r.matches(c.b) {
			usedRules[i] = true
			c.bps = r.BandwidthBps
			counts.ruled++
			return
		}
	}
}

// mergeParallel adds a cable to an earlier one between the same devices. It returns false, with a
// fault, where the options do not allow that.
func (s *assembler) mergeParallel(into *namedCable, c namedCable) bool {
	if !s.d.repair(s.o, FaultParallel) {
		s.d.fault(c.at, FaultParallel, "%s – %s: a second cable between %s and %s (the first: %s)",
			c.a, c.b, c.a.device, c.b.device, into.at.from(c.at))
		return false
	}
	switch {
	case into.bps == 0 || c.bps == 0: // a fault already
	case into.failed && !c.failed:
		into.bps, into.failed = c.bps, false
	case into.failed == c.failed:
		into.bps += c.bps
	}
	into.delayNS = max(into.delayNS, c.delayNS)
	return true
}

// build infers roles, racks and pods, numbers the devices, and fills the draft.
func (s *assembler) build(cables []namedCable) {
	p := newPlan(s.sightings, s.d, s.o, cables)
	p.inferRoles(s.d)
	p.inferRacks(s.d)
	p.inferPods(s.d)
	ids := p.number(s.d)
	order := make([]int, len(p.devices))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(int64(ids[a]) - int64(ids[b])) })
	for _, i := range order {
		v := p.devices[i]
		name := v.name
		if p.numeric {
			name = ""
		}
		s.d.addNode(Node{ids[i], name, v.kind, p.pod[i], p.rack[i]}, v.at)
	}
	parallel := map[[2]int32]bool{}
	for i, c := range cables {
		a, b := ids[p.ends[i][0]], ids[p.ends[i][1]]
		if parallel[cableKey(a, b)] {
			s.d.unmerged++
			continue
		}
		parallel[cableKey(a, b)] = true
		if c.bps == 0 {
			c.bps = simkernel.MinBps // a fault already; the cable still joins its ends
		}
		s.d.addCable(Cable{a, b, c.bps, c.delayNS}, c.failed, c.at)
	}
}
