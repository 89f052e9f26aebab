package format

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadHPCCTopology(t *testing.T) {
	fixture := filepath.Join("..", "..", "ingest", "testdata", "hpcc_topology.txt")
	n, err := Read(fixture)
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Nodes) != 6 || len(n.Hosts()) != 4 || len(n.Links) != 10 {
		t.Errorf("%d nodes, %d hosts, %d links", len(n.Nodes), len(n.Hosts()), len(n.Links))
	}
	for link, want := range map[int][2]int64{0: {100e9, 1000}, 4: {25e9, 1000}, 6: {25e9, 1000}, 8: {400e9, 1500}} {
		if l := n.Links[link]; l.BandwidthBps != want[0] || l.DelayNS != want[1] {
			t.Errorf("link %d: %d bps, %d ns, want %v", link, l.BandwidthBps, l.DelayNS, want)
		}
	}
	text, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bad.txt")
	for change, want := range map[[2]string]string{
		{"6 2 5", "6 2"}:                   "line 1: want the numbers",
		{"6 2 5", "6 2 9"}:                 "want a link",
		{"\n4 5\n", "\n4 9\n"}:             `line 2: switch "9"`,
		{"100Gbps 0.001ms 0", "100 1ms 0"}: `line 3: rate "100"`,
		{"25Gbps 1us 0", "25Gbps 1 0"}:     `line 5: delay "1"`,
		{"25Gbps 1us 0", "25Gbps 1us 0.1"}: "losses are not simulated",
		{"2 5 25Gbps", "2 77 25Gbps"}:      "77",
	} {
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bad.txt") {
			t.Errorf("%v: error %v, want %q", change, err, want)
		}
	}
}
