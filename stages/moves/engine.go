package moves

import (
	"cmp"
	"slices"

	"parsimon/simkernel/network"
	"parsimon/simkernel/network/faults"
	"parsimon/stages/topology"
)

// Engine returns the forwarding of a simulation whose time 0 is originNS in the time of flow starts.
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
		Failures: faults.Failures{RepairNS: m.RepairNS},
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
		addEvent(&out, n, e, originNS)
	}
	return out
}

// addEvent adds an event of a cable to the forwarding of its links, unless it is over at originNS, the time
// at which the simulation begins.
func addEvent(out *network.Forwarding, n *topology.Network, e Event, originNS int64) {
	fromNS := max(0, e.FromNS-originNS)
	toNS := e.ToNS - originNS
	switch {
	case e.ToNS == 0:
		toNS = network.MaxNS * 2
	case toNS <= 0:
		return
	}
	for _, l := range n.LinksBetween(e.Cable[0], e.Cable[1]) {
		lower := n.Links[l].Src == e.Cable[0]
		if e.OneWay == 1 && !lower || e.OneWay == -1 && lower {
			continue
		}
		switch e.Kind {
		case Rate, Delay:
			out.Rates = append(out.Rates,
				faults.Rate{Link: l, FromNS: fromNS, BandwidthBps: e.BandwidthBps, DelayNS: e.DelayNS})
			if e.ToNS > 0 {
				out.Rates = append(out.Rates, restored(e.Kind, n.Links[l], toNS))
			}
		case Down:
			out.Faults = append(out.Faults, faults.Fault{Link: l, FromNS: fromNS, ToNS: toNS, Share: 1})
		case Loss:
			out.Faults = append(out.Faults, faults.Fault{Link: l, FromNS: fromNS, ToNS: toNS, Share: e.Share,
				BurstNS: e.BurstNS})
		}
	}
}

// restored returns the change that ends a change of a link's bandwidth or delay at a time.
func restored(kind string, l topology.Link, fromNS int64) faults.Rate {
	if kind == Delay {
		return faults.Rate{Link: l.ID, FromNS: fromNS, DelayNS: l.DelayNS}
	}
	return faults.Rate{Link: l.ID, FromNS: fromNS, BandwidthBps: l.BandwidthBps}
}
