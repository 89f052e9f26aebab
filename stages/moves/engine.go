package moves

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parsimon/schema/tree"
	"parsimon/simkernel/network"
	"parsimon/stages/topology"
)

// linkWeights are the weights of links in the choice of paths, by id; nil: they are equal.
func (m *Moves) linkWeights(n *topology.Network) []float64 {
	if !m.has(WCMP) {
		return nil
	}
	of := map[[2]int32]int64{}
	for _, w := range m.Weights {
		of[[2]int32{int32(w[0]), int32(w[1])}] = w[2]
	}
	weights := make([]float64, len(n.Links))
	for i, l := range n.Links {
		if weights[i] = 1; m.Balance == WCMP || slices.Contains(m.At[WCMP], l.Src) {
			weights[i] = float64(cmp.Or(of[[2]int32{min(l.Src, l.Dst), max(l.Src, l.Dst)}], l.BandwidthBps))
		}
	}
	return weights
}

const maxStates = 1000

// maxRouters bounds the sets of cables that are down at the same time: each has routing tables of its own.
const maxRouters = 64

// Routes are the routing tables of a network over time. The first state is that in which flows get their first path.
type Routes struct {
	states   []*topology.Router
	firstSet []int32 // by state: the number of its first set
	sets     int32
	startNS  []int64
}

// NewRoutes makes the routing tables of a network whose router and its seed are given.
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
	known := map[string]int{"[]": 0} // by cables that are down: the first state that has them
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
			x.states, x.firstSet = append(x.states, router), append(x.firstSet, x.sets)
			x.sets += int32(router.Sets())
		} else {
			x.states, x.firstSet = append(x.states, x.states[at]), append(x.firstSet, x.firstSet[at])
		}
		x.startNS = append(x.startNS, ns)
	}
	return x, nil
}

// Last is the router of the last state: what it does not reach is never reached again.
func (x *Routes) Last() *topology.Router { return x.states[len(x.states)-1] }

// Links implements network.Routes, for places of nodes in topology.Network.Nodes.
func (x *Routes) Links(state int, node, host int32) (set int32, links []int32) {
	set, links = x.states[state].Next(node, host)
	return x.firstSet[state] + set, links
}

// Sets implements network.Routes.
func (x *Routes) Sets() int { return int(x.sets) }

// Starts implements network.Routes.
func (x *Routes) Starts() []int64 { return x.startNS }

// Engine is what a simulation does whose time 0 is originNS of the flow starts.
func (m *Moves) Engine(n *topology.Network, x *Routes, seed uint64, originNS int64) network.Forwarding {
	from := *x
	from.startNS = make([]int64, len(x.startNS))
	for i, ns := range x.startNS {
		from.startNS[i] = max(0, ns-originNS)
	}
	out := network.Forwarding{
		Seed:   seed,
		Routes: &from,
		Balancing: network.Balancing{
			Balance: balances[cmp.Or(m.Balance, ECMP)],
			GapNS:   m.GapNS,
			Weights: m.linkWeights(n),
			InOrder: m.Receivers == InOrder,
		},
		Failures: network.Failures{RepairNS: m.RepairNS},
	}
	if m.At != nil {
		out.At = make([]network.Balance, len(n.Nodes))
	}
	for balance, ids := range m.At {
		for _, id := range ids {
			place := slices.IndexFunc(n.Nodes, func(v topology.Node) bool { return v.ID == id })
			out.At[place] = balances[balance]
		}
	}
	for _, e := range m.Events {
		fromNS, toNS := max(0, e.FromNS-originNS), e.ToNS-originNS
		if e.ToNS == 0 {
			toNS = network.MaxNS * 2
		} else if toNS <= 0 {
			continue
		}
		links, _ := n.CableOf(e.Cable[0], e.Cable[1])
		for _, l := range links {
			if lower := n.Links[l].Src == e.Cable[0]; e.OneWay == 1 && !lower || e.OneWay == -1 && lower {
				continue
			}
			switch e.Kind {
			case Rate, Delay:
				during := network.Rate{Link: l, FromNS: fromNS, BandwidthBps: e.BandwidthBps, DelayNS: e.DelayNS}
				out.Rates = append(out.Rates, during)
				after := network.Rate{Link: l, FromNS: toNS, BandwidthBps: n.Links[l].BandwidthBps}
				if e.Kind == Delay {
					after.BandwidthBps, after.DelayNS = 0, n.Links[l].DelayNS
				}
				if e.ToNS > 0 {
					out.Rates = append(out.Rates, after)
				}
			case Down:
				out.Faults = append(out.Faults, network.Fault{Link: l, FromNS: fromNS, ToNS: toNS, Share: 1})
			case Loss:
				out.Faults = append(out.Faults, network.Fault{Link: l, FromNS: fromNS, ToNS: toNS, Share: e.Share,
					BurstNS: e.BurstNS})
			}
		}
	}
	return out
}

// ReadCSV reads a file of events as monitoring exports them: columns cable, event, value (none: down), from and
// to; empty times are the beginning and the end of the trace.
func ReadCSV(file string) (events []string, err error) {
	data, err := topology.ReadFile(file)
	if err != nil {
		return nil, err
	}
	err = tree.CSV(bytes.NewReader(data), []string{"cable", "event", "value?", "from?", "to?"},
		func(_ int, of []string) error {
			text := strings.Join(of[:3], " ")
			if of[3]+of[4] != "" {
				text += " " + of[3] + ".." + of[4]
			}
			events = append(events, text)
			_, _, err := ParseEvent(text)
			return err
		})
	if err == nil && events == nil {
		err = errors.New("no event")
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %w", file, err)
	}
	return events, nil
}
