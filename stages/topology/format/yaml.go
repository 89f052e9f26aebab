package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/simkernel"
	"parsimon/stages/topology"
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

// A Generated is a network that is described under one key of a YAML file: clos or graph.
type Generated struct {
	Clos   *topology.ClosSpec // resolved
	Nodes  []topology.Node    // of a graph: hosts, then switches, by id from 0
	Cables []topology.Cable   // of a graph
}

// GeneratedKeys are the keys of the kinds of Generated.
func GeneratedKeys() []string { return []string{"clos", "graph"} }

// Network builds the network.
func (g *Generated) Network() (*topology.Network, error) { return topology.NewNetwork(g.parts()) }

func (g *Generated) parts() ([]topology.Node, []topology.Cable) {
	if g.Clos != nil {
		return g.Clos.Parts()
	}
	return g.Nodes, g.Cables
}

// ReadGenerated reads the value of one of GeneratedKeys in a YAML file; path is where the key stands, such as
// topology.clos. The network is sound where there is no fault.
func ReadGenerated(file, path string, t *tree.Value) (*Generated, []Fault) {
	r := yamlReader{treeReader{draft: &draft{}, file: file}}
	g := r.generated(t, path)
	if len(r.faults) == 0 && g != nil {
		r.finish([]string{file}, &Options{})
	}
	return g, slices.DeleteFunc(r.faults, func(f Fault) bool { return f.Kind == topology.FaultIsland })
}

func detectYAML(s *source) bool { return s.single(".yaml", ".yml") }

func readYAML(s *source, _ *Options) (*draft, error) {
	reader, t, err := s.tree(tree.YAML)
	r := yamlReader{reader}
	if err != nil || t == nil || !r.object(t, "", GeneratedKeys()...) {
		return r.draft, err
	}
	if len(t.Keys) != 1 || t.Get(t.Keys[0]) == nil {
		r.bad(t, "", "needs one of %s", strings.Join(GeneratedKeys(), " and "))
		return r.draft, nil
	}
	r.generated(t.Items[0], strings.ToLower(t.Keys[0]))
	return r.draft, nil
}

type yamlReader struct{ treeReader }

// generated reads the value of the key that path ends with, and adds its nodes and cables to the draft. It is nil where
// it has a fault.
func (r *yamlReader) generated(t *tree.Value, path string) *Generated {
	if strings.HasSuffix(path, "graph") {
		return r.graph(t, path)
	}
	before := len(r.faults)
	c := r.clos(t, path)
	if len(r.faults) > before {
		return nil
	}
	g := &Generated{Clos: &c}
	nodes, cables := g.parts()
	for _, v := range nodes {
		r.addNode(v, r.place(t, path))
	}
	for _, k := range cables {
		r.addCable(k, false, r.place(t, path))
	}
	return g
}

// A yamlKey is a key of an object: the names of whole numbers, speeds, delays and other numbers that it may hold.
type yamlKey struct {
	name string
	read func(r *yamlReader, t *tree.Value, path string)
}

func wholeKey(name string, to *int) yamlKey {
	return yamlKey{name, func(r *yamlReader, t *tree.Value, path string) {
		v, ok := r.integer(t, path, 32)
		if *to = int(v); ok && v < 1 {
			r.bad(t, path, "is %d, must be 1 to %d", v, topology.MaxNodes)
		}
	}}
}

func speedKey(name string, to *int64) yamlKey {
	return yamlKey{name, func(r *yamlReader, t *tree.Value, path string) {
		*to = r.quantity(t, path, topology.ParseSpeed, simkernel.MinBps, 1e15, "bps")
	}}
}

func delayKey(name string, to *int64) yamlKey {
	return yamlKey{name, func(r *yamlReader, t *tree.Value, path string) {
		*to = r.quantity(t, path, topology.ParseDelay, 0, 1e12, "ns")
	}}
}

// keys reads the keys of an object; others and repeated ones are faults.
func (r *yamlReader) keys(t *tree.Value, path string, keys ...yamlKey) bool {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	if !r.object(t, path, names...) {
		return false
	}
	before := len(r.faults)
	for _, k := range keys {
		if item := t.Get(k.name); item != nil {
			k.read(r, item, path+"."+k.name)
		}
	}
	return len(r.faults) == before
}

// clos reads a Clos description.
func (r *yamlReader) clos(t *tree.Value, path string) (c topology.ClosSpec) {
	over := yamlKey{"oversubscription", func(r *yamlReader, t *tree.Value, path string) {
		v, err := strconv.ParseFloat(t.Text, 64)
		if c.Oversubscription = v; err != nil || !(v > 0 && v <= topology.MaxNodes) {
			r.bad(t, path, "is %s, must be a number above 0", t)
		}
	}}
	ok := r.keys(t, path, wholeKey("pods", &c.Pods), wholeKey("racks_per_pod", &c.RacksPerPod),
		wholeKey("hosts_per_rack", &c.HostsPerRack), wholeKey("planes", &c.Planes),
		wholeKey("spines_per_plane", &c.SpinesPerPlane), over,
		speedKey("host_bandwidth", &c.HostBps), speedKey("fabric_bandwidth", &c.FabricBps),
		delayKey("host_delay", &c.HostDelayNS), delayKey("fabric_delay", &c.FabricDelayNS))
	if !ok {
		return c
	}
	if c.HostBps == 0 || c.FabricBps == 0 {
		r.bad(t, path, "needs host_bandwidth and fabric_bandwidth")
		return c
	}
	c, err := c.Resolved()
	if err != nil {
		r.bad(t, path, "%s", strings.TrimPrefix(err.Error(), "clos: "))
	}
	return c
}

// quantity reads a number with a unit; lo and hi bound it in the base unit.
func (r *yamlReader) quantity(t *tree.Value, path string, parse func(string) (int64, error), lo, hi int64,
	base string) int64 {
	v, err := parse(t.Text)
	if !t.IsFinite() {
		err = fmt.Errorf("is %s, which is not a finite number", t)
	} else if err == nil && (v < lo || v > hi) {
		err = fmt.Errorf("is %s, must be %d to %d %s", t.Text, lo, hi, base)
	}
	if err != nil {
		r.bad(t, path, "%v", err)
	}
	return v
}

// graph reads named hosts, switches and cables. Ids count the hosts and then the switches, from 0.
func (r *yamlReader) graph(t *tree.Value, path string) *Generated {
	before := len(r.faults)
	g := &Generated{}
	ids := map[string]int32{}
	names := func(key, kind string) yamlKey {
		return yamlKey{key, func(r *yamlReader, t *tree.Value, path string) {
			for i, item := range r.list(t, path) {
				at := fmt.Sprintf("%s[%d]", path, i)
				name, ok := r.text(item, at)
				if _, twice := ids[name]; ok && (twice || name == "" || strings.Contains(name, ":")) {
					r.bad(item, at, "is %q, want a name that no other node has, without a colon", name)
				} else if ok {
					g.Nodes = append(g.Nodes, topology.Node{ID: int32(len(ids)), Name: name, Kind: kind, Pod: -1, Rack: -1})
					ids[name] = int32(len(ids))
					r.addNode(g.Nodes[len(g.Nodes)-1], r.place(item, at))
				}
			}
		}}
	}
	var common topology.Cable
	cables := yamlKey{"cables", func(r *yamlReader, t *tree.Value, path string) {
		for i, item := range r.list(t, path) {
			at := fmt.Sprintf("%s[%d]", path, i)
			if c, ok := r.graphCable(item, at, common, ids); ok {
				g.Cables = append(g.Cables, c)
				r.addCable(c, false, r.place(item, at))
			}
		}
	}}
	r.keys(t, path, names("hosts", topology.KindHost), names("switches", topology.KindSwitch),
		speedKey("bandwidth", &common.BandwidthBps), delayKey("delay", &common.DelayNS), cables)
	if len(r.faults) > before {
		return nil
	}
	return g
}

// graphCable reads "A:B", or {ends, bandwidth, delay}; c has the bandwidth and the delay of all cables.
func (r *yamlReader) graphCable(t *tree.Value, path string, c topology.Cable,
	ids map[string]int32) (topology.Cable, bool) {
	ends := t
	if t.Kind == tree.Object {
		ends = nil
		keep := yamlKey{"ends", func(_ *yamlReader, t *tree.Value, _ string) { ends = t }}
		if !r.keys(t, path, keep, speedKey("bandwidth", &c.BandwidthBps), delayKey("delay", &c.DelayNS)) {
			return c, false
		}
		if ends == nil {
			r.bad(t, path, "has no ends")
			return c, false
		}
	}
	text, ok := r.text(ends, path)
	if !ok {
		return c, false
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
		return c, true
	}
	return c, false
}
