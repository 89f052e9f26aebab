package diagnose_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/confidence"
	"parsimon/stages/diagnose"
	"parsimon/stages/exact"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
)

// A warning about buffers appears if drops and pauses raise a percentile. The rise depends on how many flows
// are affected, on how long their packets wait while any port fills the buffer, on the timeout after a lost
// last packet, and on how long a link is paused on the way to another port.
func TestOverflow(t *testing.T) {
	n := topologytest.Wire(t, 6, 4, [2]int32{0, 4}, [2]int32{1, 4}, [2]int32{4, 5}, [2]int32{2, 5},
		[2]int32{3, 5})
	// The links of the paths to host 2, whose port is full, and to host 3.
	to2 := []int32{0, 4, 7}
	beside := []int32{0, 4, 9}
	loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 1e7}
	for id := range loads.Links {
		loads.Links[id].Flows = 1
	}
	const fct, tripNS = 100_000, 2 * 3 * 1000
	p := simkernel.DefaultParams()
	model := func(b network.BufferParams) *step.Model { return &step.Model{Network: n, Params: p, Buffers: b} }
	lossy := network.BufferParams{SwitchBytes: 400_000, Alpha: 1}
	lossless := network.BufferParams{SwitchBytes: 400_000, Alpha: 1, PFC: true}
	bytes := func(ns int64) float64 { return float64(ns*n.Links[7].BandwidthBps) / 8e9 }
	room := exact.Rooms(model(lossy))[7] * 8e9 / n.Links[7].BandwidthBps
	timeout := float64(2 * 3 * room) // all links have the same speed
	stated := lossy
	stated.RetransmitNS = 40_000
	for _, c := range []struct {
		name    string
		buffer  network.BufferParams
		path    []int32
		flows   int   // of 1000; they wait for the longest queue
		longest int64 // ns
		lastIs  bool  // the last packet waits for it, too
		atNS    float64
		other   int64   // queue of the other port, ns
		rise    float64 // of p99; if negative, the smallest rise
	}{
		{"there is room", lossy, to2, 500, room - 1, false, 0, 0, 0},
		{"few flows", lossy, to2, 2, room + 90_000, false, 0, 0, float64(room+90_000+tripNS) / fct}, // p99.9
		{"a fiftieth", lossy, to2, 20, room + 20_000, false, 0, 0, float64(room+20_000+tripNS) / fct},
		{"at another time", lossy, to2, 20, room + 20_000, false, 5e6, 0, 0},
		{"another port takes a third", lossy, to2, 20, room * 3 / 4, false, 0, room,
			float64(room*3/4+tripNS) / fct},
		{"another port takes little", lossy, to2, 20, room * 3 / 4, false, 0, room / 4, 0},
		{"last packets", lossy, to2, 20, room + 1, true, 0, 0, (float64(room+tripNS) + timeout) / fct},
		{"last packets, stated timeout", stated, to2, 20, room + 1, true, 0, 0, float64(room+tripNS+40_000) / fct},
		{"PFC, to the full port", lossless, to2, 500, 4 * room, true, 0, 0, 0},
		{"PFC, beside it", lossless, beside, 500, 4 * room, false, 0, 0, -0.5},
		{"PFC, beside it at another time", lossless, beside, 500, 4 * room, false, 5e6, 0, 0},
	} {
		var stats, slowdowns, hops, contributions tables.Memory
		var flows []tables.SlowdownRow
		var crossed []tables.Hop
		var at []tables.ContributionRow
		for i := range 1000 {
			flows = append(flows, tables.SlowdownRow{FlowRow: int64(i), SizeBytes: 50_000, FCTNS: fct, Slowdown: 2})
			for h, link := range c.path {
				r := tables.ContributionRow{Contribution: tables.Contribution{FlowRow: int64(i), Hop: int16(h), Hops: 3,
					LinkID: link}}
				crossed = append(crossed, tables.Hop{LocalHop: tables.LocalHop{FlowAtHop: tables.FlowAtHop{
					FlowRow: int64(i), Hop: int16(h), Hops: 3, LinkID: link,
				}}})
				if i < c.flows && h == 2 {
					r.LongestNS = c.longest
					if c.lastIs {
						r.WaitNS = float64(r.LongestNS)
					}
				}
				at = tables.AppendContribution(at, r)
			}
		}
		slices.Reverse(crossed) // table hops has the hops of a flow in the order of their links
		queue := func(link int32, ns int64) tables.LinkStat {
			return tables.LinkStat{LinkID: link, LinkCounters: tables.LinkCounters{MaxQueueBytes: int64(bytes(ns)),
				CrowdedAtNS: []float64{c.atNS}, CrowdedBytes: []float64{bytes(ns)}}}
		}
		rows := []tables.LinkStat{queue(7, c.longest)}
		if c.other > 0 {
			rows = append(rows, queue(9, c.other))
		}
		err := errors.Join(tables.LinkStats.Write(&stats, rows), tables.Slowdowns.Write(&slowdowns, flows),
			tables.HopContributions.Write(&contributions, at), tables.Hops.Write(&hops, crossed))
		o, overflowErr := diagnose.NewOverflow(model(c.buffer), exact.Rooms(model(c.buffer)), &loads,
			diagnose.OwnColumns, stats.Read())
		w := diagnose.NewTailWatch(n, confidence.Tails{}, o)
		in := diagnose.Watched{
			Flows: step.Range{Hi: 1000}, Slowdowns: slowdowns.Read(), Contributions: contributions.Read(),
			Hops: hops.Read(),
		}
		if err := errors.Join(err, overflowErr, w.Watch(in)); err != nil {
			t.Fatal(err)
		}
		got := w.Warnings()
		if c.rise == 0 {
			if len(got) > 0 {
				t.Errorf("%s: %+v", c.name, got)
			}
			continue
		}
		if len(got) != 1+int(min(1, c.other)) || got[0].Link != 7 || c.rise > 0 &&
			math.Abs(got[0].Measure-c.rise) > 2*0.002*(1+c.rise) ||
			got[0].Measure < -c.rise || !strings.Contains(got[0].Text, "of 1000 flows, and may raise p") {
			t.Errorf("%s: %+v, want a rise of %g", c.name, got, c.rise)
		}
	}
}
