package stages

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
)

// labelled returns the flows with service "few" where both ends are
// below few, and "rest" otherwise.
func labelled(flows arrow.Record, few int32) arrow.Record {
	cols := append([]arrow.Array{}, flows.Columns()...)
	src, dst := columns.Int32s(flows, "src"), columns.Int32s(flows, "dst")
	labels := make([]string, len(src))
	for i := range labels {
		labels[i] = "rest"
		if src[i] < few && dst[i] < few {
			labels[i] = "few"
		}
	}
	cols[schema.Flows.Index("service")] = columns.Strings(labels)
	return array.NewRecord(schema.Flows.Arrow(), cols, flows.NumRows())
}

// The influence of links is that of its definition, by pairs of links; the links that are left out have less together
// than the tolerance, and no link of the group is among them.
func TestRelevance(t *testing.T) {
	p, n := simkernel.DefaultParams(), testClos(t)
	random := rand.New(rand.NewPCG(5, 6))
	flows := labelled(randomFlows(n, random, 3000), 4)
	hops, _ := routed(t, n, &p, flows)
	shares := make([]float64, len(n.Links))
	for id := range shares {
		shares[id] = random.Float64() / 5
	}
	group := FlowGroup{"service", "few"}.Of(flows)
	x := crossings{shares: shares, on: make([]float64, len(shares)), ofGroup: make([]float64, len(shares))}
	if err := x.read(&p, group, hops.rewound()); err != nil {
		t.Fatal(err)
	}
	const passes = 2
	influence, want := x.influence(len(group), passes), influenceByPairs(&x, len(group), passes)
	for id := range want {
		if math.Abs(influence[id]-want[id]) > 1e-12 {
			t.Errorf("link %d has an influence of %v, want %v", id, influence[id], want[id])
		}
	}
	left := 0
	for _, tolerance := range []float64{-1, 0.01, 0.05, 0.2} {
		r, err := FindRelevance(n, &p, FlowGroup{"service", "few"}, &captured{recs: []arrow.Record{flows}}, hops.rewound(), shares,
			passes, tolerance)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for id := range r.LeftOut {
			sum += want[id]
			if x.ofGroup[id] > 0 || x.on[id] == 0 {
				t.Errorf("link %d with %v packets, %v of the group, is left out", id, x.on[id], x.ofGroup[id])
			}
		}
		if math.Abs(sum-r.Bound) > 1e-12 || r.Bound > max(0, tolerance) {
			t.Errorf("tolerance %v: an influence of %v is left out, %v by pairs", tolerance, r.Bound, sum)
		}
		if len(r.LeftOut) < left || tolerance < 0 && len(r.LeftOut) > 0 || len(r.LeftOut) != r.LeftOutCases {
			t.Errorf("tolerance %v: %d links are left out, before %d", tolerance, len(r.LeftOut), left)
		}
		left = len(r.LeftOut)
		for id := range n.Links {
			if _, silent := r.Silent[int32(id)]; silent != (n.FromHost(int32(id)) && x.ofGroup[id] == 0) {
				t.Errorf("link %d: silent %v", id, silent)
			}
		}
	}
	if left == 0 || left >= len(n.Links)*3/4 {
		t.Errorf("%d of %d links are left out at the greatest tolerance, want some", left, len(n.Links))
	}
}

// influenceByPairs is the influence as its definition has it.
func influenceByPairs(x *crossings, flows, passes int) []float64 {
	links := len(x.on)
	paths, packets := make([][]int32, flows), make([]float64, flows)
	for i, f := range x.flow {
		paths[f], packets[f] = append(paths[f], x.link[i]), x.packets[i]
	}
	both := make([][]float64, links) // packets on two links
	for id := range both {
		both[id] = make([]float64, links)
	}
	for f, path := range paths {
		for _, a := range path {
			for _, b := range path {
				if a != b {
					both[a][b] += packets[f]
				}
			}
		}
	}
	from, waits := make([]float64, links), 0.0
	for id := range from {
		from[id] = x.ofGroup[id] * x.shares[id]
		waits += from[id]
	}
	for id := range from {
		from[id] /= waits
	}
	all := make([]float64, links)
	for range passes {
		to := make([]float64, links)
		for l := range to {
			for g := range from {
				if x.on[g] > 0 {
					to[l] += x.shares[l] * from[g] * both[g][l] / x.on[g]
				}
			}
			all[l] += to[l]
		}
		from = to
	}
	return all
}

// A link that carried less than others of its tier counts as their mean, and one of a tier that carried nothing as 1.
func TestFeedbackShares(t *testing.T) {
	n := testClos(t)
	tier := n.Links[0].Tier
	var ids []int32
	for id := range n.Links {
		if n.Links[id].Tier == tier {
			ids = append(ids, int32(id))
		}
	}
	rows := columns.NewRows(schema.LinkStats)
	for i, id := range ids[:2] {
		l := n.Links[id]
		rows.Add(columns.Row{"link_id": id, "src_node": l.Src, "dst_node": l.Dst, "tier": l.Tier, "bandwidth_bps": l.BandwidthBps,
			"available_bps": l.BandwidthBps, "flows": int64(1), "bytes": int64(1), "packets": int64(100), "load": 0.1,
			"packets_sent": int64(100), "packets_marked": int64(0), "busy_ns": int64(1), "max_queue_bytes": int64(0),
			"max_queue_at_ns": int64(0), "mean_queue_packets": 0.0, "mean_wait_ns": 0.0, "feedback_share": 0.1 + 0.2*float64(i),
			"cached": false})
	}
	shares, err := ReadFeedbackShares(n, &captured{recs: []arrow.Record{rows.Record()}})
	if err != nil {
		t.Fatal(err)
	}
	for id, l := range n.Links {
		want := 1.0
		switch {
		case int32(id) == ids[1]:
			want = 0.3
		case l.Tier == tier:
			want = 0.2
		}
		if math.Abs(shares[id]-want) > 1e-12 {
			t.Errorf("link %d of tier %s: share %v, want %v", id, l.Tier, shares[id], want)
		}
	}
}
