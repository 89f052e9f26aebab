package topology

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func describe(t *testing.T, n *Network) *Description {
	t.Helper()
	d, err := Describe(n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDescribeClos(t *testing.T) {
	n := MustClos(t, SmallClos(4))
	d := describe(t, n)
	if want := []RoleCount{{KindHost, 0, 256}, {KindTor, 1, 32}, {KindFabric, 2, 4}, {KindSpine, 3, 8}}; !slices.Equal(d.Roles, want) {
		t.Errorf("roles %v", d.Roles)
	}
	if want := []Oversubscription{{KindTor, 32, 1, 1, 1}, {KindFabric, 4, 4, 4, 4}}; !slices.Equal(d.Oversubscription, want) {
		t.Errorf("oversubscription %v", d.Oversubscription)
	}
	// 16 × 15 pairs in each of 2 pods over 2 planes; 2 × 16 × 16 across over 2 planes of 4 spines.
	if want := []PathCount{{4, 480, 2, 2, 2}, {6, 512, 8, 8, 8}}; !slices.Equal(d.Paths, want) {
		t.Errorf("paths %v", d.Paths)
	}
	if want := []NextHops{{KindTor, 2, 2}, {KindFabric, 4, 4}, {KindSpine, 1, 1}}; !slices.Equal(d.NextHops, want) {
		t.Errorf("next hops %v", d.NextHops)
	}
	if d.OwnHostsOnly != 32 || len(d.CutSwitches)+len(d.CutCables)+len(d.Asymmetries) != 0 || d.Racks != 32 || d.Pods != 2 || d.RackHostsMax != 8 {
		t.Errorf("%+v", d)
	}
	// Without one cable of a tor, the other carries it, and it differs from the others.
	a, b, err := n.Cable("pod0-tor3:pod0-fabric0")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Fail(a, b); err != nil {
		t.Fatal(err)
	}
	d = describe(t, n)
	if want := []Asymmetry{{KindTor, "1 cable up (40 Gbps)", "2 cables up (80 Gbps)", []string{"pod0-tor3"}}}; !reflect.DeepEqual(d.Asymmetries, want) {
		t.Errorf("asymmetries %+v", d.Asymmetries)
	}
	if want := []Cut{{"pod0-tor3 – pod0-fabric1", 8}}; !slices.Equal(d.CutCables, want) {
		t.Errorf("cut cables %v", d.CutCables)
	}
	if want := []Cut{{"pod0-fabric1", 8}}; !slices.Equal(d.CutSwitches, want) {
		t.Errorf("cut switches %v", d.CutSwitches)
	}
	if d.Paths[1].Min != 4 || d.Paths[1].Max != 8 || d.Speeds[1].Failed != 1 {
		t.Errorf("paths %v, speeds %v", d.Paths, d.Speeds)
	}
}

// Single points of failure are what removing each switch and each cable by hand finds, and paths
// between hosts are as many as a plain count finds.
func TestDescribeIsWhatRemovalFinds(t *testing.T) {
	for seed := range uint64(60) {
		n := randomNetwork(t, rand.New(rand.NewPCG(seed, 11)))
		d := describe(t, n)
		var switches, cables []Cut
		own := 0
		for _, v := range n.Nodes {
			if v.Kind == KindHost {
				continue
			}
			lost, alone := hostsLost(n, v.ID, -1)
			if lost > alone {
				switches = append(switches, Cut{v.Name, lost})
			} else if lost > 0 {
				own++
			}
		}
		for i := 0; i < len(n.Links); i += 2 {
			l := n.Links[i]
			a, _ := n.Node(l.Src)
			b, _ := n.Node(l.Dst)
			if a.Kind == KindHost || b.Kind == KindHost || l.Failed {
				continue
			}
			if lost, _ := hostsLost(n, -1, int32(i)); lost > baseLost(n) {
				cables = append(cables, Cut{a.Name + " – " + b.Name, lost})
			}
		}
		if baseLost(n) > 0 {
			continue // hosts are apart already: "lost" means something else
		}
		key := func(cuts []Cut) string {
			var names []string
			for _, c := range cuts {
				ends := strings.Split(c.Name, " – ")
				slices.Sort(ends)
				names = append(names, fmt.Sprint(ends, c.Hosts))
			}
			slices.Sort(names)
			return fmt.Sprint(names)
		}
		if key(d.CutSwitches) != key(switches) || key(d.CutCables) != key(cables) || d.OwnHostsOnly != own {
			t.Errorf("seed %d: switches %v, want %v; cables %v, want %v; own %d, want %d", seed, d.CutSwitches, switches, d.CutCables, cables, d.OwnHostsOnly, own)
		}
	}
}

func baseLost(n *Network) int {
	lost, _ := hostsLost(n, -1, -1)
	return lost
}

// hostsLost counts the hosts with a switch that are outside the largest part without a switch or a
// cable, and those that are attached to that switch alone.
func hostsLost(n *Network, without, cable int32) (lost, alone int) {
	part := map[int32]int{}
	up := func(l Link) bool { return !l.Failed && l.ID&^1 != cable && l.Src != without && l.Dst != without }
	isHost := func(id int32) bool {
		v, _ := n.Node(id)
		return v.Kind == KindHost
	}
	for _, v := range n.Nodes {
		if v.Kind == KindHost || v.ID == without || part[v.ID] > 0 {
			continue
		}
		number := len(part) + 1
		part[v.ID] = number
		for again := true; again; {
			again = false
			for _, l := range n.Links {
				if up(l) && !isHost(l.Src) && !isHost(l.Dst) && part[l.Src] == number && part[l.Dst] == 0 {
					part[l.Dst], again = number, true
				}
			}
		}
	}
	sizes := map[int]int{}
	total := 0
	for _, h := range n.Hosts() {
		mine, attached := map[int]bool{}, 0
		for _, l := range n.Links {
			if l.Src == h && !l.Failed && !isHost(l.Dst) {
				attached++
				if l.Dst != without {
					mine[part[l.Dst]] = true
				}
			}
		}
		if attached > 0 {
			total++
		}
		if attached > 0 && len(mine) == 0 {
			alone++
		}
		for p := range mine {
			sizes[p]++
		}
	}
	largest := 0
	for _, size := range sizes {
		largest = max(largest, size)
	}
	return total - largest, alone
}
