package laws

import (
	"testing"

	"parsimon/simkernel"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// lag is a network of two hosts at 40 Gbps, each at a switch. A LAG of 2 × 10 Gbps joins the switches.
func lag(t *testing.T) *topology.Network {
	t.Helper()
	nodes := []topology.Node{{ID: 0, Kind: topology.KindHost}, {ID: 1, Kind: topology.KindHost},
		{ID: 2, Kind: topology.KindSwitch}, {ID: 3, Kind: topology.KindSwitch}}
	n, err := topology.NewNetwork(nodes, []topology.Cable{
		{A: 0, B: 2, BandwidthBps: 40e9, DelayNS: 1000},
		{A: 1, B: 3, BandwidthBps: 40e9, DelayNS: 1000},
		{A: 2, B: 3, BandwidthBps: 10e9, DelayNS: 1000},
		{A: 2, B: 3, BandwidthBps: 10e9, DelayNS: 1000, Parallel: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A flow over a LAG of 2 × 10 Gbps has at most 10 Gbps (IEEE 802.1AX), with every estimator: its ideal FCT
// is that over one member, and no estimate is below. In the network, 64 flows that share the LAG use both
// members: the last of them finishes well before one member could have sent them all.
func TestFlowsTakeOneMemberOfALAG(t *testing.T) {
	const sizeBytes = 1_000_000
	m := methodtest.DCTCP(t, lag(t))
	p := simkernel.DefaultParams()
	memberNS := (sizeBytes + p.Packets(sizeBytes)*p.HeaderBytes) * 8 / 10 // at 10 Gbps
	var rows []workload.Row
	for id := range int64(64) {
		rows = append(rows, workload.Row{ID: id, Src: 0, Dst: 1, SizeBytes: sizeBytes, Connection: id})
	}
	for _, name := range estimators.All() {
		alone := slowdownsOf(t, m, name, rows[:1])[0]
		if alone.IdealNS < memberNS || alone.IdealNS > memberNS*105/100 || alone.FCTNS < alone.IdealNS {
			t.Errorf("%s: a flow alone takes %d ns, ideally %d, and one member sends for %d", name, alone.FCTNS,
				alone.IdealNS, memberNS)
		}
	}
	last := int64(0)
	for _, s := range slowdownsOf(t, m, estimators.Exact, rows) {
		last = max(last, s.FCTNS)
	}
	if last < 32*memberNS || last > 50*memberNS {
		t.Errorf("the last of 64 flows takes %d times as long as one member sends one", last/memberNS)
	}
}

// slowdownsOf estimates the slowdowns of flows.
func slowdownsOf(t *testing.T, m *step.Model, by estimators.Name, rows []workload.Row) []tables.SlowdownRow {
	t.Helper()
	found, err := method.Run(t.Context(), m, method.Estimate{Estimator: by}, rows)
	if err != nil {
		t.Fatal(err)
	}
	slowdowns, err := found.Slowdowns()
	if err != nil {
		t.Fatal(err)
	}
	return slowdowns
}
