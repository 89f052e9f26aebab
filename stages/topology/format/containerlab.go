package format

import (
	"cmp"
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

// containerlabSpecial are names that stand for the machine that the lab runs on.
var containerlabSpecial = []string{"host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"}

func readContainerlab(d *draft) {
	r := &containerlabReader{draft: d, known: map[string]bool{}}
	top := d.document(d.files[0], tree.YAML)
	if top.Value == nil {
		return
	}
	lab := top.Of("topology")
	if lab.Value == nil {
		r.bad(top, "has no key topology with nodes and links")
		return
	}
	r.nodes(lab)
	for _, link := range r.list(lab.Of("links")) {
		r.link(link)
	}
	d.assemble(&r.sightings)
}

// A containerlabReader turns the links of a lab into sightings, each cable once.
type containerlabReader struct {
	*draft
	sightings sightings
	known     map[string]bool
}

// nodes reads the nodes with their kinds. Network operating systems are switches; a Linux container
// may be a host or a software router, which the number of its links decides.
func (r *containerlabReader) nodes(lab tree.Field) {
	defaultKind := lab.Value.Get("defaults").Get("kind").Scalar()
	for name, f := range r.members(lab.Of("nodes")) {
		v := device{name: name, at: lineOf(f)}
		switch cmp.Or(f.Value.Get("kind").Scalar(), defaultKind) {
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
func (r *containerlabReader) link(f tree.Field) {
	if kind := f.Value.Get("type").Scalar(); kind != "" && kind != "veth" {
		if !slices.Contains(containerlabSpecial, kind) {
			r.bad(f, "link type %q is unknown", kind)
			return
		}
		r.count(1, "link", "links: %s to the lab's own machine left out")
		return
	}
	endpoints := r.list(f.Of("endpoints"))
	if len(endpoints) != 2 {
		r.bad(f, "has %d endpoints, want 2", len(endpoints))
		return
	}
	var ends [2]end
	for i, endpoint := range endpoints {
		e, t := &ends[i], endpoint.Value
		if e.device, e.port, _ = strings.Cut(t.Text, ":"); t.Kind == tree.Object {
			*e = end{t.Get("node").Scalar(), t.Get("interface").Scalar()}
		}
		switch known := r.known[e.device]; {
		case e.device == "" || e.port == "":
			r.bad(endpoint, "endpoint %s, want node:interface", t)
			return
		case !known && slices.Contains(containerlabSpecial, e.device):
			r.count(1, "link", "links: %s to the lab's own machine left out")
			return
		case !known:
			r.fault(placeOf(f), topology.FaultUnknownNode, "no node has the name %q", e.device)
			return
		}
	}
	r.sightings.all = append(r.sightings.all, sighting{a: ends[0], b: ends[1], delayNS: -1, at: lineOf(f)})
}
