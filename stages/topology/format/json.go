package format

import (
	"fmt"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

const jsonDoc = `
One .json file with pods, planes and cables as in the Parsimon paper's public topologies, or with
plain lists of nodes and links. bandwidth is in bps, delay in ns. Kinds of nodes: host, tor, fabric,
spine, switch; name, pod and rack are optional.

  {"nodes": [{"id": 0, "kind": "host", "name": "web1"}, {"id": 1, "kind": "host"},
             {"id": 2, "kind": "tor", "name": "leaf1", "rack": 0}],
   "links": [{"a": 0, "b": 2, "bandwidth": 10000000000, "delay": 1000},
             {"a": 1, "b": 2, "bandwidth": 10000000000, "delay": 1000}]}`

func detectJSON(s *source) bool { return s.single(".json") }

func readJSON(s *source, _ *Options) (*draft, error) {
	reader, t, err := s.tree(tree.JSON)
	r := jsonReader{reader}
	if err != nil || t == nil || !r.object(t, "", "planes", "pods", "fab2spine", "nodes", "links") {
		return r.draft, err
	}
	rack := int32(0)
	for p, pod := range r.list(t.Get("pods"), "pods") {
		r.pod(pod, p, &rack)
	}
	for f, plane := range r.list(t.Get("planes"), "planes") {
		for s, v := range r.list(plane, fmt.Sprintf("planes[%d]", f)) {
			spine := topology.Node{Kind: topology.KindSpine, Name: topology.ClosSpineName(f, s), Pod: -1, Rack: -1}
			r.node(v, fmt.Sprintf("planes[%d][%d]", f, s), spine)
		}
	}
	r.cables(t.Get("fab2spine"), "fab2spine")
	for i, v := range r.list(t.Get("nodes"), "nodes") {
		r.node(v, fmt.Sprintf("nodes[%d]", i), topology.Node{Pod: -1, Rack: -1})
	}
	r.cables(t.Get("links"), "links")
	return r.draft, nil
}

// A jsonReader reads the document in the order that gives links their ids: the racks of a pod with
// their hosts' cables, the pod's other cables, the cables between pods, then the plain lists.
type jsonReader struct{ treeReader }

// pod reads a pod: its racks of hosts and tors, then its fabric switches. rack counts the racks.
func (r *jsonReader) pod(pod *tree.Value, p int, rack *int32) {
	in := func(format string, args ...any) string {
		return fmt.Sprintf("pods[%d].", p) + fmt.Sprintf(format, args...)
	}
	if !r.object(pod, fmt.Sprintf("pods[%d]", p), "fabs", "racks", "tor2fab") {
		return
	}
	for k, t := range r.list(pod.Get("racks"), in("racks")) {
		if !r.object(t, in("racks[%d]", k), "tor", "hosts", "host2tor") {
			continue
		}
		for h, v := range r.list(t.Get("hosts"), in("racks[%d].hosts", k)) {
			host := topology.Node{Kind: topology.KindHost, Name: topology.ClosHostName(p, k, h), Pod: int32(p), Rack: *rack}
			r.node(v, in("racks[%d].hosts[%d]", k, h), host)
		}
		if tor := t.Get("tor"); tor != nil {
			v := topology.Node{Kind: topology.KindTor, Name: topology.ClosTorName(p, k), Pod: int32(p), Rack: *rack}
			r.node(tor, in("racks[%d].tor", k), v)
		} else {
			r.bad(t, in("racks[%d]", k), "has no tor")
		}
		r.cables(t.Get("host2tor"), in("racks[%d].host2tor", k))
		*rack++
	}
	for f, v := range r.list(pod.Get("fabs"), in("fabs")) {
		fabric := topology.Node{Kind: topology.KindFabric, Name: topology.ClosFabricName(p, f), Pod: int32(p), Rack: -1}
		r.node(v, in("fabs[%d]", f), fabric)
	}
	r.cables(pod.Get("tor2fab"), in("tor2fab"))
}

// node reads a node. v holds what its place in the file says; an empty kind leaves kind, name, pod
// and rack to the node itself.
func (r *jsonReader) node(t *tree.Value, path string, v topology.Node) {
	if !r.object(t, path, "id", "kind", "name", "pod", "rack") {
		return
	}
	id, ok := r.integer(t.Get("id"), path+".id", 32)
	if t.Get("id") == nil {
		r.bad(t, path, "has no id")
	}
	v.ID = int32(id)
	kind := ""
	if k := t.Get("kind"); k != nil {
		kind, ok = r.stringOf(k, path+".kind", ok)
		kind = strings.ToLower(kind)
	}
	if v.Kind == "" {
		v.Kind = kind
		if name := t.Get("name"); name != nil {
			v.Name, ok = r.stringOf(name, path+".name", ok)
		}
		v.Pod, v.Rack = r.position(t.Get("pod"), path+".pod"), r.position(t.Get("rack"), path+".rack")
	} else if kind != "" && kind != v.Kind && (kind != topology.KindSwitch || v.Kind == topology.KindHost) {
		r.bad(t, path, "node %d is a %q where a %s belongs", v.ID, kind, v.Kind)
	}
	if ok {
		r.addNode(v, r.place(t, path))
	}
}

func (r *jsonReader) stringOf(t *tree.Value, path string, ok bool) (string, bool) {
	if t.Kind != tree.String {
		r.bad(t, path, "is %s, want a string", t)
		return "", false
	}
	return t.Text, ok
}

// position reads the number of a pod or a rack, or -1 where there is none.
func (r *jsonReader) position(t *tree.Value, path string) int32 {
	v, ok := r.integer(t, path, 32)
	if !ok {
		return -1
	}
	return int32(v)
}

// cables reads a list of cables. Each incomplete one is a fault; the others are kept.
func (r *jsonReader) cables(list *tree.Value, path string) {
	for i, t := range r.list(list, path) {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !r.object(t, at, "a", "b", "bandwidth", "delay") {
			continue
		}
		var v [4]int64
		complete := true
		for k, f := range []struct {
			key, missing string
			bits         int
		}{
			{"a", "needs both ends, a and b", 32}, {"b", "needs both ends, a and b", 32},
			{"bandwidth", "has no bandwidth (bps)", 64}, {"delay", "has no delay (ns)", 64},
		} {
			x, ok := r.integer(t.Get(f.key), at+"."+f.key, f.bits)
			if t.Get(f.key) == nil {
				r.bad(t, at, "%s", f.missing)
			}
			v[k] = x
			complete = complete && ok
		}
		if complete {
			r.addCable(topology.Cable{A: int32(v[0]), B: int32(v[1]), BandwidthBps: v[2], DelayNS: v[3]}, false, r.place(t, at))
		}
	}
}
