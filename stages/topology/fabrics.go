package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A FabricSpec describes a network by its kind and its sizes:
//
//	fat-tree        ports k of each switch: k pods of k/2 edge and k/2 aggregation switches, k²/4 core switches and k³/4
//	                hosts (Al-Fares, Loukissas and Vahdat, SIGCOMM'08)
//	rail-optimized  units of servers; the i-th hosts of a unit's servers are on leaf i, its rail, and every leaf on all
//	                spines (NVIDIA DGX SuperPOD H100, RA-11333-001: units of 32 servers with 8 GPUs, 8 leaves each)
//	dual-plane      the same twice: the two ports of a NIC are in separate planes of leaves and spines (Alibaba HPN,
//	                Qian et al., SIGCOMM'24)
//	dragonfly       groups of switches, all joined; equally many cables, a at most, between any two groups (Kim, Dally,
//	                Scott and Abts, ISCA'08: p hosts_per_switch, a switches_per_group, h global_ports; at most ah + 1
//	                groups; balanced if a = 2p = 2h)
//	torus           x × y × z switches, each joined to the next and the last in each dimension (Adiga et al., IBM JRD 49,
//	                2005: Blue Gene/L; Jouppi et al., ISCA'23: TPU v4)
//
// Paths are shortest paths (Router). In a torus these are all minimal paths, not only those that follow one
// dimension after another. In a dragonfly they include paths through a third group, if these have no more
// links than the path over a cable between the two groups. Detours (Valiant, UGAL) and forwarding by GPUs
// (PXN) are not modeled.
//
// Each group of GPUs consecutive hosts is a server. If InnerBps is set, each host has a cable to a switch
// inside its server (NVLink; 450 GB/s in each direction for an H100), through which the hosts of the server
// reach each other.
type FabricSpec struct {
	Kind          string         `json:"kind"`
	Sizes         map[string]int `json:"sizes"` // by name; see FabricSizes
	GPUs          int            `json:"gpus"`
	HostBps       int64          `json:"host_bps"`
	FabricBps     int64          `json:"fabric_bps"` // cables between switches
	InnerBps      int64          `json:"inner_bps,omitempty"`
	HostDelayNS   int64          `json:"host_delay_ns"`
	FabricDelayNS int64          `json:"fabric_delay_ns"`
	InnerDelayNS  int64          `json:"inner_delay_ns,omitempty"`
}

// A fabricKind has a function that builds the network and returns an error text, or "". products are products
// of sizes. Each is an upper bound of a number of nodes or cables, and must be at most MaxNodes.
type fabricKind struct {
	products string
	build    func(b *fabricBuilder) string
}

const railProducts = "units*servers_per_unit*gpus units*gpus*spines"

var fabricKinds = map[string]fabricKind{
	"fat-tree":       {"ports*ports*ports", (*fabricBuilder).fatTree},
	"rail-optimized": {railProducts, func(b *fabricBuilder) string { return b.rails(1) }},
	"dual-plane":     {railProducts, func(b *fabricBuilder) string { return b.rails(2) }},
	"dragonfly": {"groups*switches_per_group*hosts_per_switch groups*groups*switches_per_group " +
		"groups*switches_per_group*switches_per_group switches_per_group*global_ports", (*fabricBuilder).dragonfly},
	"torus": {"x*y*z*hosts_per_switch", (*fabricBuilder).torus},
}

// FabricSizes returns the names of the sizes of each kind of fabric. Each size must be 1 or more.
func FabricSizes() map[string][]string {
	sizes := map[string][]string{}
	for kind, k := range fabricKinds {
		for _, name := range strings.FieldsFunc(k.products, func(c rune) bool { return c == '*' || c == ' ' }) {
			if name != "gpus" && !slices.Contains(sizes[kind], name) {
				sizes[kind] = append(sizes[kind], name)
			}
		}
	}
	return sizes
}

// Parts returns the nodes and the cables: hosts, switches of the fabric, and switches inside servers.
func (s *FabricSpec) Parts() ([]Node, []Cable, error) {
	k, known := fabricKinds[s.Kind]
	sizes := FabricSizes()
	if !known {
		return nil, nil, fmt.Errorf(
			"kind is %q, want %s",
			s.Kind,
			strings.Join(slices.Sorted(maps.Keys(sizes)), ", "),
		)
	}
	want := slices.Sorted(slices.Values(sizes[s.Kind]))
	has := slices.Sorted(maps.Keys(s.Sizes))
	if !slices.Equal(want, has) {
		return nil, nil, fmt.Errorf("a %s has the sizes %s, not %s", s.Kind, strings.Join(want, ", "),
			strings.Join(has, ", "))
	}
	if err := checkProducts(k.products,
		func(name string) int { return cmp.Or(s.Sizes[name], s.GPUs) }); err != nil {
		return nil, nil, err
	}
	b := &fabricBuilder{FabricSpec: s}
	wrong := k.build(b)
	if wrong != "" {
		return nil, nil, fmt.Errorf("%s", wrong)
	}
	if b.hosts%s.GPUs != 0 {
		return nil, nil, fmt.Errorf("%d hosts are not whole servers of gpus %d", b.hosts, s.GPUs)
	}
	for h := 0; h < b.hosts && s.InnerBps > 0; h++ {
		if h%s.GPUs == 0 {
			b.node(KindInner, int(b.nodes[h].Pod), -1, "server%d", h/s.GPUs)
		}
		b.cables = append(b.cables, Cable{A: int32(h), B: int32(len(b.nodes) - 1), BandwidthBps: s.InnerBps,
			DelayNS: s.InnerDelayNS})
	}
	return b.nodes, b.cables, nil
}

// checkProducts returns an error for the first product of sizes that is not 1 to MaxNodes.
func checkProducts(products string, size func(name string) int) error {
	for product := range strings.FieldsSeq(products) {
		n := 1.0
		for name := range strings.SplitSeq(product, "*") {
			n *= float64(size(name))
		}
		if n < 1 || n > MaxNodes {
			return fmt.Errorf("%s is %.0f, must be 1 to %d", product, n, MaxNodes)
		}
	}
	return nil
}

// A fabricBuilder collects nodes and cables. Hosts come first.
type fabricBuilder struct {
	*FabricSpec
	nodes  []Node
	cables []Cable
	hosts  int
}

func (b *fabricBuilder) node(kind string, pod, rack int, name string, of ...any) int {
	if kind == KindHost {
		b.hosts++
	}
	b.nodes = append(
		b.nodes,
		Node{int32(len(b.nodes)), fmt.Sprintf(name, of...), kind, int32(pod), int32(rack)},
	)
	return len(b.nodes) - 1
}

func (b *fabricBuilder) cable(from, to int) {
	c := Cable{A: int32(from), B: int32(to), BandwidthBps: b.FabricBps, DelayNS: b.FabricDelayNS}
	if from < b.hosts {
		c.BandwidthBps = b.HostBps
		c.DelayNS = b.HostDelayNS
	}
	b.cables = append(b.cables, c)
}

func (b *fabricBuilder) fatTree() string {
	k := b.Sizes["ports"]
	half := k / 2
	if k%2 != 0 {
		return fmt.Sprintf("ports is %d, must be even", k)
	}
	for h := range k * half * half {
		pod := h / half / half
		edge := h / half
		b.node(KindHost, pod, edge, "pod%d-rack%d-host%d", pod, edge%half, h%half)
	}
	for e := range k * half {
		edge := b.node(KindTor, e/half, e, "pod%d-edge%d", e/half, e%half)
		for h := range half {
			b.cable(e*half+h, edge)
		}
	}
	edge0 := b.hosts
	agg0 := b.hosts + k*half
	for a := range k * half {
		agg := b.node(KindFabric, a/half, -1, "pod%d-agg%d", a/half, a%half)
		for e := range half {
			b.cable(edge0+a/half*half+e, agg)
		}
	}
	for c := range half * half {
		core := b.node(KindSpine, -1, -1, "core%d", c)
		for pod := range k {
			b.cable(agg0+pod*half+c/half, core)
		}
	}
	return ""
}

func (b *fabricBuilder) rails(planes int) string {
	units := b.Sizes["units"]
	servers := b.Sizes["servers_per_unit"]
	spines := b.Sizes["spines"]
	for h := range units * servers * b.GPUs {
		server := h / b.GPUs
		unit := server / servers
		b.node(KindHost, unit, server, "unit%d-server%d-gpu%d", unit, server%servers, h%b.GPUs)
	}
	for plane := range planes {
		at := ""
		if planes > 1 {
			at = fmt.Sprintf("plane%d-", plane)
		}
		leaf0 := len(b.nodes)
		for l := range units * b.GPUs {
			unit := l / b.GPUs
			rail := l % b.GPUs
			leaf := b.node(KindTor, unit, -1, "%sunit%d-leaf%d", at, unit, rail)
			for s := range servers {
				b.cable((unit*servers+s)*b.GPUs+rail, leaf)
			}
		}
		for s := range spines {
			spine := b.node(KindSpine, -1, -1, "%sspine%d", at, s)
			for l := range units * b.GPUs {
				b.cable(leaf0+l, spine)
			}
		}
	}
	return ""
}

func (b *fabricBuilder) dragonfly() string {
	groups := b.Sizes["groups"]
	a := b.Sizes["switches_per_group"]
	p := b.Sizes["hosts_per_switch"]
	most := a*b.Sizes["global_ports"] + 1
	if groups > most {
		return fmt.Sprintf("groups is %d, and global_ports are enough for %d", groups, most)
	}
	for h := range groups * a * p {
		s := h / p
		b.node(KindHost, s/a, s, "group%d-switch%d-host%d", s/a, s%a, h%p)
	}
	for s := range groups * a {
		sw := b.node(KindTor, s/a, s, "group%d-switch%d", s/a, s%a)
		for h := range p {
			b.cable(s*p+h, sw)
		}
		for other := sw - s%a; other < sw; other++ {
			b.cable(other, sw)
		}
	}
	each := min(a, a*b.Sizes["global_ports"]/max(groups-1, 1)) // cables between two groups
	for i := range groups {
		for j := range i {
			for k := range each { // the switches of a group take turns
				b.cable(b.hosts+j*a+((i-1)*each+k)%a, b.hosts+i*a+(j*each+k)%a)
			}
		}
	}
	return ""
}

func (b *fabricBuilder) torus() string {
	size := [3]int{b.Sizes["x"], b.Sizes["y"], b.Sizes["z"]}
	p := b.Sizes["hosts_per_switch"]
	at := func(s int) [3]int { return [3]int{s / size[2] / size[1], s / size[2] % size[1], s % size[2]} }
	switches := size[0] * size[1] * size[2]
	for h := range switches * p {
		c := at(h / p)
		b.node(KindHost, -1, h/p, "x%d-y%d-z%d-host%d", c[0], c[1], c[2], h%p)
	}
	for s := range switches {
		c := at(s)
		b.node(KindTor, -1, s, "x%d-y%d-z%d", c[0], c[1], c[2])
		for h := range p {
			b.cable(s*p+h, b.hosts+s)
		}
	}
	for s := range switches {
		for d := range 3 {
			c := at(s)
			if size[d] == 1 || size[d] == 2 && c[d] == 1 { // two switches are joined by one cable
				continue
			}
			c[d] = (c[d] + 1) % size[d]
			b.cable(b.hosts+s, b.hosts+(c[0]*size[1]+c[1])*size[2]+c[2])
		}
	}
	return ""
}

// A ClosSpec describes a three-tier data center as in the paper's evaluation (§4.1, based on Meta's fabric).
// The hosts of a top-of-rack switch (ToR) form a rack. Racks that are joined by fabric switches, one per
// plane, form a pod. Pods are joined by spine switches: every spine of a plane has a cable to the fabric
// switch of that plane in every pod.
type ClosSpec struct {
	Pods           int   `json:"pods"`
	RacksPerPod    int   `json:"racks_per_pod"`
	HostsPerRack   int   `json:"hosts_per_rack"`
	Planes         int   `json:"planes"` // also the number of fabric switches per pod
	SpinesPerPlane int   `json:"spines_per_plane"`
	HostBps        int64 `json:"host_bps"`   // host–ToR cables
	FabricBps      int64 `json:"fabric_bps"` // all other cables
	HostDelayNS    int64 `json:"host_delay_ns"`
	FabricDelayNS  int64 `json:"fabric_delay_ns"`
}

// MaxNodes limits the size of networks that a few numbers in a scenario file describe.
const MaxNodes = 4 << 20

// Names of the nodes of a Clos network, by pod (spines: by plane) and number. Racks are numbered within their
// pod, and hosts within their rack.
const (
	ClosHostName   = "pod%d-rack%d-host%d"
	ClosTorName    = "pod%d-tor%d"
	ClosFabricName = "pod%d-fabric%d"
	ClosSpineName  = "plane%d-spine%d"
)

// closProducts are products of sizes, as in a fabricKind.
const closProducts = "pods*racks_per_pod*hosts_per_rack pods*racks_per_pod*planes " +
	"pods*planes*spines_per_plane"

// Parts returns the nodes and the cables. Ids are assigned to hosts first (by pod, rack and number), then to
// ToRs, fabric switches and spines (by plane). Cables are ordered by pod, hosts before ToRs, followed by
// those from fabric switches to spines.
func (c *ClosSpec) Parts() ([]Node, []Cable, error) {
	sizes := map[string]int{"pods": c.Pods, "racks_per_pod": c.RacksPerPod, "hosts_per_rack": c.HostsPerRack,
		"planes": c.Planes, "spines_per_plane": c.SpinesPerPlane}
	if err := checkProducts(closProducts, func(name string) int { return sizes[name] }); err != nil {
		return nil, nil, err
	}
	b := &fabricBuilder{
		FabricSpec: &FabricSpec{HostBps: c.HostBps, FabricBps: c.FabricBps, HostDelayNS: c.HostDelayNS,
			FabricDelayNS: c.FabricDelayNS},
	}
	racks := c.Pods * c.RacksPerPod
	tor0 := racks * c.HostsPerRack
	fabric0 := tor0 + racks
	spine0 := fabric0 + c.Pods*c.Planes
	for h := range tor0 {
		r := h / c.HostsPerRack
		b.node(KindHost, r/c.RacksPerPod, r, ClosHostName, r/c.RacksPerPod, r%c.RacksPerPod, h%c.HostsPerRack)
	}
	for r := range racks {
		b.node(KindTor, r/c.RacksPerPod, r, ClosTorName, r/c.RacksPerPod, r%c.RacksPerPod)
	}
	for f := range c.Pods * c.Planes {
		b.node(KindFabric, f/c.Planes, -1, ClosFabricName, f/c.Planes, f%c.Planes)
	}
	for s := range c.Planes * c.SpinesPerPlane {
		b.node(KindSpine, -1, -1, ClosSpineName, s/c.SpinesPerPlane, s%c.SpinesPerPlane)
	}
	for p := range c.Pods {
		tors := tor0 + p*c.RacksPerPod
		for h := range c.RacksPerPod * c.HostsPerRack {
			b.cable(p*c.RacksPerPod*c.HostsPerRack+h, tors+h/c.HostsPerRack)
		}
		for t := range c.RacksPerPod * c.Planes {
			b.cable(tors+t/c.Planes, fabric0+p*c.Planes+t%c.Planes)
		}
	}
	for f := range c.Pods * c.Planes {
		for s := range c.SpinesPerPlane {
			b.cable(fabric0+f, spine0+f%c.Planes*c.SpinesPerPlane+s)
		}
	}
	return b.nodes, b.cables, nil
}
