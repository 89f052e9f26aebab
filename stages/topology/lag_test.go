package topology

import (
	"math"
	"slices"
	"testing"
)

// lagNetwork has hosts 0 and 1 at switches 2 and 3. A LAG of three members joins these switches. Single
// cables join each of them to switches 4 and 5.
func lagNetwork(t *testing.T, members int) *Network {
	t.Helper()
	nodes := []Node{{ID: 0, Kind: KindHost, Pod: -1, Rack: -1}, {ID: 1, Kind: KindHost, Pod: -1, Rack: -1}}
	for id := int32(2); id < 6; id++ {
		nodes = append(nodes, Node{ID: id, Kind: KindSwitch, Pod: -1, Rack: -1})
	}
	cable := func(a, b int32) Cable { return Cable{A: a, B: b, BandwidthBps: 10e9, DelayNS: 1000} }
	cables := []Cable{cable(0, 2), cable(1, 3), cable(2, 4), cable(4, 3), cable(2, 5), cable(5, 3)}
	for range members - 1 {
		more := cable(2, 4)
		more.Parallel = true
		cables = append(cables, more)
	}
	n, err := NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// secondLinks returns the second link of many flows from host 0 to host 1.
func secondLinks(t *testing.T, n *Network, flows int, hash Hash, weights []float64) []int32 {
	t.Helper()
	r, err := NewRouter(t.Context(), n, 1)
	if err != nil {
		t.Fatal(err)
	}
	r.Hash = hash
	r.SetWeights(weights)
	links := make([]int32, flows)
	for id := range links {
		path, err := r.Path(int64(id), 0, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkPath(t, n, path, 0, 1)
		links[id] = path[1]
	}
	return links
}

// count returns how many flows take any of the links.
func count(taken []int32, links ...int32) (flows int) {
	for _, l := range taken {
		if slices.Contains(links, l) {
			flows++
		}
	}
	return flows
}

// A LAG is one next hop: it carries as many flows as a single cable to another next hop, for any number of
// members. Its members share these flows. With weights, LAGs share by the sum of their bandwidths.
func TestFlowsShareByLAGs(t *testing.T) {
	const flows = 30_000
	n := lagNetwork(t, 3)
	members := n.Members(4, 2)
	if !slices.Equal(members, []int32{2, 6, 7}) {
		t.Fatalf("members %v", members)
	}
	bandwidths := make([]float64, len(n.Links))
	for i, l := range n.Links {
		bandwidths[i] = float64(l.BandwidthBps)
	}
	for _, c := range []struct {
		name    string
		hash    Hash
		weights []float64
		lag     float64 // its share of the flows
	}{
		{"ECMP", Hash{}, nil, 0.5},
		{"polarized", Hash{Polarized: true}, nil, 0.5},
		{"WCMP", Hash{}, bandwidths, 0.75},
	} {
		taken := secondLinks(t, n, flows, c.hash, c.weights)
		got := float64(count(taken, 4, 12, 14)) / flows
		if math.Abs(got-c.lag) > 4*math.Sqrt(c.lag*(1-c.lag)/flows) {
			t.Errorf("%s: %.4f of the flows take the LAG, want %v", c.name, got, c.lag)
		}
		for _, member := range []int32{4, 12, 14} {
			got := float64(count(taken, member)) / flows
			want := c.lag / 3
			if c.hash == (Hash{}) && math.Abs(got-want) > 4*math.Sqrt(want/flows) {
				t.Errorf("%s: %.4f of the flows take link %d, want %v", c.name, got, member, want)
			}
		}
	}
	forth := func(i, j int) float64 { return float64(j - min(i, j)) }
	load := mustRouter(t, n).ExpectedLoads([][]int32{{0}, {1}}, forth)
	for link, want := range map[int]float64{4: 1. / 6, 12: 1. / 6, 14: 1. / 6, 8: 0.5, 0: 1, 3: 1} {
		if math.Abs(load[link]-want) > 1e-12 {
			t.Errorf("expected load of link %d: %v, want %v", link, load[link], want)
		}
	}
}

func mustRouter(t *testing.T, n *Network) *Router {
	t.Helper()
	r, err := NewRouter(t.Context(), n, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// If a member fails, only its flows move, and only to other members. If the first fails, the LAG stays where
// it was in the choice between next hops. If all fail, their flows take the other next hop.
func TestAFailedMemberMovesItsFlowsOnly(t *testing.T) {
	n := lagNetwork(t, 3)
	before := secondLinks(t, n, 3000, Hash{}, nil)
	for _, member := range []int32{2, 6, 7} {
		without := n.Clone()
		without.Links[2*member].Failed = true
		without.Links[2*member+1].Failed = true
		moved := 0
		for id, link := range secondLinks(t, without, 3000, Hash{}, nil) {
			if link == before[id] {
				continue
			}
			moved++
			if before[id] != 2*member || !slices.Contains([]int32{4, 12, 14}, link) {
				t.Fatalf("member %d fails: flow %d moves from link %d to %d", member, id, before[id], link)
			}
		}
		if moved != count(before, 2*member) {
			t.Errorf("member %d fails: %d flows moved, and it had %d", member, moved, count(before, 2*member))
		}
	}
	without := n.Clone()
	err := without.Fail(4, 2)
	if err != nil {
		t.Fatal(err)
	}
	taken := secondLinks(t, without, 3000, Hash{}, nil)
	if count(taken, 8) != 3000 {
		t.Errorf("all members fail: %d flows take the other cable", count(taken, 8))
	}
}

// A server with two cables to one switch uses both, in both directions, and one flow uses one of them.
func TestLAGOfAHost(t *testing.T) {
	n := lagNetwork(t, 1)
	if err := n.AddCable(Cable{A: 0, B: 2, BandwidthBps: 10e9, DelayNS: 1000, Parallel: true}); err != nil {
		t.Fatal(err)
	}
	r := mustRouter(t, n)
	used := map[int32]int{}
	for id := range int64(2000) {
		forth, err := r.Path(id, 0, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := r.Path(id, 1, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkPath(t, n, forth, 0, 1)
		checkPath(t, n, back, 1, 0)
		used[forth[0]]++
		used[back[len(back)-1]]++
	}
	for _, link := range []int32{0, 1, 12, 13} {
		if used[link] < 900 {
			t.Errorf("link %d: %d of 2000 flows", link, used[link])
		}
	}
	set, links := r.Next(2, 0)
	if !slices.Equal(links, []int32{1, 13}) || int(set) < int(r.pathSets()) || int(set) >= r.Sets() {
		t.Errorf("the links to the host are %v, set %d of %d", links, set, r.Sets())
	}
	got := n.Racks()
	if len(got) != 2 {
		t.Errorf("racks %v", got)
	}
	if n.LinkName(12) != "host 0 → switch 2 (member 2)" || n.LinkName(2) != "host 1 → switch 3" {
		t.Errorf("names %q, %q", n.LinkName(12), n.LinkName(2))
	}
}

// A member of a LAG is named by the port of the link's source, or by its number if the port is unknown or not
// unique. TestNamesOfLinks of package queries has the same network. If two members had the same name, nobody
// could tell which one is loaded.
func TestNamesOfMembers(t *testing.T) {
	n := lagNetwork(t, 4)
	for i, ports := range []Ports{{"p1", "q"}, {"p2", "q"}, {"", "q3"}, {"p4", ""}} {
		cable := n.Members(2, 4)[i]
		n.SetPorts(int(cable), ports)
	}
	want := []string{
		"switch 2 → switch 4 (p1)", "switch 4 → switch 2 (member 1)",
		"switch 2 → switch 4 (p2)", "switch 4 → switch 2 (member 2)",
		"switch 2 → switch 4 (member 3)", "switch 4 → switch 2 (q3)",
		"switch 2 → switch 4 (p4)", "switch 4 → switch 2 (member 4)",
	}
	var got []string
	for _, link := range n.LinksBetween(2, 4) {
		got = append(got, n.LinkName(link))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A change to the two nodes of a LAG applies to all members. A port names one of them. Descriptions
// distinguish failures of members.
func TestLAGsAreSelectedAsAWhole(t *testing.T) {
	n := lagNetwork(t, 2)
	n.SetPorts(2, Ports{"p1", "q1"})
	n.SetPorts(6, Ports{"p2", "q2"})
	err := n.SetBandwidth(2, 4, 25e9)
	if err != nil || n.Links[4].BandwidthBps != 25e9 || n.Links[13].BandwidthBps != 25e9 {
		t.Errorf("%v, %v", n.Links[4], err)
	}
	if _, err := n.Select("switch 2:p*"); err != nil {
		t.Error(err)
	}
	if _, err := n.Select("switch 2:p?1,switch 2:*2"); err == nil {
		t.Error("a pattern selects one of two members, without an error")
	}
	one := n.Clone()
	f, err := one.FailNamed("switch 4:q2")
	if err != nil || len(f) != 1 || f[0] != (Failure{[2]int32{2, 4}, 2}) ||
		!one.Links[12].Failed || one.Links[4].Failed {
		t.Errorf("%v, %v", f, err)
	}
	up, err := one.SelectUp("switch 2:switch 4")
	if err != nil || len(up) != 1 {
		t.Errorf("one of two members is up: %v, %v", up, err)
	}
	f, err = n.FailNamed("2:4")
	if err != nil || len(f) != 1 || f[0].Member != 0 || !n.Links[4].Failed || !n.Links[13].Failed {
		t.Errorf("%v, %v", f, err)
	}
}

// The first member of a LAG is found from each of its links, in the direction of that link. A route over
// another direction would lead back.
func TestFirstMemberHasTheSameDirection(t *testing.T) {
	n := lagNetwork(t, 3)
	for _, member := range n.Members(2, 4) {
		for _, link := range []int32{2 * member, 2*member + 1} {
			first := n.Links[n.firstMember(link)]
			l := n.Links[link]
			if first.Src != l.Src || first.Dst != l.Dst || first.ID/2 != n.Members(4, 2)[0] {
				t.Errorf("the first member of link %d from %d to %d is %+v", link, l.Src, l.Dst, first)
			}
		}
	}
}
