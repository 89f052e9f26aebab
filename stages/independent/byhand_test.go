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
	if err != nil || len(got) != 2 || len(drawn) != 3 { // nothing is added on link 6
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
	packets := []float64{1, 2, 4}
	own := []int64{100, 400, 400}
	for i, r := range drawn { // by flow and hop
		if r.CaseDelayNS != own[i] {
			t.Errorf("contribution %+v, want a delay of %d ns in the link case", r, own[i])
		}
		perPacket := r.DelayNS / packets[i]
		if r.FlowRow != int64(i) || r.Hop != []int16{0, 2, 1}[i] || r.Hops != 3 || r.LinkID != 5 ||
			perPacket != 100 && perPacket != 200 {
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
		{LinkID: 4, SizeMaxBytes: 1000, N: 2, Delays: []float64{0, 0}},
	})
	hop := func(link int32, row, size int64) tables.Hop {
		at := tables.FlowAtHop{LinkID: link, FlowRow: row, FlowID: row, Hops: 1, SizeBytes: size}
		return tables.Hop{LocalHop: tables.LocalHop{FlowAtHop: at}}
	}
	err = errors.Join(err, tables.Hops.Write(&hops, []tables.Hop{
		hop(0, 9, 10), hop(2, 4, 4001), hop(2, 3, 2000), hop(2, 2, 1001), hop(2, 1, 1000), hop(3, 8, 5),
		hop(4, 3, 9),
	}))
	b := NewBucketer(&step.Model{Params: simkernel.DefaultParams(), Seed: 1})
	byLink, readErr := ReadBuckets(buckets.Read())
	in := DrawInput{[]int32{0, 1, 1, 0, 4}, byLink, hops.Read()}
	err = errors.Join(err, readErr, b.Draw(t.Context(), step.Range{Lo: 1, Hi: 3}, in, &out))
	if err != nil {
		t.Fatal(err)
	}
	// 1, 2, 2 and 5 packets
	got := methodtest.Floats64(&out, "delay_ns")
	if !slices.Equal(got, []float64{3, 10, 10, 35}) {
		t.Errorf("delays %v", got)
	}
	in = DrawInput{[]int32{0, 1, 1, 0, 4}, byLink, hops.Read()}
	var none tables.Memory
	err = b.Draw(t.Context(), step.Range{Lo: 4, Hi: 5}, in, &none)
	if err != nil || len(none.Records) > 0 {
		t.Errorf("hops without delay have %d batches, %v", len(none.Records), err)
	}
	in = DrawInput{[]int32{0, 1, 3, 3}, byLink, hops.Read()}
	err = b.Draw(t.Context(), step.Range{Lo: 1, Hi: 3}, in, &out)
	if err == nil || !strings.Contains(err.Error(), "link 2 has representative 3, which has no rows") {
		t.Errorf("error %v", err)
	}
}

// The FCT is the ideal one and the sum of the hops, rounded once. Hops without a row add nothing. A window
// that is too small causes at most the whole delay.
func TestSumOfHops(t *testing.T) {
	for _, c := range []struct {
		windowNS int64
		delays   []float64
		want     [3]int64 // ideal FCT, FCT, window
	}{
		{0, []float64{0.4, 0.4}, [3]int64{3677, 3678, 0}},
		{0, []float64{100.25, 0.25}, [3]int64{3677, 3778, 0}},
		{0, []float64{0, 0.5}, [3]int64{3677, 3678, 0}},
		{0, nil, [3]int64{3677, 3677, 0}},
		{8192, []float64{9000, 1000}, [3]int64{3677, 13_677, 8192}},
		{8192, []float64{4000, 1000}, [3]int64{3677, 8677, 5000}},
		{8192, nil, [3]int64{3677, 3677, 0}},
	} {
		rows := []tables.ContributionRow{contribution(6, 0, 5), contribution(9, 7, 5)} // of other chunks
		for h, ns := range c.delays {
			rows = tables.AppendContribution(rows, contribution(7, int16(h), ns))
		}
		slices.Reverse(rows)
		out, err := summed(t, rows, tables.FlowPath{FlowRow: 7, Hops: 2, IdealNS: 3677, WindowNS: c.windowNS})
		if err != nil {
			t.Fatal(err)
		}
		var got [3]int64
		for i, name := range []string{"ideal_ns", "fct_ns", "window_ns"} {
			got[i] = methodtest.Ints64(out, name)[0]
		}
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// contribution is a row of table hop_contributions.
func contribution(row int64, hop int16, ns float64) tables.ContributionRow {
	at := tables.Contribution{FlowRow: row, Hop: hop, Hops: 2, LinkID: int32(hop), DelayNS: ns}
	return tables.ContributionRow{Contribution: at}
}

// summed sums contributions to two flows, in rows 7 and 8, of which only those with a path have a row.
func summed(t *testing.T, rows []tables.ContributionRow, paths ...tables.FlowPath) (*tables.Memory, error) {
	t.Helper()
	var hops, alone, out tables.Memory
	err := errors.Join(tables.HopContributions.Write(&hops, rows), tables.FlowPaths.Write(&alone, paths))
	if err != nil {
		t.Fatal(err)
	}
	crossed := int64(0)
	for _, p := range paths {
		crossed += int64(p.Hops)
	}
	routed := slowdown.Routed{Paths: alone.Read(), Loads: methodtest.Loads(crossed).Read()}
	flows := methodtest.Table(methodtest.FlowRecord(workload.Row{ID: 1}, workload.Row{ID: 2}))
	chunk := slowdown.Chunk{FirstRow: 7, Rows: 2, Flows: flows.Read()}
	return &out, new(Summer).Sum(t.Context(), chunk, routed, hops.Read(), &out)
}

// A sum is the same to the bit for any order of the rows: 1e16 + 1 is 1e16, but 1 + 1 + 1 + 1 + 1e16 is not.
func TestSumIsInTheOrderOfThePath(t *testing.T) {
	delays := []float64{1e16, 1, 1, 1, 1}
	want := 0.0
	for _, ns := range delays {
		want += ns
	}
	for first := range delays {
		var rows []tables.ContributionRow
		for i := range delays {
			h := (first + i) % len(delays)
			rows = append(rows, contribution(8, int16(h), delays[h]))
		}
		out, err := summed(t, rows, tables.FlowPath{FlowRow: 8, Hops: 5, IdealNS: 1})
		if err != nil {
			t.Fatal(err)
		}
		got := methodtest.Ints64(out, "fct_ns")
		if !slices.Equal(got, []int64{1 + int64(want)}) {
			t.Errorf("from hop %d: FCTs %v, want %v", first, got, want)
		}
	}
}

// Rows that contradict each other are errors that name the flow: without them, a sum would leave out a delay,
// or add it to another flow.
func TestSumRefuses(t *testing.T) {
	good := tables.FlowPath{FlowRow: 7, Hops: 2, IdealNS: 1}
	for _, c := range []struct {
		row  tables.ContributionRow
		path tables.FlowPath
		want string
	}{
		{contribution(7, 2, 1), good, "hop_contributions: flow row 7 has hop 2, which is not on its path of 2"},
		{contribution(7, -1, 1), good, "hop_contributions: flow row 7 has hop -1"},
		{contribution(8, 0, 1), good, "hop_contributions: flow row 8 has hop 0, which is not on its path of 0"},
		{contribution(6, 9, 1), tables.FlowPath{FlowRow: 6, Hops: 2, IdealNS: 1},
			"flow_paths: flow row 6 is not in the chunk of 2 flows at row 7"},
		{contribution(6, 9, 1), tables.FlowPath{FlowRow: 9, Hops: 2, IdealNS: 1},
			"flow_paths: flow row 9 is not in the chunk"},
		{contribution(6, 9, 1), tables.FlowPath{FlowRow: 8, IdealNS: 1},
			"flow_paths: flow row 8 has an ideal FCT of 1 ns over 0 hops"},
		{contribution(6, 9, 1), tables.FlowPath{FlowRow: 8, Hops: 1},
			"flow_paths: flow row 8 has an ideal FCT of 0 ns over 1 hops"},
		{contribution(6, 9, 1), tables.FlowPath{FlowRow: 8, Hops: 1, IdealNS: 1, SlowestHop: 1},
			"over 1 hops, of which hop 1 is the slowest"},
		{contribution(6, 9, 1), tables.FlowPath{FlowRow: 8, Hops: 1, IdealNS: 1, SlowestHop: -1},
			"over 1 hops, of which hop -1 is the slowest"},
	} {
		_, err := summed(t, []tables.ContributionRow{c.row}, c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
