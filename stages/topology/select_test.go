package topology

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// If a number is the name of one node and the id of another, choosing one of them silently would assign
// flows, pairs and failures to the wrong host.
func TestNumbersThatAreNamesAndIDs(t *testing.T) {
	nodes := []Node{
		{ID: 0, Kind: KindHost, Name: "1"},
		{ID: 1, Kind: KindHost, Name: "0"},
		{ID: 2, Kind: KindHost, Name: "2"},
		{ID: 3, Kind: KindHost, Name: "17"},
		{ID: 4, Kind: KindSwitch, Name: "s"},
	}
	var cables []Cable
	for host := range int32(4) {
		cables = append(cables, Cable{A: host, B: 4, BandwidthBps: 1e10, DelayNS: 1000})
	}
	n, err := NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int32{"2": 2, "17": 3, "3": 3, "s": 4, "4": 4} {
		if id, err := n.find(text); err != nil || id != want {
			t.Errorf("%q is node %d, want %d: %v", text, id, want, err)
		}
	}
	for _, text := range []string{"0", "1"} {
		if id, err := n.find(text); err == nil || !strings.Contains(err.Error(), "rename the nodes") {
			t.Errorf("%q is node %d: %v", text, id, err)
		}
	}
	if _, err := n.HostList([]string{"1"}); err == nil {
		t.Error("a list of hosts takes \"1\"")
	}
}

// Draws of failed cables differ until all cables were drawn. Draws 5 and 9 were once the same cable, so ten
// draws had fewer different cables than they seemed to have.
func TestDrawsAreDifferentUntilAllAreDrawn(t *testing.T) {
	n := MustClos(t, ClosSpec{Pods: 1, RacksPerPod: 3, HostsPerRack: 1, Planes: 2, SpinesPerPlane: 1,
		HostBps: 1e10, FabricBps: 1e10, HostDelayNS: 1000, FabricDelayNS: 1000})
	tier := n.Links[len(n.Links)-1].Tier
	cables, err := n.SelectUp(tier)
	if err != nil {
		t.Fatal(err)
	}
	draw := func(k int, number uint64) [][2]int32 {
		drawn, err := n.DrawCables(tier, k, 7, number)
		if err != nil || len(drawn) != k {
			t.Fatalf("draw %d: %d cables, %v", number, len(drawn), err)
		}
		return drawn
	}
	for k := 1; k <= len(cables); k++ {
		draws := len(cables) / k
		for round := range 3 {
			seen := map[[2]int32]bool{}
			for i := range draws {
				for _, c := range draw(k, uint64(1+round*draws+i)) {
					seen[c] = true
				}
			}
			if len(seen) != k*draws {
				t.Errorf("%d draws of %d of %d cables have %d in all", draws, k, len(cables), len(seen))
			}
		}
		if k > 1 && !slices.Equal(draw(k, 1)[:k-1], draw(k-1, 1)) {
			t.Errorf("the first draw of %d cables lacks those of %d", k, k-1)
		}
	}
	draw(1, 0) // any number is a draw
	draw(1, math.MaxUint64)
}

// Rules of delays apply to the cables of a selector, and each is described. A rule that matches nothing would
// otherwise leave a network with delays that the user believes to be changed.
func TestDelayRules(t *testing.T) {
	for text, want := range map[string]DelayRule{
		"tor-spine=500ns": {"tor-spine", 500}, "wan*:*=2ms": {"wan*:*", 2_000_000}, "a=b=1us": {"a=b", 1000},
		"x = 20m": {"x", 100},
	} {
		got, err := ParseDelayRule(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, want %+v; %v", text, got, want, err)
		}
	}
	for text, want := range map[string]string{"x": "want CABLES=DELAY", "=1us": "want CABLES=DELAY",
		"x=soon": "the delay", "x=-1us": "must be 0 to 1,000 s", "x=1000.1s": "must be 0 to 1,000 s"} {
		_, err := ParseDelayRule(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	n := twoLeaves(t)
	notes, err := n.SetDelays([]DelayRule{{"leaf1", 700}, {"leaf1:spine2", 1_000_000_000_000}, {"h*:*", 0}})
	want := []string{"delays: 4 cables of leaf1 have 700 ns (h1:leaf1, h2:leaf1, leaf1:spine1, 1 more)",
		"delays: 1 cable of leaf1:spine2 have 1000000000000 ns (leaf1:spine2)",
		"delays: 4 cables of h*:* have 0 ns (h1:leaf1, h2:leaf1, h3:leaf2, 1 more)"}
	if err != nil || !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q; %v", notes, want, err)
	}
	for cable, ns := range []int64{0, 0, 0, 0, 700, 1e12, 1000, 1000} {
		if n.Links[2*cable].DelayNS != ns || n.Links[2*cable+1].DelayNS != ns {
			t.Errorf("cable %d has %d ns, want %d", cable, n.Links[2*cable].DelayNS, ns)
		}
	}
	for _, bad := range []DelayRule{{"nope", 1}, {"leaf1", -1}, {"leaf1", 1_000_000_000_001}} {
		if _, err := n.SetDelays([]DelayRule{bad}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// Hosts are listed by name, by id or by a range of ids. Each occurs once, in order of id.
func TestHostList(t *testing.T) {
	n := twoLeaves(t)
	for _, c := range []struct {
		texts []string
		want  []int32
		fault string
	}{
		{[]string{"h1"}, []int32{0}, ""},
		{[]string{"0-3"}, []int32{0, 1, 2, 3}, ""},
		{[]string{"3", "h4", "1-2", "h2"}, []int32{1, 2, 3}, ""},
		{[]string{"2-2"}, []int32{2}, ""},
		{[]string{"3-4"}, nil, "node 4 is not a host"},
		{[]string{"leaf1"}, nil, "node 4 is not a host"},
		{[]string{"2-1"}, nil, "no node has the name or id"},
		{[]string{"0-16777217"}, nil, "no node has the name or id"},
		{[]string{"h9"}, nil, "no node has the name or id"},
	} {
		got, err := n.HostList(c.texts)
		if !slices.Equal(got, c.want) || (err == nil) != (c.fault == "") ||
			err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: hosts %v, want %v; error %v, want %q", c.texts, got, c.want, err, c.fault)
		}
	}
}

// Racks are found by name, by a switch whose hosts belong to one rack, and by index.
func TestRackList(t *testing.T) {
	n := twoLeaves(t)
	find := func(text, fault string, want ...int) {
		t.Helper()
		got, err := n.RackList(text)
		if !slices.Equal(got, want) || (err == nil) != (fault == "") ||
			err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: racks %v, want %v; error %v, want %q", text, got, want, err, fault)
		}
	}
	find("leaf2, 0", "", 1, 0)
	find("0-1", "", 0, 1)
	find("2", "the topology has racks 0 to 1")
	find("spine1", `no rack is named "spine1"`)
	n.SetRackNames(map[int32]string{-1: "same"})
	if !slices.Equal(n.RackNames(), []string{"rack 0", "rack 1"}) {
		t.Errorf("racks of one name are called %q", n.RackNames())
	}
	find("leaf1,rack 1", "", 0, 1)
	for i := range n.Nodes[:4] {
		n.Nodes[i].Rack = int32(i)
	}
	n.racks = n.findRacks()
	find("leaf1", "leaf1 has hosts of 2 racks, such as rack 0 and rack 1")
	n.SetRackNames(map[int32]string{0: "A", 1: "B", 2: "C", 3: "B"})
	if !slices.Equal(n.RackNames(), []string{"A", "rack 1", "C", "rack 3"}) {
		t.Errorf("racks are called %q", n.RackNames())
	}
}

// A text takes down a cable, the cables of a pattern or of a node, or the cable at a port. An error says what
// the network has instead.
func TestFailNamed(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  []Failure
		fault string
	}{
		{"spine1:leaf1", []Failure{{Ends: [2]int32{4, 6}}}, ""},
		{"leaf*:spine2", []Failure{{Ends: [2]int32{4, 7}}, {Ends: [2]int32{5, 7}}}, ""},
		{"spine1", []Failure{{Ends: [2]int32{4, 6}}, {Ends: [2]int32{5, 6}}}, ""},
		{"leaf1:ethernet48", []Failure{{Ends: [2]int32{4, 6}}}, ""},
		{"spine1: Ethernet0", []Failure{{Ends: [2]int32{4, 6}}}, ""},
		{"leaf1:eth9", nil, `leaf1 has neither a port nor a neighbor "eth9"`},
		{"h1:eth9", nil, "the topology names no ports of h1"},
		{"h1:h2", nil, "no cable joins h1 and h2"},
		{"nope", nil, "cables are named A:B by their ends"},
		{"x*", nil, `no node has the name or id "x*"`},
	} {
		n := twoLeaves(t)
		got, err := n.FailNamed(c.text)
		if !slices.Equal(got, c.want) || (err == nil) != (c.fault == "") ||
			err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: %v, want %v; error %v, want %q", c.text, got, c.want, err, c.fault)
		}
		down := 0
		for _, l := range n.Links {
			if l.Failed {
				down++
			}
		}
		if down != 2*len(c.want) {
			t.Errorf("%q: %d links are down", c.text, down)
		}
	}
	n := twoLeaves(t)
	cables, err := n.SelectUp("spine1")
	if err != nil || len(cables) != 2 {
		t.Errorf("cables of spine1 that are up: %v, %v", cables, err)
	}
	if _, err := n.FailNamed("leaf1:spine1"); err != nil {
		t.Error(err)
	}
	cables, err = n.SelectUp("spine1")
	if err != nil || !slices.Equal(cables, [][2]int32{{5, 6}}) {
		t.Errorf("cables of spine1 that are up: %v, %v", cables, err)
	}
	_, err = n.SelectUp("leaf1:spine1")
	if err == nil || !strings.Contains(err.Error(), "are down") {
		t.Errorf("a cable that is down: %v", err)
	}
}
