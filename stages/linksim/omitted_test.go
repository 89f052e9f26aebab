package linksim

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// Pass 2 omits hosts' uplinks and links whose observations hardly affect other links. Table link_stats keeps
// the rows of omitted links, and table hop_observations has no rows of them. All other links are simulated.
func TestOmitted(t *testing.T) {
	ctx := context.Background()
	p := simkernel.DefaultParams()
	n := methodtest.Clos(t)
	hops, loads := methodtest.Route(t, n, &p, methodtest.RandomFlows(n, rand.New(rand.NewPCG(3, 4)), 2000))
	o := Options{Model: methodtest.Model(t, n, &p), Loads: loads, Detail: Observations}
	links := step.Range{Hi: int64(len(n.Links))}
	simulate := func(observed, stats *tables.Memory) {
		t.Helper()
		sim, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sim.Simulate(ctx, links, Input{Hops: hops.Read()}, observed, stats); err != nil {
			t.Fatal(err)
		}
	}
	var first, second, observed tables.Memory
	simulate(&tables.Memory{}, &first)
	var err error
	if o.Omitted, err = ReadOmitted(n, first.Read()); err != nil {
		t.Fatal(err)
	}
	simulate(&observed, &second)
	simulated := map[int32]bool{}
	for _, r := range observed.Records {
		for _, link := range columns.Int32s(r, "link_id") {
			simulated[link] = true
		}
	}
	omitted := 0
	for i, r := range first.Records {
		for _, name := range []string{"feedback_share", "mean_wait_ns"} {
			if !slices.Equal(columns.Float64s(r, name), columns.Float64s(second.Records[i], name)) {
				t.Errorf("column %s of link_stats changes", name)
			}
		}
		flows := columns.Int64s(r, "flows")
		share := columns.Float64s(r, "feedback_share")
		for k, link := range columns.Int32s(r, "link_id") {
			omit := flows[k] > 0 && (share[k] <= omittedShare || n.FromHost(link))
			if omit {
				omitted++
			}
			if simulated[link] == (omit || flows[k] == 0) {
				t.Errorf("link %d with share %v is simulated: %v", link, share[k], simulated[link])
			}
		}
	}
	if omitted == 0 || len(simulated) == 0 {
		t.Errorf("%d links are omitted, %d simulated: the workload tests nothing", omitted, len(simulated))
	}
}
