package topology

import (
	"fmt"

	"parsimon/simkernel"
)

// Fail takes the cable between two nodes down, in both directions. A cable may fail twice.
func (n *Network) Fail(a, b int32) error {
	for _, id := range []int32{a, b} {
		if n.index.of(id) < 0 {
			return fmt.Errorf("cable %d:%d cannot fail: no node has the id %d", a, b, id)
		}
	}
	c, ok := n.cableOf[cableKey(a, b)]
	if !ok {
		return fmt.Errorf("cable %d:%d cannot fail: no cable joins these nodes", a, b)
	}
	n.Links[2*c].Failed, n.Links[2*c+1].Failed = true, true
	return nil
}

// SetBandwidth changes the bandwidth of the cable between two nodes, in both directions.
func (n *Network) SetBandwidth(a, b int32, bps int64) error {
	c, ok := n.cableOf[cableKey(a, b)]
	if !ok {
		return fmt.Errorf("no cable joins nodes %d and %d", a, b)
	}
	if bps < simkernel.MinBps || bps > simkernel.MaxBps {
		return fmt.Errorf("bandwidth is %d bps, must be 10,000 to 10^14", bps)
	}
	n.Links[2*c].BandwidthBps, n.Links[2*c+1].BandwidthBps = bps, bps
	return nil
}
