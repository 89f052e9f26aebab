package slowdown_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/columns"
	"parsimon/stages/methodtest"
	"parsimon/stages/slowdown"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// written runs a Writer over flows and returns the rows of both tables.
func written(t *testing.T, c slowdown.Chunk,
	estimate func(w *slowdown.Writer) slowdown.Estimate) (
	flows []tables.SlowdownRow, hops []tables.ContributionRow, err error,
) {
	t.Helper()
	var slow, contributions tables.Memory
	var w slowdown.Writer
	err = w.Write(t.Context(), c, slowdown.Sink{Slowdowns: &slow, Contributions: &contributions}, estimate(&w))
	err = errors.Join(err,
		columns.Each(slow.Read(), func(r *tables.SlowdownRow) error { flows = append(flows, *r); return nil }),
		columns.Each(contributions.Read(), func(r *tables.ContributionRow) error {
			hops = append(hops,
				*r)
			return nil
		}))
	return flows, hops, err
}

// smallFlows returns a chunk of flows from host 0 to host 3 of SmallNetwork, the first in row 40.
func smallFlows(sizes ...int64) slowdown.Chunk {
	var rows []workload.Row
	for i, size := range sizes {
		rows = append(rows, workload.Row{ID: int64(i), Dst: 3, SizeBytes: size, StartNS: 1000 * int64(i)})
	}
	return slowdown.Chunk{FirstRow: 40, Rows: int64(len(rows)),
		Flows: methodtest.Table(methodtest.FlowRecord(rows...)).Read()}
}

// The delay of a flow is divided by hand: first the waits of its last packet, in the order of the path, then
// the window, then the rest by marks. Wrong shares would still have the right sum, so only exact numbers
// reveal them. Hops that add nothing have no row.
func TestSharesOfADelay(t *testing.T) {
	type hops = []slowdown.Hop
	for _, c := range []struct {
		name     string
		delayNS  int64
		windowNS int64
		hops     hops
		want     []float64 // index, delay and wait of each hop
		window   int64
	}{
		{"waits and marks", 1000, 0, hops{{LastNS: 100, Marks: 1}, {Index: 1, LastNS: 300, Marks: 2}},
			[]float64{0, 300, 100, 1, 700, 300}, 0},
		{"one mark", 1000, 0, hops{{LastNS: 100}, {Index: 1, LastNS: 300, Marks: 1}},
			[]float64{0, 100, 100, 1, 900, 300}, 0},
		{"no marks", 1000, 0, hops{{LastNS: 100}, {Index: 1, LastNS: 300}},
			[]float64{0, 700, 100, 1, 300, 300}, 0},
		{"waits beyond the delay", 350, 0, hops{{LastNS: 100}, {Index: 1, LastNS: 300, Marks: 5}},
			[]float64{0, 100, 100, 1, 250, 250}, 0},
		{"a window", 8282, 8192, hops{{Marks: 1}, {Index: 1, LastNS: 30, Marks: 3}},
			[]float64{0, 15, 0, 1, 75, 30}, 8192},
		{"a window beyond the rest", 1000, 8192, hops{{}, {Index: 1, LastNS: 30, Marks: 3}},
			[]float64{1, 30, 30}, 970},
		{"a hop without a wait or a mark", 1000, 0, hops{{}, {Index: 3, LastNS: 300}},
			[]float64{0, 700, 0, 3, 300, 300}, 0},
		{"no delay", 0, 0, hops{{}}, nil, 0},
		{"a wait of other packets", 0, 0, hops{{}, {Index: 2, LongestNS: 5}}, []float64{2, 0, 0}, 0},
	} {
		flows, rows, err := written(t, smallFlows(5000), func(w *slowdown.Writer) slowdown.Estimate {
			return func(f int, _ int64, to *slowdown.Flow) error {
				to.Hops = 4
				to.IdealNS = 7031
				to.DelayNS = c.delayNS
				w.Attribute(40, c.windowNS, c.hops, to)
				return nil
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, r := range rows {
			if r.FlowRow != 40 || r.Hops != 4 {
				t.Errorf("%s: hop %+v", c.name, r)
			}
			got = append(got, float64(r.Hop), r.DelayNS, r.WaitNS)
		}
		if !slices.Equal(got, c.want) || flows[0].WindowNS != c.window {
			t.Errorf("%s: hops, delays and waits %v, window %d ns; want %v and %d", c.name, got, flows[0].WindowNS,
				c.want, c.window)
		}
	}
}

// A row has the flow's place, its FCT and its slowdown. Flows without a path have none.
func TestRowsOfAChunk(t *testing.T) {
	flows, hops, err := written(t, smallFlows(1000, 1000, 2000), func(*slowdown.Writer) slowdown.Estimate {
		return func(f int, size int64, to *slowdown.Flow) error {
			if f == 1 {
				return nil
			}
			to.Hops = 2
			to.IdealNS = 3677 + int64(f)
			to.DelayNS = int64(f) * 1000
			to.Retransmissions = 5
			to.Reordered = 6
			return nil
		}
	})
	if err != nil || len(flows) != 2 || len(hops) != 0 {
		t.Fatalf("%d rows and %d hops, %v", len(flows), len(hops), err)
	}
	a := flows[0]
	b := flows[1]
	if a.FlowRow != 40 || a.IdealNS != 3677 || a.FCTNS != 3677 || a.Slowdown != 1 || a.Hops != 2 || a.Dst != 3 {
		t.Errorf("%+v", a)
	}
	if b.FlowRow != 42 || b.FlowID != 2 || b.StartNS != 2000 || b.IdealNS != 3679 || b.FCTNS != 5679 ||
		b.Slowdown != 5679.0/3679 || b.Retransmissions != 5 || b.Reordered != 6 || b.SizeBytes != 2000 {
		t.Errorf("%+v", b)
	}
}

// If a chunk did not have the flows that were routed, its flows would get the results of others.
func TestChunksOfOtherLengths(t *testing.T) {
	none := func(*slowdown.Writer) slowdown.Estimate {
		return func(int, int64, *slowdown.Flow) error { return nil }
	}
	for routed, want := range map[int64]string{1: "more flows than the 1 that were routed",
		3: "2 flows, 3 were routed"} {
		c := smallFlows(10, 10)
		c.Rows = routed
		if _, _, err := written(t, c, none); err == nil || !strings.Contains(err.Error(), "row 40 has "+want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	_, _, err := written(t, smallFlows(10, 10), func(*slowdown.Writer) slowdown.Estimate {
		return func(f int, _ int64, _ *slowdown.Flow) error {
			if f == 1 {
				return errors.New("no estimate")
			}
			return nil
		}
	})
	if err == nil || err.Error() != "flow 1: no estimate" {
		t.Errorf("error %v", err)
	}
	// Estimates without requested contributions have none.
	var w slowdown.Writer
	if err := w.Write(t.Context(), smallFlows(10), slowdown.Sink{Slowdowns: &tables.Memory{}},
		none(&w)); err != nil {
		t.Errorf("without contributions: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Write(ctx, smallFlows(10), slowdown.Sink{Slowdowns: &tables.Memory{}},
		none(&w)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A path without a row would silently leave a flow out. One with two rows would be that of the wrong flow.
func TestReadPathsRefuses(t *testing.T) {
	path := func(row int64) tables.FlowPath { return tables.FlowPath{FlowRow: row, Hops: 2, IdealNS: 1} }
	for _, c := range []struct {
		rows []tables.FlowPath
		want string
	}{
		{[]tables.FlowPath{path(7), path(9)}, ""},
		{[]tables.FlowPath{path(7)},
			"flow_paths: paths of the chunk at row 7 have 2 hops, and table link_loads has 4"},
		{nil, "flow_paths: paths of the chunk at row 7 have 0 hops, and table link_loads has 4"},
		{[]tables.FlowPath{path(7), path(8), path(9)}, "at row 7 have 6 hops, and table link_loads has 4"},
		{[]tables.FlowPath{path(7), path(7)}, "flow_paths: flow row 7 follows flow row 7"},
		{[]tables.FlowPath{path(9), path(7)}, "flow_paths: flow row 7 follows flow row 9"},
	} {
		var paths tables.Memory
		if err := tables.FlowPaths.Write(&paths, c.rows); err != nil {
			t.Fatal(err)
		}
		chunk := slowdown.Chunk{FirstRow: 7, Rows: 3}
		routed := slowdown.Routed{Paths: paths.Read(), Loads: methodtest.Loads(1, 3).Read()}
		got, err := chunk.ReadPaths(nil, routed)
		if c.want == "" {
			if err != nil || len(got) != 3 || got[0] != path(7) || got[1].Hops != 0 || got[2] != path(9) {
				t.Errorf("%+v, %v", got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
