package stages

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/schema/columns"
	"parsimon/simkernel"
)

// Links whose observations hardly matter to others are omitted: table link_stats keeps their rows, and table
// hop_observations has none of them. All others are simulated.
func TestSettle(t *testing.T) {
	ctx, p, n := context.Background(), simkernel.DefaultParams(), testClos(t)
	hops, loads := routed(t, n, &p, randomFlows(n, rand.New(rand.NewPCG(3, 4)), 2000))
	sim, err := NewSimulator(n, p, loads, Flow, 0)
	if err != nil {
		t.Fatal(err)
	}
	links := int32(len(n.Links))
	var first, second, observed captured
	if _, err := sim.Simulate(ctx, 0, links, hops.rewound(), nil, &captured{}, &first, nil, nil); err != nil {
		t.Fatal(err)
	}
	omits, err := ReadSettled(n, first.rewound())
	if err != nil {
		t.Fatal(err)
	}
	sim.Settle(omits)
	if _, err := sim.Simulate(ctx, 0, links, hops.rewound(), nil, &observed, &second, nil, nil); err != nil {
		t.Fatal(err)
	}
	simulated := map[int32]bool{}
	for _, r := range observed.recs {
		for _, link := range columns.Int32s(r, "link_id") {
			simulated[link] = true
		}
	}
	settled := 0
	for i, r := range first.recs {
		for _, name := range []string{"feedback_share", "mean_wait_ns"} {
			if !slices.Equal(columns.Float64s(r, name), columns.Float64s(second.recs[i], name)) {
				t.Errorf("column %s of link_stats changes", name)
			}
		}
		flows, share := columns.Int64s(r, "flows"), columns.Float64s(r, "feedback_share")
		for k, link := range columns.Int32s(r, "link_id") {
			omitted := flows[k] > 0 && (share[k] <= settledShare || n.FromHost(link))
			if omitted {
				settled++
			}
			if simulated[link] == (omitted || flows[k] == 0) {
				t.Errorf("link %d with share %v is simulated: %v", link, share[k], simulated[link])
			}
		}
	}
	if settled == 0 || len(simulated) == 0 {
		t.Errorf("%d links are settled, %d simulated: the workload tests nothing", settled, len(simulated))
	}
}

// Passes omit links up to the share, and hosts' uplinks. These get the feedback of every other pass all the same.
func TestReadSettledByPass(t *testing.T) {
	n := testClos(t)
	var rows statRows
	for _, link := range n.Links { // shares 0.01, 0.02 and 0.03 in turn
		rows.append(link, LinkLoad{}, 0, 0, linkCounters{sent: 1, feedbackShare: 0.01 * float64(1+link.ID%3)})
	}
	var stats captured
	if err := rows.flush(&stats); err != nil {
		t.Fatal(err)
	}
	for pass := 2; pass < 6; pass++ {
		settled, err := ReadSettled(n, stats.rewound())
		if err != nil {
			t.Fatal(err)
		}
		unfed, err := ReadUnfed(n, pass, stats.rewound())
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range n.Links {
			uplink := n.FromHost(link.ID)
			omit := uplink || link.ID%3 < 2
			if _, omitted := settled[link.ID]; omitted != omit {
				t.Errorf("pass %d omits link %d (%s): %v", pass, link.ID, link.Tier, omitted)
			}
			if _, without := unfed[link.ID]; without != (omit && !(uplink && pass%2 == 0)) {
				t.Errorf("pass %d: link %d (%s) without feedback: %v", pass, link.ID, link.Tier, without)
			}
		}
	}
}
