package topology

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"parsimon/stages/rng"
	"parsimon/stages/rng/rngtest"
)

// checkPath checks that a path is connected from src to dst, uses cables that are up, crosses switches only,
// and is as short as a breadth-first search finds.
func checkPath(t *testing.T, n *Network, path []int32, src, dst int32) {
	t.Helper()
	at := src
	for i, l := range path {
		k := n.Links[l]
		if k.Src != at || k.Failed {
			t.Fatalf("path %v of %d → %d: link %d is %+v, at node %d", path, src, dst, l, k, at)
		}
		at = k.Dst
		v, _ := n.Node(at)
		if v.Kind == KindHost && i < len(path)-1 {
			t.Fatalf("path %v of %d → %d transits host %d", path, src, dst, at)
		}
	}
	if at != dst {
		t.Fatalf("path %v of %d → %d ends at %d", path, src, dst, at)
	}
	want := plainDistance(n, src, dst)
	if len(path) != want {
		t.Fatalf("path %v of %d → %d has %d links, the shortest has %d", path, src, dst, len(path), want)
	}
}

// plainDistance computes the number of links between two hosts by a simple search. It returns -1 if there is
// no path.
func plainDistance(n *Network, src, dst int32) int {
	dist := map[int32]int{src: 0}
	queue := []int32{src}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if at == dst {
			return dist[at]
		}
		v, _ := n.Node(at)
		if v.Kind == KindHost && at != src {
			continue
		}
		for _, l := range n.Links {
			if _, seen := dist[l.Dst]; l.Src == at && !l.Failed && !seen {
				dist[l.Dst] = dist[at] + 1
				queue = append(queue, l.Dst)
			}
		}
	}
	return -1
}

// randomNetwork has hosts with one to three cables to switches and sometimes to each other. Its switches are
// joined at random.
func randomNetwork(t *testing.T, rng *rand.Rand) *Network {
	t.Helper()
	hosts := 2 + rng.IntN(10)
	switches := 1 + rng.IntN(12)
	have := map[[2]int32]bool{}
	var cables [][2]int32
	join := func(a, b int) {
		k := cableKey(int32(a), int32(b))
		if a != b && !have[k] {
			have[k] = true
			cables = append(cables, [2]int32{int32(a), int32(b)})
		}
	}
	for h := range hosts {
		for range 1 + rng.IntN(3) {
			join(h, hosts+rng.IntN(switches))
		}
		if rng.IntN(4) == 0 {
			join(h, rng.IntN(hosts))
		}
	}
	for range rng.IntN(3 * switches) {
		join(hosts+rng.IntN(switches), hosts+rng.IntN(switches))
	}
	return Wire(t, hosts+switches, hosts, cables...)
}

func TestPathsAreShortest(t *testing.T) {
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := randomNetwork(t, rng)
		if rng.IntN(2) == 0 {
			l := n.Links[rng.IntN(len(n.Links))]
			if err := n.Fail(l.Src, l.Dst); err != nil {
				t.Fatal(err)
			}
		}
		r := MustRouter(t, n, seed)
		var path []int32
		for flow := range int64(5) {
			for _, a := range n.Hosts() {
				for _, b := range n.Hosts() {
					if a == b {
						continue
					}
					var err error
					if path, err = r.Path(flow, a, b, path[:0]); err != nil {
						var no *UnreachableError
						if !errors.As(err, &no) || no.Src != a || no.Dst != b || plainDistance(n, a, b) >= 0 {
							t.Fatalf("seed %d: %v", seed, err)
						}
						continue
					}
					checkPath(t, n, path, a, b)
				}
			}
		}
	}
}

func TestPathErrors(t *testing.T) {
	n := MustClos(t, SmallClos(4))
	r := MustRouter(t, n, 1)
	for _, c := range [][2]int32{{0, 0}, {0, 256}, {300, 0}, {0, 9999}, {-1, 0}} {
		_, err := r.Path(17, c[0], c[1], nil)
		if err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("flow 17 from node %d to node %d: ", c[0], c[1])) {
			t.Errorf("path %d → %d: %v", c[0], c[1], err)
		}
	}
}

// Paths has the result of Path for each flow, also for flows without a path, in memory of earlier flows.
func TestPathsOfSeveralFlows(t *testing.T) {
	some := make([]PathQuery, 300)
	ends := map[string]int{}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 9))
		n := randomNetwork(t, rng)
		r := MustRouter(t, n, seed)
		r.Hash = Hash{Addresses: seed%4 == 1, Polarized: seed%4 == 2}
		flows := some[:1+rng.IntN(len(some))]
		for i := range flows {
			q := &flows[i]
			q.FlowID = rng.Int64()
			q.Src = int32(rng.IntN(len(n.Nodes)+2)) - 1
			q.Dst = int32(rng.IntN(len(n.Nodes)+2)) - 1
		}
		r.Paths(flows)
		for _, q := range flows {
			want, err := r.Path(q.FlowID, q.Src, q.Dst, nil)
			if !slices.Equal(q.Path, want) || fmt.Sprint(q.Err) != fmt.Sprint(err) {
				t.Fatalf("seed %d, %d → %d: %v, %v, want %v, %v", seed, q.Src, q.Dst, q.Path, q.Err, want, err)
			}
			ends[fmt.Sprintf("%T", err)]++
		}
	}
	if len(ends) != 3 {
		t.Errorf("results by type of error: %v, want paths and both types", ends)
	}
}

// A flow takes the link with the highest hash of a set, found by a comparison of each link. Otherwise, a
// failed cable would also move flows that do not cross it.
func TestHighestHash(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 10))
		r := &Router{setLink: []int32{-1, -1}, setSalt: []uint64{0, 0}}
		links := 2 + rng.IntN(40)
		for l := range links {
			r.setLink = append(r.setLink, int32(100+l))
			r.setSalt = append(r.setSalt, rng.Uint64())
		}
		r.setSalt[len(r.setSalt)-1] = r.setSalt[2] // a tie
		for range 500 {
			flow := rng.Uint64()
			want := 2
			for k := range r.setLink[3:] {
				if linkHash(flow, r.setSalt[3+k]) > linkHash(flow, r.setSalt[want]) {
					want = 3 + k
				}
			}
			got := r.choose(flow, 2, int32(2+links))
			if got != r.setLink[want] {
				t.Fatalf("%d links: link %d, want %d", links, got, r.setLink[want])
			}
		}
	}
}

// Failing a cable moves the flows that crossed it and no others. Restoring the cable restores their paths.
func TestFailureMovesOnlyItsFlows(t *testing.T) {
	check := func(n *Network, rng *rand.Rand, flows int) (moved int) {
		before := MustRouter(t, n, 7)
		cut := n.Links[rng.IntN(len(n.Links))]
		if err := n.Fail(cut.Src, cut.Dst); err != nil {
			t.Fatal(err)
		}
		after := MustRouter(t, n, 7)
		hosts := n.Hosts()
		for f := range int64(flows) {
			a := hosts[rng.IntN(len(hosts))]
			b := hosts[rng.IntN(len(hosts))]
			if a == b {
				continue
			}
			p, err := before.Path(f, a, b, nil)
			if err != nil {
				continue // removing a cable does not connect hosts
			}
			q, err := after.Path(f, a, b, nil)
			crossed := slices.Contains(p, cut.ID) || slices.Contains(p, Reverse(cut.ID))
			if !crossed && (err != nil || !slices.Equal(p, q)) {
				t.Fatalf(
					"cutting %d:%d moved flow %d, %v → %v (%v), which did not cross it",
					cut.Src,
					cut.Dst,
					f,
					p,
					q,
					err,
				)
			}
			if crossed && err == nil {
				if slices.Equal(p, q) {
					t.Fatalf("flow %d still crosses the cut cable", f)
				}
				moved++
			}
		}
		return moved
	}
	moved := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		moved += check(randomNetwork(t, rng), rng, 200)
	}
	if moved == 0 {
		t.Error("no flow was ever moved: the test tests nothing")
	}
	for _, over := range []int{1, 2, 4} {
		for seed := range uint64(5) {
			check(MustClos(t, SmallClos(over)), rand.New(rand.NewPCG(seed, 3)), 20_000)
		}
	}
}

// Every equal-cost group of links is used evenly. 100,000 flows arrive at each choice, and every link gets
// its share within 5%. In the large network, a choice has 24 or 48 links, and chance alone causes a standard
// deviation of 1.5% to 2.2%. Flows are therefore added until 5% is five standard deviations. A chi-square
// test checks that the choices of a node are random, and also the pairs of successive choices. With a hash
// that repeats from node to node (polarization), some pairs would be missing.
func TestECMPIsEvenAndUncorrelated(t *testing.T) {
	for _, c := range []struct {
		name string
		spec ClosSpec
	}{{"4:1", SmallClos(4)}, {"large 2:1", LargeClos(2)}} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			spec := c.spec
			n := MustClos(t, spec)
			r := MustRouter(t, n, 42)
			perChoice := max(100_000, 10_000*spec.SpinesPerPlane)
			flows := perChoice * spec.Planes
			if testing.Short() {
				t.Skip("draws millions of paths")
			}
			dst := int32(len(n.Hosts()) - 1)
			count := make([]int, len(n.Links))
			pairs := map[[2]int32]int{}
			var path []int32
			for f := range flows {
				if path, err = r.Path(int64(f), int32(f%spec.HostsPerRack), dst, path[:0]); err != nil {
					t.Fatal(err)
				}
				if len(path) != 6 {
					t.Fatalf("path %v", path)
				}
				for _, l := range path {
					count[l]++
				}
				pairs[[2]int32{path[1], path[2]}]++
			}
			byTier := map[string][]int{}
			for l, k := range count {
				if k > 0 {
					tier := n.Links[l].Tier
					byTier[tier] = append(byTier[tier], k)
				}
			}
			want := map[string]int{
				"tor-fabric":   spec.Planes,
				"fabric-spine": spec.Planes * spec.SpinesPerPlane,
				"spine-fabric": spec.Planes * spec.SpinesPerPlane,
				"fabric-tor":   spec.Planes,
			}
			for tier, links := range want {
				counts := byTier[tier]
				if len(counts) != links {
					t.Errorf("%s: %d links carry flows, want %d", tier, len(counts), links)
					continue
				}
				share := float64(flows) / float64(links)
				lo := float64(slices.Min(counts)) / share
				hi := float64(slices.Max(counts)) / share
				t.Logf("%s: %d links, each %.3f to %.3f of its share of %.0f", tier, links, lo, hi, share)
				if lo < 0.95 || hi > 1.05 {
					t.Errorf("%s: a link carries %.3f to %.3f of its share", tier, lo, hi)
				}
				rngtest.ChiSquare(t, tier, counts, flows)
			}
			var cells []int
			for _, k := range pairs {
				cells = append(cells, k)
			}
			if len(cells) != want["fabric-spine"] {
				t.Errorf("%d pairs of choices occur, want %d", len(cells), want["fabric-spine"])
			}
			rngtest.ChiSquare(t, "pairs of choices", cells, flows)
		})
	}
}

// Links are chosen in proportion to their weights, and paths consist of links that lead nearer to a host.
func TestWeights(t *testing.T) {
	n := MustClos(t, SmallClos(4))
	r := MustRouter(t, n, 3)
	weights := make([]float64, len(n.Links))
	total := map[int32]float64{} // by switch: of its links to spines
	for l, k := range n.Links {
		weights[l] = float64(1 + l%3)
		if k.Tier == "fabric-spine" {
			total[k.Src] += weights[l]
		}
	}
	r.SetWeights(weights)
	const flows = 50_000
	took := map[int32]float64{}
	at := map[int32]float64{}
	for f := range int64(flows) {
		path, err := r.Path(f, 0, 255, nil)
		if err != nil {
			t.Fatal(err)
		}
		took[path[2]]++
		at[n.Links[path[2]].Src]++
		for _, l := range path[1:] {
			set, links := r.Next(n.Links[l].Src, 255)
			if !slices.Contains(links, l) || int(set) >= r.Sets() {
				t.Fatalf("link %d of a path is not among %v, set %d of %d", l, links, set, r.Sets())
			}
		}
	}
	for l, k := range took {
		p := weights[l] / total[n.Links[l].Src]
		want := p * at[n.Links[l].Src]
		if math.Abs(k-want) > 5*math.Sqrt(want*(1-p)) {
			t.Errorf("link %d with share %.3f: %v of %v flows", l, p, k, at[n.Links[l].Src])
		}
	}
}

// Paths to hosts on different switches are also chosen independently: the choice at a fabric switch says
// nothing about the choice of the same flow at another switch.
func TestECMPChoicesOfTwoNodesAreIndependent(t *testing.T) {
	n := MustClos(t, SmallClos(4))
	r := MustRouter(t, n, 3)
	table := make([]int, 8*8)
	index := map[int32]int{}
	for l, k := range n.Links {
		if k.Tier == "fabric-spine" {
			index[int32(l)] = len(index) % 8 // 8 uplinks of pod 0's two fabric switches, then pod 1's
		}
	}
	const flows = 200_000
	for f := range int64(flows) {
		out, err := r.Path(f, 0, 255, nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := r.Path(f, 255, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		table[index[out[2]]*8+index[back[2]]]++
	}
	rngtest.ChiSquare(t, "the same flow there and back", table, flows)
}

func TestRouterIsConcurrentAndSmall(t *testing.T) {
	n := MustClos(t, LargeClos(2))
	r := MustRouter(t, n, 1)
	bytes := len(r.hosts)*20 + len(r.switchOf)*4 + len(r.dist)*6 + len(r.setLink)*12
	mb := float64(bytes) / 1e6
	if mb > 20 {
		t.Errorf("tables of %.1f MB for 6,144 hosts", mb)
	} else {
		t.Logf("tables of %.1f MB for 6,144 hosts", mb)
	}
	digest := func() (sum uint64) {
		var path []int32
		for f := range 20_000 {
			path, _ = r.Path(int64(f), int32(f*7%6144), int32((f*13+1)%6144), path[:0])
			for _, l := range path {
				sum = rng.MixKey(sum, uint64(l))
			}
		}
		return sum
	}
	want := digest()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if digest() != want {
				t.Error("paths differ between goroutines")
			}
		})
	}
	wg.Wait()
	buf := make([]int32, 0, 8)
	if a := testing.AllocsPerRun(100, func() { buf, _ = r.Path(3, 0, 6143, buf[:0]) }); a != 0 {
		t.Errorf("%v allocations a path", a)
	}
}

// A flow's path depends neither on the order of the cables in a file nor on the ids of the links.
func TestPathsDoNotDependOnLinkIDs(t *testing.T) {
	a := MustClos(t, SmallClos(2))
	var cables []Cable
	for i := len(a.Links) - 2; i >= 0; i -= 2 {
		l := a.Links[i]
		cables = append(cables, Cable{A: l.Dst, B: l.Src, BandwidthBps: l.BandwidthBps, DelayNS: l.DelayNS})
	}
	b, err := NewNetwork(a.Nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	ra := MustRouter(t, a, 5)
	rb := MustRouter(t, b, 5)
	nodes := func(n *Network, r *Router, f int64) string {
		path, err := r.Path(f, int32(f%128), int32(128+f*3%128), nil)
		if err != nil {
			t.Fatal(err)
		}
		var out []int32
		for _, l := range path {
			out = append(out, n.Links[l].Dst)
		}
		return fmt.Sprint(out)
	}
	for f := range int64(2000) {
		x, y := nodes(a, ra, f), nodes(b, rb, f)
		if x != y {
			t.Fatalf("flow %d: %s and %s", f, x, y)
		}
	}
}

func BenchmarkPath(b *testing.B) {
	for _, c := range []struct {
		name string
		spec ClosSpec
	}{{"small 4:1", SmallClos(4)}, {"large 2:1", LargeClos(2)}} {
		n := MustClos(b, c.spec)
		r := MustRouter(b, n, 1)
		hosts := len(n.Hosts())
		half := hosts / 2
		b.Run(c.name, func(b *testing.B) {
			buf := make([]int32, 0, 8)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				buf, _ = r.Path(int64(i), int32(i*7919%half), int32(half+i*104729%half), buf[:0])
				i++
			}
		})
		b.Run(c.name+" side by side", func(b *testing.B) {
			flows := make([]PathQuery, 256)
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(flows) {
				for k := range flows {
					q := &flows[k]
					q.FlowID = int64(i + k)
					q.Src = int32((i + k) * 7919 % half)
					q.Dst = int32(half + (i+k)*104729%half)
				}
				r.Paths(flows)
			}
		})
	}
}

// Polarized switches make the same choice, so after the first choice there is no second one. With addresses,
// all flows of two hosts take the same path. Shares follow the weights in both cases.
func TestHash(t *testing.T) {
	// Hosts 0 and 1. Switch 2 has two choices, and both of these have the same two choices.
	n := Wire(
		t,
		8,
		2,
		[2]int32{0, 2},
		[2]int32{2, 3},
		[2]int32{2, 4},
		[2]int32{3, 5},
		[2]int32{3, 6},
		[2]int32{4, 5},
		[2]int32{4, 6},
		[2]int32{5, 7},
		[2]int32{6, 7},
		[2]int32{7, 1},
	)
	for _, c := range []struct {
		h     Hash
		paths int
	}{{Hash{}, 4}, {Hash{Polarized: true}, 2}, {Hash{Addresses: true}, 1}, {Hash{true, true}, 1}} {
		r := MustRouter(t, n, 7)
		r.Hash = c.h
		seen := map[string]bool{}
		over := 0
		for flow := range int64(4000) {
			path, err := r.Path(flow, 0, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkPath(t, n, path, 0, 1)
			seen[fmt.Sprint(path)] = true
			if path[1] == 2 {
				over++
			}
		}
		if len(seen) != c.paths || c.paths > 1 && math.Abs(float64(over)-2000) > 5*math.Sqrt(1000) {
			t.Errorf("%+v: %d paths, %d flows on one of two links", c.h, len(seen), over)
		}
		weights := make([]float64, len(n.Links))
		for i := range weights {
			weights[i] = 1
		}
		weights[2] = 3
		r.SetWeights(weights)
		over = 0
		for flow := range int64(4000) {
			path, _ := r.Path(flow, 0, 1, nil)
			if path[1] == 2 {
				over++
			}
		}
		if c.paths > 1 && math.Abs(float64(over)-3000) > 5*math.Sqrt(750) {
			t.Errorf("%+v: %d of 4000 flows on a link of weight 3 of 4", c.h, over)
		}
	}
}

// If the context is not checked, Ctrl-C does not stop a program that computes the tables of a large network.
func TestNewRouterEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewRouter(ctx, MustClos(t, SmallClos(1)), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}
