package stages

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// kindsOf lists the kinds of some rows, with the links of those that have one.
func kindsOf(rows []Weakness) (kinds []string, links []int32) {
	for _, r := range rows {
		kinds, links = append(kinds, r.Kind), append(links, r.Link)
	}
	return kinds, links
}

// The last pass changes the delay of the slowest flows by what it changed at the links that delay them, whatever
// happens at other links. Changes of opposite sign cancel.
func TestTailUnsettled(t *testing.T) {
	// Half of the slowest flows wait for 40 ns at link 0 and 60 ns at link 3, the others likewise at links 4 and 7.
	w := watched(t, Flow, zero, func(i int) bool { return i%2 == 0 }, func(int) [2]float64 { return [2]float64{40, 60} })
	for _, c := range []struct {
		name  string
		links map[int]float64
		want  float64 // 0: no row
	}{
		{"nothing moved", nil, 0},
		{"links without slow flows", map[int]float64{1: 3, 2: -3}, 0},
		{"at the threshold", map[int]float64{3: 0.1, 4: 0.1}, 0},
		{"one link fell", map[int]float64{3: -0.3}, 0.09},
		{"opposite signs", map[int]float64{3: -0.3, 7: 0.3}, 0},
		{"all links rose", map[int]float64{0: 0.1, 3: 0.1, 4: 0.1, 7: 0.1}, 0.1},
	} {
		moved := Movement{Links: make([]float64, len(w.net.Links))}
		for link, by := range c.links {
			moved.Links[link] = by
		}
		rows := w.unsettled(&moved)
		if c.want == 0 {
			if len(rows) != 0 {
				t.Errorf("%s: %+v", c.name, rows)
			}
			continue
		}
		if len(rows) != 1 || rows[0].Kind != "tail unsettled" || rows[0].Measure < c.want-1e-9 ||
			rows[0].Measure > c.want+1e-9 {
			t.Errorf("%s: %+v, want %g", c.name, rows, c.want)
		}
	}
	if rows := w.unsettled(nil); len(rows) != 1 || rows[0].Kind != "unsettled" {
		t.Errorf("one pass: %+v", rows)
	}
}

// Headers count: 1,000 bytes of payload are 1,048 on the wire. Each overloaded link has a row, the worst first.
func TestOverload(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	p := simkernel.DefaultParams()
	load := map[int32]float64{0: 0.94 / 1.048, 3: 0.96 / 1.048, 7: 1.2 / 1.048}
	links, err := readLinkTraffic(n, &p, linkTable(t, n, func(l int32) float64 { return load[l] }, zero))
	if err != nil {
		t.Fatal(err)
	}
	if _, of := kindsOf(links.overloads(n, fullLoad)); len(of) != 1 || of[0] != 7 {
		t.Fatalf("offered more than they can send: %v", of)
	}
	rows := links.overloads(n, overload)
	if _, of := kindsOf(rows); len(of) != 2 || of[0] != 7 || of[1] != 3 {
		t.Fatalf("overloaded: %+v", rows)
	}
	if want := "tor 4 → host 3 (link 7) is offered 120% of what it can send"; !strings.HasPrefix(rows[0].Warning, want) {
		t.Errorf("%q, want %q", rows[0].Warning, want)
	}
}

// Large ACKs are named where they share a link with data.
func TestLargeACKs(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	for _, c := range []struct {
		ack, payload int64
		shared       bool
		want         int
	}{{60, 1000, true, 0}, {500, 1000, true, 1}, {500, 1000, false, 0}, {60, 256, true, 1}} {
		p := simkernel.DefaultParams()
		p.AckBytes, p.PayloadBytes = c.ack, c.payload
		table := linkTable(t, n, func(int32) float64 { return 0.3 }, zero)
		if c.shared { // the ACKs leave less than the bandwidth
			rec := table.recs[0]
			cols := slices.Clone(rec.Columns())
			left := slices.Clone(columns.Int64s(rec, "bandwidth_bps"))
			left[2] /= 2
			cols[schema.LinkStats.Index("available_bps")] = columns.Of(left)
			table = &captured{recs: []arrow.Record{array.NewRecord(rec.Schema(), cols, rec.NumRows())}}
		}
		links, err := readLinkTraffic(n, &p, table)
		if err != nil {
			t.Fatal(err)
		}
		if rows := links.ackRange(); len(rows) != c.want {
			t.Errorf("%+v: %+v", c, rows)
		}
	}
}

// mixedSpeeds is a network of two hosts and a switch in which host 0 sends at the given bandwidth and host 1
// receives at 10 Gbps.
func mixedSpeeds(t *testing.T, bps int64) *topology.Network {
	t.Helper()
	n, err := topology.NewNetwork(
		[]topology.Node{{ID: 0, Kind: topology.KindHost}, {ID: 1, Kind: topology.KindHost},
			{ID: 2, Kind: topology.KindSwitch}},
		[]topology.Cable{{A: 0, B: 2, BandwidthBps: bps, DelayNS: 1000}, {A: 1, B: 2, BandwidthBps: 10e9, DelayNS: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Hosts faster than another link are reported for every transport but DCTCP; the measured errors are named.
func TestTransportRange(t *testing.T) {
	for _, c := range []struct {
		transport simkernel.Transport
		bps       int64
		want      string // "": no row
	}{
		{simkernel.DCTCP, 40e9, ""},
		{simkernel.DCQCN, 10e9, ""},
		{simkernel.DCQCN, 40e9, "p99 was 1% too low, of one flow size 6%"},
		{simkernel.TIMELY, 10e9, ""},
		{simkernel.TIMELY, 40e9, "hosts send 4 times as fast as "},
		{simkernel.HPCC, 25e9, "hosts send 2.5 times as fast as "},
	} {
		n, p := mixedSpeeds(t, c.bps), simkernel.ParamsOf(c.transport)
		links, err := readLinkTraffic(n, &p, linkTable(t, n, zero, zero))
		if err != nil {
			t.Fatal(err)
		}
		rows := links.transportRange(n, c.transport)
		if len(rows) != min(1, len(c.want)) || len(rows) == 1 && !strings.Contains(rows[0].Warning, c.want) {
			t.Errorf("%s with %d bps: %+v, want %q", c.transport, c.bps, rows, c.want)
		}
	}
}
