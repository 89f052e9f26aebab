package scenario

import (
	"testing"

	"parsimon/stages/topology"
)

// A share of a bandwidth is taken once of each cable, also of the members of a LAG and in both directions.
// Without this, 50% of a cable was a quarter of it.
func TestShareOfABandwidthIsTakenOnce(t *testing.T) {
	nodes := []topology.Node{{ID: 0, Name: "a", Kind: topology.KindHost, Pod: -1, Rack: -1},
		{ID: 1, Name: "b", Kind: topology.KindHost, Pod: -1, Rack: -1}}
	member := topology.Cable{A: 0, B: 1, BandwidthBps: 10e9, DelayNS: 1000, Parallel: true}
	for members := 1; members <= 3; members++ {
		var cables []topology.Cable
		for range members {
			cables = append(cables, member)
		}
		n, err := topology.NewNetwork(nodes, cables)
		if err != nil {
			t.Fatal(err)
		}
		a := &application{Changes: &Changes{}, n: n}
		a.form.Changes = &canonicalChanges{}
		change, err := parseBandwidth("a:b=50%")
		if err != nil {
			t.Fatal(err)
		}
		if err := change(a); err != nil {
			t.Fatal(err)
		}
		for _, l := range n.Links {
			if l.BandwidthBps != 5e9 {
				t.Errorf("%d members: link %d has %d bps, want 5 Gbps", members, l.ID, l.BandwidthBps)
			}
		}
	}
}
