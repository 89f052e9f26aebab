package scenario

import (
	"fmt"
	"slices"
	"strings"

	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// addCables installs cables.
func (c *Changes) addCables(n *topology.Network, planned []format.PlannedCable,
	canonical *canonicalScenario) (said []string, err error) {
	for _, a := range c.Add {
		cables, err := a.cables(n, planned)
		if err != nil {
			return nil, err
		}
		for _, cable := range cables {
			if err := n.AddCable(cable); err != nil {
				return nil, fmt.Errorf("add-cable: %w", err)
			}
			said = append(said, fmt.Sprintf("%s added at %s", n.Ends(cable.A, cable.B), topology.FormatBps(cable.BandwidthBps)))
			added := [4]int64{int64(cable.A), int64(cable.B), cable.BandwidthBps, cable.DelayNS}
			canonical.Changes.Cables = append(canonical.Changes.Cables, added)
		}
	}
	return said, nil
}

// cables are the cables that an addition means.
func (a CableAddition) cables(n *topology.Network,
	planned []format.PlannedCable) (cables []topology.Cable, err error) {
	if a.Ends != PlannedCables && a.BPS > 0 {
		x, y, err := n.Pair(a.Ends)
		if err != nil {
			return nil, fmt.Errorf("add-cable %q: %w", a.Ends, err)
		}
		return []topology.Cable{{A: min(x, y), B: max(x, y), BandwidthBps: a.BPS, DelayNS: a.DelayNS}}, nil
	}
	var list []string
	for _, p := range planned {
		x, y, err := n.Pair(p.A + ":" + p.B)
		if err != nil { // a device that is planned too
			if a.Ends == PlannedCables || a.Ends == p.A+":"+p.B {
				return nil, fmt.Errorf("add-cable: planned cable %s:%s (%s, line %d): %w", p.A, p.B, p.File, p.Line, err)
			}
			continue
		}
		list = append(list, p.A+":"+p.B)
		match := a.Ends == PlannedCables
		if !match {
			u, v, err := n.Pair(a.Ends)
			match = err == nil && min(u, v) == min(x, y) && max(u, v) == max(x, y)
		}
		if match {
			cables = append(cables, topology.Cable{A: min(x, y), B: max(x, y), BandwidthBps: p.BandwidthBps, DelayNS: p.DelayNS})
		}
	}
	switch {
	case len(cables) == 0 && len(list) == 0:
		return nil, fmt.Errorf("add-cable %q: the topology lists no planned cable; give the bandwidth, %s=100Gbps", a.Ends, a.Ends)
	case len(cables) == 0:
		return nil, fmt.Errorf("add-cable %q is no planned cable (%s); give the bandwidth, %s=100Gbps", a.Ends, strings.Join(list, ", "), a.Ends)
	}
	return merged(cables), nil
}

// merged makes one cable of those that join the same two nodes.
func merged(cables []topology.Cable) (out []topology.Cable) {
	for _, c := range cables {
		i := slices.IndexFunc(out, func(o topology.Cable) bool { return o.A == c.A && o.B == c.B })
		if i < 0 {
			out = append(out, c)
			continue
		}
		out[i].BandwidthBps += c.BandwidthBps
		out[i].DelayNS = max(out[i].DelayNS, c.DelayNS)
	}
	return out
}
