package moves

import (
	"context"
	"fmt"
	"slices"

	"parsimon/stages/topology"
)

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
	var times []int64
	for _, e := range m.Events {
		if e.Kind == Down {
			times = append(times, e.FromNS+m.ConvergeNS)
			if e.ToNS > 0 {
				times = append(times, e.ToNS+m.ConvergeNS)
			}
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	if len(times) > maxStates {
		return nil, fmt.Errorf("routes change %d times, at most %d can be simulated", len(times), maxStates)
	}
	known := map[string]int{"[]": 0} // by the cables that are down: the first such state
	for _, ns := range times {
		var down [][2]int32
		for _, e := range m.Events {
			if e.Kind == Down && e.FromNS+m.ConvergeNS <= ns && (e.ToNS == 0 || ns < e.ToNS+m.ConvergeNS) {
				down = append(down, e.Cable)
			}
		}
		if at, ok := known[fmt.Sprint(down)]; !ok {
			known[fmt.Sprint(down)] = len(x.states)
			if len(known) > maxRouters {
				return nil, fmt.Errorf("more than %d different sets of cables are down, one after the other", maxRouters)
			}
			without := r.Net.Clone()
			for _, c := range down {
				if err := without.Fail(c[0], c[1]); err != nil {
					return nil, err
				}
			}
			router, err := topology.NewRouter(ctx, without, seed)
			if err == nil {
				err = router.SetRoutes(m.Routes)
			}
			if err != nil {
				return nil, err
			}
			x.states = append(x.states, router)
			x.firstSet = append(x.firstSet, x.sets)
			x.sets += int32(router.Sets())
		} else {
			x.states = append(x.states, x.states[at])
			x.firstSet = append(x.firstSet, x.firstSet[at])
		}
		x.startNS = append(x.startNS, ns)
	}
	return x, nil
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
