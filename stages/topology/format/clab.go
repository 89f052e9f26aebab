package format

import (
	"slices"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// clabOutside has containerlab's names for ends that are not nodes of the lab.
var clabOutside = []string{"host:", "mgmt-net:", "macvlan:", "vxlan:", "vxlan-stitch:", "dummy:"}

// clabPlain has the kinds of nodes of containerlab that may be hosts or switches, and clabBridges those that
// forward frames. All other kinds are network operating systems.
var (
	clabPlain   = []string{"", "linux", "generic_vm", "ext-container", "k8s-kind"}
	clabBridges = []string{"bridge", "ovs-bridge"}
)

// readClab reads a topology file of containerlab: topology.nodes by name, and topology.links, each with
// endpoints "NODE:INTERFACE" or {node, interface}. Links of the extended form that have one endpoint lead out
// of the lab.
func readClab(d *draft) {
	top := d.document(d.files[0], tree.YAML)
	if top.Value == nil {
		return
	}
	lab := top.Of("topology")
	if lab.Value == nil || lab.Of("nodes").Value == nil {
		d.bad(top, "has no topology.nodes, as a file of containerlab has")
		return
	}
	s := &listings{}
	defaults := lab.Of("defaults").Value.Get("kind").Scalar()
	known := map[string]bool{}
	for name, f := range d.members(lab.Of("nodes")) {
		known[name] = true
		v := device{name: name, at: lineOf(f)}
		kind := strings.ToLower(f.Value.Get("kind").Scalar())
		if kind == "" {
			kind = strings.ToLower(defaults)
		}
		role := f.Value.Get("group").Scalar()
		label := f.Value.Get("labels").Get("role").Scalar()
		if label != "" {
			role = label
		}
		v.kind, v.stated = clabRole(kind, role)
		s.devices = append(s.devices, v)
	}
	for _, link := range d.list(lab.Of("links")) {
		d.clabLink(s, link, known)
	}
	cabled := map[string]bool{}
	for _, v := range s.all {
		cabled[v.a.device] = true
		cabled[v.b.device] = true
	}
	kept := s.devices[:0]
	for _, v := range s.devices {
		if cabled[v.name] {
			kept = append(kept, v)
			continue
		}
		d.count(1, "device", "left out: %s without a link to another node of the lab")
	}
	s.devices = kept
	d.assemble(s)
}

// clabRole returns the kind of a node. It follows from the node's group or its label role, if either names a
// role. Otherwise the node is a switch if containerlab's kind is a network operating system or a bridge.
func clabRole(kind, role string) (of string, stated bool) {
	of, known := roleNames[strings.ToLower(role)]
	switch {
	case known && of != "":
		return of, true
	case slices.Contains(clabBridges, kind), !slices.Contains(clabPlain, kind):
		return topology.KindSwitch, false
	}
	return "", false
}

func (d *draft) clabLink(s *listings, link tree.Field, known map[string]bool) {
	list := link.Of("endpoints")
	if list.Value == nil {
		d.count(1, "link", "left out: %s that lead out of the lab")
		return
	}
	ends := d.list(list)
	if len(ends) != 2 {
		d.bad(link, "has %d endpoints, want 2", len(ends))
		return
	}
	v := listing{at: lineOf(link), delayNS: -1}
	for k, to := range []*end{&v.a, &v.b} {
		f := ends[k]
		node := f.Value.Get("node").Scalar()
		port := f.Value.Get("interface").Scalar()
		if f.Value.Kind != tree.Object {
			text := f.Value.Scalar()
			for _, outside := range clabOutside {
				if strings.HasPrefix(text, outside) {
					d.count(1, "link", "left out: %s that lead out of the lab")
					return
				}
			}
			node, port, _ = strings.Cut(text, ":")
		}
		if !known[node] {
			d.bad(f, "is %s, and topology.nodes has no such node: want NODE:INTERFACE", f.Value)
			return
		}
		*to = end{node, port}
	}
	s.all = append(s.all, v)
}
