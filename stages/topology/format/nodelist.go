package format

import (
	"maps"
	"slices"
	"strings"

	"parsimon/stages/topology"
)

// The columns of a list of devices.
var (
	listDevice = &column{names: []string{"device", "node", "name", "hostname", "host", "node_id", "id"}, required: true, several: true}
	listRole   = &column{names: []string{"role", "kind", "device_role", "type"}, several: true}
	listPod    = &column{names: []string{"pod"}}
	listRack   = &column{names: []string{"rack"}}
)

// roleNames maps what people call roles to kinds of nodes. A router, a firewall and the like are switches of no tier:
// they forward, and are no part of the data centre's tiers.
var roleNames = map[string]string{
	"host": topology.KindHost, "server": topology.KindHost, "compute": topology.KindHost, "storage": topology.KindHost,
	"vm": topology.KindHost, "gpu": topology.KindHost,
	"tor": topology.KindTor, "leaf": topology.KindTor, "access": topology.KindTor, "edge": topology.KindTor,
	"top-of-rack": topology.KindTor,
	"fabric":      topology.KindFabric, "aggregation": topology.KindFabric, "agg": topology.KindFabric,
	"distribution": topology.KindFabric,
	"spine":        topology.KindSpine, "core": topology.KindSpine, "superspine": topology.KindSpine,
	"super-spine": topology.KindSpine,
	"switch":      "", "router": topology.KindSwitch, "wan": topology.KindSwitch, "border": topology.KindSwitch,
	"gateway": topology.KindSwitch, "firewall": topology.KindSwitch, "load-balancer": topology.KindSwitch,
}

// applyNodeList reads the list of devices that the options name into the plan, and reports whether
// there is one.
func (p *plan) applyNodeList(index map[string]int32) bool {
	d, o := p.draft, p.o
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
		v := device{name: t.cell(i, listDevice), at: t.place(i), kind: topology.KindHost, stated: hasRole,
			pod: t.cell(i, listPod), rack: t.cell(i, listRack)}
		switch {
		case v.name == "":
			d.fault(v.at, topology.FaultFormat, "names no device")
			continue
		case o.excluded(v.name):
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

// role maps a role of the list to a kind of node. stated says that it is one; a switch without more is not.
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
	return kind, true
}

// checkAgain compares a device's second row with its first.
func (p *plan) checkAgain(first, again device, line int) {
	kind, text := topology.FaultDoubled, "%s is listed before (line %d)"
	if first.kind != again.kind || first.pod != again.pod || first.rack != again.rack {
		kind, text = topology.FaultContradictory, "%s has another role, pod or rack here than before (line %d)"
	}
	p.repair(again.at, kind, text, again.name, line)
}
