package scenario

import (
	"errors"
	"strings"

	"parsimon/pipeline/units"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// A graphSpec is a network as a list of nodes and cables.
type graphSpec struct {
	nodes  []topology.Node
	cables []topology.Cable
}

// A graphReader reads a graphSpec: first the lists of fields, then nodes, then cables by the names of nodes.
type graphReader struct {
	graphSpec
	cableFields  []field
	bandwidthBps int64 // of cables that state none
	delayNS      int64
	ids          map[string]int32
}

// readGraph reads a network of named hosts and switches. Ids count the hosts and then the switches,
// from 0. A cable is its two ends, "A:B" by their names, with the bandwidth and the delay that all
// cables have, or keys with its own.
func (s *Scenario) readGraph(f field) error {
	g := &graphReader{ids: map[string]int32{}}
	list := func(to *[]field) func(field) error {
		return func(f field) (err error) {
			*to, err = f.list()
			return err
		}
	}
	var hosts, switches []field
	err := f.object(map[string]func(field) error{
		"hosts": list(&hosts), "switches": list(&switches), "cables": list(&g.cableFields),
		"bandwidth": readBandwidth(&g.bandwidthBps), "delay": readDelay(&g.delayNS),
	})
	if err != nil {
		return err
	}
	if err := g.readNodes(topology.KindHost, hosts); err != nil {
		return err
	}
	if err := g.readNodes(topology.KindSwitch, switches); err != nil {
		return err
	}
	for _, item := range g.cableFields {
		if err := g.readCable(item); err != nil {
			return err
		}
	}
	_, err = topology.NewNetwork(g.nodes, g.cables)
	var bad *topology.Error
	if errors.As(err, &bad) && bad.Cable >= 0 {
		return g.cableFields[bad.Cable].fail(err)
	}
	if err != nil {
		return f.fail(err)
	}
	s.topology.graph = &g.graphSpec
	return nil
}

func readBandwidth(to *int64) func(field) error {
	return readSpeed(to, simkernel.MinBps, 1e15)
}

func readDelay(to *int64) func(field) error { return readQuantity(to, units.Duration, 0, 1e12) }

// readNodes reads the names of the nodes of a kind.
func (g *graphReader) readNodes(kind string, names []field) error {
	for _, item := range names {
		name, err := item.text()
		if err != nil {
			return err
		}
		if _, twice := g.ids[name]; twice || name == "" || strings.Contains(name, ":") {
			return item.failf("is %q, want a name of its own, without a colon", name)
		}
		g.ids[name] = int32(len(g.ids))
		g.nodes = append(g.nodes, topology.Node{ID: g.ids[name], Name: name, Kind: kind, Pod: -1, Rack: -1})
	}
	return nil
}

// readCable reads one cable.
func (g *graphReader) readCable(item field) (err error) {
	c := topology.Cable{BandwidthBps: g.bandwidthBps, DelayNS: g.delayNS}
	ends := func(f field) error { return g.readEnds(f, &c) }
	if _, object := item.pairs(); object {
		err = item.object(map[string]func(field) error{
			"ends": ends, "bandwidth": readBandwidth(&c.BandwidthBps), "delay": readDelay(&c.DelayNS),
		})
	} else {
		err = ends(item)
	}
	switch {
	case err != nil:
		return err
	case c.BandwidthBps == 0:
		return item.failf("has no bandwidth")
	}
	g.cables = append(g.cables, c)
	return nil
}

// readEnds reads the two ends of a cable.
func (g *graphReader) readEnds(f field, c *topology.Cable) error {
	text, err := f.text()
	if err != nil {
		return err
	}
	a, b, _ := strings.Cut(text, ":")
	from, knownA := g.ids[a]
	to, knownB := g.ids[b]
	if !knownA || !knownB {
		return f.failf("is %q, want the names of two nodes as A:B", text)
	}
	c.A, c.B = from, to
	return nil
}

func (g *graphSpec) canonical() *canonicalGraph {
	c := &canonicalGraph{}
	for _, v := range g.nodes {
		if v.Kind == topology.KindHost {
			c.Hosts = append(c.Hosts, v.Name)
		} else {
			c.Switches = append(c.Switches, v.Name)
		}
	}
	for _, v := range g.cables {
		c.Cables = append(c.Cables, [4]int64{int64(v.A), int64(v.B), v.BandwidthBps, v.DelayNS})
	}
	return c
}
