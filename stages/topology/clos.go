package topology

import (
	"fmt"
	"math"
)

// A ClosSpec describes a three-tier data centre as in the paper's evaluation (§4.1, after Meta's
// fabric). Hosts under a top-of-rack switch (tor) form a rack. Racks joined by fabric switches, one
// per plane, form a pod. Pods are joined by spine switches: every spine of a plane has a cable to that
// plane's fabric switch of every pod.
type ClosSpec struct {
	Pods         int `json:"pods"`
	RacksPerPod  int `json:"racks_per_pod"`
	HostsPerRack int `json:"hosts_per_rack"`
	Planes       int `json:"planes"` // also the fabric switches per pod
	// SpinesPerPlane, or Oversubscription = racks per pod / spines per plane (bandwidth into a
	// fabric switch from its racks over bandwidth to its spines: 4 for 4:1). Exactly one is set.
	SpinesPerPlane   int     `json:"spines_per_plane"`
	Oversubscription float64 `json:"-"`

	HostBps       int64 `json:"host_bps"`   // host–ToR cables
	FabricBps     int64 `json:"fabric_bps"` // all other cables
	HostDelayNS   int64 `json:"host_delay_ns"`
	FabricDelayNS int64 `json:"fabric_delay_ns"`
}

// MaxNodes bounds what a few numbers in a scenario file can ask for.
const MaxNodes = 4 << 20

// Resolved checks the description and replaces the oversubscription by the number of spines.
func (c ClosSpec) Resolved() (ClosSpec, error) {
	for _, f := range []struct {
		name string
		n    int
	}{{"pods", c.Pods}, {"racks_per_pod", c.RacksPerPod}, {"hosts_per_rack", c.HostsPerRack}, {"planes", c.Planes}} {
		if f.n < 1 || f.n > MaxNodes {
			return c, fmt.Errorf("clos: %s is %d, must be 1 to %d", f.name, f.n, MaxNodes)
		}
	}
	switch {
	case c.SpinesPerPlane == 0 && c.Oversubscription == 0:
		return c, fmt.Errorf("clos: needs spines_per_plane or oversubscription")
	case c.SpinesPerPlane != 0 && c.Oversubscription != 0:
		return c, fmt.Errorf("clos: spines_per_plane and oversubscription determine each other; give one")
	case c.SpinesPerPlane == 0:
		spines := float64(c.RacksPerPod) / c.Oversubscription
		if !(spines >= 1) || spines > MaxNodes || math.Abs(spines-math.Round(spines)) > 1e-9*spines {
			return c, fmt.Errorf("clos: oversubscription of %v with %d racks per pod needs %v spines per plane, "+
				"which is not a whole number of at least 1", c.Oversubscription, c.RacksPerPod, spines)
		}
		c.SpinesPerPlane = int(math.Round(spines))
		c.Oversubscription = 0
	case c.SpinesPerPlane < 1 || c.SpinesPerPlane > MaxNodes:
		return c, fmt.Errorf("clos: spines_per_plane is %d, must be 1 to %d", c.SpinesPerPlane, MaxNodes)
	}
	racks := float64(c.Pods) * float64(c.RacksPerPod)
	fabrics, spines := float64(c.Pods)*float64(c.Planes), float64(c.Planes)*float64(c.SpinesPerPlane)
	nodes := racks*float64(c.HostsPerRack+1) + fabrics + spines
	cables := racks*float64(c.HostsPerRack+c.Planes) + fabrics*float64(c.SpinesPerPlane)
	if nodes > MaxNodes || cables > 8*MaxNodes {
		return c, fmt.Errorf("clos: %.0f nodes and %.0f cables are more than %d and %d",
			nodes, cables, MaxNodes, 8*MaxNodes)
	}
	return c, nil
}

// Names of the nodes of a Clos network, by pod (a spine: by plane) and number. Racks count within their pod, hosts
// within their rack.
const (
	ClosHostName   = "pod%d-rack%d-host%d"
	ClosTorName    = "pod%d-tor%d"
	ClosFabricName = "pod%d-fabric%d"
	ClosSpineName  = "plane%d-spine%d"
)

// Parts lists the nodes and the cables of a resolved description. Ids count hosts first (by pod, rack, place), then
// tors, fabric switches and spines (by plane). Cables follow pod by pod, hosts before tors, and then fabric to spine.
func (c *ClosSpec) Parts() (nodes []Node, cables []Cable) {
	racks := c.Pods * c.RacksPerPod
	tor0 := racks * c.HostsPerRack
	fabric0 := tor0 + racks
	spine0 := fabric0 + c.Pods*c.Planes
	node := func(kind string, pod, rack int, name string, of ...any) {
		nodes = append(nodes, Node{int32(len(nodes)), fmt.Sprintf(name, of...), kind, int32(pod), int32(rack)})
	}
	for h := range tor0 {
		r := h / c.HostsPerRack
		node(KindHost, r/c.RacksPerPod, r, ClosHostName, r/c.RacksPerPod, r%c.RacksPerPod, h%c.HostsPerRack)
	}
	for r := range racks {
		node(KindTor, r/c.RacksPerPod, r, ClosTorName, r/c.RacksPerPod, r%c.RacksPerPod)
	}
	for f := range c.Pods * c.Planes {
		node(KindFabric, f/c.Planes, -1, ClosFabricName, f/c.Planes, f%c.Planes)
	}
	for s := range c.Planes * c.SpinesPerPlane {
		node(KindSpine, -1, -1, ClosSpineName, s/c.SpinesPerPlane, s%c.SpinesPerPlane)
	}
	for p := range c.Pods {
		tors := tor0 + p*c.RacksPerPod
		for h := range c.RacksPerPod * c.HostsPerRack {
			host := p*c.RacksPerPod*c.HostsPerRack + h
			cables = append(cables, Cable{int32(host), int32(tors + h/c.HostsPerRack), c.HostBps, c.HostDelayNS})
		}
		for t := range c.RacksPerPod * c.Planes {
			fabric := fabric0 + p*c.Planes + t%c.Planes
			cables = append(cables, Cable{int32(tors + t/c.Planes), int32(fabric), c.FabricBps, c.FabricDelayNS})
		}
	}
	for f := range c.Pods * c.Planes {
		for s := range c.SpinesPerPlane {
			spine := spine0 + f%c.Planes*c.SpinesPerPlane + s
			cables = append(cables, Cable{int32(fabric0 + f), int32(spine), c.FabricBps, c.FabricDelayNS})
		}
	}
	return nodes, cables
}
