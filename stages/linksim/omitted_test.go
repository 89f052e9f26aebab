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

// A hop without a row observed nothing. With feedback every hop has a row: a missing one would keep that of
// the pass before.
func TestHopsThatObserveNothingHaveNoRow(t *testing.T) {
	p := simkernel.DefaultParams()
	n := methodtest.Clos(t)
	hops, loads := methodtest.Route(t, n, &p, methodtest.RandomFlows(n, rand.New(rand.NewPCG(3, 4)), 200))
	links := step.Range{Hi: int64(len(n.Links))}
	sim, err := New(Options{Model: methodtest.Model(t, n, &p), Loads: loads, Detail: Observations})
	if err != nil {
		t.Fatal(err)
	}
	count := func(in Input) (all, empty int64) {
		t.Helper()
		var observed tables.Memory
		if _, err := sim.Simulate(t.Context(), links, in, &observed, &tables.Memory{}); err != nil {
			t.Fatal(err)
		}
		err := columns.Each(observed.Read(), func(r *struct {
			Observed []byte `col:"observed"`
			Delay    int64  `col:"delay_ns"`
		}) error {
			all++
			if len(r.Observed) == 0 && r.Delay == 0 {
				empty++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all, empty
	}
	first, empty := count(Input{Hops: hops.Read()})
	none := &tables.Memory{}
	second, emptySecond := count(Input{Hops: hops.Read(), Feedback: none.Read()})
	if first == 0 || empty > 0 || second != int64(len(methodtest.Ints64(hops, "flow_row"))) ||
		second-emptySecond != first {
		t.Errorf("%d rows, of which %d are empty; with feedback %d and %d", first, empty, second, emptySecond)
	}
}
