package stages

import (
	"context"
	"fmt"
	"runtime"

	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/topology"
)

// simulate runs the engine.
func (x *exact) simulate(ctx context.Context) error {
	links, hosts := x.engineTopology()
	engine, err := network.New(x.params, x.options.Buffer, links, hosts, x.nextFlows)
	if err != nil {
		return err
	}
	if x.classOf, err = classify(engine, x.options.Classes); err != nil {
		return err
	}
	x.engine = engine
	if m := x.options.Moves; m.Whole() {
		if x.routes, err = m.NewRoutes(x.router, x.options.Seed); err != nil {
			return err
		}
		if x.first, err = x.nextFlows(); err != nil { // times of the engine begin with the first flow
			return err
		}
		engine.Move(m.Engine(x.net, x.routes, x.options.Seed, x.originNS))
	}
	if x.waits != nil {
		engine.WaitFor()
	}
	workers := x.options.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	if err := engine.Run(ctx, workers, x.take); err != nil {
		return err
	}
	x.stats.Losses = engine.Losses()
	if x.findDeepest(engine); x.options.Buffer.IsZero() {
		return nil
	}
	for _, l := range x.net.Links {
		if dropped := engine.Dropped(l.ID); dropped > x.stats.MostDropped {
			x.stats.MostDroppedLink, x.stats.MostDropped = l.ID, dropped
		}
		x.stats.PausedNS += engine.PausedNS(l.ID)
	}
	return nil
}

// CheckWholeNetwork returns an error if Exact cannot simulate flows that load the links so: over a link without a
// delay, for example.
func CheckWholeNetwork(n *topology.Network, p simkernel.Params, b network.BufferParams, classes []TrafficClass,
	loads *Loads) error {
	if span := loads.LastStartNS - loads.FirstStartNS; span > network.MaxNS {
		return fmt.Errorf("the flows start within %d s, more than %d", span/1e9, network.MaxNS/int64(1e9))
	}
	links, hosts := (&exact{net: n}).engineTopology()
	engine, err := network.New(p, b, links, hosts, func() (*network.Flows, error) { return nil, nil })
	if err == nil {
		_, err = classify(engine, classes)
	}
	for id, link := range links {
		if err == nil && b.PFC && !hosts[link.DstNode] && engine.Headroom(link) > b.SwitchBytes {
			l := n.Links[id]
			err = fmt.Errorf("%s (link %d, %d ns) sends %d bytes before a pause reaches it: PFC needs that headroom, and the "+
				"buffer is %d bytes; use a larger buffer, state a headroom (switches.headroom), or leave out PFC (--pfc)",
				n.LinkName(l.ID), l.ID, l.DelayNS, engine.Headroom(link), b.SwitchBytes)
		}
	}
	return err
}

// findDeepest finds the switch that held the most bytes or, without a limited buffer, that may have: the length of a
// queue is recorded when a packet starts to be sent, so each port may have held one more packet.
func (x *exact) findDeepest(engine *network.Network) {
	held := map[int32]int64{}
	for _, l := range x.net.Links {
		if v, _ := x.net.Node(l.Src); v.Kind != topology.KindHost {
			if deepest := engine.Counters(l.ID).MaxQueueBytes; deepest > 0 {
				held[l.Src] += deepest + x.params.PayloadBytes + x.params.HeaderBytes
			}
		}
	}
	for i, v := range x.net.Nodes { // the first of equals, in the order of ids
		if !x.options.Buffer.IsZero() {
			held[v.ID] = engine.MostBytes(int32(i))
		}
		if held[v.ID] > x.stats.DeepestSwitchBytes {
			x.stats.DeepestSwitch, x.stats.DeepestSwitchBytes = v.ID, held[v.ID]
		}
	}
}

// engineTopology returns the network as the engine expects it, with places of nodes instead of ids.
func (x *exact) engineTopology() (links []network.Link, hosts []bool) {
	place := make(map[int32]int32, len(x.net.Nodes))
	hosts = make([]bool, len(x.net.Nodes))
	for i, v := range x.net.Nodes {
		place[v.ID], hosts[i] = int32(i), v.Kind == topology.KindHost
	}
	for _, l := range x.net.Links {
		links = append(links, network.Link{
			SrcNode: place[l.Src], DstNode: place[l.Dst], BandwidthBps: l.BandwidthBps, DelayNS: l.DelayNS,
		})
	}
	return links, hosts
}
