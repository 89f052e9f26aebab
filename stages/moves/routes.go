package moves

import (
	"context"
	"fmt"
	"slices"

	"parsimon/stages/topology"
)

// maxStates is the largest number of times at which routes change.
const maxStates = 1000

// maxRouters is the largest number of different sets of cables that are down. Each set has its own routing
// tables.
const maxRouters = 64

// Routes are the routing tables of a network over time. In the first state, flows get their first paths.
type Routes struct {
	states   []*topology.Router
	firstSet []int32 // by state: the number of its first set of links
	sets     int32
	startNS  []int64
}

// NewRoutes computes the routing tables of a network, from the router of its first state and the router's
// seed.
func (m *Moves) NewRoutes(ctx context.Context, r *topology.Router, seed uint64) (*Routes, error) {
	x := &Routes{states: []*topology.Router{r}, firstSet: []int32{0}, sets: int32(r.Sets()), startNS: []int64{0}}
	times := m.changes()
	if len(times) > maxStates {
		return nil, fmt.Errorf("routes change %d times, at most %d can be simulated", len(times), maxStates)
	}
	known := map[string]int{"[]": 0} // by the cables that are down: the first such state
	for _, ns := range times {
		down := m.downAt(ns)
		cables := fmt.Sprint(down)
		at, ok := known[cables]
		if ok {
			x.add(x.states[at], x.firstSet[at], ns)
			continue
		}
		known[cables] = len(x.states)
		if len(known) > maxRouters {
			return nil, fmt.Errorf("more than %d different sets of cables are down, one after the other", maxRouters)
		}
		router, err := m.without(ctx, down, r, seed)
		if err != nil {
			return nil, err
		}
		x.add(router, x.sets, ns)
		x.sets += int32(router.Sets())
	}
	return x, nil
}

// add appends the state that begins at a time.
func (x *Routes) add(r *topology.Router, firstSet int32, startNS int64) {
	x.states = append(x.states, r)
	x.firstSet = append(x.firstSet, firstSet)
	x.startNS = append(x.startNS, startNS)
}

// changes returns the times at which routes change, in increasing order: ConvergeNS after a cable goes down
// or comes back.
func (m *Moves) changes() []int64 {
	var times []int64
	for _, e := range m.Events {
		if e.Kind != Down {
			continue
		}
		times = append(times, e.FromNS+m.ConvergeNS)
		if e.ToNS > 0 {
			times = append(times, e.ToNS+m.ConvergeNS)
		}
	}
	slices.Sort(times)
	return slices.Compact(times)
}

// downAt returns the cables that routes avoid at a time.
func (m *Moves) downAt(ns int64) (down [][2]int32) {
	for _, e := range m.Events {
		if e.Kind == Down && e.FromNS+m.ConvergeNS <= ns && (e.ToNS == 0 || ns < e.ToNS+m.ConvergeNS) {
			down = append(down, e.Cable)
		}
	}
	return down
}

// without returns the router of r's network without some cables.
func (m *Moves) without(
	ctx context.Context, down [][2]int32, r *topology.Router, seed uint64,
) (*topology.Router, error) {
	rest := r.Net.Clone()
	for _, c := range down {
		if err := rest.Fail(c[0], c[1]); err != nil {
			return nil, err
		}
	}
	router, err := topology.NewRouter(ctx, rest, seed)
	if err == nil {
		err = router.SetRoutes(m.Routes)
	}
	return router, err
}

// Last returns the router of the last state. A host that it does not reach is never reached again.
func (x *Routes) Last() *topology.Router { return x.states[len(x.states)-1] }

// Links implements network.Routes. node and host are indexes into topology.Network.Nodes.
func (x *Routes) Links(state int, node, host int32) (set int32, links []int32) {
	set, links = x.states[state].Next(node, host)
	return x.firstSet[state] + set, links
}

// Sets implements network.Routes.
func (x *Routes) Sets() int { return int(x.sets) }

// Starts implements network.Routes.
func (x *Routes) Starts() []int64 { return x.startNS }
