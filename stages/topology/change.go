package topology

import (
	"fmt"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// both changes the two directions of the cable between two nodes.
func (n *Network) both(a, b int32, change func(l *Link)) error {
	c, ok := n.cableOf[cableKey(a, b)]
	if !ok {
		return fmt.Errorf("no cable joins %s and %s", n.Name(a), n.Name(b))
	}
	change(&n.Links[2*c])
	change(&n.Links[2*c+1])
	return nil
}

// Fail takes the cable between two nodes down, in both directions. A cable may fail twice.
func (n *Network) Fail(a, b int32) error { return n.both(a, b, func(l *Link) { l.Failed = true }) }

// SetBandwidth changes the bandwidth of the cable between two nodes, in both directions.
func (n *Network) SetBandwidth(a, b int32, bps int64) error {
	if bps < simkernel.MinBps || bps > linkcase.MaxBps {
		return fmt.Errorf("bandwidth is %d bps, must be 10,000 to 10^14", bps)
	}
	return n.both(a, b, func(l *Link) { l.BandwidthBps = bps })
}

// SetDelay changes the propagation delay of the cable between two nodes, in both directions.
func (n *Network) SetDelay(a, b int32, ns int64) error {
	if ns < 0 || ns > maxDelayNS {
		return fmt.Errorf("delay is %d ns, must be 0 to 10^12", ns)
	}
	return n.both(a, b, func(l *Link) { l.DelayNS = ns })
}

// CableOf returns the two links of the cable between two nodes; ok is false where no cable joins them.
func (n *Network) CableOf(a, b int32) (links [2]int32, ok bool) {
	c, ok := n.cableOf[cableKey(a, b)]
	return [2]int32{2 * c, 2*c + 1}, ok
}

// AddCable joins two nodes that no cable joins. Its links get the next ids, so that all others keep theirs.
func (n *Network) AddCable(c Cable) error {
	if kind, what := checkCable(c, n.index.of(c.A) >= 0, n.index.of(c.B) >= 0); kind != "" {
		return fmt.Errorf("cable %s: %s", n.Ends(c.A, c.B), what)
	}
	if _, joined := n.cableOf[cableKey(c.A, c.B)]; joined {
		return fmt.Errorf("cable %s: the two nodes are joined already; change its bandwidth instead", n.Ends(c.A, c.B))
	}
	n.addCable(c)
	n.racks = n.findRacks()
	return nil
}
