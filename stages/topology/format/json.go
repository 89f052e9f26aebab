package format

import (
	"fmt"
	"math"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// readJSON reads the document in the order that gives links their ids: the racks of a pod with their hosts' cables, the
// pod's other cables, the cables between pods, then the plain lists.
func (d *draft) readJSON() {
	top := d.document(d.files[0], tree.JSON)
	if top.Value == nil {
		return
	}
	if !top.Is(tree.Object) {
		d.take(top.Failf("is %s, want keys and values, such as nodes and links: see JSON in parsimon help topology",
			top.Value))
		return
	}
	var planes, pods, cross, nodes, links tree.Field
	d.take(top.Object(tree.Keys{"planes": tree.Keep(&planes), "pods": tree.Keep(&pods), "fab2spine": tree.Keep(&cross),
		"nodes": tree.Keep(&nodes), "links": tree.Keep(&links)}))
	rack := int32(0)
	for p, pod := range d.list(pods) {
		d.jsonPod(pod, p, &rack)
	}
	for p, plane := range d.list(planes) {
		for s, v := range d.list(plane) {
			name := fmt.Sprintf(topology.ClosSpineName, p, s)
			d.jsonNode(v, topology.Node{Kind: topology.KindSpine, Name: name, Pod: -1, Rack: -1})
		}
	}
	d.jsonCables(cross)
	for _, v := range d.list(nodes) {
		d.jsonNode(v, topology.Node{Pod: -1, Rack: -1})
	}
	d.jsonCables(links)
}

func (d *draft) jsonPod(pod tree.Field, p int, number *int32) {
	var fabs, racks, cross tree.Field
	d.take(pod.Object(tree.Keys{"fabs": tree.Keep(&fabs), "racks": tree.Keep(&racks), "tor2fab": tree.Keep(&cross)}))
	for k, rack := range d.list(racks) {
		var tor, hosts, cables tree.Field
		keys := tree.Keys{"tor": tree.Keep(&tor), "hosts": tree.Keep(&hosts), "host2tor": tree.Keep(&cables)}
		if !d.take(rack.Object(keys)) {
			continue
		}
		v := topology.Node{Kind: topology.KindHost, Pod: int32(p), Rack: *number}
		for h, host := range d.list(hosts) {
			v.Name = fmt.Sprintf(topology.ClosHostName, p, k, h)
			d.jsonNode(host, v)
		}
		v.Kind, v.Name = topology.KindTor, fmt.Sprintf(topology.ClosTorName, p, k)
		if d.take(rack.Need("tor")) {
			d.jsonNode(tor, v)
		}
		d.jsonCables(cables)
		*number++
	}
	for i, v := range d.list(fabs) {
		name := fmt.Sprintf(topology.ClosFabricName, p, i)
		d.jsonNode(v, topology.Node{Kind: topology.KindFabric, Name: name, Pod: int32(p), Rack: -1})
	}
	d.jsonCables(cross)
}

// jsonNode reads a node. v holds what its place in the file says; an empty kind leaves kind, name, pod and rack to the
// node itself.
func (d *draft) jsonNode(f tree.Field, v topology.Node) {
	stated := topology.Node{Pod: -1, Rack: -1}
	ok := d.take(f.Object(tree.Keys{"id": number32(&stated.ID), "kind": optional(tree.ReadText(&stated.Kind)),
		"name": optional(tree.ReadText(&stated.Name)), "pod": optional(number32(&stated.Pod)),
		"rack": optional(number32(&stated.Rack))}))
	if !ok || !d.take(f.Need("id")) {
		return
	}
	v.ID, stated.Kind = stated.ID, strings.ToLower(stated.Kind)
	if v.Kind == "" {
		v = stated
	} else if stated.Kind != "" && stated.Kind != v.Kind &&
		(stated.Kind != topology.KindSwitch || v.Kind == topology.KindHost) {
		d.bad(f, "node %d is a %q where a %s belongs", v.ID, stated.Kind, v.Kind)
	}
	d.addNode(v, placeOf(f))
}

// jsonCables reads a list of cables. Each incomplete one is a fault; the others are kept.
func (d *draft) jsonCables(list tree.Field) {
	for _, f := range d.list(list) {
		var c topology.Cable
		keys := tree.Keys{"a": number32(&c.A), "b": number32(&c.B), "bandwidth": number64(&c.BandwidthBps),
			"delay": number64(&c.DelayNS)}
		if d.take(f.Object(keys)) && d.take(f.Need("a", "b", "bandwidth", "delay")) {
			d.addCable(c, false, placeOf(f))
		}
	}
}

// optional is a reader that takes null as a missing key: libraries write null for unknown values.
func optional(read func(tree.Field) error) func(tree.Field) error {
	return func(f tree.Field) error {
		if f.Is(tree.Null) {
			return nil
		}
		return read(f)
	}
}

func number32(to *int32) func(tree.Field) error { return tree.ReadInt(to, -1, math.MaxInt32) }

func number64(to *int64) func(tree.Field) error { return tree.ReadInt(to, 0, math.MaxInt64) }
