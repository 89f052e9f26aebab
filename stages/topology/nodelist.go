package topology

import (
	"slices"
	"strings"
)

// Column names of a list of devices, in order of preference.
var (
	nodeColumns = []string{"device", "node", "name", "hostname", "host", "node_id", "id"}
	roleColumns = []string{"role", "kind", "device_role", "type"}
	podColumns  = []string{"pod"}
	rackColumns = []string{"rack"}
)

// roleNames maps what people call roles to kinds of nodes.
var roleNames = map[string]string{
	"host": KindHost, "server": KindHost, "compute": KindHost, "storage": KindHost, "vm": KindHost, "gpu": KindHost,
	"tor": KindTor, "leaf": KindTor, "access": KindTor, "edge": KindTor, "top-of-rack": KindTor,
	"fabric": KindFabric, "aggregation": KindFabric, "agg": KindFabric, "distribution": KindFabric,
	"spine": KindSpine, "core": KindSpine, "superspine": KindSpine, "super-spine": KindSpine,
	"switch": KindSwitch, "router": KindSwitch,
}

// applyNodeList reads the list of devices that the options name into the plan, and reports whether
// there is one.
func (p *plan) applyNodeList(d *draft, o *Options, index map[string]int32) bool {
	if o.NodeList == "" {
		return false
	}
	g, fault := openGrid(d, o.NodeList)
	if fault != nil {
		d.faults = append(d.faults, *fault)
		return true
	}
	if _, ok := g.name(nodeColumns); !ok {
		d.fault(place{file: g.file, line: 1}, FaultFormat, "has no column device (or %s)",
			strings.Join(nodeColumns[1:], ", "))
		return true
	}
	_, hasRole := g.name(roleColumns)
	if !hasRole {
		d.note("nodes: %s has no column role; every device in it is a host", g.file)
	}
	listed := map[string]int{}
	uncabled := 0
	for i := range g.rows {
		v := device{name: g.cell(i, nodeColumns), at: g.place(i), kind: KindHost, pod: g.cell(i, podColumns),
			rack: g.cell(i, rackColumns)}
		if v.name == "" {
			d.fault(v.at, FaultFormat, "names no device")
			continue
		}
		if hasRole {
			v.kind = p.listedRole(d, g.cell(i, roleColumns), v.at)
		}
		if row, again := listed[v.name]; again {
			p.checkAgain(d, o, p.devices[index[v.name]], v, g.line[row])
			continue
		}
		listed[v.name] = i
		k, cabled := index[v.name]
		if !cabled {
			uncabled++
			if v.kind != KindHost {
				continue
			}
			k = int32(len(p.devices))
			index[v.name] = k
			p.devices = append(p.devices, v)
			continue
		}
		at := p.devices[k].at
		p.devices[k] = v
		p.devices[k].at = at
	}
	if uncabled > 0 {
		d.note("nodes: %s listed without a cable", count(uncabled, "device"))
	}
	return true
}

// listedRole maps a role of the list to a kind of node. An empty role is a switch.
func (p *plan) listedRole(d *draft, text string, at place) string {
	role, known := roleNames[strings.ToLower(strings.ReplaceAll(text, " ", "-"))]
	if text == "" {
		return KindSwitch
	}
	if !known {
		var names []string
		for name := range roleNames {
			names = append(names, name)
		}
		slices.Sort(names)
		d.fault(at, FaultRole, "role %q is unknown (%s)", text, strings.Join(names, ", "))
		return KindSwitch
	}
	return role
}

// checkAgain compares a device's second row with its first.
func (p *plan) checkAgain(d *draft, o *Options, first, again device, line int) {
	kind, text := FaultDoubled, "%s is listed before (line %d)"
	if first.kind != again.kind || first.pod != again.pod || first.rack != again.rack {
		kind, text = FaultContradictory, "%s has another role, pod or rack here than before (line %d)"
	}
	if !d.repair(o, kind) {
		d.fault(again.at, kind, text, again.name, line)
	}
}
