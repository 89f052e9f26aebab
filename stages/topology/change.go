package topology

import (
	"fmt"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// Fail takes the cable between two nodes down, in both directions. A cable may fail twice.
func (n *Network) Fail(a, b int32) error {
	for _, id := range []int32{a, b} {
		if n.index.of(id) < 0 {
			return fmt.Errorf("cable %s cannot fail: no node has the id %d", n.Ends(a, b), id)
		}
	}
	c, ok := n.cableOf[cableKey(a, b)]
	if !ok {
		return fmt.Errorf("cable %s cannot fail: no cable joins these nodes", n.Ends(a, b))
	}
	n.Links[2*c].Failed, n.Links[2*c+1].Failed = true, true
	return nil
}

// SetBandwidth changes the bandwidth of the cable between two nodes, in both directions.
func (n *Network) SetBandwidth(a, b int32, bps int64) error {
	c, ok := n.cableOf[cableKey(a, b)]
	if !ok {
		return fmt.Errorf("no cable joins %s and %s", n.Name(a), n.Name(b))
	}
	if bps < simkernel.MinBps || bps > linkcase.MaxBps {
		return fmt.Errorf("bandwidth is %d bps, must be 10,000 to 10^14", bps)
	}
	n.Links[2*c].BandwidthBps, n.Links[2*c+1].BandwidthBps = bps, bps
	return nil
}

// AddCable joins two nodes that no cable joins. Its links get the next ids, so that all others keep theirs.
func (n *Network) AddCable(c Cable) error {
	if kind, what := checkCable(c, n.index.of(c.A) >= 0, n.index.of(c.B) >= 0); kind != "" {
		return fmt.Errorf("cable %s: %s", n.Ends(c.A, c.B), what)
	}
	if _, joined := n.cableOf[cableKey(c.A, c.B)]; joined {
		return fmt.Errorf("cable %s: the two nodes are joined already; change its bandwidth instead", n.Ends(c.A, c.B))
	}
	a, _ := n.Node(c.A)
	b, _ := n.Node(c.B)
	id := int32(len(n.Links))
	n.cableOf[cableKey(c.A, c.B)] = id / 2
	l := Link{ID: id, Src: c.A, Dst: c.B, BandwidthBps: c.BandwidthBps, DelayNS: c.DelayNS, Tier: a.Kind + "-" + b.Kind}
	n.Links = append(n.Links, l)
	l.ID, l.Src, l.Dst, l.Tier = id+1, c.B, c.A, b.Kind+"-"+a.Kind
	n.Links = append(n.Links, l)
	n.racks = n.findRacks()
	return nil
}
