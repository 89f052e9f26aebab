package workload_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

func parkingLot(t testing.TB) *topology.Network {
	t.Helper()
	nodes := make([]topology.Node, 10)
	for i := range nodes {
		nodes[i] = topology.Node{ID: int32(i), Kind: topology.KindHost, Pod: -1, Rack: -1}
		if i > 6 {
			nodes[i].Kind = topology.KindSwitch
		}
	}
	var cables []topology.Cable
	for _, ends := range [][2]int32{{0, 7}, {1, 7}, {2, 8}, {3, 8}, {4, 9}, {5, 9}, {6, 9}, {7, 8}, {8, 9}} {
		cables = append(cables, topology.Cable{A: ends[0], B: ends[1], BandwidthBps: 40e9, DelayNS: 1000})
	}
	n, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func pairService(t testing.TB, name, twinOf string, pairs ...[2]int32) workload.Service {
	t.Helper()
	sizes, err := workload.NewSizeCDF([]workload.SizePoint{{1000, 50}, {20_000, 100}})
	if err != nil {
		t.Fatal(err)
	}
	return workload.Service{Name: name, TwinOf: twinOf, Pairs: pairs, Sizes: sizes, Poisson: true, Share: 1}
}

// Pairs have their share of the load, and other links have none. A twin has the flows of the other service
// between its own hosts.
func TestPairsAndTwins(t *testing.T) {
	n := parkingLot(t)
	w := &workload.Workload{MaxLoad: 0.5, Flows: 40_000, Services: []workload.Service{
		pairService(t, "main", "", [2]int32{0, 6}),
		pairService(t, "one", "", [2]int32{1, 2}, [2]int32{2, 1}),
		pairService(t, "two", "one", [2]int32{3, 4}, [2]int32{4, 3}),
	}}
	got, plan := mustGenerate(t, n, w, 3)
	// Service main has a third of the bytes, and each pair of the other services has a sixth: 7→8 carries
	// main and one of these pairs.
	for _, c := range []struct {
		a, b int32
		want float64
	}{{0, 7, 1. / 3}, {7, 8, 0.5}, {8, 7, 1. / 6}, {8, 9, 0.5}, {9, 6, 1. / 3}, {6, 9, 0}, {7, 1, 1. / 6},
		{5, 9, 0}} {
		for _, l := range n.Links {
			if l.Src == c.a && l.Dst == c.b && math.Abs(plan.LinkLoad[l.ID]-c.want) > 1e-9 {
				t.Errorf("%d → %d is expected to carry %v, want %v", c.a, c.b, plan.LinkLoad[l.ID], c.want)
			}
		}
	}
	first := int32(14) // 7→8, before 8→9, which carries as much
	if plan.MaxLink != first || plan.LinkLoad[first] != plan.LinkLoad[first+2] || plan.MaxLoad != 0.5 {
		t.Errorf("the link with the highest load is %d of %v", plan.MaxLink, plan.LinkLoad)
	}
	type drawn struct {
		forth       bool
		size, start int64
	}
	flows := map[string][]drawn{}
	for i, s := range got.Service {
		pair := [2]int32{got.Src[i], got.Dst[i]}
		want := w.Services[slices.Index([]string{"main", "one", "two"}, s)].Pairs
		if !slices.Contains(want, pair) {
			t.Fatalf("service %s sends %v", s, pair)
		}
		flows[s] = append(flows[s], drawn{pair[0] == 0 || pair[0] == 1 || pair[0] == 3, got.Size[i], got.Start[i]})
	}
	k := min(len(flows["one"]), len(flows["two"])) // the number of flows may end between twins
	if k < 10_000 || !slices.Equal(flows["one"][:k], flows["two"][:k]) ||
		slices.Equal(flows["one"][:k], flows["main"][:k]) {
		t.Errorf("%d, %d and %d flows: want the twins alike and main different", len(flows["main"]),
			len(flows["one"]), len(flows["two"]))
	}
}

// Inter-arrival times of a Poisson process have the given mean, its square as variance, and a fraction of
// e^-1 above the mean.
func TestPoissonArrivals(t *testing.T) {
	n := parkingLot(t)
	const flows = 200_000
	w := &workload.Workload{MaxLoad: 1e-3, Flows: flows,
		Services: []workload.Service{pairService(t, "main", "", [2]int32{0, 6})}}
	got, plan := mustGenerate(t, n, w, 4)
	want := 1e9 / plan.ServiceFlowsPerSecond[0]
	var squares float64
	above := 0
	last := int64(0)
	for _, start := range got.Start {
		gap := float64(start - last)
		last = start
		squares += gap * gap
		if gap > want {
			above++
		}
	}
	mean := float64(last) / flows
	if math.Abs(mean/want-1) > 5/math.Sqrt(flows) {
		t.Errorf("mean gap %.1f ns, want %.1f", mean, want)
	}
	v := squares/flows - mean*mean
	if math.Abs(v/(want*want)-1) > 5*math.Sqrt(8./flows) {
		t.Errorf("variance %.3f of the mean's square", v/(want*want))
	}
	p := math.Exp(-1)
	if math.Abs(float64(above)-p*flows) > 5*math.Sqrt(p*(1-p)*flows) {
		t.Errorf("%d of %d gaps are above the mean", above, flows)
	}
}

func TestServiceErrors(t *testing.T) {
	n := parkingLot(t)
	r := topologytest.MustRouter(t, n, 1)
	for want, change := range map[string]func(s *workload.Service){
		"pair 0:7: node 7 is not a host":   func(s *workload.Service) { s.Pairs = [][2]int32{{0, 7}} },
		"pair 0:99: node 99 is not a host": func(s *workload.Service) { s.Pairs = [][2]int32{{0, 99}} },
		"a host does not send to itself":   func(s *workload.Service) { s.Pairs = [][2]int32{{3, 3}} },
		"pair 0:6 is listed twice": func(s *workload.Service) {
			s.Pairs = [][2]int32{{0, 6}, {6, 0},
				{0, 6}}
		},
		"no two hosts exchange traffic": func(s *workload.Service) { s.Pairs = [][2]int32{} },
		"none of its hosts is in its racks": func(s *workload.Service) {
			s.Pairs = nil
			s.Hosts = []int32{99}
		},
	} {
		w := &workload.Workload{MaxLoad: 0.5, Flows: 1,
			Services: []workload.Service{pairService(t, "other", "", [2]int32{1, 2}),
				pairService(t, "main", "", [2]int32{0, 6})}}
		change(&w.Services[1])
		if _, err := workload.NewPlan(r, w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, have %v", want, err)
		}
	}
}

// A service that is confined to hosts has the racks that have any of them, with these hosts only. With
// others, a matrix would have the wrong rows, and hosts would get traffic that they do not have.
func TestRacksOfSomeHosts(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(2))
	all := n.Racks()
	for _, c := range []struct {
		places []int
		hosts  []int32
		want   [][]int32
	}{
		{nil, nil, all},
		{[]int{2, 1}, nil, [][]int32{all[2], all[1]}},
		{nil, []int32{all[1][3], all[1][0], all[4][2]}, [][]int32{{all[1][0], all[1][3]}, {all[4][2]}}},
		{[]int{4, 0}, []int32{all[1][0], all[4][2]}, [][]int32{{all[4][2]}}},
		{[]int{0}, []int32{all[1][0]}, nil},
	} {
		got := workload.HostRacks(n, c.places, c.hosts)
		if !slices.EqualFunc(got, c.want, slices.Equal[[]int32]) {
			t.Errorf("racks %v and hosts %v: %v, want %v", c.places, c.hosts, got, c.want)
		}
	}
}

// senders returns the pairs of hosts of the flows of a service.
func senders(t *testing.T, n *topology.Network, s workload.Service) map[[2]int32]int {
	t.Helper()
	s.Name = "main"
	s.Share = 1
	s.Sizes = mustSizes(t, workload.SizePoint{Bytes: 1000, Percent: 100})
	w := &workload.Workload{MaxLoad: 0.5, Flows: 300, Services: []workload.Service{s}}
	got, _ := mustGenerate(t, n, w, 3)
	pairs := map[[2]int32]int{}
	for i := range got.Src {
		pairs[[2]int32{got.Src[i], got.Dst[i]}]++
	}
	return pairs
}

// Without a matrix, racks send to all other racks, and a single rack to itself. No host sends to itself, also
// if a matrix has a weight from a rack of one host to itself.
func TestTrafficWithinRacks(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(4))
	racks := n.Racks()
	rackOf := map[int32]int{}
	for r, hosts := range racks {
		for _, h := range hosts {
			rackOf[h] = r
		}
	}
	pairs := senders(t, n, workload.Service{Racks: []int{3, 9}})
	for p := range pairs {
		if rackOf[p[0]] == rackOf[p[1]] {
			t.Errorf("two racks without a matrix: a flow in rack %d", rackOf[p[0]])
		}
	}
	if len(pairs) < 80 {
		t.Errorf("two racks of eight hosts have %d of 128 pairs", len(pairs))
	}
	for p := range senders(t, n, workload.Service{Racks: []int{3}}) {
		if rackOf[p[0]] != 3 || rackOf[p[1]] != 3 || p[0] == p[1] {
			t.Errorf("a single rack: a flow from host %d to %d", p[0], p[1])
		}
	}
	m, err := workload.NewMatrix([][]float64{{5, 0}, {0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	one := racks[0][3]
	two := racks[1][2:4]
	pairs = senders(t, n, workload.Service{Matrix: m, Hosts: append([]int32{one}, two...)})
	for p := range pairs {
		if !slices.Contains(two, p[0]) || !slices.Contains(two, p[1]) || p[0] == p[1] {
			t.Errorf("a rack of one host and one of two: a flow from host %d to %d", p[0], p[1])
		}
	}
	if len(pairs) != 2 {
		t.Errorf("two hosts send in %d of 2 directions", len(pairs))
	}
	pairs = senders(t, n, workload.Service{Hosts: two})
	if len(pairs) != 2 {
		t.Errorf("two hosts of one rack send in %d of 2 directions", len(pairs))
	}
}

// A flow starts before 2^62 ns. A service that is so slow is refused, because later times would overflow.
func TestSlowestService(t *testing.T) {
	n := parkingLot(t)
	r := topologytest.MustRouter(t, n, 1)
	s := pairService(t, "main", "", [2]int32{0, 6})
	s.Poisson = false // with a sigma of 0, all gaps are equal
	w := &workload.Workload{MaxLoad: 1e-6, Flows: 1, Services: []workload.Service{s}}
	plan, err := workload.NewPlan(r, w)
	if err != nil {
		t.Fatal(err)
	}
	for startNS, want := range map[float64]bool{4.5e18: true, 4.7e18: false, 9e18: false} {
		w.MaxLoad = 1e-6 * (1e9 / startNS) / plan.ServiceFlowsPerSecond[0]
		out := &flowTable{T: t}
		_, err := workload.Generate(t.Context(), r, w, 1, out)
		if (err == nil) != want || want && math.Abs(float64(out.Start[0])/startNS-1) > 1e-6 {
			t.Errorf("a start after %g ns: %v, %v", startNS, out.Start, err)
		}
	}
}
