package format

import (
	"path/filepath"
	"strings"

	"parsimon/schema/tree"
)

const batfishFile = "layer1_topology.json"

// batfishFiles returns the layer-1 topology of a snapshot directory; none where there is none.
func batfishFiles(dir string) ([]string, error) {
	files, err := glob(dir, filepath.Join("batfish", batfishFile), batfishFile)
	return files[max(0, len(files)-1):], err
}

// readBatfish makes one sighting of each edge, seen from node1. Names are compared without case, as
// Batfish does: it lower-cases all node names.
func (d *draft) readBatfish() {
	top := d.document(d.files[0], tree.JSON)
	if top.Value == nil {
		return
	}
	seen := sightings{foldCase: true}
	for _, edge := range d.list(top.Of("edges")) {
		a, okA := d.batfishEnd(edge, "node1")
		b, okB := d.batfishEnd(edge, "node2")
		if okA && okB {
			seen.all = append(seen.all, sighting{a: a, b: b, delayNS: -1, at: lineOf(edge)})
		}
	}
	d.assemble(&seen)
}

// batfishEnd reads {hostname, interfaceName}. Both must be there: without interfaces, two edges between
// the same nodes cannot be distinguished.
func (d *draft) batfishEnd(edge tree.Field, key string) (e end, ok bool) {
	if !d.take(edge.Need(key)) {
		return e, false
	}
	f := edge.Of(key)
	e = end{strings.TrimSpace(f.Value.Get("hostname").Scalar()), f.Value.Get("interfaceName").Scalar()}
	if ok = e.device != "" && e.port != ""; !ok {
		d.bad(f, "needs hostname and interfaceName")
	}
	return e, ok
}
