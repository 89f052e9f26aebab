package format

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/schema/names"
	"parsimon/schema/tree"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// A Generated is a network that is described under one key of a YAML file: clos, fabric or graph.
type Generated struct {
	Clos   *topology.ClosSpec
	Fabric *topology.FabricSpec
	Nodes  []topology.Node // hosts, then switches, by id from 0
	Cables []topology.Cable
	of     tree.Field
	at     []tree.Field // places of a graph's nodes and then of its cables
}

// GeneratedKeys are the readers of the keys of Generated. They append to the network and, if check is true,
// report errors of the result. The errors are *tree.FieldError.
func GeneratedKeys(to *[]*Generated, check bool) tree.Keys {
	keys := tree.Keys{}
	for key, read := range map[string]func(*Generated, tree.Field) error{"clos": (*Generated).readClos,
		"fabric": (*Generated).readFabric, "graph": (*Generated).readGraph} {
		keys[key] = func(f tree.Field) error {
			g := &Generated{of: f}
			err := read(g, f)
			if err == nil {
				*to = append(*to, g)
			}
			if err == nil && check {
				err = g.check()
			}
			return err
		}
	}
	return keys
}

// check finds the errors of a fabric or a graph as a network.
func (g *Generated) check() error {
	if g.Clos != nil {
		return nil
	}
	var errs []error
	for _, e := range topology.Check(g.Nodes, g.Cables) {
		at := g.of
		if g.Fabric != nil {
			return at.Fail(e)
		} else if e.Node >= 0 {
			at = g.at[e.Node]
		} else if e.Cable >= 0 {
			at = g.at[len(g.Nodes)+e.Cable]
		}
		errs = append(errs, at.Fail(e))
	}
	return errors.Join(errs...)
}

func (d *draft) readYAML() {
	top := d.document(d.files[0], tree.YAML)
	if top.Value == nil {
		return
	}
	var all []*Generated
	if d.take(top.Object(GeneratedKeys(&all, false))) && len(all) != 1 {
		d.bad(top, "needs one of clos, fabric and graph")
	}
	for _, g := range all {
		at := append(g.at, slices.Repeat([]tree.Field{g.of}, len(g.Nodes)+len(g.Cables)-len(g.at))...)
		for i, v := range g.Nodes {
			d.addNode(v, placeOf(at[i]))
		}
		for i, c := range g.Cables {
			d.addCable(c, false, placeOf(at[len(g.Nodes)+i]))
		}
	}
}

func readSpeed(to *int64) func(tree.Field) error {
	return tree.ReadBounded(to, topology.ParseSpeed, simkernel.MinBps, 1e15, "bps")
}

func (g *Generated) readClos(f tree.Field) error {
	var c topology.ClosSpec
	var oversubscription float64
	size := func(to *int) func(tree.Field) error { return tree.ReadInt(to, 1, topology.MaxNodes) }
	err := f.Object(tree.Keys{
		"pods": size(&c.Pods), "racks_per_pod": size(&c.RacksPerPod), "hosts_per_rack": size(&c.HostsPerRack),
		"planes": size(&c.Planes), "spines_per_plane": size(&c.SpinesPerPlane),
		"oversubscription": tree.ReadFloat(&oversubscription, "a number above 0",
			func(x float64) bool { return x > 0 && x <= topology.MaxNodes }),
		"host_bandwidth": readSpeed(&c.HostBps), "fabric_bandwidth": readSpeed(&c.FabricBps),
		"host_delay":   tree.ReadParsed(&c.HostDelayNS, topology.ParseDelay),
		"fabric_delay": tree.ReadParsed(&c.FabricDelayNS, topology.ParseDelay),
	})
	if err == nil {
		err = f.Need(
			"pods",
			"racks_per_pod",
			"hosts_per_rack",
			"planes",
			"host_bandwidth",
			"fabric_bandwidth",
		)
	}
	spines := float64(c.RacksPerPod) / oversubscription
	whole := math.Round(spines)
	switch {
	case err != nil:
		return err
	case (c.SpinesPerPlane == 0) == (oversubscription == 0):
		return f.Failf("needs spines_per_plane or oversubscription, which determine each other: give one")
	case oversubscription > 0 && (spines < 1 || math.Abs(spines-whole) > 1e-9*spines):
		return f.Failf(
			"oversubscription of %v with %d racks per pod needs %v spines per plane, which is not a whole number "+
				"of at least 1",
			oversubscription,
			c.RacksPerPod,
			spines,
		)
	case oversubscription > 0:
		c.SpinesPerPlane = int(min(whole, topology.MaxNodes))
	}
	g.Clos = &c
	g.Nodes, g.Cables, err = c.Parts()
	return f.Fail(err)
}

func (g *Generated) readFabric(f tree.Field) (err error) {
	s := topology.FabricSpec{GPUs: 1, Sizes: map[string]int{}}
	keys := tree.Keys{
		"kind": tree.ReadText(&s.Kind), "gpus": tree.ReadInt(&s.GPUs, 1, topology.MaxNodes),
		"host_bandwidth": readSpeed(&s.HostBps), "fabric_bandwidth": readSpeed(&s.FabricBps),
		"inner_bandwidth": readSpeed(&s.InnerBps),
		"host_delay":      tree.ReadParsed(&s.HostDelayNS, topology.ParseDelay),
		"fabric_delay":    tree.ReadParsed(&s.FabricDelayNS, topology.ParseDelay),
		"inner_delay":     tree.ReadParsed(&s.InnerDelayNS, topology.ParseDelay),
	}
	for _, sizes := range topology.FabricSizes() {
		for _, name := range sizes {
			keys[name] = func(f tree.Field) error {
				n := 0
				err := tree.ReadInt(&n, 1, topology.MaxNodes)(f)
				s.Sizes[name] = n
				return err
			}
		}
	}
	if err := errors.Join(f.Object(keys), f.Need("kind", "host_bandwidth", "fabric_bandwidth")); err != nil {
		return err
	}
	if g.Nodes, g.Cables, err = s.Parts(); err != nil {
		return f.Fail(err)
	}
	g.Fabric = &s
	return nil
}

// readGraph reads named hosts, switches and cables. Ids count the hosts and then the switches, from 0, except
// for names that are numbers (see idsOf).
func (g *Generated) readGraph(f tree.Field) error {
	var hosts, switches, cables tree.Field
	var common topology.Cable
	err := f.Object(
		tree.Keys{"hosts": tree.Keep(&hosts), "switches": tree.Keep(&switches), "cables": tree.Keep(&cables),
			"bandwidth": readSpeed(
				&common.BandwidthBps,
			), "delay": tree.ReadParsed(&common.DelayNS, topology.ParseDelay)},
	)
	if err != nil {
		return err
	}
	ids := map[string]int32{}
	node := func(kind string) func(tree.Field) error {
		return func(f tree.Field) error {
			name, err := f.Scalar()
			if err != nil {
				return err
			}
			if _, twice := ids[name]; twice || name == "" || strings.Contains(name, ":") {
				return f.Failf("is %q, want a name that no other node has, without a colon", name)
			}
			g.Nodes = append(g.Nodes, topology.Node{Name: name, Kind: kind, Pod: -1, Rack: -1})
			g.at = append(g.at, f)
			ids[name] = -1
			return nil
		}
	}
	err = errors.Join(hosts.Each(node(topology.KindHost)), switches.Each(node(topology.KindSwitch)))
	for i, id := range idsOf(names.Of(g.Nodes, func(v topology.Node) string { return v.Name })) {
		g.Nodes[i].ID = id
		ids[g.Nodes[i].Name] = id
	}
	cable := func(f tree.Field) error {
		c, err := graphCable(f, common, ids)
		g.Cables = append(g.Cables, c)
		g.at = append(g.at, f)
		return err
	}
	return errors.Join(err, cables.Each(cable))
}

// graphCable reads "A:B" or {ends, bandwidth, delay}. c has the default bandwidth and delay.
func graphCable(f tree.Field, c topology.Cable, ids map[string]int32) (topology.Cable, error) {
	ends := f
	if f.Is(tree.Object) {
		err := f.Object(tree.Keys{"ends": tree.Keep(&ends), "bandwidth": readSpeed(&c.BandwidthBps),
			"delay": tree.ReadParsed(&c.DelayNS, topology.ParseDelay)})
		if err == nil {
			err = f.Need("ends")
		}
		if err != nil {
			return c, err
		}
	}
	text, err := ends.Scalar()
	if err != nil {
		return c, err
	}
	a, b, _ := strings.Cut(text, ":")
	from, knownA := ids[a]
	to, knownB := ids[b]
	switch {
	case !knownA || !knownB:
		return c, f.Failf("is %q, want the names of two nodes as A:B", text)
	case c.BandwidthBps == 0:
		return c, f.Failf("has no bandwidth")
	}
	c.A = from
	c.B = to
	return c, nil
}

// readJSON reads the document in the order that gives links their ids: the racks of a pod with their hosts'
// cables, the pod's other cables, the cables between pods, then the plain lists.
func (d *draft) readJSON() {
	top := d.document(d.files[0], tree.JSON)
	if top.Value == nil {
		return
	}
	if !top.Is(tree.Object) {
		d.take(
			top.Failf(
				"is %s, want keys and values, such as nodes and links: see JSON in parsimon help topology",
				top.Value,
			),
		)
		return
	}
	var planes, pods, cross, nodes, links tree.Field
	d.take(
		top.Object(
			tree.Keys{"planes": tree.Keep(&planes), "pods": tree.Keep(&pods), "fab2spine": tree.Keep(&cross),
				"nodes": tree.Keep(&nodes), "links": tree.Keep(&links)},
		),
	)
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
	d.take(
		pod.Object(
			tree.Keys{"fabs": tree.Keep(&fabs), "racks": tree.Keep(&racks), "tor2fab": tree.Keep(&cross)},
		),
	)
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

// jsonNode reads a node. v has the properties that follow from its position in the file. If the kind in v is
// empty, the node states its kind, name, pod and rack.
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

// jsonCables reads a list of cables. Each incomplete cable is a fault, and the others are kept.
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

// optional returns a reader that treats null as a missing key, because libraries write null for unknown
// values.
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

const batfishFile = "layer1_topology.json"

// batfishFiles returns the layer-1 topology of a snapshot directory, or nil if it has none.
func batfishFiles(dir string) ([]string, error) {
	files, err := glob(dir, filepath.Join("batfish", batfishFile), batfishFile)
	return files[max(0, len(files)-1):], err
}

// readBatfish makes one listing of each edge, reported by node1. Names are compared without case, as Batfish
// does: it lower-cases all node names.
func (d *draft) readBatfish() {
	top := d.document(d.files[0], tree.JSON)
	if top.Value == nil {
		return
	}
	seen := listings{foldCase: true}
	for _, edge := range d.list(top.Of("edges")) {
		a, okA := d.batfishEnd(edge, "node1")
		b, okB := d.batfishEnd(edge, "node2")
		if okA && okB {
			seen.all = append(seen.all, listing{a: a, b: b, delayNS: -1, at: lineOf(edge)})
		}
	}
	d.assemble(&seen)
}

// batfishEnd reads {hostname, interfaceName}. Both are required: without interfaces, two edges between the
// same nodes cannot be distinguished.
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
