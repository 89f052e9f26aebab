package format

import (
	"fmt"
	"slices"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

const containerlabDoc = `
A containerlab topology, *.clab.yml or any YAML file with the key topology, or a directory with one
*.clab.yml. Links are read in the brief format and in the extended format (type: veth). Links to the
lab's host, management network, macvlan, vxlan and dummy interfaces are left out. Nodes of kind linux
with one link are hosts; nodes of other kinds are switches unless --host-pattern says otherwise. The
format has no speeds: give them with --speed.

  name: lab
  topology:
    nodes:
      leaf1: {kind: nokia_srlinux}
      spine1: {kind: nokia_srlinux}
      web1: {kind: linux}
    links:
      - endpoints: ["web1:eth1", "leaf1:e1-1"]
      - type: veth
        endpoints:
          - {node: leaf1, interface: e1-49}
          - {node: spine1, interface: e1-1}

  parsimon topology lab.clab.yml --speed 'leaf*:e1-4?=100G' --speed '*=25G'`

func isContainerlabName(name string) bool {
	return strings.HasSuffix(name, ".clab.yml") || strings.HasSuffix(name, ".clab.yaml")
}

// containerlabFiles returns the one lab of a directory. Several are an error: a guess could take a
// network for another.
func containerlabFiles(dir string) ([]string, error) {
	files, err := glob(dir, "*.clab.yml", "*.clab.yaml")
	if err != nil {
		return nil, err
	}
	if len(files) > 1 {
		return nil, fmt.Errorf("topology %s: holds several containerlab files: %s", dir, strings.Join(files, ", "))
	}
	return files, nil
}

// detectContainerlab accepts containerlab's file name, or any YAML file with the key topology.
func detectContainerlab(s *source) bool {
	if !s.single(".yaml", ".yml") {
		return false
	}
	if isContainerlabName(s.files[0]) {
		return true
	}
	t, _ := tree.YAML(s.content(s.files[0]))
	return t.Get("topology") != nil
}

// containerlabSpecial are names that stand for the machine that the lab runs on.
var containerlabSpecial = []string{"host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"}

func readContainerlab(s *source, o *Options) (*draft, error) {
	reader, t, err := s.tree(tree.YAML)
	if err != nil || t == nil {
		return reader.draft, err
	}
	r := &containerlabReader{treeReader: reader, known: map[string]bool{}}
	lab := t.Get("topology")
	if lab == nil || !r.object(lab, "topology") {
		r.bad(t, "", "has no key topology with nodes and links")
		return r.draft, nil
	}
	r.nodes(lab)
	for i, link := range r.list(lab.Get("links"), "topology.links") {
		r.link(link, fmt.Sprintf("topology.links[%d]", i))
	}
	r.noteCount(r.special, "link", "links: %s to the lab's own machine left out")
	r.sightings.assemble(r.draft, o)
	return r.draft, nil
}

// A containerlabReader turns the links of a lab into sightings, each cable once.
type containerlabReader struct {
	treeReader
	sightings sightings
	known     map[string]bool
	special   int // links to the lab's own machine
}

// nodes reads the nodes with their kinds. Network operating systems are switches; a Linux container
// may be a host or a software router, which the number of its links decides.
func (r *containerlabReader) nodes(lab *tree.Value) {
	nodes := lab.Get("nodes")
	if nodes == nil || !r.object(nodes, "topology.nodes") {
		return
	}
	defaultKind := lab.Get("defaults").Get("kind").Scalar()
	for i, name := range nodes.Keys {
		kind := nodes.Items[i].Get("kind").Scalar()
		if kind == "" {
			kind = defaultKind
		}
		v := device{name: name, at: r.place(nodes.Items[i], "")}
		switch kind {
		case "host":
			continue // the lab's own machine
		case "", "linux": // a host if it has one link
		default:
			v.kind = topology.KindSwitch
		}
		r.known[name] = true
		r.sightings.devices = append(r.sightings.devices, v)
	}
}

// link reads one link in the brief or the extended format.
func (r *containerlabReader) link(t *tree.Value, path string) {
	if !r.object(t, path) {
		return
	}
	if kind := t.Get("type").Scalar(); kind != "" && kind != "veth" {
		if !slices.Contains(containerlabSpecial, kind) {
			r.bad(t, path, "link type %q is unknown", kind)
			return
		}
		r.special++
		return
	}
	ends := r.list(t.Get("endpoints"), path+".endpoints")
	if len(ends) != 2 {
		r.bad(t, path, "has %d endpoints, want 2", len(ends))
		return
	}
	a, okA := r.end(ends[0], path)
	b, okB := r.end(ends[1], path)
	if !okA || !okB {
		return
	}
	for _, e := range []end{a, b} {
		if slices.Contains(containerlabSpecial, e.device) && !r.known[e.device] {
			r.special++
			return
		}
		if !r.known[e.device] {
			r.fault(r.place(t, path), topology.FaultUnknownNode, "no node has the name %q", e.device)
			return
		}
	}
	r.sightings.list = append(r.sightings.list, sighting{a: a, b: b, delayNS: -1, at: r.place(t, "")})
}

// end reads "node:interface" or {node, interface}.
func (r *containerlabReader) end(t *tree.Value, path string) (e end, ok bool) {
	if t.Kind == tree.Object {
		e = end{t.Get("node").Scalar(), t.Get("interface").Scalar()}
	} else {
		e.device, e.port, _ = strings.Cut(t.Text, ":")
	}
	if e.device == "" || e.port == "" {
		r.bad(t, path, "endpoint %s, want node:interface", t)
		return e, false
	}
	return e, true
}
