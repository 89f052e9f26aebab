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
		fromNS := max(0, e.FromNS-originNS)
		toNS := e.ToNS - originNS
		if e.ToNS == 0 {
			toNS = network.MaxNS * 2
		} else if toNS <= 0 {
			continue
		}
		for _, l := range n.LinksBetween(e.Cable[0], e.Cable[1]) {
			lower := n.Links[l].Src == e.Cable[0]
			if e.OneWay == 1 && !lower || e.OneWay == -1 && lower {
				continue
			}
			switch e.Kind {
			case Rate, Delay:
				during := faults.Rate{Link: l, FromNS: fromNS, BandwidthBps: e.BandwidthBps, DelayNS: e.DelayNS}
				out.Rates = append(out.Rates, during)
				after := faults.Rate{Link: l, FromNS: toNS, BandwidthBps: n.Links[l].BandwidthBps}
				if e.Kind == Delay {
					after.BandwidthBps = 0
					after.DelayNS = n.Links[l].DelayNS
				}
				if e.ToNS > 0 {
					out.Rates = append(out.Rates, after)
				}
			case Down:
				out.Faults = append(out.Faults, faults.Fault{Link: l, FromNS: fromNS, ToNS: toNS, Share: 1})
			case Loss:
				out.Faults = append(out.Faults, faults.Fault{Link: l, FromNS: fromNS, ToNS: toNS, Share: e.Share,
					BurstNS: e.BurstNS})
			}
		}
	}
	return out
}
