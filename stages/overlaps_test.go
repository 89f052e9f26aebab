package stages

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// arrival is a flow that arrives at a link of a cable.
type arrival struct {
	side           int
	fromNS, lastNS float64
	rate           float64
}

func rateChanges(flows []arrival) (out []rateChange) {
	for _, f := range flows {
		out = append(out, rateChange{f.fromNS, f.rate, f.side}, rateChange{f.fromNS + f.lastNS, -f.rate, f.side})
	}
	slices.SortFunc(out, func(a, b rateChange) int { return cmp.Compare(a.atNS, b.atNS) })
	return out
}

func TestBothBusy(t *testing.T) {
	for _, c := range []struct {
		what  string
		flows []arrival
		want  [2]float64
	}{
		{"nothing", nil, [2]float64{}},
		{"one direction", []arrival{{0, 0, 100, 1}}, [2]float64{}},
		{"both at once", []arrival{{0, 5, 100, 1}, {1, 5, 100, 1}}, [2]float64{1, 1}},
		{"one after the other", []arrival{{0, 0, 100, 1}, {1, 100, 100, 1}}, [2]float64{}},
		{"a part", []arrival{{0, 0, 100, 1}, {1, 20, 100, 1}, {0, 100, 10, 1}}, [2]float64{0.8, 1}},
		{"rates below the bandwidth", []arrival{{0, 0, 100, 0.25}, {1, 0, 100, 0.5}}, [2]float64{0.5, 0.25}},
		{"what arrives too fast is sent later", []arrival{{0, 0, 100, 4}, {1, 300, 100, 1}, {0, 500, 1, 1}}, [2]float64{0.25, 1}},
		{"two in a queue", []arrival{{0, 0, 100, 1}, {0, 0, 100, 1}, {1, 150, 100, 0.5}, {1, 250, 1, 0.5}}, [2]float64{0.125, 0.5}},
		{"one side begins last", []arrival{{0, 0, 1000, 1}, {1, 600, 50, 1}}, [2]float64{25.0 / 625, 1}},
		{"the time after the last start does not count", []arrival{{0, 0, 100, 1}, {1, 20, 400, 1}, {0, 320, 40, 1}}, [2]float64{0.8, 0.8 / 3}},
	} {
		changes := rateChanges(c.flows)
		got := bothBusyShares(appendSendSpans(nil, changes), [][2]float64{busyTime(changes)})
		if math.Abs(got[0]-c.want[0])+math.Abs(got[1]-c.want[1]) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// Only what is sent within parts counts; what waits is sent later all the same.
func TestBothBusyInParts(t *testing.T) {
	changes := rateChanges([]arrival{{0, 0, 100, 2}, {1, 0, 50, 1}, {1, 150, 100, 1}})
	for _, c := range []struct {
		parts [][2]float64
		want  [2]float64
	}{
		{[][2]float64{{0, 300}}, [2]float64{0.5, 100.0 / 150}},
		{[][2]float64{{0, 100}}, [2]float64{0.5, 1}},
		{[][2]float64{{0, 40}, {140, 160}, {180, 220}}, [2]float64{0.875, 70.0 / 90}},
		{[][2]float64{{60, 140}, {300, 400}}, [2]float64{}},
		{nil, [2]float64{}},
	} {
		if got := bothBusyShares(appendSendSpans(nil, changes), c.parts); math.Abs(got[0]-c.want[0])+math.Abs(got[1]-c.want[1]) > 1e-9 {
			t.Errorf("parts %v: %v, want %v", c.parts, got, c.want)
		}
	}
}

// Against small steps of time, for flows of all rates.
func TestBothBusyAgainstSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		var flows []arrival
		lastNS, allNS := 0.0, [2]float64{}
		for range 2 + random.IntN(60) {
			f := arrival{random.IntN(2), 1000 * random.Float64(), 100 * random.Float64(),
				[]float64{0.1, 0.25, 1, 4}[random.IntN(4)]}
			flows = append(flows, f)
			lastNS = max(lastNS, f.fromNS)
			allNS[f.side] += f.lastNS * f.rate
		}
		const stepNS = 0.01
		var backlog, sent [2]float64
		both, arrivedNS := 0.0, [2]float64{}
		for now := 0.0; now < lastNS || arrivedNS[0] < allNS[0]/2 || arrivedNS[1] < allNS[1]/2; now += stepNS {
			var sends [2]float64
			for _, f := range flows {
				if f.fromNS <= now && now < f.fromNS+f.lastNS {
					backlog[f.side] += f.rate * stepNS
					arrivedNS[f.side] += f.rate * stepNS
				}
			}
			for side := range backlog {
				s := min(stepNS, backlog[side])
				sends[side] = s / stepNS
				backlog[side] -= s
				sent[side] += s
			}
			both += sends[0] * sends[1] * stepNS
		}
		changes := rateChanges(flows)
		for side, got := range bothBusyShares(appendSendSpans(nil, changes), [][2]float64{busyTime(changes)}) {
			if want := both / max(stepNS, sent[side]); math.Abs(got-want) > 0.02 {
				t.Errorf("%d flows, side %d: %v, in small steps %v", len(flows), side, got, want)
			}
		}
	}
}

// Shares do not depend on the ranges of links. Random flows overlap as often as by chance; rounds in which all hosts
// send at once and then pause overlap more.
func TestOverlaps(t *testing.T) {
	n, err := topology.Clos(topologytest.MustResolve(t))
	if err != nil {
		t.Fatal(err)
	}
	p := simkernel.DefaultParams()
	flows := randomFlows(n, rand.New(rand.NewPCG(7, 8)), 3000)
	shares := func(starts func(int64) int64, step int32) map[int32]float64 {
		var ns []int64
		for _, start := range columns.Int64s(flows, "start_ns") {
			ns = append(ns, starts(start))
		}
		hops, _ := routed(t, n, &p, withStarts(flows, ns))
		out, overlaps := &captured{}, NewOverlaps(n, &p, nil)
		for lo := int32(0); lo < int32(len(n.Links)); lo += step {
			in := &captured{recs: hops.recs}
			if err := overlaps.Write(lo, min(lo+step, int32(len(n.Links))), in, out, &captured{}); err != nil {
				t.Fatal(err)
			}
		}
		found := map[int32]float64{}
		for _, rec := range out.recs {
			share := columns.Float64s(rec, "both_busy_share")
			for i, link := range columns.Int32s(rec, "link_id") {
				found[link] = share[i]
			}
		}
		return found
	}
	same := func(ns int64) int64 { return 20 * ns }
	whole := shares(same, int32(len(n.Links)))
	if got := shares(same, 14); !maps.Equal(got, whole) {
		t.Error("shares depend on the ranges of links")
	}
	if len(whole) < len(n.Links)/2 {
		t.Errorf("%d of %d links have shares", len(whole), len(n.Links))
	}
	rounds := shares(func(ns int64) int64 { return 20*ns - ns%1_000_000*19 }, int32(len(n.Links)))
	if a, b := meanOf(whole), meanOf(rounds); b < 2*a {
		t.Errorf("mean share %v in rounds, %v at random", b, a)
	}
}

// A flow of 1 MB between two hosts of a rack, and one in the other direction that begins after three quarters of it: ACKs
// take 60 bytes beside each packet of 1,048 for a quarter of its time. The other's packets share the link for as long.
func TestAckDelays(t *testing.T) {
	n := testClos(t)
	p := simkernel.DefaultParams()
	hosts := n.Hosts()
	const sendNS = 1000 * 1048 * 0.8
	for _, c := range []struct {
		what    string
		laterNS int64
		sizes   [2]int64
		want    []int64
	}{
		{"at once", 0, [2]int64{1e6, 1e6}, []int64{48_000, 48_000}},
		{"a quarter", int64(0.75 * sendNS), [2]int64{1e6, 1e6}, []int64{12_000, 12_000}},
		{"half of the longer", 0, [2]int64{1e6, 500_000}, []int64{24_000, 24_000}},
		{"one after the other", 2 * sendNS, [2]int64{1e6, 1e6}, nil},
		{"a small one delays nobody by 0.1%", 0, [2]int64{1e6, 10_000}, []int64{480}},
	} {
		none := columns.Strings([]string{"", ""})
		flows := array.NewRecord(schema.Flows.Arrow(), []arrow.Array{
			columns.Of([]int64{1, 2}), columns.Of([]int32{hosts[0], hosts[1]}), columns.Of([]int32{hosts[1], hosts[0]}),
			columns.Of(c.sizes[:]), columns.Of([]int64{0, c.laterNS}), none, none, columns.False(2)}, 2)
		hops, loads := routed(t, n, &p, flows)
		acks, err := overlapping(n, &p, hops, loads)
		if err != nil {
			t.Fatal(err)
		}
		got := map[int64]int64{} // by flow, the longest delay
		for _, rec := range acks.recs {
			for i, row := range columns.Int64s(rec, "flow_row") {
				got[row] = max(got[row], columns.Int64s(rec, "delay_ns")[i])
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
			continue
		}
		flow := int64(2 - len(c.want))
		for i, want := range c.want { // the other direction arrives at the first link 2 µs later
			if d := got[flow+int64(i)]; d < want-200 || d > want+200 {
				t.Errorf("%s: flow row %d: %d ns, want %d", c.what, flow+int64(i), d, want)
			}
		}
	}
}

// Flows that nothing delays but ACKs have the FCT of the whole-network simulation: two hosts send to each other, for
// different times. ACKs also wait for the data packet that is being sent, which is left out where a flow meets nothing else
// (ackWaits): 0.9% where the window hardly covers a long path.
func TestAckDelaysAgainstExact(t *testing.T) {
	n := testClos(t)
	hosts := n.Hosts()
	none := columns.Strings([]string{"", "", "", ""})
	flows := array.NewRecord(schema.Flows.Arrow(), []arrow.Array{
		columns.Of([]int64{1, 2, 3, 4}), columns.Of([]int32{hosts[0], hosts[13], hosts[2], hosts[3]}),
		columns.Of([]int32{hosts[13], hosts[0], hosts[3], hosts[2]}), columns.Of([]int64{2_000_000, 500_000, 1_000_000, 1_000_000}),
		columns.Of([]int64{0, 100_000, 200_000, 200_000}), none, none, columns.False(4)}, 4)
	_, _, slowdowns := replays(t, n, simkernel.DefaultParams(), flows, 1, 2)
	exact, _, _ := simulateExactly(t, n, []arrow.Record{flows}, ExactOptions{Workers: 1})
	truth := map[int64]float64{}
	for _, rec := range exact.recs {
		for i, id := range columns.Int64s(rec, "flow_id") {
			truth[id] = columns.Float64s(rec, "slowdown")[i]
		}
	}
	for _, rec := range slowdowns.recs {
		for i, id := range columns.Int64s(rec, "flow_id") {
			got, want := columns.Float64s(rec, "slowdown")[i], truth[id]
			if math.Abs(got/want-1) > 0.01 || want < 1.015 {
				t.Errorf("flow %d: slowdown %.4f, by the whole network %.4f", id, got, want)
			}
		}
	}
}

func meanOf(shares map[int32]float64) (mean float64) {
	for _, share := range shares {
		mean += share / float64(len(shares))
	}
	return mean
}
