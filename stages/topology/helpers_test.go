package topology

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// smallClos is the paper's small topology: 2 pods × 16 racks × 8 hosts, 2 planes.
func SmallClos(oversubscription float64) ClosSpec {
	return ClosSpec{Pods: 2, RacksPerPod: 16, HostsPerRack: 8, Planes: 2, Oversubscription: oversubscription,
		HostBps: 10e9, FabricBps: 40e9, HostDelayNS: 1000, FabricDelayNS: 1000}
}

// largeClos is the paper's large
func LargeClos(oversubscription float64) ClosSpec {
	c := SmallClos(oversubscription)
	c.Pods, c.RacksPerPod, c.HostsPerRack, c.Planes = 8, 48, 16, 4
	return c
}

func MustClos(t testing.TB, c ClosSpec) *Network {
	t.Helper()
	n, err := Clos(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sharedReference is a file of the reference data that stands beside the repository on some
// machines; where it is missing the test is skipped.
func SharedReference(t testing.TB, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{Repository(t), "..", "shared", "reference"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("reference data is missing: %v", err)
	}
	return path
}

// wire makes a small network: nodes below hosts are hosts, the others switches, and every cable has
// 10 Gbps and 1 µs.
func Wire(t testing.TB, nodes, hosts int, cables ...[2]int32) *Network {
	t.Helper()
	var v []Node
	for i := range nodes {
		kind := KindSwitch
		if i < hosts {
			kind = KindHost
		}
		v = append(v, Node{ID: int32(i), Kind: kind, Pod: -1, Rack: -1})
	}
	var c []Cable
	for _, e := range cables {
		c = append(c, Cable{e[0], e[1], 10e9, 1000})
	}
	n, err := NewNetwork(v, c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func MustResolve(t *testing.T) ClosSpec {
	t.Helper()
	c, err := ClosSpec{Pods: 2, RacksPerPod: 2, HostsPerRack: 2, Planes: 2, SpinesPerPlane: 1, HostBps: 10e9, FabricBps: 40e9, HostDelayNS: 1000, FabricDelayNS: 1000}.Resolved()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func MustRouter(t testing.TB, n *Network, seed uint64) *Router {
	t.Helper()
	r, err := NewRouter(n, seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// chiSquare fails if counts of equally likely cells are further from even than chance leaves one in
// about a million times (Wilson and Hilferty's normal approximation), or so even that it is no
// chance.
func ChiSquare(t *testing.T, what string, counts []int, total int) {
	t.Helper()
	want := float64(total) / float64(len(counts))
	x := 0.0
	for _, k := range counts {
		x += (float64(k) - want) * (float64(k) - want) / want
	}
	df := float64(len(counts) - 1)
	z := (math.Cbrt(x/df) - (1 - 2/(9*df))) / math.Sqrt(2/(9*df))
	if math.Abs(z) > 5 {
		t.Errorf("%s: chi-square %.1f with %.0f degrees of freedom, %.1f standard deviations off", what, x, df, z)
	}
}

// smallNetwork is a rack of four hosts, ids 0 to 3, and a switch, 4.
func SmallNetwork(t *testing.T) *Network {
	t.Helper()
	nodes := []Node{{ID: 4, Kind: KindTor, Pod: -1, Rack: -1}}
	var cables []Cable
	for h := range int32(4) {
		nodes = append(nodes, Node{ID: h, Kind: KindHost, Pod: -1, Rack: -1})
		cables = append(cables, Cable{A: h, B: 4, BandwidthBps: 1e10, DelayNS: 1000})
	}
	n, err := NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// repository is the root of the repository, the directory of go.mod.
func Repository(t testing.TB) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if abs, err := filepath.Abs(dir); err != nil || abs == filepath.Dir(abs) {
			t.Fatal("no go.mod in any parent directory")
		}
	}
}

// parseJSON reads a JSON topology as Read does.
func parseJSON(file string, data []byte) (*Network, error) {
	d := parseJSONTopology(file, data)
	if n := d.finish([]string{file}, &Options{}); n != nil {
		return n, nil
	}
	return nil, joinFaults(d.faults)
}

// checkDraft finishes a draft: it has a network that can be routed, or faults.
func checkDraft(t *testing.T, d *draft, o *Options) {
	t.Helper()
	n := d.finish([]string{"file"}, o)
	if n == nil {
		if len(d.faults) == 0 {
			t.Fatal("neither a network nor a fault")
		}
		return
	}
	if len(n.Nodes) > 200 {
		return
	}
	if _, err := NewRouter(n, 1); err != nil {
		t.Fatal(err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
