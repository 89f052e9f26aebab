package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// barbell is two hosts at each of the switches 4 and 5. Links 0, 2, 6 and 8 begin at hosts. Links 4 and 5
// connect the switches.
func barbell(t *testing.T) *topology.Network {
	return topologytest.Wire(t, 6, 4, [2]int32{0, 4}, [2]int32{1, 4}, [2]int32{4, 5}, [2]int32{2, 5},
		[2]int32{3, 5})
}

// overflowOf reads queues, by link: pairs of a time in ns and bytes. Every link has room for 100,000 bytes
// while its switch is empty. All links have flows but those that are idle.
func overflowOf(
	t *testing.T, b network.BufferParams, queues map[int32][][2]float64, idle ...int32,
) *Overflow {
	t.Helper()
	n := barbell(t)
	loads := &route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 1e7}
	for id := range loads.Links {
		loads.Links[id].Flows = 1
	}
	for _, id := range idle {
		loads.Links[id].Flows = 0
	}
	var rows []tables.LinkStat
	for link, all := range queues {
		r := tables.LinkStat{LinkID: link}
		for _, q := range all {
			r.CrowdedAtNS = append(r.CrowdedAtNS, q[0])
			r.CrowdedBytes = append(r.CrowdedBytes, q[1])
			r.MaxQueueBytes = max(r.MaxQueueBytes, int64(q[1]))
		}
		rows = append(rows, r)
	}
	var stats tables.Memory
	if err := tables.LinkStats.Write(&stats, rows); err != nil {
		t.Fatal(err)
	}
	m := &step.Model{Network: n, Params: simkernel.DefaultParams(), Buffers: b}
	o, err := NewOverflow(m, slices.Repeat([]int64{100_000}, len(n.Links)), loads, OwnColumns, stats.Read())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// fullQueues are the full queues, by link and time, with the space that they have.
func fullQueues(o *Overflow) string {
	var all []string
	for _, l := range o.links {
		for _, q := range l.full {
			all = append(all, fmt.Sprintf("%d at %.0f: %.0f of %.0f", l.id, q.atNS, q.bytes, q.roomB))
		}
	}
	return strings.Join(all, ", ")
}

// The ports of a switch share its space. The values are computed by hand. With alpha 1, a port alone gets
// half of it, 100,000 bytes. Two long queues get a third each. What others hold is not available. With fixed
// thresholds, each port has its own space.
func TestSpaceOfPorts(t *testing.T) {
	dynamic := network.BufferParams{SwitchBytes: 200_000, Alpha: 1}
	fixed := network.BufferParams{SwitchBytes: 200_000, Alpha: 1, XOFFBytes: 100_000}
	least := network.BufferParams{SwitchBytes: 200_000, Alpha: 1, XOFFBytes: 1}
	type queues = map[int32][][2]float64
	for _, c := range []struct {
		name   string
		buffer network.BufferParams
		queues queues
		want   string
	}{
		{"as long as the space", dynamic, queues{7: {{0, 100_000}}}, ""},
		{"longer", dynamic, queues{7: {{0, 100_001}}}, "7 at 0: 100001 of 100000"},
		{"two share", dynamic, queues{7: {{0, 90_000}}, 9: {{0, 80_000}}},
			"7 at 0: 90000 of 66667, 9 at 0: 80000 of 66667"},
		{"a short one takes its part", dynamic, queues{7: {{0, 90_001}}, 9: {{0, 20_000}}},
			"7 at 0: 90001 of 90000"},
		{"as long as the rest", dynamic, queues{7: {{0, 90_000}}, 9: {{0, 20_000}}}, ""},
		{"another switch", dynamic, queues{7: {{0, 90_000}}, 1: {{0, 80_000}}}, ""},
		{"another slot", dynamic, queues{7: {{9_999, 90_000}}, 9: {{10_000, 80_000}}}, ""},
		{"the same slot", dynamic, queues{7: {{10_001, 90_000}}, 9: {{19_999, 80_000}}},
			"7 at 10000: 90000 of 66667, 9 at 10000: 80000 of 66667"},
		{"two of one link", dynamic, queues{7: {{10_001, 120_000}, {15_000, 110_000}}},
			"7 at 10000: 120000 of 100000"},
		{"fixed thresholds", fixed, queues{7: {{0, 100_001}}, 9: {{0, 90_000}}}, "7 at 0: 100001 of 100000"},
		{"the least threshold is fixed, too", least, queues{7: {{0, 90_000}}, 9: {{0, 80_000}}}, ""},
	} {
		got := fullQueues(overflowOf(t, c.buffer, c.queues))
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// With PFC, what exceeds the space of a port waits in the switches before it: 120,000 bytes of port 7
// before link 4, where it exceeds the space, too. The other direction does not wait.
func TestPausesReachTheSwitchBefore(t *testing.T) {
	pfc := network.BufferParams{SwitchBytes: 200_000, Alpha: 1, PFC: true}
	for bytes, want := range map[float64]string{
		190_000: "7 at 0: 190000 of 100000",
		220_000: "4 at 0: 120000 of 100000, 7 at 0: 220000 of 100000",
	} {
		got := fullQueues(overflowOf(t, pfc, map[int32][][2]float64{7: {{0, bytes}}}))
		if got != want {
			t.Errorf("%v bytes: %q, want %q", bytes, got, want)
		}
	}
	// Nothing waits on a link that no flow uses.
	none := fullQueues(overflowOf(t, pfc, map[int32][][2]float64{7: {{0, 220_000}}}, 4))
	if none != "7 at 0: 220000 of 100000" {
		t.Error(none)
	}
	// Its own queue is in front of it.
	got := fullQueues(overflowOf(t, pfc, map[int32][][2]float64{7: {{0, 190_000}}, 4: {{0, 50_000}}}))
	if got != "4 at 0: 140000 of 100000, 7 at 0: 190000 of 100000" {
		t.Error(got)
	}
}

// A slot counts for a flow that is active in it, and at most 256 slots do.
func TestSlotsOfAFlow(t *testing.T) {
	var l overflowLink
	for i := range 300 {
		l.full = append(l.full, queueSlot{atNS: float64(i) * 10_000})
	}
	for _, c := range []struct{ from, to, first, count float64 }{
		{15_000, 20_000, 10_000, 1}, {15_000, 20_001, 10_000, 2}, {20_000, 30_000, 10_000, 2},
		{20_001, 30_000, 20_000, 1},
		{0, 1e9, 0, 256}, {2_990_000, 1e9, 2_980_000, 2}, {5, 5, 0, 1}, {0, 0, 0, 0},
	} {
		got := l.during(c.from, c.to)
		if len(got) != int(c.count) || len(got) > 0 && got[0].atNS != c.first {
			t.Errorf("%+v: %d slots, %+v", c, len(got), got)
		}
	}
}

// lateBy returns how much later a flow that begins at 0 and ends at 50 µs finishes.
func lateBy(o *Overflow, path []int32, longestNS, lastNS int64) (droppedNS, pausedNS float64) {
	f := &overflowed{of: watchedRow{FCT: 50_000}}
	for h, link := range path {
		r := tables.ContributionRow{Contribution: tables.Contribution{Hop: int16(h), LinkID: link}}
		if h == len(path)-1 {
			r.LongestNS = longestNS
			r.WaitNS = float64(lastNS)
		}
		f.hops = append(f.hops, r)
	}
	return o.dropped(f), o.paused(f)
}

// A queue of 150,000 bytes on 10 Gbps: a flow that waits for more than the space, 80 µs, is late by its
// wait and a round trip of three cables. If its last packet does, it also waits for the timeout of twice
// the space of each port.
func TestDelaysByDrops(t *testing.T) {
	b := network.BufferParams{SwitchBytes: 200_000, Alpha: 1}
	path := []int32{0, 4, 7}
	o := overflowOf(t, b, map[int32][][2]float64{7: {{30_000, 150_000}}})
	for _, c := range []struct {
		longest, last int64
		want          float64
	}{
		{80_000, 0, 0}, {80_001, 0, 80_001 + 6000}, {80_001, 80_000, 80_001 + 6000},
		{80_001, 80_001, 80_001 + 6000 + 3*160_000}, {10, 80_001, 6000 + 3*160_000},
	} {
		got, _ := lateBy(o, path, c.longest, c.last)
		if got != c.want {
			t.Errorf("%+v: %v ns", c, got)
		}
	}
	o.buffer.RetransmitNS = 7000
	got, _ := lateBy(o, path, 0, 80_001)
	if got != 13_000 {
		t.Errorf("with a stated timeout: %v ns", got)
	}
	o.waits = DelayAsWait // here 0
	got, _ = lateBy(o, path, 90_000, 90_000)
	if got != 0 {
		t.Errorf("if only delays are known: %v ns", got)
	}
	// A host's own link drops nothing.
	o.waits = OwnColumns
	got, _ = lateBy(o, []int32{7}, 90_000, 90_000)
	if got != 0 {
		t.Errorf("at hop 0: %v ns", got)
	}
}

// A pause delays flows to other ports of the switch, by the time of the bytes that exceed the space: 50,000
// bytes take 40 µs. A pause for another host does not affect hosts, unless they have more bytes in flight
// than the switch has space for.
func TestDelaysByPauses(t *testing.T) {
	pfc := network.BufferParams{SwitchBytes: 200_000, Alpha: 1, PFC: true}
	o := overflowOf(t, pfc, map[int32][][2]float64{7: {{30_000, 150_000}}})
	for _, c := range []struct {
		path []int32
		want float64
	}{
		{[]int32{0, 4, 9}, 40_000}, {[]int32{0, 4, 7}, 0}, {[]int32{8, 7}, 0}, {[]int32{6, 9}, 0},
		{[]int32{8, 5, 1}, 0}, {[]int32{0, 3}, 0},
	} {
		_, got := lateBy(o, c.path, 0, 0)
		if math.Abs(got-c.want) > 1e-6 {
			t.Errorf("path %v: %v ns, want %v", c.path, got, c.want)
		}
	}
	o.params.WindowBytes = 100_001
	_, got := lateBy(o, []int32{8, 5, 1}, 0, 0)
	if math.Abs(got-40_000) > 1e-6 {
		t.Errorf("a window beyond the space: %v ns", got)
	}
}

// A warning needs a rise of 7.5% of a percentile. It counts the flows that are late.
func TestRiseOfAPercentile(t *testing.T) {
	b := network.BufferParams{SwitchBytes: 200_000, Alpha: 1}
	for later, want := range map[int64]string{
		73_000: "",
		77_000: "may raise p90 of all by 8%", 600_000: "in 1 slots of 10µs in 10ms (the longest has 150000): " +
			"drops and pauses are not in the estimate, concern 2 of 4 flows, and may raise p90 of all by 60%",
	} {
		o := overflowOf(t, b, map[int32][][2]float64{7: {{30_000, 150_000}}})
		for i := range int64(4) {
			f := &overflowed{of: watchedRow{FCT: 1_000_000, Slowdown: 2, Size: 500}}
			at := tables.ContributionRow{Contribution: tables.Contribution{LinkID: 7, Hop: 1}}
			if i < 2 {
				at.LongestNS = later - 2000 // a round trip of one cable
			}
			o.links[7].full[0].roomB = 1
			f.hops = append(f.hops, at)
			o.add(f)
		}
		got := o.warnings(o.net)
		if (want == "") != (len(got) == 0) || len(got) > 0 &&
			(!strings.Contains(got[0].Text, want) || got[0].Threshold != 0.075) {
			t.Errorf("%d ns: %+v, want %q", later, got, want)
		}
	}
	var none *Overflow
	if none.warnings(nil) != nil {
		t.Error("unlimited buffers have warnings")
	}
}

// Statistics of links that the topology does not have, and times without queues, are refused.
func TestOverflowRefuses(t *testing.T) {
	n := barbell(t)
	m := &step.Model{Network: n, Params: simkernel.DefaultParams()}
	for _, r := range []tables.LinkStat{
		{LinkID: 10}, {LinkID: -1}, {LinkCounters: tables.LinkCounters{CrowdedAtNS: []float64{1}}},
	} {
		var stats tables.Memory
		if err := tables.LinkStats.Write(&stats, []tables.LinkStat{r}); err != nil {
			t.Fatal(err)
		}
		_, err := NewOverflow(m, make([]int64, 10), &route.Loads{Links: make([]route.LinkLoad, 10)}, OwnColumns,
			stats.Read())
		if err == nil || !strings.Contains(err.Error(), "which has 10 links") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
