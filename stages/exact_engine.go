package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/topology"
)

// unbuffered simulates switches that never drop packets.
func (x *exact) unbuffered(ctx context.Context) error {
	links, hosts, domains := x.engineTopology(x.options.Domains)
	engine, err := network.New(x.params, links, hosts, domains, x.nextFlows)
	if err != nil {
		return err
	}
	x.counters = engine.Counters
	if err := x.run(ctx, engine); err != nil {
		return err
	}
	x.findDeepest(engine)
	return nil
}

// CheckWholeNetwork returns an error if Exact cannot simulate flows that were routed so, and carry such loads: over a
// link without a delay, for example.
func CheckWholeNetwork(n *topology.Network, p simkernel.Params, routed RouteStats, loads *Loads) error {
	if routed.LongestPath > network.MaxHops {
		return fmt.Errorf("the longest path has %d links, more than %d", routed.LongestPath, network.MaxHops)
	}
	if span := loads.LastStartNS - loads.FirstStartNS; span > network.MaxNS {
		return fmt.Errorf("the flows start within %d s, more than %d", span/1e9, network.MaxNS/int64(1e9))
	}
	links, hosts, _ := (&exact{net: n}).engineTopology(1)
	_, err := network.New(p, links, hosts, nil, func() (*network.Flows, error) { return nil, nil })
	return err
}

// buffered simulates switches with limited buffers.
func (x *exact) buffered(ctx context.Context) error {
	links, hosts, _ := x.engineTopology(1)
	engine, err := network.NewBuffered(x.params, x.options.Buffer, links, hosts, x.nextFlows)
	if err != nil {
		return err
	}
	x.counters = engine.Counters
	err = engine.Run(func(r *network.Results) error {
		return errors.Join(ctx.Err(), x.take(r))
	})
	if err != nil {
		return err
	}
	for i, v := range x.net.Nodes {
		if held := engine.MostBytes(int32(i)); held > x.stats.DeepestSwitchBytes {
			x.stats.DeepestSwitch, x.stats.DeepestSwitchBytes = v.ID, held
		}
	}
	for _, l := range x.net.Links {
		if dropped := engine.Dropped(l.ID); dropped > x.stats.MostDropped {
			x.stats.MostDroppedLink, x.stats.MostDropped = l.ID, dropped
		}
	}
	x.stats.Losses = engine.Losses
	return nil
}

// findDeepest finds the switch that may have held the most bytes. The length of a queue is recorded when a
// packet starts to be sent, so each port may have held one more packet.
func (x *exact) findDeepest(engine *network.Network) {
	held := map[int32]int64{}
	for _, l := range x.net.Links {
		if v, _ := x.net.Node(l.Src); v.Kind != topology.KindHost {
			if deepest := engine.Counters(l.ID).MaxQueueBytes; deepest > 0 {
				held[l.Src] += deepest + x.params.PayloadBytes + x.params.HeaderBytes
			}
		}
	}
	for _, v := range x.net.Nodes { // the first of equals, in the order of ids
		if held[v.ID] > x.stats.DeepestSwitchBytes {
			x.stats.DeepestSwitch, x.stats.DeepestSwitchBytes = v.ID, held[v.ID]
		}
	}
}

// engineTopology returns the network as the engine expects it, with places of nodes instead of ids, and, for
// more than one domain, the domain of each node.
func (x *exact) engineTopology(parts int) (links []network.Link, hosts []bool, domains []int32) {
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
	if parts > 1 {
		domains = network.Partition(links, hosts, parts)
	}
	return links, hosts, domains
}

// run advances the engine window by window. Each domain has a goroutine that simulates its part of the window
// and then waits for the next one. A window is a microsecond of simulated time and takes some ten to compute,
// too short for goroutines to be suspended: they spin, and yield their core when that takes long.
func (x *exact) run(ctx context.Context, engine *network.Network) error {
	const stop = math.MaxInt64
	var window, done atomic.Int64 // windows begun; domains that have finished the current one
	var wg sync.WaitGroup
	for d := 1; d < engine.Domains(); d++ {
		wg.Go(func() {
			for w := int64(1); ; w++ {
				for spin := 0; window.Load() < w; spin++ {
					pause(spin)
				}
				if window.Load() == stop {
					return
				}
				engine.RunDomain(d)
				done.Add(1)
			}
		})
	}
	defer wg.Wait()
	defer window.Store(stop)
	for step := int64(1); ; step++ {
		more, err := engine.Advance()
		if err != nil {
			return err
		}
		if err := x.take(&engine.Results); err != nil || !more {
			return err
		}
		if step%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		done.Store(0)
		window.Store(step)
		engine.RunDomain(0)
		for spin := 0; done.Load() < int64(engine.Domains()-1); spin++ {
			pause(spin)
		}
	}
}

// pause is the body of a spin loop; from time to time it yields the core.
func pause(spin int) {
	if spin%64 == 63 {
		runtime.Gosched()
	}
}
