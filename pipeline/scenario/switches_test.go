package scenario

import (
	"path/filepath"
	"strings"
	"testing"

	"parsimon/simkernel"
)

const sonicFixture = "../../stages/topology/format/testdata/sonic"

// Marking thresholds, buffers and PFC of SONiC switches: what becomes a constant, from where, and what does not.
func TestSwitchSettings(t *testing.T) {
	for _, c := range []struct {
		transport string
		marks     func(p simkernel.Params) int64
		notes     []string
	}{
		{"dctcp", func(p simkernel.Params) int64 { return p.MarkBytesPerGbps }, []string{
			"mark_per_gbps is ", "WRED_PROFILE|AZURE_LOSSLESS|green_min_threshold of ", "dctcp marks at one threshold", "PFC is not modelled",
			"--switch-buffer topology simulates buffers of "}},
		{"dcqcn", func(p simkernel.Params) int64 { return p.DCQCN.MinMarkPerGbps }, []string{"min_mark_per_gbps is ", "max_marking 5%"}},
		{"hpcc", nil, []string{"switches do not mark for hpcc"}},
	} {
		s, err := OfTopology(filepath.FromSlash(sonicFixture))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetTransport(c.transport); err != nil {
			t.Fatal(err)
		}
		n, err := s.Network()
		if err != nil {
			t.Fatal(err)
		}
		want := 1048576 * 1e9 / float64(portSpeed(n))
		if c.marks != nil {
			if got := c.marks(s.Params()); float64(got) < want-1 || float64(got) > want+1 {
				t.Errorf("%s: marks at %d bytes per Gbps, want %.0f", c.transport, got, want)
			}
		}
		notes := strings.Join(s.TopologyNotes(), "\n")
		for _, want := range c.notes {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: no %q in\n%s", c.transport, want, notes)
			}
		}
		if b := s.SwitchBuffer(); b == nil || b.Bytes < 1<<20 || b.Alpha <= 0 {
			t.Errorf("%s: buffer %+v", c.transport, b)
		}
	}
}

// Thresholds of a scenario file stay.
func TestSwitchSettingsOfAFile(t *testing.T) {
	path, err := filepath.Abs(sonicFixture)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse("s.yaml", ".", []byte("topology: {file: "+path+"}\nworkload: {flows: switches_test.go}\ntransport: {mark_per_gbps: 5KB}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Network(); err != nil {
		t.Fatal(err)
	}
	if got := s.Params().MarkBytesPerGbps; got != 5000 || !strings.Contains(strings.Join(s.TopologyNotes(), "\n"), "the scenario file states mark_per_gbps") {
		t.Errorf("marks at %d: %q", got, s.TopologyNotes())
	}
}
