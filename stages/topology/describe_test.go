package topology

import (
	"reflect"
	"slices"
	"testing"
)

func TestDescribeClos(t *testing.T) {
	n := MustClos(t, SmallClos(4))
	d := Describe(n)
	want := []RoleCount{{KindHost, 0, 256}, {KindTor, 1, 32}, {KindFabric, 2, 4}, {KindSpine, 3, 8}}
	if !slices.Equal(
		d.Roles,
		want,
	) {
		t.Errorf("roles %v", d.Roles)
	}
	if want := []Oversubscription{{KindTor, 32, 1, 1, 1}, {KindFabric, 4, 4, 4, 4}}; !slices.Equal(
		d.Oversubscription,
		want,
	) {
		t.Errorf("oversubscription %v", d.Oversubscription)
	}
	if len(d.Asymmetries) != 0 || d.Racks != 32 || d.Pods != 2 || d.RackHostsMax != 8 {
		t.Errorf("%+v", d)
	}
	// A ToR without one of its cables differs from the others.
	a, b, err := n.Cable("pod0-tor3:pod0-fabric0")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Fail(a, b); err != nil {
		t.Fatal(err)
	}
	d = Describe(n)
	if want := []Asymmetry{{KindTor, "1 cable up (40 Gbps)", "2 cables up (80 Gbps)",
		[]string{"pod0-tor3"}}}; !reflect.DeepEqual(
		d.Asymmetries,
		want,
	) {
		t.Errorf("asymmetries %+v", d.Asymmetries)
	}
	if d.Speeds[1].Failed != 1 {
		t.Errorf("speeds %v", d.Speeds)
	}
}

// In a network without named tiers, cables lead up or down by the distance of their ends from the nearest
// host. The speeds of a tier have the least and the largest delay.
func TestDescribeWithoutTiers(t *testing.T) {
	node := func(id int32, kind string) Node { return Node{ID: id, Kind: kind, Pod: -1, Rack: -1} }
	// Hosts 0 and 1 are at switch 2, host 3 is at switch 4, and switch 5 joins both switches.
	n, err := NewNetwork(
		[]Node{node(0, KindHost), node(1, KindHost), node(2, KindSwitch), node(3, KindHost), node(4, KindSwitch),
			node(5, KindSwitch)},
		[]Cable{{A: 0, B: 2, BandwidthBps: 10e9, DelayNS: 900}, {A: 2, B: 1, BandwidthBps: 10e9, DelayNS: 700},
			{A: 4, B: 3, BandwidthBps: 10e9, DelayNS: 800}, {A: 5, B: 2, BandwidthBps: 40e9, DelayNS: 5},
			{A: 4, B: 5, BandwidthBps: 40e9, DelayNS: 5}, {A: 2, B: 4, BandwidthBps: 1e9, DelayNS: 1}})
	if err != nil {
		t.Fatal(err)
	}
	d := Describe(n)
	roles := []RoleCount{{KindHost, 0, 3}, {KindSwitch, 1, 2}, {KindSwitch, 2, 1}}
	if !slices.Equal(d.Roles, roles) {
		t.Errorf("roles %v, want %v", d.Roles, roles)
	}
	want := []SpeedCount{{"host-switch", 10e9, 700, 900, 3, 0}, {"switch-switch", 1e9, 1, 1, 1, 0},
		{"switch-switch", 40e9, 5, 5, 2, 0}}
	if !slices.Equal(d.Speeds, want) {
		t.Errorf("speeds %v, want %v", d.Speeds, want)
	}
	g := &levelGraph{n: n, out: n.linksUp(), level: []int{0, 0, 1, 0, 1, 2}}
	for i, want := range map[int][3]int64{0: {0, 0, 10e9}, 2: {20e9, 1e9, 40e9}, 5: {80e9, 0, 0}} {
		bps, cables := g.bandwidths(i)
		if bps != want || cables[0]+cables[1]+cables[2] != len(g.out[i]) {
			t.Errorf("node %d has %v bps to lower, equal and higher levels, want %v", i, bps, want)
		}
	}
}

// Tiers are listed from the hosts upwards, and tiers of other kinds of nodes after them.
func TestOrderOfTiers(t *testing.T) {
	order := []string{"host-tor", "tor-fabric", "fabric-spine", "spine-spine", "inner-x", "switch-switch"}
	for i, a := range order {
		for k, b := range order {
			if (compareTiers(a, b) < 0) != (i < k) {
				t.Errorf("%s before %s: %v", a, b, compareTiers(a, b))
			}
		}
	}
}
