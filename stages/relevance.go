package stages

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// A FlowGroup are the flows of a service or of a virtual network.
type FlowGroup struct {
	Column string `json:"column"` // of table flows: service or vnet
	Label  string `json:"label"`
}

// Of reports, by row of a batch of flows, whether the flow is of the group.
func (g FlowGroup) Of(rec arrow.Record) []bool {
	labels := columns.Text(rec, g.Column)
	is := make([]bool, labels.Len())
	for i := range is {
		is[i] = labels.Value(i) == g.Label
	}
	return is
}

// Relevance says which link cases an estimate of one group of flows by Flow needs.
//
// The group's flows need the cases of all links that they cross, and the replays of their senders. Other links reach
// them only through flows that they share with those: what packets wait at link L changes their arrivals at link G of
// the group. The influence of L on the group is estimated in hops of flows:
//
//	I₁(L) = share(L) · Σ r(G) · p(G, L) / p(G)    over the group's links G
//	Iₙ(L) = share(L) · Σ Iₙ₋₁(M) · p(M, L) / p(M)    over all other links M
//
// where share is the feedback_share of table link_stats (wait relative to the round trip, and marks), p(G) are the
// packets on G, p(G, L) those of them that also cross L, and r(G) is the part of the group's waits that is at G, with a
// sum of 1. If the waits at a link change by as much, relative to themselves, as the round trips of the packets that
// arrive there, the sum of Iₙ over some links and over as many n as there are passes is by how much, at first order,
// the group's waits change if these links had none. A slowdown changes by less than its waits. It is a bound under this
// assumption, and for waits as a whole, not for each flow: pipeline/sampling/README.md has the measured changes.
type Relevance struct {
	LeftOut Settled // links whose cases are run in no pass: the sum of their influence is up to the tolerance
	Silent  Settled // uplinks of hosts that send no flow of the group: their replay has no effect on it
	Bound   float64 // the sum of the influence of LeftOut

	Cases, LeftOutCases           int   // links with flows
	PacketHops, LeftOutPacketHops int64 // of these
}

// RelevanceColumns names the columns of table hops that FindRelevance reads.
func RelevanceColumns() []string { return []string{"link_id", "flow_row", "size_bytes"} }

// ReadFeedbackShares returns what each link contributes to the feedback of its flows' other hops, by link id, from
// table link_stats of other flows of the same network: the link's feedback_share or the mean of its tier, whichever is
// greater, because a link that carried little then may carry more. A tier of which nothing is known has 1.
func ReadFeedbackShares(n *topology.Network, stats schema.Batches) ([]float64, error) {
	shares, known := make([]float64, len(n.Links)), map[string]float64{}
	packets := map[string]float64{}
	err := columns.ForEach(stats, func(rec arrow.Record) error {
		share, sent := columns.Float64s(rec, "feedback_share"), columns.Int64s(rec, "packets_sent")
		for i, id := range columns.Int32s(rec, "link_id") {
			if id < 0 || int(id) >= len(n.Links) {
				return fmt.Errorf("link_stats: link %d is not in the topology, which has %d links", id, len(n.Links))
			}
			if !(share[i] >= 0) || math.IsInf(share[i], 0) {
				return fmt.Errorf("link_stats: link %d has a feedback_share of %v", id, share[i])
			}
			if sent[i] > 0 {
				tier := n.Links[id].Tier
				shares[id] = share[i]
				known[tier] += float64(share[i] * float64(sent[i]))
				packets[tier] += float64(sent[i])
			}
		}
		return nil
	})
	for id, l := range n.Links {
		mean := 1.0
		if packets[l.Tier] > 0 {
			mean = known[l.Tier] / packets[l.Tier]
		}
		shares[id] = max(shares[id], mean)
	}
	return shares, err
}

// FindRelevance finds the link cases that a group needs. flows is table flows, of which it reads the group's column;
// hops is table hops, shares are those of ReadFeedbackShares.
func FindRelevance(n *topology.Network, p *simkernel.Params, g FlowGroup, flows, hops schema.Batches,
	shares []float64, passes int, tolerance float64) (*Relevance, error) {
	x := crossings{shares: shares, on: make([]float64, len(n.Links)), ofGroup: make([]float64, len(n.Links))}
	var group []bool
	err := columns.ForEach(flows, func(rec arrow.Record) error {
		group = append(group, g.Of(rec)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := x.read(p, group, hops); err != nil {
		return nil, err
	}
	influence := x.influence(len(group), passes)
	silent := Omit(n, func(link int32) bool { return x.ofGroup[link] == 0 && n.FromHost(link) })
	r := &Relevance{LeftOut: Settled{}, Silent: silent}
	var candidates []int32
	for id, packets := range x.on {
		if packets == 0 {
			continue
		}
		r.Cases++
		r.PacketHops += int64(packets)
		if x.ofGroup[id] == 0 {
			candidates = append(candidates, int32(id))
		}
	}
	// The most work for the least influence; sorting is stable, so links with equal ones are in order.
	perWork := func(id int32) float64 {
		runs := 1
		if !omits(n, id, shares[id]) {
			runs = passes
		}
		return influence[id] / (x.on[id] * float64(runs))
	}
	slices.SortStableFunc(candidates, func(a, b int32) int { return cmp.Compare(perWork(a), perWork(b)) })
	for _, id := range candidates {
		if !(r.Bound+influence[id] <= tolerance) {
			continue
		}
		r.Bound += influence[id]
		r.LeftOut[id] = linkCounters{}
		r.LeftOutCases++
		r.LeftOutPacketHops += int64(x.on[id])
	}
	return r, nil
}

// crossings are the rows of table hops, and the packets of links.
type crossings struct {
	shares  []float64
	flow    []int32
	link    []int32
	packets []float64 // of the row's flow
	on      []float64 // by link: packets
	ofGroup []float64 // by link: packets of the group
}

func (x *crossings) read(p *simkernel.Params, group []bool, hops schema.Batches) error {
	return columns.ForEach(hops, func(rec arrow.Record) error {
		row, size := columns.Int64s(rec, "flow_row"), columns.Int64s(rec, "size_bytes")
		for i, link := range columns.Int32s(rec, "link_id") {
			if row[i] < 0 || row[i] >= int64(len(group)) || row[i] > math.MaxInt32 || link < 0 || int(link) >= len(x.on) {
				return fmt.Errorf("hops: flow row %d on link %d, of %d flows and %d links", row[i], link, len(group), len(x.on))
			}
			packets := float64(p.Packets(size[i]))
			x.flow, x.link, x.packets = append(x.flow, int32(row[i])), append(x.link, link), append(x.packets, packets)
			x.on[link] += packets
			if group[row[i]] {
				x.ofGroup[link] += packets
			}
		}
		return nil
	})
}

// influence is the influence of each link, as the sum over 1 to passes hops of flows.
func (x *crossings) influence(flows, passes int) []float64 {
	waits := 0.0
	from := make([]float64, len(x.on)) // r
	for id := range from {
		from[id] = float64(x.ofGroup[id] * x.shares[id])
		waits += from[id]
	}
	if waits > 0 {
		for id := range from {
			from[id] /= waits
		}
	}
	all := make([]float64, len(x.on))
	perFlow := make([]float64, flows)
	for range passes {
		from = x.transfer(from, perFlow)
		for id := range all {
			all[id] += from[id]
		}
	}
	return all
}

// transfer goes one hop of flows further. Products are converted so that no compiler fuses them with sums: same bits on
// every machine.
func (x *crossings) transfer(from, perFlow []float64) []float64 {
	weight, to := make([]float64, len(from)), make([]float64, len(from))
	for id, packets := range x.on {
		if packets > 0 {
			weight[id] = from[id] / packets
		}
	}
	clear(perFlow)
	for i, f := range x.flow {
		perFlow[f] += weight[x.link[i]]
	}
	for i, f := range x.flow {
		link := x.link[i]
		to[link] += float64(max(0, perFlow[f]-weight[link]) * x.packets[i])
	}
	for id := range to {
		to[id] *= x.shares[id]
	}
	return to
}
