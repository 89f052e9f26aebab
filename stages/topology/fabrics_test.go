package topology

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func fabric(kind string, gpus int, sizes ...any) *FabricSpec {
	s := &FabricSpec{
		Kind:          kind,
		Sizes:         map[string]int{},
		GPUs:          gpus,
		HostBps:       1e11,
		FabricBps:     1e11,
		HostDelayNS:   1,
		FabricDelayNS: 2,
	}
	if gpus > 1 {
		s.InnerBps = 9e11
		s.InnerDelayNS = 3
	}
	for i := 0; i < len(sizes); i += 2 {
		s.Sizes[sizes[i].(string)] = sizes[i+1].(int)
	}
	return s
}

// Every fabric has the hosts, ports and longest paths that its source states. Paths between hosts of a server
// stay within the server. The expected loads of all pairs of hosts equal the average over the paths of many
// flows.
func TestFabrics(t *testing.T) {
	for _, c := range []struct {
		spec                     *FabricSpec
		hosts, switches, longest int
		ports                    map[string]int // cables of each switch, by kind
	}{
		{fabric("fat-tree", 1, "ports", 4), 16, 20, 6, map[string]int{KindTor: 4, KindFabric: 4, KindSpine: 4}},
		{fabric("fat-tree", 2, "ports", 8), 128, 80 + 64, 6, map[string]int{KindTor: 8, KindFabric: 8, KindSpine: 8,
			KindInner: 2}},
		{fabric("rail-optimized", 4, "units", 2, "servers_per_unit", 3, "spines", 2), 24, 8 + 2 + 6, 4,
			map[string]int{KindTor: 5, KindSpine: 8, KindInner: 4}},
		{fabric("dual-plane", 4, "units", 2, "servers_per_unit", 3, "spines", 2), 24, 16 + 4 + 6, 4,
			map[string]int{KindTor: 5, KindSpine: 8, KindInner: 4}},
		{fabric("dragonfly", 1, "groups", 9, "switches_per_group", 4, "hosts_per_switch", 2, "global_ports", 2), 72,
			36, 5, map[string]int{KindTor: 2 + 3 + 2}},
		{fabric("dragonfly", 1, "groups", 4, "switches_per_group", 8, "hosts_per_switch", 4, "global_ports", 4),
			128, 32, 4, map[string]int{KindTor: 4 + 7 + 3}},
		{fabric("torus", 1, "x", 4, "y", 4, "z", 4, "hosts_per_switch", 1), 64, 64, 8, map[string]int{KindTor: 7}},
		{fabric("torus", 1, "x", 2, "y", 3, "z", 1, "hosts_per_switch", 2), 12, 6, 4, map[string]int{KindTor: 5}},
	} {
		nodes, cables, err := c.spec.Parts()
		if err != nil {
			t.Fatal(err)
		}
		n, err := NewNetwork(nodes, cables)
		if err != nil {
			t.Fatalf("%s: %v", c.spec.Kind, err)
		}
		ports := map[int32]int{}
		for _, l := range n.Links {
			ports[l.Src]++
		}
		for _, v := range n.Nodes {
			if v.Kind != KindHost && ports[v.ID] != c.ports[v.Kind] {
				t.Errorf("%s: %s has %d cables, want %d", c.spec.Kind, v.Name, ports[v.ID], c.ports[v.Kind])
			}
		}
		hosts := n.Hosts()
		longest := 0
		r := MustRouter(t, n, 1)
		crossed := make([]float64, len(n.Links))
		flows := 0
		var path []int32
		for _, a := range hosts {
			for _, b := range hosts {
				for k := 0; k < 20 && a != b; k++ {
					if path, err = r.Path(int64(flows), a, b, path[:0]); err != nil {
						t.Fatal(err)
					}
					flows++
					for _, l := range path {
						crossed[l]++
					}
					longest = max(longest, len(path))
					inside := c.spec.InnerBps > 0 && int(a)/c.spec.GPUs == int(b)/c.spec.GPUs
					tier := n.Links[path[0]].Tier
					if inside != (tier == "host-inner") ||
						inside && len(path) != 2 {
						t.Fatalf("%s: %d to %d begins with %s", c.spec.Kind, a, b, tier)
					}
				}
			}
		}
		if len(hosts) != c.hosts || len(n.Nodes)-len(hosts) != c.switches || longest != c.longest {
			t.Errorf(
				"%s: %d hosts, %d switches, paths of %d links at most, want %d, %d and %d",
				c.spec.Kind,
				len(hosts),
				len(n.Nodes)-len(hosts),
				longest,
				c.hosts,
				c.switches,
				c.longest,
			)
		}
		e := r.ExpectedLoads([][]int32{hosts}, func(int, int) float64 { return float64(flows) })
		for l, got := range crossed {
			want := e[l]
			if math.Abs(got-want) > 6*math.Sqrt(want)+1e-6 {
				t.Errorf("%s: %s is crossed %v times, want %v", c.spec.Kind, n.LinkName(int32(l)), got, want)
			}
		}
	}
}

// Nodes of a dragonfly have names and racks by group and switch. With others, --fail would select other
// cables, and services other racks.
func TestNamesOfADragonfly(t *testing.T) {
	spec := fabric("dragonfly", 1, "groups", 2, "switches_per_group", 3, "hosts_per_switch", 2,
		"global_ports", 1)
	nodes, _, err := spec.Parts()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range nodes {
		s := i / 2
		name := fmt.Sprintf("group%d-switch%d-host%d", s/3, s%3, i%2)
		if i >= 12 {
			s = i - 12
			name = fmt.Sprintf("group%d-switch%d", s/3, s%3)
		}
		if v.Name != name || v.Pod != int32(s/3) || v.Rack != int32(s) {
			t.Errorf("node %d is %+v, want %s in pod %d and rack %d", i, v, name, s/3, s)
		}
	}
}

// Errors name impossible sizes of a fabric.
func TestFabricErrors(t *testing.T) {
	for want, s := range map[string]*FabricSpec{
		`kind is "mesh", want dragonfly, dual-plane`:   fabric("mesh", 1),
		"ports is 5, must be even":                     fabric("fat-tree", 1, "ports", 5),
		"a fat-tree has the sizes ports, not ":         fabric("fat-tree", 1),
		"a fat-tree has the sizes ports, not ports, x": fabric("fat-tree", 1, "ports", 4, "x", 3),
		"x*y*z*hosts_per_switch is -2, must be 1": fabric("torus", 1, "x", 1, "y", -2, "z", 1,
			"hosts_per_switch", 1),
		"x*y*z*hosts_per_switch is 64000000000, must be": fabric("torus", 1, "x", 4000, "y", 4000, "z", 4000,
			"hosts_per_switch", 1),
		"groups is 10, and global_ports are enough for 9": fabric("dragonfly", 1, "groups", 10,
			"switches_per_group", 4, "hosts_per_switch", 2, "global_ports", 2),
		"16 hosts are not whole servers of gpus 3": fabric("fat-tree", 3, "ports", 4),
	} {
		if _, _, err := s.Parts(); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
