package topology

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// If a number is the name of one node and the id of another, choosing one of them silently would assign
// flows, pairs and failures to the wrong host.
func TestNumbersThatAreNamesAndIDs(t *testing.T) {
	nodes := []Node{
		{ID: 0, Kind: KindHost, Name: "1"},
		{ID: 1, Kind: KindHost, Name: "0"},
		{ID: 2, Kind: KindHost, Name: "2"},
		{ID: 3, Kind: KindHost, Name: "17"},
		{ID: 4, Kind: KindSwitch, Name: "s"},
	}
	var cables []Cable
	for host := range int32(4) {
		cables = append(cables, Cable{A: host, B: 4, BandwidthBps: 1e10, DelayNS: 1000})
	}
	n, err := NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int32{"2": 2, "17": 3, "3": 3, "s": 4, "4": 4} {
		if id, err := n.find(text); err != nil || id != want {
			t.Errorf("%q is node %d, want %d: %v", text, id, want, err)
		}
	}
	for _, text := range []string{"0", "1"} {
		if id, err := n.find(text); err == nil || !strings.Contains(err.Error(), "rename the nodes") {
			t.Errorf("%q is node %d: %v", text, id, err)
		}
	}
	if _, err := n.HostList([]string{"1"}); err == nil {
		t.Error("a list of hosts takes \"1\"")
	}
}

// Draws of failed cables differ until all cables were drawn. Draws 5 and 9 were once the same cable, so ten
// draws had fewer different cables than they seemed to have.
func TestDrawsAreDifferentUntilAllAreDrawn(t *testing.T) {
	n := MustClos(t, ClosSpec{Pods: 1, RacksPerPod: 3, HostsPerRack: 1, Planes: 2, SpinesPerPlane: 1,
		HostBps: 1e10, FabricBps: 1e10, HostDelayNS: 1000, FabricDelayNS: 1000})
	tier := n.Links[len(n.Links)-1].Tier
	cables, err := n.SelectUp(tier)
	if err != nil {
		t.Fatal(err)
	}
	draw := func(k int, number uint64) [][2]int32 {
		drawn, err := n.DrawCables(tier, k, 7, number)
		if err != nil || len(drawn) != k {
			t.Fatalf("draw %d: %d cables, %v", number, len(drawn), err)
		}
		return drawn
	}
	for k := 1; k <= len(cables); k++ {
		draws := len(cables) / k
		for round := range 3 {
			seen := map[[2]int32]bool{}
			for i := range draws {
				for _, c := range draw(k, uint64(1+round*draws+i)) {
					seen[c] = true
				}
			}
			if len(seen) != k*draws {
				t.Errorf("%d draws of %d of %d cables have %d in all", draws, k, len(cables), len(seen))
			}
		}
		if k > 1 && !slices.Equal(draw(k, 1)[:k-1], draw(k-1, 1)) {
			t.Errorf("the first draw of %d cables lacks those of %d", k, k-1)
		}
	}
	draw(1, 0) // any number is a draw
	draw(1, math.MaxUint64)
}
