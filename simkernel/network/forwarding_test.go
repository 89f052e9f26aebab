package network

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/faults"
)

// treeRoutes has the links of shortest paths, found by a search from every host.
type treeRoutes struct {
	sets   [][]int32
	links  []map[[2]int32]int32 // by state: the set at a node toward a host
	starts []int64
}

// routesOf makes tables of a network in which some links are down, in each state from a time on.
func routesOf(links []Link, hosts []bool, starts []int64, down ...[]int32) *treeRoutes {
	r := &treeRoutes{starts: starts, sets: [][]int32{nil}}
	for _, dead := range down {
		table := map[[2]int32]int32{}
		for h, host := range hosts {
			if !host {
				continue
			}
			far := distances(links, hosts, int32(h), dead)
			for node := range hosts {
				var set []int32
				for l, link := range links {
					if int(link.SrcNode) == node && !slices.Contains(dead, int32(l)) && far[node] > 0 &&
						far[link.DstNode] == far[node]-1 && (!hosts[link.DstNode] || int(link.DstNode) == h) {
						set = append(set, int32(l))
					}
				}
				at := slices.IndexFunc(r.sets, func(s []int32) bool { return slices.Equal(s, set) })
				if at < 0 {
					at = len(r.sets)
					r.sets = append(r.sets, set)
				}
				table[[2]int32{int32(node), int32(h)}] = int32(at)
			}
		}
		r.links = append(r.links, table)
	}
	return r
}

// distances returns the number of links from each node to a host over switches, or -1 if there is no path.
func distances(links []Link, hosts []bool, host int32, dead []int32) []int {
	far := make([]int, len(hosts))
	for i := range far {
		far[i] = -1
	}
	far[host] = 0
	queue := []int32{host}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for l, link := range links {
			if link.DstNode == at && far[link.SrcNode] < 0 && !slices.Contains(dead, int32(l)) &&
				(at == host || !hosts[at]) {
				far[link.SrcNode] = far[at] + 1
				queue = append(queue, link.SrcNode)
			}
		}
	}
	return far
}

func (r *treeRoutes) Links(state int, node, host int32) (int32, []int32) {
	set := r.links[state][[2]int32{node, host}]
	return set, r.sets[set]
}
func (r *treeRoutes) Sets() int       { return len(r.sets) }
func (r *treeRoutes) Starts() []int64 { return r.starts }

// leafSpine is a random workload on leaves with three hosts each and equal spines. Flows take shortest paths.
func leafSpine(t simkernel.Transport, seed uint64) netExample {
	rng := rand.New(rand.NewPCG(seed, 11))
	pick := func(of ...int64) int64 { return of[rng.IntN(len(of))] }
	leaves := 2 + rng.IntN(3)
	spines := 2 + rng.IntN(3)
	e := netExample{params: simkernel.ParamsOf(t), hosts: make([]bool, leaves+spines)}
	e.params.Seed = seed
	e.params.SetWindow(pick(simkernel.AutoWindow, 18_000, 60_000))
	cable := func(a, b int, bps int64) {
		delayNS := pick(1000, 1000, 200, 3000)
		e.links = append(e.links, Link{int32(a), int32(b), bps, delayNS}, Link{int32(b), int32(a), bps, delayNS})
	}
	up := pick(10e9, 10e9, 40e9)
	for l := range leaves {
		for s := range spines {
			cable(l, leaves+s, up)
		}
	}
	var hosts []int
	for l := range leaves {
		for range 3 {
			hosts = append(hosts, len(e.hosts))
			cable(len(e.hosts), l, 10e9)
			if seed%4 == 1 { // at two leaves
				cable(len(e.hosts), (l+1)%leaves, 10e9)
			}
			e.hosts = append(e.hosts, true)
		}
	}
	routes := routesOf(e.links, e.hosts, []int64{0}, nil)
	startNS := int64(0)
	for range 30 + rng.IntN(60) {
		src := hosts[rng.IntN(len(hosts))]
		dst := hosts[rng.IntN(len(hosts))]
		if src == dst {
			continue
		}
		for at := int32(src); at != int32(dst); {
			_, next := routes.Links(0, at, int32(dst))
			l := next[rng.IntN(len(next))]
			e.flows.PathLinks = append(e.flows.PathLinks, l)
			at = e.links[l].DstNode
		}
		e.flows.PathEnds = append(e.flows.PathEnds, int32(len(e.flows.PathLinks)))
		e.flows.SizeBytes = append(e.flows.SizeBytes, 1+rng.Int64N(pick(1000, 30_000, 300_000)))
		e.flows.StartNS = append(e.flows.StartNS, startNS)
		startNS += rng.Int64N(pick(1, 3000, 20_000))
	}
	return e
}

// runMoving simulates an example whose paths move, with the given domains (one if nil) and workers.
func runMoving(t testing.TB, e *netExample, b BufferParams, m Forwarding, domainOf []int32,
	workers int) (*Network, *Results) {
	t.Helper()
	n := newExampleNetwork(t, e, b, 7)
	if m.Routes == nil {
		m.Routes = routesOf(e.links, e.hosts, []int64{0}, nil)
	}
	m.Seed = 5
	n.Forward(m)
	if e.flows.AfterEnds != nil {
		n.WaitFor()
	}
	if domainOf == nil {
		domainOf = make([]int32, len(e.hosts))
	}
	all := &Results{}
	n.leastWork = 0
	if err := n.run(context.Background(), workers, domainOf, all.join); err != nil {
		t.Fatal(err)
	}
	return n, all
}

func transportOf(seed uint64) simkernel.Transport {
	return simkernel.Transport(seed) % (simkernel.CUBIC + 1)
}

// Without events, ECMP and flowlets that never end yield the results of a network with fixed paths, bit by
// bit. The same holds if a cable without flows goes down.
func TestMovesThatChangeNothing(t *testing.T) {
	for _, seed := range kerneltest.Seeds(60, 7) {
		e := leafSpine(transportOf(seed), seed)
		_, want := runIn(t, &e, BufferParams{}, nil, 1, 7)
		late := e.flows.StartNS[len(e.flows.StartNS)-1] + 1e9
		after := faults.Failures{
			Faults: []faults.Fault{
				{Link: 0, FromNS: late, ToNS: late + 1e6, Share: 1},
				{Link: 3, ToNS: late, Share: 1e-300},
			},
			Rates: []faults.Rate{
				{Link: 4, FromNS: late, BandwidthBps: 1e9, DelayNS: 1e6},
				{Link: 5, FromNS: 0, BandwidthBps: e.links[5].BandwidthBps, DelayNS: e.links[5].DelayNS},
			},
		}
		one := Balancing{Balance: Flowlet, GapNS: 1 << 62}
		for i, m := range []Forwarding{{}, {Balancing: one}, {Failures: after}} {
			_, got := runMoving(t, &e, BufferParams{}, m, nil, 1)
			for _, again := range got.Again {
				if again != 0 && !e.params.Transport.Traits().AckClocked {
					t.Fatalf("seed %d, %d: a packet was retransmitted", seed, i)
				}
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("seed %d, moves %d: the results differ", seed, i)
			}
		}
	}
}

// With every balance and with events, results are the same for any domains and workers, and every packet is
// lost or delivered.
func TestMovesAreTheSameForAnyDomains(t *testing.T) {
	var lost, again, reordered int64
	for _, seed := range kerneltest.Seeds(56, 13) {
		e := leafSpine(transportOf(seed), seed)
		b, m := movesExample(t, &e, seed)
		one, want := runMoving(t, &e, b, m, nil, 1)
		l := one.Losses()
		if l.Sent != l.Delivered+l.Dropped+l.Discarded+l.Lost {
			t.Fatalf("seed %d: %+v", seed, l)
		}
		lost += one.Losses().Lost
		for i := range want.Row {
			again = again + int64(want.Again[i])
			reordered = reordered + int64(want.Reordered[i])
		}
		if one.live() != 0 || len(want.Row) != len(e.flows.StartNS) {
			t.Fatalf("seed %d: %d of %d flows finished, %d are left", seed, len(want.Row), len(e.flows.StartNS),
				one.live())
		}
		for k, domains := range []int{1, 2, 3, 4, 7} {
			workers := [][]int{{2}, {1, 2}, {3}, {5, 1}, {5}}[k]
			for _, w := range workers {
				n, got := runMoving(t, &e, b, m, domainsOf(len(e.hosts), domains, seed), w)
				if !reflect.DeepEqual(want, got) || n.Losses() != one.Losses() ||
					!reflect.DeepEqual(n.paths.traffic, one.paths.traffic) {
					t.Fatalf("seed %d: %d domains and %d workers yield other results than one", seed, domains, w)
				}
			}
		}
	}
	if lost == 0 || again == 0 || reordered == 0 {
		t.Errorf("%d packets lost, %d retransmitted, %d reordered: the examples test little", lost, again,
			reordered)
	}
}

// The numbers of sprayed packets on the equal links of a switch differ by at most one. A link loses its share
// of the packets within five standard deviations.
func TestSharesOfSprayAndLoss(t *testing.T) {
	for seed := range uint64(10) {
		e := leafSpine(simkernel.DCTCP, 4*seed)
		n, _ := runMoving(t, &e, BufferParams{}, Forwarding{Balancing: Balancing{Balance: Spray}}, nil, 1)
		least := map[int32]int64{}
		most := map[int32]int64{}
		for l, link := range e.links {
			if e.hosts[link.SrcNode] || e.hosts[link.DstNode] || l%2 == 1 { // not from a leaf to a spine
				continue
			}
			sent := n.Traffic(int32(l)).Sent
			known := most[link.SrcNode]
			if _, seen := least[link.SrcNode]; !seen {
				known = sent
				least[link.SrcNode] = sent
			}
			least[link.SrcNode] = min(least[link.SrcNode], sent)
			most[link.SrcNode] = max(known, sent)
		}
		for leaf := range most {
			if most[leaf] == 0 || most[leaf]-least[leaf] > 1 {
				t.Errorf("seed %d: links of leaf %d sent %d to %d packets", seed, leaf, least[leaf], most[leaf])
			}
		}
		const share = 0.05
		n, _ = runMoving(t, &e, BufferParams{},
			Forwarding{Balancing: Balancing{Balance: Spray},
				Failures: faults.Failures{Faults: []faults.Fault{{ToNS: 1 << 60, Share: share}}}}, nil, 1)
		m := n.Traffic(0)
		far := math.Abs(float64(m.Lost) - share*float64(m.Sent))
		if m.Lost == 0 || far > 5*math.Sqrt(share*(1-share)*float64(m.Sent)) {
			t.Errorf("seed %d: %d of %d packets are lost, not %v of them", seed, m.Lost, m.Sent, share)
		}
	}
}

// movesExample chooses buffers, a balance and events at random.
func movesExample(t testing.TB, e *netExample, seed uint64) (b BufferParams, m Forwarding) {
	rng := rand.New(rand.NewPCG(seed, 12))
	if seed%3 == 0 {
		b = BufferParams{SwitchBytes: 20_000, Alpha: 1}
	}
	m = Forwarding{Balancing: Balancing{Balance: Balance(rng.IntN(7)), GapNS: rng.Int64N(20_000)}}
	if e.params.Transport == simkernel.HPCC && (m.Balance >= Spray && m.Balance <= Random) {
		m.Balance = PLB
	}
	if seed%5 == 3 && !e.params.Transport.Traits().AckClocked {
		b = pfcBuffer(t, e, rng, 0)
		b.WatchdogNS = 100_000
		b.RestoreNS = 100_000
	}
	if seed%2 == 0 {
		m.Faults = []faults.Fault{{Link: 0, FromNS: 10_000, ToNS: 60_000, Share: 1},
			{Link: 1, FromNS: 10_000, ToNS: 60_000, Share: 1},
			{Link: 2, ToNS: 1 << 40, Share: 0.01}, {Link: 4, FromNS: 5000, ToNS: 1 << 40, Share: 0.02, BurstNS: 5000}}
		m.RepairNS = []int64{0, 5000}[seed/2%2]
		m.Rates = []faults.Rate{
			{Link: 5, FromNS: 20_000, BandwidthBps: 2e9},
			{Link: 5, FromNS: 30_000, DelayNS: 9000},
			{Link: 5, FromNS: 100_000, BandwidthBps: 1e9},
			{Link: 5, FromNS: 110_000, DelayNS: e.links[5].DelayNS},
		}
		m.Routes = routesOf(e.links, e.hosts, []int64{0, 30_000, 80_000}, nil, []int32{0, 1}, nil)
	}
	return b, m
}

// Flows that wait for others start when these end, also on paths that move. Results are the same for any
// domains and workers, and as with the same starts in an open loop.
func TestLoopsOnPathsThatMove(t *testing.T) {
	var lost, waited int64
	for _, seed := range kerneltest.Seeds(60, 7) {
		e := leafSpine(transportOf(seed), seed)
		b, m := movesExample(t, &e, seed)
		waitAtRandom(&e, seed)
		one, want := runMoving(t, &e, b, m, nil, 1)
		lost += one.Losses().Lost
		checkStarts(t, &e, want)
		for k, domains := range []int{1, 3, 7} {
			n, got := runMoving(t, &e, b, m, domainsOf(len(e.hosts), domains, seed), k+1)
			if !reflect.DeepEqual(want, got) || n.Losses() != one.Losses() {
				t.Fatalf("seed %d: %d domains yield other results than one", seed, domains)
			}
		}
		open := e
		open.flows.After = nil
		open.flows.DelayNS = nil
		open.flows.AfterEnds = nil
		for i, row := range want.Row {
			if e.flows.StartNS[row] != want.StartNS[i] {
				waited++
			}
			open.flows.StartNS[row] = want.StartNS[i]
		}
		if slices.IsSorted(open.flows.StartNS) { // rows keep their order
			_, got := runMoving(t, &open, b, m, nil, 1)
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("seed %d: an open loop with the same starts yields other results", seed)
			}
		}
	}
	if lost == 0 || waited == 0 {
		t.Errorf("%d packets lost, %d flows waited: the examples test little", lost, waited)
	}
}

// waitAtRandom makes flows wait for random earlier ones.
func waitAtRandom(e *netExample, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 13))
	f := &e.flows
	f.After = []int64{}
	for row := range f.StartNS {
		if row > 0 && rng.IntN(1+int(seed%4)) == 0 {
			f.After = append(f.After, int64(max(0, row-1-rng.IntN(4))))
			f.DelayNS = append(f.DelayNS, []int64{0, 1, 900, 50_000}[rng.IntN(4)])
		}
		f.AfterEnds = append(f.AfterEnds, int32(len(f.After)))
	}
}

// The ends of a cable that is down stop using it before the routes change, if they have another link.
func TestLocalRepair(t *testing.T) {
	for _, balance := range []Balance{ECMP, Spray} {
		var lost [2]int64
		for i, repairNS := range []int64{0, 1000} {
			for seed := range uint64(10) {
				e := leafSpine(simkernel.DCTCP, 4*seed)
				m := Forwarding{Balancing: Balancing{Balance: balance},
					Failures: faults.Failures{
						RepairNS: repairNS, Faults: []faults.Fault{{Link: 0, FromNS: 20_000, ToNS: 1e6, Share: 1},
							{Link: 1, FromNS: 20_000, ToNS: 1e6, Share: 1}}}}
				m.Routes = routesOf(e.links, e.hosts, []int64{0, 300_000, 1_300_000}, nil, []int32{0, 1}, nil)
				n, _ := runMoving(t, &e, BufferParams{}, m, nil, 1)
				lost[i] += n.Losses().Lost
			}
		}
		if lost[0] == 0 || lost[1] > lost[0]*2/3 {
			t.Errorf("balance %d: %d packets are lost with local repair, %d without", balance, lost[1], lost[0])
		}
	}
}

// A change of routes applies to packets that arrive at its time. Two switches, 1 and 4, are joined by 2 and
// by 3, and the link to 2 goes down. A packet of 1,000 bytes arrives at switch 1 after 800 ns and the delay
// of 1 µs.
func TestRoutesChangeAtTheirTime(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, false, false, false, false, true}}
	for _, c := range [][2]int32{{0, 1}, {1, 2}, {1, 3}, {2, 4}, {3, 4}, {4, 5}} {
		e.links = append(e.links, Link{c[0], c[1], 10e9, 1000}, Link{c[1], c[0], 10e9, 1000})
	}
	e.flows = Flows{SizeBytes: []int64{1000 - e.params.HeaderBytes}, StartNS: []int64{0}, PathEnds: []int32{4},
		PathLinks: []int32{0, 2, 6, 10}}
	for startNS, want := range map[int64][2]int64{1799: {0, 1}, 1800: {0, 1}, 1801: {1, 0}} {
		m := Forwarding{Routes: routesOf(e.links, e.hosts, []int64{0, startNS}, nil, []int32{2})}
		n, _ := runMoving(t, &e, BufferParams{}, m, nil, 1)
		got := [2]int64{n.Traffic(2).Sent, n.Traffic(4).Sent}
		if got != want {
			t.Errorf("routes that change at %d ns: %v packets on both links, want %v", startNS, got, want)
		}
	}
}

// A port sends nothing while one or more of its classes are paused, so it is busy for longer by the time from
// the first pause to the last resumption. Otherwise, packets would be sent to ports that were just paused.
func TestPausesMakePortsBusy(t *testing.T) {
	m := balancing{busyPS: []int64{7000, 500}, pauses: make([]int32, 2), sincePS: make([]int64, 2),
		rate: make([]dre, 2)}
	for _, c := range []struct {
		toggle      calendar.Toggle
		busy, clock int64 // after it
	}{
		{calendar.Toggle{AtPS: 1000, Pause: true}, 7000, 1000},
		{calendar.Toggle{AtPS: 1500, Class: 1, Pause: true}, 7000, 1000},
		{calendar.Toggle{AtPS: 2000}, 7000, 1000},
		{calendar.Toggle{AtPS: 4000, Class: 1}, 10_000, 9000},
	} {
		m.notePause(&calendar.Arrival{Item: calendar.PauseFrame(c.toggle)})
		if m.busyPS[0] != c.busy || m.clock(0, 9000) != c.clock {
			t.Errorf("%+v: busy until %d, can have sent until %d", c.toggle, m.busyPS[0], m.clock(0, 9000))
		}
	}
	m.notePause(&calendar.Arrival{})
	if m.busyPS[1] != 500 || m.clock(1, 9000) != 9000 {
		t.Errorf("another port is busy until %d", m.busyPS[1])
	}
}

// If a path is slow behind its spine, flows leave it. Most leave it with CONGA, which receives its metric.
// Some leave it with PLB, when their packets are marked, and with flowlets, of which slow senders make more.
// ECMP stays.
func TestRemoteCongestion(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: make([]bool, 4)} // leaves 0, 1 and spines 2, 3
	cable := func(a, b int, bps int64) {
		e.links = append(e.links, Link{int32(a), int32(b), bps, 1000}, Link{int32(b), int32(a), bps, 1000})
	}
	for spine := 2; spine < 4; spine++ {
		cable(0, spine, 10e9)
		cable(spine, 1, []int64{2e9, 10e9}[spine-2])
	}
	for h := range 8 {
		cable(4+h, h%2, 10e9)
		e.hosts = append(e.hosts, true)
	}
	for i := range 400 {
		spine := i % 2
		from := int32(8 + 4*(i%4))
		to := int32(8 + 4*(i/4%4) + 3)
		e.flows.PathLinks = append(e.flows.PathLinks, from, int32(4*spine), int32(4*spine+2), to)
		e.flows.PathEnds = append(e.flows.PathEnds, int32(4*i+4))
		e.flows.SizeBytes = append(e.flows.SizeBytes, 50_000)
		e.flows.StartNS = append(e.flows.StartNS, int64(i)*55_000)
	}
	slow := map[Balance]float64{}
	for _, b := range []Balance{ECMP, Flowlet, PLB, CONGA} { // the slow path is that of half of the flows
		n, r := runMoving(t, &e, BufferParams{}, Forwarding{Balancing: Balancing{Balance: b, GapNS: 3000}}, nil, 1)
		slow[b] = float64(n.Traffic(0).Sent) / float64(n.Traffic(0).Sent+n.Traffic(4).Sent)
		if len(r.Row) != 400 {
			t.Fatalf("balance %d: %d flows", b, len(r.Row))
		}
	}
	if slow[ECMP] < 0.5 || slow[PLB] > 0.45 || slow[Flowlet] > 0.45 || slow[CONGA] > 0.15 {
		t.Errorf("shares of the slow path: %v", slow)
	}
}

// domainsOf divides nodes at random into domains, none of them empty.
func domainsOf(nodes, domains int, seed uint64) []int32 {
	rng := rand.New(rand.NewPCG(seed, uint64(domains)))
	domainOf := make([]int32, nodes)
	for node := range domainOf {
		domainOf[node] = int32(rng.IntN(domains))
	}
	for i, node := range rng.Perm(nodes)[:domains] {
		domainOf[node] = int32(i)
	}
	return domainOf
}
