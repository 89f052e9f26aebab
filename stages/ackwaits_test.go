package stages

import (
	"math"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// Hand-computed: with the feedback of a flow comes half of the time to send a packet of 1,048 bytes, on each link of its
// path as often as the reverse link sends too: 0.5 × 838.4 / 2 on the link at 10 Gbps, 0.25 × 209.6 / 2 on one at 40.
func TestAckWaitsInFeedback(t *testing.T) {
	n := lineNetwork(t)
	loads := &Loads{BothBusy: make([]float64, len(n.Links))}
	loads.BothBusy[2], loads.BothBusy[4] = 0.5, 0.25
	observed := observationTable([]simkernel.Block{{WaitNS: 100}}, []simkernel.Block{{WaitNS: 1000}}, nil)
	for scope, rows := range map[FeedbackScope]int{PassScope: 2, SenderScope: 1} {
		x := NewFeedbackBuilder(n, dctcpParams(), loads, 1, nil)
		var out captured
		if err := x.Build(t.Context(), scope, 7, 1, observed.rewound(), &out); err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, rec := range out.recs {
			for i, ns := range columns.Int32s(rec, "ack_wait_ns") {
				if found++; ns != 236 {
					t.Errorf("scope %d: ACKs of the case of link %d wait %d ns, want 236", scope, columns.Int32s(rec, "link_id")[i], ns)
				}
			}
		}
		if found != rows {
			t.Errorf("scope %d: %d rows, want %d", scope, found, rows)
		}
	}
}

// A negative wait in table feedback is an error.
func TestAckWaitsAreChecked(t *testing.T) {
	feedback := &captured{}
	var empty columns.Arena
	empty.Add(nil)
	if err := columns.Write(feedback, schema.Feedback, 1, columns.Of([]int32{0}), columns.Of([]int64{7}),
		columns.Of([]int16{0}), new(columns.Binary).Of(&empty, []int32{0}), columns.Of([]int32{-1})); err != nil {
		t.Fatal(err)
	}
	in := caseInput{order: []int32{0}, starts: []int32{0, 1}, rows: caseRows{flowRow: []int64{7}}}
	if err := in.readFeedback(0, 1, feedback, func(int32) bool { return true }); err == nil {
		t.Error("accepted")
	}
}

// Two flows share a link in each direction, in rounds. Their windows are open most of the time, and ACKs wait for the data
// of the other direction: without that, their slowdowns are 3% too low where only the shared link is busy in both, and 6%
// where the links of the hosts are, too. What is left there is due to the bandwidth that ACKs take.
func TestAckWaitsAgainstExact(t *testing.T) {
	var nodes []topology.Node
	var cables []topology.Cable
	for id := range int32(8) {
		nodes = append(nodes, topology.Node{ID: id, Kind: topology.KindHost})
		cables = append(cables, topology.Cable{A: 8 + id/4, B: id, BandwidthBps: 25e9, DelayNS: 1000})
	}
	nodes = append(nodes, topology.Node{ID: 8, Kind: topology.KindTor}, topology.Node{ID: 9, Kind: topology.KindTor},
		topology.Node{ID: 10, Kind: topology.KindSpine})
	for tor := range int32(2) {
		cables = append(cables, topology.Cable{A: 10, B: 8 + tor, BandwidthBps: 40e9, DelayNS: 1000})
	}
	n, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		pairs [][2]int32
		off   float64
	}{
		{"the shared link in both directions", [][2]int32{{0, 4}, {1, 5}, {6, 2}, {7, 3}}, 0.02},
		{"hosts in both directions", [][2]int32{{0, 4}, {1, 5}, {4, 0}, {5, 1}}, 0.05},
	} {
		flows := inRounds(c.pairs, 10, 1_000_000, 3_000_000, func(round int64) int64 { return 500 + 400*round })
		_, _, slowdowns := replays(t, n, simkernel.DefaultParams(), flows, 1, 2)
		exact, _, _ := simulateExactly(t, n, []arrow.Record{flows}, ExactOptions{Workers: 1})
		got, want := meanSlowdown(slowdowns), meanSlowdown(exact)
		if want < 1.5 || math.Abs(got/want-1) > c.off {
			t.Errorf("%s: mean slowdown %.3f, by the whole network %.3f", c.what, got, want)
		}
	}
}

// inRounds returns flows of one size: in each round one from the first to the second host of every pair, one after the
// other, as far apart as apartNS says.
func inRounds(pairs [][2]int32, rounds, sizeBytes, everyNS int64, apartNS func(round int64) int64) arrow.Record {
	var id, size, start []int64
	var src, dst []int32
	var none []string
	for round := range rounds {
		for i, pair := range pairs {
			id, size, none = append(id, int64(len(id))), append(size, sizeBytes), append(none, "")
			start = append(start, everyNS*round+int64(i)*apartNS(round))
			src, dst = append(src, pair[0]), append(dst, pair[1])
		}
	}
	return array.NewRecord(schema.Flows.Arrow(), []arrow.Array{columns.Of(id), columns.Of(src), columns.Of(dst),
		columns.Of(size), columns.Of(start), columns.Strings(none), columns.Strings(none), columns.False(len(id))}, int64(len(id)))
}

func meanSlowdown(rows *captured) float64 {
	sum, n := 0.0, 0
	for _, rec := range rows.recs {
		for _, x := range columns.Float64s(rec, "slowdown") {
			sum, n = sum+x, n+1
		}
	}
	return sum / float64(n)
}
