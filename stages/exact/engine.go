package exact

import (
	"fmt"

	"parsimon/schema/names"
	"parsimon/simkernel/network"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// Check returns an error if Simulate cannot simulate flows with these loads, for example because a link has
// no delay.
func Check(m *step.Model, loads *route.Loads) error {
	span := loads.LastStartNS - loads.FirstStartNS
	if span > network.MaxNS {
		return fmt.Errorf("the flows start within %d s, more than %d", span/1e9, network.MaxNS/int64(1e9))
	}
	n := m.Network
	b := m.Buffers
	engine, _, err := newEngine(m, nil)
	if err != nil || !b.PFC {
		return withName(err, m)
	}
	links, hosts := engineTopology(n)
	for id, link := range links {
		l := n.Links[id]
		if !hosts[link.DstNode] && engine.Headroom(link) > b.SwitchBytes {
			return fmt.Errorf("%s (link %d, %d ns) sends %d bytes before a pause reaches it: PFC needs that "+
				"headroom, and the buffer is %d bytes; use a larger buffer, state a headroom (--set "+
				"switches.headroom=200KB), or leave out PFC (--pfc)",
				n.LinkName(l.ID), l.ID, l.DelayNS, engine.Headroom(link), b.SwitchBytes)
		}
	}
	return nil
}

// Rooms returns the buffer space, in bytes, that each link has in its switch, by link id
// (network.Network.Rooms). It returns nil if buffers are unlimited or the whole network cannot be simulated.
func Rooms(m *step.Model) []int64 {
	if m.Buffers.IsZero() {
		return nil
	}
	engine, err := withoutClasses(m)
	if err != nil {
		return nil
	}
	return engine.Rooms()
}

// withoutClasses returns a simulation of the model with a single queue at each port.
func withoutClasses(m *step.Model) (*network.Network, error) {
	one := *m
	one.Classes = nil
	engine, _, err := newEngine(&one, nil)
	return engine, err
}

// shortfalls returns the switches whose buffers are smaller than the headroom of PFC. It returns nil if the
// whole network cannot be simulated.
func shortfalls(m *step.Model) []network.Shortfall {
	engine, _, err := newEngine(m, nil)
	if err != nil {
		return nil // the simulation reports the error
	}
	return engine.Shortfalls()
}

// newEngine returns a simulation of the whole network, and a function that returns the class of a flow.
func newEngine(
	m *step.Model, next func() (*network.Flows, error),
) (*network.Network, func(*workload.Row) uint8, error) {
	links, hosts := engineTopology(m.Network)
	engine, err := network.New(m.Params, m.Buffers, links, hosts, next)
	if err != nil {
		return nil, nil, err
	}
	of, err := classify(engine, m.Classes)
	return engine, of, err
}

// engineTopology returns the network as the engine expects it, with indexes of nodes instead of ids.
func engineTopology(n *topology.Network) (links []network.Link, hosts []bool) {
	place := make(map[int32]int32, len(n.Nodes))
	hosts = make([]bool, len(n.Nodes))
	for i, v := range n.Nodes {
		place[v.ID] = int32(i)
		hosts[i] = v.Kind == topology.KindHost
	}
	return names.Of(n.Links, func(l topology.Link) network.Link {
		return network.Link{SrcNode: place[l.Src], DstNode: place[l.Dst], BandwidthBps: l.BandwidthBps,
			DelayNS: l.DelayNS}
	}), hosts
}
