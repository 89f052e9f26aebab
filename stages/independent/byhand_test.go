package independent

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/linksim"
	"parsimon/stages/methodtest"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// A bucket ends at 100 flows whose sizes span a factor of two, but not within flows of one size.
func TestEdgesOfABucket(t *testing.T) {
	sizes := func(runs ...[2]int64) (all []int64) { // numbers of flows and their sizes
		for _, r := range runs {
			all = append(all, slices.Repeat([]int64{r[1]}, int(r[0]))...)
		}
		return all
	}
	for _, c := range []struct {
		sizes []int64
		want  int
	}{
		{sizes([2]int64{99, 10}, [2]int64{1, 20}, [2]int64{50, 30}), 100},
		{sizes([2]int64{98, 10}, [2]int64{1, 20}, [2]int64{50, 30}), 149},
		{sizes([2]int64{99, 10}, [2]int64{1, 19}, [2]int64{50, 30}), 150},
		{sizes([2]int64{99, 10}, [2]int64{2, 20}, [2]int64{50, 30}), 101},
		{sizes([2]int64{120, 10}, [2]int64{50, 30}, [2]int64{1, 31}), 170},
		{sizes([2]int64{1, 10}, [2]int64{98, 20}, [2]int64{1, 21}, [2]int64{1, 22}), 100},
		{sizes([2]int64{1, 10}), 1},
	} {
		got := bucketEnd(c.sizes, c.sizes[0])
		if got != c.want {
			t.Errorf("%d flows: the bucket has %d, want %d", len(c.sizes), got, c.want)
		}
	}
}

// Three flows of one, two and four packets are late by 100, 400 and 400 ns, which is 100, 200 and 100 ns per
// packet. A draw is one of these, times the packets of the flow.
func TestDelaysOfOneBucket(t *testing.T) {
	m := &step.Model{Params: simkernel.DefaultParams(), Seed: 1}
	buckets, contributions := bucketed(t, m, []linksim.HopDelay{
		delay(5, 2, 1, 4000, [2]int64{1400, 1000}), delay(5, 0, 0, 1000, [2]int64{1100, 1000}),
		delay(5, 1, 2, 2000, [2]int64{1400, 1000}), delay(6, 1, 0, 2000, [2]int64{1000, 1000}),
	})
	var got []bucketRow
	var drawn []tables.ContributionRow
	err := errors.Join(
		columns.Each(buckets.Read(), func(r *bucketRow) error {
			r.Delays = slices.Clone(r.Delays)
			got = append(got, *r)
			return nil
		}),
		columns.Each(contributions.Read(), func(r *tables.ContributionRow) error {
			drawn = append(drawn,
				*r)
			return nil
		}))
	if err != nil || len(got) != 2 || len(drawn) != 4 {
		t.Fatalf("%+v, %+v, %v", got, drawn, err)
	}
	if w := got[0]; w.LinkID != 5 || w.Bucket != 0 || w.SizeMinBytes != 1000 || w.SizeMaxBytes != 4000 ||
		w.N != 3 || w.LargeN != 1 || w.SmallDelay != 150 || w.LargeDelay != 100 || // large: above 2000 bytes
		!slices.Equal(w.Delays, []float64{100, 100, 200}) {
		t.Errorf("bucket %+v", w)
	}
	w := got[1]
	if w.LinkID != 6 || !slices.Equal(w.Delays, []float64{0}) || w.SizeMinBytes != 2000 {
		t.Errorf("bucket %+v", w)
	}
	packets := []float64{1, 2, 2, 4}
	own := []int64{100, 0, 400, 400}
	for i, r := range drawn { // by flow and hop
		if r.CaseDelayNS != own[i] {
			t.Errorf("contribution %+v, want a delay of %d ns in the link case", r, own[i])
		}
		perPacket := r.DelayNS / packets[i]
		if r.FlowRow != []int64{0, 1, 1, 2}[i] || r.Hop != []int16{0, 0, 2, 1}[i] || r.Hops != 3 ||
			perPacket != 0 && perPacket != 100 && perPacket != 200 || (r.LinkID == 6) != (perPacket == 0) {
			t.Errorf("contribution %+v", r)
		}
	}
}

// With clusters, a flow draws from the buckets of the representative: the first one that reaches its size,
// or the last.
func TestDrawsOfRepresentatives(t *testing.T) {
	var buckets, hops, out tables.Memory
	err := bucketTable.Write(&buckets, []bucketRow{
		{LinkID: 0, SizeMaxBytes: 10, N: 1, Delays: []float64{9}},
		{LinkID: 1, SizeMaxBytes: 1000, N: 1, Delays: []float64{3}},
		{LinkID: 1, Bucket: 1, SizeMinBytes: 1001, SizeMaxBytes: 2000, N: 1, Delays: []float64{5}},
		{LinkID: 1, Bucket: 2, SizeMinBytes: 2001, SizeMaxBytes: 4000, N: 1, Delays: []float64{7}},
	})
	hop := func(link int32, row, size int64) tables.Hop {
		at := tables.FlowAtHop{LinkID: link, FlowRow: row, FlowID: row, Hops: 1, SizeBytes: size}
		return tables.Hop{LocalHop: tables.LocalHop{FlowAtHop: at}}
	}
	err = errors.Join(err, tables.Hops.Write(&hops, []tables.Hop{
		hop(0, 9, 10), hop(2, 4, 4001), hop(2, 3, 2000), hop(2, 2, 1001), hop(2, 1, 1000), hop(3, 8, 5),
	}))
	b := NewBucketer(&step.Model{Params: simkernel.DefaultParams(), Seed: 1})
	in := DrawInput{[]int32{0, 1, 1, 0}, hops.Read(), buckets.Read()}
	err = errors.Join(err, b.Draw(t.Context(), step.Range{Lo: 1, Hi: 3}, in, &out))
	if err != nil {
		t.Fatal(err)
	}
	// 1, 2, 2 and 5 packets
	got := methodtest.Floats64(&out, "delay_ns")
	if !slices.Equal(got, []float64{3, 10, 10, 35}) {
		t.Errorf("delays %v", got)
	}
	in = DrawInput{[]int32{0, 1, 3, 3}, hops.Read(), buckets.Read()}
	err = b.Draw(t.Context(), step.Range{Lo: 1, Hi: 3}, in, &out)
	if err == nil || !strings.Contains(err.Error(), "link 2 has representative 3, which has no rows") {
		t.Errorf("error %v", err)
	}
}

// The FCT is the ideal one and the sum of the hops, rounded once. A window that is too small causes at most
// the whole delay.
func TestSumOfHops(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	for _, c := range []struct {
		window, size int64
		delays       [2]float64
		want         [3]int64 // ideal FCT, FCT, window
	}{
		{18_000, 1000, [2]float64{0.4, 0.4}, [3]int64{3677, 3678, 0}},
		{18_000, 1000, [2]float64{100.25, 0.25}, [3]int64{3677, 3778, 0}},
		// 5 packets of a window of two wait twice for a round trip of 4,000 + 2 × (838 + 48) ns, less 1,676.
		{2000, 5000, [2]float64{9000, 1000}, [3]int64{7031, 17_031, 8192}},
		{2000, 5000, [2]float64{4000, 1000}, [3]int64{7031, 12_031, 5000}},
	} {
		m.Params.SetWindow(c.window)
		var hops, out tables.Memory
		var rows []tables.ContributionRow
		for h, ns := range c.delays {
			rows = append(rows, tables.ContributionRow{Contribution: tables.Contribution{
				FlowRow: 7, Hop: int16(h), Hops: 2, LinkID: int32(7 * h), DelayNS: ns,
			}})
		}
		slices.Reverse(rows)
		if err := tables.HopContributions.Write(&hops, rows); err != nil {
			t.Fatal(err)
		}
		flows := methodtest.Table(methodtest.FlowRecord(workload.Row{ID: 1, Dst: 3, SizeBytes: c.size}))
		chunk := slowdown.Chunk{FirstRow: 7, Rows: 1, Flows: flows.Read()}
		if err := NewSummer(m).Sum(t.Context(), chunk, hops.Read(), &out); err != nil {
			t.Fatal(err)
		}
		var got [3]int64
		for i, name := range []string{"ideal_ns", "fct_ns", "window_ns"} {
			got[i] = methodtest.Ints64(&out, name)[0]
		}
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		var half tables.Memory
		if err := tables.HopContributions.Write(&half, rows[:1]); err != nil {
			t.Fatal(err)
		}
		chunk.Flows = flows.Read()
		err := NewSummer(m).Sum(t.Context(), chunk, half.Read(), &out)
		if err == nil || !strings.Contains(err.Error(), "flow 1: hop_contributions has 1 of the 2 hops") {
			t.Errorf("error %v", err)
		}
	}
}
