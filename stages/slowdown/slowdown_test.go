package slowdown_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/methodtest"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// written runs a Writer over flows and returns the rows of both tables.
func written(t *testing.T, m *step.Model, c slowdown.Chunk,
	estimate func(w *slowdown.Writer) slowdown.Estimate) (
	flows []tables.SlowdownRow, hops []tables.ContributionRow, err error,
) {
	t.Helper()
	var slow, contributions tables.Memory
	w := slowdown.NewWriter(m)
	err = w.Write(t.Context(), c, slowdown.Sink{Slowdowns: &slow, Contributions: &contributions}, estimate(w))
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

var smallPath = []int32{0, 7} // of these flows

// The delay of a flow is divided by hand: first the waits of its last packet, in the order of the path, then
// the window, then the rest by marks. Wrong shares would still have the right sum, so only exact numbers
// reveal them.
func TestSharesOfADelay(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	// A window of 2 packets on a path whose round trip takes 4,000 + 2 × (838 + 48) ns. 5 packets make two
	// stops, each of a round trip less the time of 2 packets.
	m.Params.SetWindow(2000)
	const windowNS = 2 * (4000 + 2*(838+48) - 1676)
	for _, c := range []struct {
		name    string
		size    int64
		delayNS int64
		hops    []slowdown.Hop
		want    []float64 // delay and wait of each hop
		window  int64
	}{
		{"waits and marks", 2000, 1000, []slowdown.Hop{{LastNS: 100, Marks: 1}, {LastNS: 300, Marks: 2}},
			[]float64{300, 100, 700, 300}, 0},
		{"one mark", 2000, 1000, []slowdown.Hop{{LastNS: 100}, {LastNS: 300, Marks: 1}},
			[]float64{100, 100, 900, 300}, 0},
		{"no marks", 2000, 1000, []slowdown.Hop{{LastNS: 100}, {LastNS: 300}}, []float64{700, 100, 300, 300}, 0},
		{"waits beyond the delay", 2000, 350, []slowdown.Hop{{LastNS: 100}, {LastNS: 300, Marks: 5}},
			[]float64{100, 100, 250, 250}, 0},
		{"a window", 5000, windowNS + 90, []slowdown.Hop{{Marks: 1}, {LastNS: 30, Marks: 3}},
			[]float64{15, 0, 75, 30}, windowNS},
		{"a window beyond the rest", 5000, 1000, []slowdown.Hop{{}, {LastNS: 30, Marks: 3}},
			[]float64{0, 0, 30, 30}, 970},
	} {
		flows, hops, err := written(t, m, smallFlows(c.size), func(w *slowdown.Writer) slowdown.Estimate {
			return func(f int, size int64, to *slowdown.Flow) error {
				to.Path = smallPath
				to.IdealNS = w.IdealNS(smallPath, size)
				to.DelayNS = c.delayNS
				w.Attribute(40, size, c.hops, to)
				return nil
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for h, r := range hops {
			if r.FlowRow != 40 || int(r.Hop) != h || r.Hops != 2 {
				t.Errorf("%s: hop %+v", c.name, r)
			}
			got = append(got, r.DelayNS, r.WaitNS)
		}
		if !slices.Equal(got, c.want) || flows[0].WindowNS != c.window {
			t.Errorf("%s: delays and waits %v, window %d ns; want %v and %d", c.name, got, flows[0].WindowNS, c.want,
				c.window)
		}
	}
}

// A row has the flow's place, its FCT and its slowdown. Flows without a path have none.
func TestRowsOfAChunk(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	flows, hops, err := written(t, m, smallFlows(1000, 1000, 2000), func(w *slowdown.Writer) slowdown.Estimate {
		return func(f int, size int64, to *slowdown.Flow) error {
			if f == 1 {
				return nil
			}
			to.Path = smallPath
			to.IdealNS = w.IdealNS(smallPath, size)
			to.DelayNS = int64(f) * 1000
			to.Retransmissions = 5
			to.Reordered = 6
			return nil
		}
	})
	if err != nil || len(flows) != 2 || len(hops) != 0 {
		t.Fatalf("%d rows and %d hops, %v", len(flows), len(hops), err)
	}
	// 2 µs of propagation; one packet takes 838.4 ns twice, two take three times as long as one on one link.
	a := flows[0]
	b := flows[1]
	if a.FlowRow != 40 || a.IdealNS != 3677 || a.FCTNS != 3677 || a.Slowdown != 1 || a.Hops != 2 || a.Dst != 3 {
		t.Errorf("%+v", a)
	}
	if b.FlowRow != 42 || b.FlowID != 2 || b.StartNS != 2000 || b.IdealNS != 4516 || b.FCTNS != 6516 ||
		b.Slowdown != 6516.0/4516 || b.Retransmissions != 5 || b.Reordered != 6 || b.SizeBytes != 2000 {
		t.Errorf("%+v", b)
	}
}

// If a chunk did not have the flows that were routed, its flows would get the results of others.
func TestChunksOfOtherLengths(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	none := func(*slowdown.Writer) slowdown.Estimate {
		return func(int, int64, *slowdown.Flow) error { return nil }
	}
	for routed, want := range map[int64]string{1: "more flows than the 1 that were routed",
		3: "2 flows, 3 were routed"} {
		c := smallFlows(10, 10)
		c.Rows = routed
		if _, _, err := written(t, m, c, none); err == nil || !strings.Contains(err.Error(), "row 40 has "+want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	_, _, err := written(t, m, smallFlows(10, 10), func(*slowdown.Writer) slowdown.Estimate {
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
	w := slowdown.NewWriter(m)
	if err := w.Write(t.Context(), smallFlows(10), slowdown.Sink{Slowdowns: &tables.Memory{}},
		none(w)); err != nil {
		t.Errorf("without contributions: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w = slowdown.NewWriter(m)
	if err := w.Write(ctx, smallFlows(10), slowdown.Sink{Slowdowns: &tables.Memory{}},
		none(w)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Delays by windows depend on the path, so a writer must not reuse the path of the previous flow.
func TestPathsChange(t *testing.T) {
	w := slowdown.NewWriter(&step.Model{Network: topologytest.SmallNetwork(t),
		Params: simkernel.DefaultParams()})
	for range 2 {
		one := w.IdealNS([]int32{0}, 1000)
		two := w.IdealNS(smallPath, 1000)
		if one != 1839 || two != 3677 {
			t.Errorf("ideal FCTs of %d and %d ns", one, two)
		}
	}
}

// Rows of hops may come in any order and more than once. A missing hop, and one that is not on the path, are
// errors.
func TestHopIndex(t *testing.T) {
	var x slowdown.HopIndex
	begin := func() { x.Begin(schema.HopContributions, 10, 3) }
	add := func(row int64, hop, hops int16, link int32) error {
		return x.Add(row, hop, hops, slowdown.Cell{Link: link, NS: float64(link) / 2})
	}
	for range 2 {
		begin()
		err := errors.Join(add(12, 1, 2, 7), add(9, 0, 1, 1), add(13, 0, 1, 1), add(10, 0, 1, 5),
			add(12, 0, 2, 0), add(12, 0, 2, 8))
		if err != nil {
			t.Fatal(err)
		}
		for f, want := range [][]int32{{5}, nil, {0, 7}} {
			hops, err := x.Hops(f)
			if err != nil || !slices.Equal(x.Path(), want) || len(hops) != len(want) {
				t.Errorf("flow %d has path %v, %v; want %v", f, x.Path(), err, want)
			}
			for h := range hops {
				if hops[h].Link != want[h] || hops[h].NS != float64(want[h])/2 {
					t.Errorf("flow %d, hop %d: %+v", f, h, hops[h])
				}
			}
		}
	}
	for row, want := range map[int64]bool{9: false, 10: true, 12: true, 13: false} {
		if x.Has(row) != want {
			t.Errorf("row %d belongs to the chunk: %v", row, !want)
		}
	}
	for _, c := range []struct{ hop, hops int16 }{{-1, 2}, {2, 2}, {0, -1}, {0, 0}} {
		begin()
		if err := add(11, c.hop, c.hops, 1); err == nil ||
			!strings.Contains(err.Error(), "hop_contributions: flow row 11") {
			t.Errorf("hop %d of %d: %v", c.hop, c.hops, err)
		}
	}
	begin()
	if err := errors.Join(add(11, 0, 2, 1), add(11, 1, 3, 1), add(11, 1, 1, 1)); err == nil ||
		!strings.Contains(err.Error(), "path of 1") {
		t.Errorf("a row that states a shorter path: %v", err)
	}
	begin()
	if err := add(11, 1, 2, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Hops(1); err == nil || err.Error() != "hop_contributions has 1 of the 2 hops of flow row 11" {
		t.Errorf("a hop without a row: %v", err)
	}
}
