package format

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/schema/tree"
)

const batfishDoc = `
A layer-1 topology of Batfish: layer1_topology.json, or a snapshot directory that holds it (or
batfish/layer1_topology.json). LLDP dumps are commonly converted to this form. Device names do not
differ in case. A file may give each cable once, or once from each end. The format has no speeds: give
them with --speed.

  {"edges": [
    {"node1": {"hostname": "leaf1", "interfaceName": "Ethernet49"},
     "node2": {"hostname": "spine1", "interfaceName": "Ethernet1"}}]}

  parsimon topology layer1_topology.json --speed 'spine*=100G' --speed '*=25G' --host-pattern 'srv*'`

const batfishFile = "layer1_topology.json"

// batfishFiles returns the layer-1 topology of a snapshot directory; none where there is none.
func batfishFiles(dir string) ([]string, error) {
	for _, name := range []string{filepath.Join(dir, batfishFile), filepath.Join(dir, "batfish", batfishFile)} {
		if _, err := os.Stat(name); err == nil {
			return []string{name}, nil
		}
	}
	return nil, nil
}

// detectBatfish accepts the file name that Batfish prescribes, or any JSON file with edges.
func detectBatfish(s *source) bool {
	if !s.single(".json") {
		return false
	}
	return filepath.Base(s.files[0]) == batfishFile || slices.Contains(topLevelKeys(s.content(s.files[0])), "edges")
}

// readBatfish makes one sighting of each edge, seen from node1. Names are compared without case, as
// Batfish does: it lower-cases all node names.
func readBatfish(s *source, o *Options) (*draft, error) {
	r, t, err := s.tree(tree.JSON)
	if err != nil || t == nil {
		return r.draft, err
	}
	seen := sightings{foldCase: true}
	if r.object(t, "") {
		for _, edge := range r.list(t.Get("edges"), "edges") {
			if !r.object(edge, "edges") {
				continue
			}
			a, okA := r.batfishEnd(edge, "node1")
			b, okB := r.batfishEnd(edge, "node2")
			if okA && okB {
				seen.list = append(seen.list, sighting{a: a, b: b, delayNS: -1, at: r.place(edge, "")})
			}
		}
	}
	seen.assemble(r.draft, o)
	return r.draft, nil
}

// batfishEnd reads {hostname, interfaceName}. Both must be there: without interfaces, two edges between
// the same nodes cannot be distinguished.
func (r *treeReader) batfishEnd(edge *tree.Value, key string) (e end, ok bool) {
	t := edge.Get(key)
	if t == nil {
		r.bad(edge, "edges", "has no %s", key)
		return e, false
	}
	host, port := t.Get("hostname"), t.Get("interfaceName")
	if host == nil || port == nil {
		r.bad(t, "edges."+key, "needs hostname and interfaceName")
		return e, false
	}
	name, okName := r.text(host, key+".hostname")
	e.port, ok = r.text(port, key+".interfaceName")
	e.device = strings.TrimSpace(name)
	if okName && e.device == "" {
		r.bad(host, key+".hostname", "is empty")
	}
	return e, ok && okName && e.device != ""
}
