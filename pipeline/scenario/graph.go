package scenario

import (
	"errors"
	"strings"

	"parsimon/pipeline/units"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// A graphSpec is a network said node by node and cable by cable.
type graphSpec struct {
	nodes  []topology.Node
	cables []topology.Cable
}

// readGraph reads a network of named hosts and switches. Ids count the hosts and then the switches,
// from 0. A cable is its two ends, "A:B" by their names, with the bandwidth and the delay that all
// cables have, or keys with its own.
func (s *Scenario) readGraph(f field) error {
	g := &graphSpec{}
	ids := map[string]int32{}
	var cables []field
	var bandwidthBps, delayNS int64
	bandwidth := func(to *int64) func(field) error { return readQuantity(to, units.Bandwidth, simkernel.MinBps, 1e15) }
	delay := func(to *int64) func(field) error { return readQuantity(to, units.Duration, 0, 1e12) }
	names := map[string][]field{}
	list := func(kind string) func(field) error {
		return func(f field) (err error) {
			names[kind], err = f.list()
			return err
		}
	}
	err := f.object(map[string]func(field) error{
		"hosts": list(topology.KindHost), "switches": list(topology.KindSwitch),
		"bandwidth": bandwidth(&bandwidthBps), "delay": delay(&delayNS),
		"cables": func(f field) (err error) {
			cables, err = f.list()
			return err
		},
	})
	if err != nil {
		return err
	}
	for _, kind := range []string{topology.KindHost, topology.KindSwitch} {
		for _, item := range names[kind] {
			name, err := item.text()
			if err != nil {
				return err
			}
			if _, twice := ids[name]; twice || name == "" || strings.Contains(name, ":") {
				return item.failf("is %q, want a name of its own, without a colon", name)
			}
			ids[name] = int32(len(ids))
			g.nodes = append(g.nodes, topology.Node{ID: ids[name], Name: name, Kind: kind, Pod: -1, Rack: -1})
		}
	}
	for _, item := range cables {
		c := topology.Cable{BandwidthBps: bandwidthBps, DelayNS: delayNS}
		ends := func(f field) error {
			text, err := f.text()
			if err != nil {
				return err
			}
			a, b, _ := strings.Cut(text, ":")
			from, knownA := ids[a]
			to, knownB := ids[b]
			if !knownA || !knownB {
				return f.failf("is %q, want the names of two nodes as A:B", text)
			}
			c.A, c.B = from, to
			return nil
		}
		if item.isObject() {
			err = item.object(map[string]func(field) error{"ends": ends, "bandwidth": bandwidth(&c.BandwidthBps), "delay": delay(&c.DelayNS)})
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
	}
	_, err = topology.NewNetwork(g.nodes, g.cables)
	var bad *topology.Error
	if errors.As(err, &bad) && bad.Cable >= 0 {
		return cables[bad.Cable].fail(err)
	}
	if err != nil {
		return f.fail(err)
	}
	s.topology.graph = g
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
