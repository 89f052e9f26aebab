package topology

import (
	"fmt"
	"strconv"
	"strings"

	"parsimon/simkernel"
)

const yamlDoc = `
One YAML file with the key clos or graph, as in scenario files. clos describes a three-tier data
centre: give spines_per_plane, or oversubscription (racks per pod / spines per plane). graph names
every node and cable; a cable is A:B, or has its own bandwidth and delay.

  clos: {pods: 2, racks_per_pod: 16, hosts_per_rack: 8, planes: 2, oversubscription: 4,
         host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}

  graph:
    hosts: [web1, web2]
    switches: [leaf1]
    bandwidth: 25Gbps
    delay: 1us
    cables:
      - web1:leaf1
      - {ends: "web2:leaf1", bandwidth: 10Gbps, delay: 500ns}`

func detectYAML(s *source) bool { return len(s.files) == 1 && isYAML(s.files[0]) }

func readYAML(s *source, _ *Options) (*draft, error) {
	file := s.files[0]
	data, err := s.read(file)
	if err != nil {
		return nil, err
	}
	r := yamlReader{treeReader{draft: &draft{}, file: file}}
	t, fault := parseYAMLTree(file, data)
	if fault != nil {
		r.faults = append(r.faults, *fault)
		return r.draft, nil
	}
	if !r.object(t, "", "clos", "graph") {
		return r.draft, nil
	}
	clos, graph := t.get("clos"), t.get("graph")
	switch {
	case (clos == nil) == (graph == nil):
		r.bad(t, "", "needs one of clos and graph")
	case clos != nil:
		r.clos(clos)
	default:
		r.graph(graph)
	}
	return r.draft, nil
}

type yamlReader struct{ treeReader }

// clos reads a Clos description and adds its nodes and cables.
func (r *yamlReader) clos(t *tree) {
	c := ClosSpec{}
	counts := map[string]*int{"pods": &c.Pods, "racks_per_pod": &c.RacksPerPod, "hosts_per_rack": &c.HostsPerRack,
		"planes": &c.Planes, "spines_per_plane": &c.SpinesPerPlane}
	quantities := map[string]*int64{"host_bandwidth": &c.HostBps, "fabric_bandwidth": &c.FabricBps,
		"host_delay": &c.HostDelayNS, "fabric_delay": &c.FabricDelayNS}
	if !r.object(t, "clos", "pods", "racks_per_pod", "hosts_per_rack", "planes", "spines_per_plane", "oversubscription",
		"host_bandwidth", "fabric_bandwidth", "host_delay", "fabric_delay") {
		return
	}
	before := len(r.faults)
	for i, key := range t.keys {
		item, path := t.items[i], "clos."+t.keys[i]
		key = strings.ToLower(key)
		switch {
		case counts[key] != nil:
			if v, ok := r.integer(item, path, 32); ok {
				*counts[key] = int(v)
			}
		case quantities[key] != nil && strings.HasSuffix(key, "_bandwidth"):
			*quantities[key], _ = r.bandwidth(item, path)
		case quantities[key] != nil:
			*quantities[key], _ = r.delay(item, path)
		case key == "oversubscription":
			v, err := strconv.ParseFloat(item.text, 64)
			if err != nil || !(v > 0 && v <= maxNodes) {
				r.bad(item, path, "is %s, want a number above 0", item)
			}
			c.Oversubscription = v
		}
	}
	if len(r.faults) > before {
		return
	}
	if c.HostBps == 0 || c.FabricBps == 0 {
		r.bad(t, "clos", "needs host_bandwidth and fabric_bandwidth")
		return
	}
	c, err := c.Resolved()
	if err != nil {
		r.bad(t, "", "%v", err)
		return
	}
	nodes, cables := c.parts()
	at := r.place(t, "clos")
	for _, v := range nodes {
		r.addNode(v, at)
	}
	for _, k := range cables {
		r.addCable(k, false, at)
	}
}

func (r *yamlReader) bandwidth(t *tree, path string) (int64, bool) {
	return r.quantity(t, path, ParseSpeed, simkernel.MinBps, maxBps)
}

func (r *yamlReader) delay(t *tree, path string) (int64, bool) {
	return r.quantity(t, path, ParseDelay, 0, maxDelayNS)
}

// quantity reads a number with a unit; lo and hi bound it in the base unit.
func (r *yamlReader) quantity(t *tree, path string, parse func(string) (int64, error), lo, hi int64) (int64, bool) {
	v, err := parse(t.text)
	if err == nil && (v < lo || v > hi) {
		err = fmt.Errorf("is %s, must be %d to %d in the base unit", t.text, lo, hi)
	}
	if err != nil {
		r.bad(t, path, "%v", err)
	}
	return v, err == nil
}

// graph reads named hosts, switches and cables. Ids count the hosts and then the switches, from 0.
func (r *yamlReader) graph(t *tree) {
	if !r.object(t, "graph", "hosts", "switches", "bandwidth", "delay", "cables") {
		return
	}
	ids := map[string]int32{}
	for _, group := range [][2]string{{"hosts", KindHost}, {"switches", KindSwitch}} {
		path := "graph." + group[0]
		for i, item := range r.list(t.get(group[0]), path) {
			at := fmt.Sprintf("%s[%d]", path, i)
			name, ok := r.text(item, at)
			if !ok {
				continue
			}
			if _, twice := ids[name]; twice || name == "" || strings.Contains(name, ":") {
				r.bad(item, at, "is %q, want a name that no other node has, without a colon", name)
				continue
			}
			id := int32(len(ids))
			ids[name] = id
			r.addNode(Node{ID: id, Name: name, Kind: group[1], Pod: -1, Rack: -1}, r.place(item, at))
		}
	}
	common := Cable{}
	if bandwidth := t.get("bandwidth"); bandwidth != nil {
		common.BandwidthBps, _ = r.bandwidth(bandwidth, "graph.bandwidth")
	}
	if delay := t.get("delay"); delay != nil {
		common.DelayNS, _ = r.delay(delay, "graph.delay")
	}
	for i, item := range r.list(t.get("cables"), "graph.cables") {
		r.graphCable(item, fmt.Sprintf("graph.cables[%d]", i), common, ids)
	}
}

// graphCable reads "A:B", or {ends, bandwidth, delay}; c has the bandwidth and the delay of all cables.
func (r *yamlReader) graphCable(t *tree, path string, c Cable, ids map[string]int32) {
	ends := t
	if t.kind == treeObject {
		if !r.object(t, path, "ends", "bandwidth", "delay") {
			return
		}
		if ends = t.get("ends"); ends == nil {
			r.bad(t, path, "has no ends")
			return
		}
		if v := t.get("bandwidth"); v != nil {
			c.BandwidthBps, _ = r.bandwidth(v, path+".bandwidth")
		}
		if v := t.get("delay"); v != nil {
			c.DelayNS, _ = r.delay(v, path+".delay")
		}
	}
	text, ok := r.text(ends, path)
	if !ok {
		return
	}
	a, b, _ := strings.Cut(text, ":")
	from, knownA := ids[a]
	to, knownB := ids[b]
	switch {
	case !knownA || !knownB:
		r.bad(ends, path, "is %q, want the names of two nodes as A:B", text)
	case c.BandwidthBps == 0:
		r.bad(ends, path, "has no bandwidth")
	default:
		c.A, c.B = from, to
		r.addCable(c, false, r.place(ends, path))
	}
}
