package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
)

func TestNewNetworkRefuses(t *testing.T) {
	h := func(id int32) Node { return Node{ID: id, Kind: KindHost, Pod: -1, Rack: -1} }
	s := func(id int32) Node { return Node{ID: id, Kind: KindSwitch, Pod: -1, Rack: -1} }
	for _, c := range []struct {
		nodes  []Node
		cables []Cable
		want   string
	}{
		{nil, nil, "no host"},
		{[]Node{s(1)}, nil, "no host"},
		{[]Node{h(1), h(1)}, nil, "node 1 is listed twice"},
		{[]Node{h(-1)}, nil, "negative"},
		{[]Node{{ID: 1, Kind: KindHost, Pod: -2, Rack: -1}}, nil, "pod and rack must not be negative"},
		{[]Node{{ID: 1, Kind: KindHost, Pod: -1, Rack: -2}}, nil, "pod and rack must not be negative"},
		{[]Node{{ID: 1, Kind: "router"}}, nil, `unknown kind "router"`},
		{[]Node{h(1)}, nil, "host 1 (host 1) has no cable"},
		{[]Node{h(1), s(2)}, []Cable{{A: 1, B: 3, BandwidthBps: 1e9}}, "cable 1:3: no node has the id 3"},
		{[]Node{h(1), s(2)}, []Cable{{A: 1, B: 1, BandwidthBps: 1e9, DelayNS: 0}}, "same node"},
		{[]Node{h(1), s(2)}, []Cable{{A: 1, B: 2, BandwidthBps: 9999, DelayNS: 0}}, "bandwidth of 9999 bps"},
		{[]Node{h(1), s(2)}, []Cable{{A: 1, B: 2, BandwidthBps: 1e9, DelayNS: -1}}, "delay of -1 ns"},
		{[]Node{h(1), s(2)}, []Cable{{A: 1, B: 2, BandwidthBps: 1e9}, {A: 2, B: 1, BandwidthBps: 1e9}},
			"cable 2:1: the two nodes are joined twice"},
	} {
		_, err := NewNetwork(c.nodes, c.cables)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("nodes %v, cables %v: error %v, want %q", c.nodes, c.cables, err, c.want)
		}
	}
}

func TestNetworkLinks(t *testing.T) {
	n := MustClos(t, SmallClos(4))
	got := len(n.Links)
	if got != 2*336 {
		t.Fatalf("%d links", got)
	}
	for i, l := range n.Links {
		back := n.Links[Reverse(l.ID)]
		if l.ID != int32(i) || back.Src != l.Dst || back.Dst != l.Src ||
			back.BandwidthBps != l.BandwidthBps ||
			back.DelayNS != l.DelayNS {
			t.Fatalf("link %d %+v and its reverse %+v do not match", i, l, back)
		}
	}
	l := n.Links[0]
	if l.Tier != "host-tor" || n.Links[1].Tier != "tor-host" {
		t.Errorf("tiers %q, %q", l.Tier, n.Links[1].Tier)
	}
	racks := n.Racks()
	if len(racks) != 32 || !slices.Equal(racks[1], []int32{8, 9, 10, 11, 12, 13, 14, 15}) || n.Pods() != 2 {
		t.Errorf("%d racks, rack 1 is %v, %d pods", len(racks), racks[1], n.Pods())
	}
	a, b, err := n.Cable("pod0-fabric0:plane0-spine3")
	if err != nil || a != 288 || b != 295 {
		t.Fatalf("cable by names: %d:%d, %v", a, b, err)
	}
	if err := n.Fail(b, a); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, l := range n.Links {
		if l.Failed {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d links failed, want both directions of one cable", failed)
	}
	for _, bad := range []string{"", "288", "288:289", "288:x", "x:1", "999:1"} {
		if _, _, err := n.Cable(bad); err == nil {
			t.Errorf("Cable(%q): no error", bad)
		}
	}
	if err := n.Fail(0, 1); err == nil {
		t.Error("failing a cable that is not there: no error")
	}
}

func TestNetworkRecords(t *testing.T) {
	n := MustClos(t, SmallClos(2))
	nodes := n.NodesRecord()
	links := n.LinksRecord()
	defer nodes.Release()
	defer links.Release()
	if !nodes.Schema().Equal(schema.Nodes.Arrow()) || nodes.NumRows() != int64(len(n.Nodes)) {
		t.Errorf("nodes: %v, %d rows", nodes.Schema(), nodes.NumRows())
	}
	if !links.Schema().Equal(schema.Links.Arrow()) || links.NumRows() != int64(len(n.Links)) {
		t.Errorf("links: %v, %d rows", links.Schema(), links.NumRows())
	}
	got := nodes.Column(schema.Nodes.Index("pod")).NullN()
	if got != 16 {
		t.Errorf("%d nodes without a pod, want the 16 spines", got)
	}
}

func TestSparseIDs(t *testing.T) {
	n, err := NewNetwork([]Node{
		{ID: 2_000_000_000, Kind: KindHost, Pod: -1, Rack: -1},
		{ID: 7, Kind: KindHost, Pod: -1, Rack: -1},
		{ID: 1_000_000_000, Kind: KindSwitch, Pod: -1, Rack: -1},
	}, []Cable{
		{A: 7, B: 1_000_000_000, BandwidthBps: 1e9},
		{A: 1_000_000_000, B: 2_000_000_000, BandwidthBps: 1e9},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRouter(t.Context(), n, 1)
	if err != nil {
		t.Fatal(err)
	}
	path, err := r.Path(1, 2_000_000_000, 7, nil)
	if err != nil || !slices.Equal(path, []int32{3, 1}) {
		t.Errorf("path %v, %v", path, err)
	}
}

// Cables are selected by their ends or tiers. Each is returned once, even if the selector names it several
// times.
func TestSelect(t *testing.T) {
	n, err := Clos(
		ClosSpec{Pods: 2, RacksPerPod: 2, HostsPerRack: 2, Planes: 2, SpinesPerPlane: 1, HostBps: 10e9,
			FabricBps: 40e9, HostDelayNS: 1000, FabricDelayNS: 1000},
	)
	if err != nil {
		t.Fatal(err)
	}
	spines, err := n.Select("spine-fabric")
	if err != nil || len(spines) == 0 {
		t.Fatal(spines, err)
	}
	tors, err := n.Select("tor-fabric")
	if err != nil || len(tors) == 0 {
		t.Fatal(tors, err)
	}
	both, err := n.Select(
		fmt.Sprintf("fabric-spine, tor-fabric,%d:%d,spine-fabric", spines[0][1], spines[0][0]),
	)
	if err != nil || !slices.Equal(both, append(slices.Clone(spines), tors...)) {
		t.Errorf("%v, %v: want those of both tiers, %d and %d", both, err, len(spines), len(tors))
	}
	for _, bad := range []string{"", "nothing", "fabric-spine,", "fabric-spine,0:0"} {
		if found, err := n.Select(bad); err == nil {
			t.Errorf("%q selects %v", bad, found)
		}
	}
	_, err = n.Select("leaf-spine")
	want := "the tiers are host-tor, tor-fabric, fabric-spine (leaf switches are called tor)"
	if err == nil ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// A cable has the bandwidths that link cases simulate: 10 kbps to 100 Tbps.
func TestBandwidthsOfACable(t *testing.T) {
	n := lagNetwork(t, 1)
	for bps, want := range map[int64]bool{9_999: false, 10_000: true, 1e14: true, 1e14 + 1: false} {
		err := n.SetBandwidth(2, 4, bps)
		if (err == nil) != want {
			t.Errorf("%d bps: %v", bps, err)
		}
	}
}

// Racks that have no such name are taken by their index, up to the last one. The next one is an error.
func TestRacksByIndex(t *testing.T) {
	n := MustClos(t, SmallClos(2))
	last := len(n.Racks()) - 1
	for text, want := range map[string][]int{
		"0": {0}, fmt.Sprint(last): {last}, fmt.Sprintf("%d-%d, 1", last-1, last): {last - 1, last, 1},
	} {
		got, err := n.RackList(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("racks %q are %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{fmt.Sprint(last + 1), fmt.Sprintf("0-%d", last+1), "x", "2-1"} {
		if got, err := n.RackList(text); err == nil {
			t.Errorf("racks %q are %v, want an error", text, got)
		}
	}
}

// The bandwidths of hosts are those of their cables, without cables between switches.
func TestBandwidthsOfHosts(t *testing.T) {
	n := twoLeaves(t)
	for _, c := range []struct {
		a, b int32
		bps  int64
	}{{0, 4, 1e9}, {1, 4, 40e9}, {4, 6, 1e8}, {5, 7, 1e12}} {
		if err := n.SetBandwidth(c.a, c.b, c.bps); err != nil {
			t.Fatal(err)
		}
	}
	least, most := n.HostBps()
	if least != 1e9 || most != 40e9 {
		t.Errorf("hosts have %d to %d bps, want 1 to 40 Gbps", least, most)
	}
}

// A name that two nodes have finds neither of them. A node without a kind is a switch.
func TestNamesOfTwoNodes(t *testing.T) {
	nodes := []Node{{0, "a", KindHost, -1, -1}, {1, "b", KindHost, -1, -1}, {2, "s", "", -1, -1},
		{3, "s", KindSwitch, -1, -1}}
	cable := func(a, b int32) Cable { return Cable{A: a, B: b, BandwidthBps: 1e9} }
	n, err := NewNetwork(nodes, []Cable{cable(0, 2), cable(1, 3), cable(2, 3)})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = n.Cable("a:s")
	if err == nil || !strings.Contains(err.Error(), `several nodes are named "s"; use an id`) {
		t.Errorf("a cable to one of two nodes of a name: %v", err)
	}
	x, y, err := n.Cable("a:2")
	if err != nil || x != 0 || y != 2 {
		t.Errorf("a cable by id joins %d and %d, %v", x, y, err)
	}
	if n.Nodes[2].Kind != KindSwitch {
		t.Errorf("a node without a kind is a %q", n.Nodes[2].Kind)
	}
}
