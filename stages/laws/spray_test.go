package laws

import (
	"testing"

	"parsimon/simkernel"
	"parsimon/stages/estimators"
	"parsimon/stages/methodtest"
	"parsimon/stages/moves"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// fatTree is a three-tier fat-tree of 16 hosts at 100 Gbps: 4 pods of 2 ToR and 2 aggregation switches, and
// 4 core switches.
func fatTree(t *testing.T) *topology.Network {
	t.Helper()
	const (
		tor    = 16
		fabric = 24
		spine  = 32
	)
	var nodes []topology.Node
	for id := range int32(36) {
		kind := topology.KindHost
		if id >= tor {
			kind = topology.KindSwitch
		}
		nodes = append(nodes, topology.Node{ID: id, Kind: kind})
	}
	var cables []topology.Cable
	cable := func(a, b int32) {
		cables = append(cables, topology.Cable{A: a, B: b, BandwidthBps: 100e9, DelayNS: 1000})
	}
	for host := range int32(16) {
		cable(host, tor+host/2)
	}
	for s := range int32(8) {
		pod := s / 2 * 2
		cable(tor+s, fabric+pod)
		cable(tor+s, fabric+pod+1)
		cable(fabric+s, spine+s%2*2)
		cable(fabric+s, spine+s%2*2+1)
	}
	n, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// permutation is perm_16n_16c_2MB.cm of htsim: the receivers of hosts 0 to 15.
var permutation = [16]int32{13, 3, 10, 14, 0, 11, 7, 5, 9, 12, 6, 4, 15, 2, 8, 1}

// With packets that are spread over all paths, a permutation of 2 MB on a fat-tree without oversubscription
// finishes within the limit of htsim's own check, 210 µs at its packet size. Its hosts send in lockstep. If a
// switch gave every host the same link in each round, some cables would have two flows and others none.
func TestSprayedPermutation(t *testing.T) {
	const limitNS = 210_000
	var rows []workload.Row
	for src, dst := range permutation {
		id := int64(src)
		rows = append(rows, workload.Row{ID: id, Src: int32(src), Dst: dst, SizeBytes: 2_000_000, Connection: id})
	}
	for _, balance := range []string{"spray", "spray-random", "adaptive"} {
		m := methodtest.DCTCP(t, fatTree(t))
		m.Params.PayloadBytes = 4086
		m.Params.HeaderBytes = 64
		m.Params.WindowBytes = simkernel.AutoWindow
		m.Params.WANWindowBytes = simkernel.AutoWindow
		m.Moves = &moves.Moves{Balance: balance}
		last := int64(0)
		for _, s := range slowdownsOf(t, m, estimators.Exact, rows) {
			last = max(last, s.FCTNS)
		}
		if last > limitNS {
			t.Errorf("%s: the last flow takes %d ns, more than %d", balance, last, limitNS)
		}
	}
}
