package topology

import (
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
