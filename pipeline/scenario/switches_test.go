package scenario

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/step"
)

const sonicFixture = "../../stages/topology/format/testdata/sonic"

// Some marking thresholds, buffers and PFC settings of SONiC switches become constants, with their source.
// Others do not.
func TestSwitchSettings(t *testing.T) {
	for _, c := range []struct {
		transport string
		marks     func(p simkernel.Params) int64
		notes     []string
	}{
		{"dctcp", func(p simkernel.Params) int64 { return p.MarkBytesPerGbps }, []string{
			"mark_per_gbps is ", "WRED_PROFILE|AZURE_LOSSLESS|green_min_threshold of ", "dctcp marks at one " +
				"threshold", "with --pfc simulates it",
			"--switch-buffer topology simulates buffers of "}},
		{"dcqcn", func(p simkernel.Params) int64 { return p.DCQCN.MinMarkPerGbps }, []string{"min_mark_per_gbps " +
			"is ", "max_marking 5%"}},
		{"hpcc", nil, []string{"switches do not mark for hpcc"}},
	} {
		s, err := OfTopology(filepath.FromSlash(sonicFixture))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetAll([]Setting{{"transport.kind", c.transport}}); err != nil {
			t.Fatal(err)
		}
		n, err := s.Network()
		if err != nil {
			t.Fatal(err)
		}
		want := 1048576 * 1e9 / float64(portSpeed(n))
		if c.marks != nil {
			got := c.marks(s.Params())
			if float64(got) < want-1 || float64(got) > want+1 {
				t.Errorf("%s: marks at %d bytes per Gbps, want %.0f", c.transport, got, want)
			}
		}
		notes := strings.Join(s.TopologyNotes(), "\n")
		for _, want := range c.notes {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: no %q in\n%s", c.transport, want, notes)
			}
		}
		b := s.switchBuffer
		if b == nil || b.SwitchBytes < 1<<20 || b.Alpha <= 0 {
			t.Errorf("%s: buffer %+v", c.transport, b)
		}
	}
}

// Classes of SONiC switches are those of most ports, with marks for transports that have them.
func TestSwitchClasses(t *testing.T) {
	for transport, marks := range map[string][4]int64{ // of queues 1 and 3: mark_per_gbps, max_mark_per_gbps
		"dctcp": {network.MaxMarkPerGbps, 0, 10486, 0}, "dcqcn": {network.MaxMarkPerGbps, 0, 10486, 20972},
		"hpcc": {}} {
		s, err := OfTopology(filepath.FromSlash(sonicFixture))
		if err == nil {
			err = s.SetAll([]Setting{{"transport.kind", transport}})
		}
		if err == nil {
			err = s.SetAll([]Setting{{"switches.classes", "topology"}})
		}
		if err == nil {
			_, err = s.Network()
		}
		if err != nil {
			t.Fatal(err)
		}
		s.switches.PFC = true
		got, err := s.Classes()
		if err != nil || len(got) != 7 {
			t.Fatalf("%s: %+v, %v", transport, got, err)
		}
		want := step.TrafficClass{Name: "queue3", Queue: 3, DSCP: []int16{3}, Class: network.Class{Weight: 15}}
		want.MarkPerGbps = marks[2]
		want.MaxMarkPerGbps = marks[3]
		one := got[1]
		if !reflect.DeepEqual(got[3], want) || len(one.DSCP) != 58 || one.Weight != 1 || !one.Lossy ||
			one.MarkPerGbps != marks[0] ||
			one.MaxMarkPerGbps != marks[1] || got[5].Weight != 14 {
			t.Errorf("%s: %+v", transport, got)
		}
		notes := strings.Join(s.TopologyNotes(), "\n")
		if !strings.Contains(notes, "of most of 4 ports: 0 (1 "+
			"DSCPs, weight 1, marks from 0 bytes, PFC false), 1 (58 DSCPs, weight 1") {
			t.Errorf("%s: %s", transport, notes)
		}
	}
}

// Thresholds of a scenario file stay.
func TestSwitchSettingsOfAFile(t *testing.T) {
	path, err := filepath.Abs(sonicFixture)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse("s.yaml", ".", []byte("topology: {file: "+path+"}\nworkload: {flows: "+
		"switches_test.go}\ntransport: {mark_per_gbps: 5KB}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Network(); err != nil {
		t.Fatal(err)
	}
	got := s.Params().MarkBytesPerGbps
	if got != 5000 || !strings.Contains(strings.Join(s.TopologyNotes(), "\n"), "the scenario file states "+
		"marking thresholds") {
		t.Errorf("marks at %d: %q", got, s.TopologyNotes())
	}
}

// The values of key switches have the documented effect, and invalid ones are refused by key and value. A
// scenario without it keeps its id.
func TestSwitchesKey(t *testing.T) {
	file := func(switches string) (*Scenario, error) {
		return parse("s.yaml", ".", []byte("topology: {clos: {pods: 1, racks_per_pod: 2, hosts_per_rack: 2, "+
			"planes: 1, spines_per_plane: 1, "+
			"host_bandwidth: 10Gbps, host_delay: 1us, fabric_bandwidth: 40Gbps, fabric_delay: 1us}}\n"+
			"workload: {max_load: 30%, flows_count: 10, services: [{name: web, vnet: v, matrix: uniform, sizes: "+
			"10KB}]}\n"+switches))
	}
	ids := map[string]string{}
	for _, c := range []struct {
		text string
		want network.BufferParams
	}{
		{"", network.BufferParams{}},
		{"switches: {buffer: 400KB}", network.BufferParams{SwitchBytes: 400_000, Alpha: 1}},
		{"switches: {buffer: 400KB, alpha: 2, retransmit_timeout: 1ms}",
			network.BufferParams{SwitchBytes: 400_000, Alpha: 2, RetransmitNS: 1e6}},
		{"switches: {buffer: 400KB, pfc: true, xoff: 20KB, headroom: 8KB}",
			network.BufferParams{SwitchBytes: 400_000, Alpha: 1.0 / 8, PFC: true, XOFFBytes: 20_000,
				HeadroomBytes: 8000}},
		{"switches: {buffer: 400KB, pfc: true, alpha: 1}", network.BufferParams{SwitchBytes: 400_000, Alpha: 1,
			PFC: true}},
	} {
		s, err := file(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Buffers(); err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
		id, err := s.ID()
		if err != nil || ids[id] != "" {
			t.Errorf("%q: id %s, as %q, %v", c.text, id, ids[id], err)
		}
		ids[id] = c.text + " "
	}
	for text, want := range map[string]string{
		"switches: {alpha: 1}": "switches: has no " +
			"buffer",
		"switches: {buffer: 0}": "switches.buffer: " +
			"is \"0\"",
		"switches: {buffer: 1MB, alpha: 0}": "switches.alpha: " +
			"is 0",
		"switches: {buffer: 1MB, pfc: maybe}": "switches.pfc: " +
			"want true or false",
		"switches: {buffer: 1KB}": "must hold a packet",
		"switches: {buffer: 1MB, xoff: 10KB}": "switches.pfc is " +
			"false, and xoff is 10000",
		"switches: {buffer: 1MB, pfc: true, xoff: 2MB}": "switches.xoff is " +
			"2000000 bytes",
		"switches: {buffer: 1MB, watchdog: 1ms}": "switches.watchdog " +
			"is 1000000 ns",
		"switches: {buffer: topology}": "has no SONiC " +
			"configurations",
		"switches: {buffer: 1MB, retransmit_timeout: 1ms}\ntransport: {kind: cubic}": "cubic recovers by " +
			"SACK",
		"switches: {buffer: 1MB, selective_recovery: true}\ntransport: {kind: dctcp-window}": "dctcp-window " +
			"recovers by SACK",
	} {
		s, err := file(text)
		if err == nil {
			_, err = s.Settle()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		refused := (Refusal{})
		if err != nil && !errors.As(err, &refused) {
			t.Errorf("%q: %T", text, err)
		}
	}
	checkClasses(t, file)
}

// checkClasses checks key switches.classes.
func checkClasses(t *testing.T, file func(string) (*Scenario, error)) {
	s, err := file("switches: {buffer: 400KB, pfc: true, watchdog: 1ms, classes: [{name: rdma, queue: 3, " +
		"services: [web], vnets: [v], " +
		"weight: 2, mark_per_gbps: 5KB, alpha: 0.5}, {name: rest, queue: 1, pfc: false, dscp: [9]}]}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Classes()
	want := []step.TrafficClass{{Name: "default", Class: network.Class{Weight: 1}},
		{Name: "rest", Queue: 1, DSCP: []int16{9}, Class: network.Class{Lossy: true}},
		{Name: "rdma", Queue: 3, Services: []string{"web"}, VNets: []string{"v"},
			Class: network.Class{Weight: 2, MarkPerGbps: 5000, Alpha: 0.5}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if b, err := s.Buffers(); err != nil || b.WatchdogNS != 1e6 || b.RestoreNS != network.DefaultWatchdogNS {
		t.Errorf("%+v, %v", b, err)
	}
	if s, err = file("switches: {classes: [{name: a, queue: 0, dscp: [46, 0]}]}"); err == nil {
		got, err = s.Classes()
	}
	b, _ := s.Buffers()
	if err != nil || len(got) != 1 || !slices.Equal(got[0].DSCP, []int16{46, 0}) || !b.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	if s, err = file("switches: {classes: topology}"); err == nil {
		_, err = s.Settle()
	}
	if err == nil || !strings.Contains(err.Error(), "switches.classes is topology, which has no SONiC "+
		"configurations") {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{
		"{queue: 1}":                         "switches.classes[0]: has no name",
		"{name: a}":                          "switches.classes[0]: has no queue",
		"{name: a, queue: 8}":                "switches.classes[0].queue: is 8, must be 0 to 7",
		"{name: a, queue: 1, weight: 0}":     "switches.classes[0].weight: is 0, must be 1 to 1000",
		"{name: a, queue: 1, dscp: [64]}":    "switches.classes[0].dscp[0]: is 64, must be 0 to 63",
		"{name: a, queue: 1, alpha: -1}":     "switches.classes[0].alpha: is -1",
		"{name: a, queue: 1, colour: red}":   "switches.classes[0].colour",
		"{name: a, queue: 1, services: [x]}": `switches.classes: class a has service "x", and the workload has none`,
		"{name: a, queue: 1, services: [web]}, {name: b, queue: 2, services: [web]}": "classes a and b both have " +
			"service web",
		"{name: a, queue: 1, dscp: [7, 8]}, {name: b, queue: 2, dscp: [8]}": "classes a and b both have " +
			"dscp 8",
		"{name: a, queue: 1, dscp: [8, 8]}": "classes a and a both have " +
			"dscp 8",
		"{name: a, queue: 1, dscp: [1]}, {name: b, queue: 1, dscp: [2]}": "classes a and b both have " +
			"queue 1",
		"{name: a, queue: 1, dscp: [1]}, {name: A, queue: 2, dscp: [2]}": "classes a and A both have " +
			"name a",
		"{name: a, queue: 1}": "class a of queue 1 has no services, " +
			"vnets or dscp",
		"{name: '', queue: 1, dscp: [1]}": "the class of queue 1 has an empty " +
			"name",
		"{name: a, queue: 1, vnets: [nope]}": `class a has vnet "nope", which no service has`,
		"{name: a, queue: 1, vnets: [v]}, {name: b, queue: 2, vnets: [v]}": "classes a and b both have virtual " +
			"network v",
	} {
		s, err := file("switches: {buffer: 1MB, classes: [" + text + "]}")
		if err == nil {
			_, err = s.Settle()
		}
		refused := (Refusal{})
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A threshold that is not stated depends on PFC. A stated one stays.
func TestAlphaFollowsPFC(t *testing.T) {
	for alpha, want := range map[string]float64{"": network.DefaultAlpha, "alpha: 3, ": 3, "alpha: 0.125, " +
		"": 0.125} {
		s, err := parse("s.yaml", ".", []byte("topology: {name: fat-tree-128}\nworkload: {flows: "+
			"switches_test.go}\nswitches: {"+alpha+"buffer: 1MB, pfc: true}\n"))
		if err == nil {
			err = s.SetAll([]Setting{{"switches.pfc", "false"}})
		}
		if err != nil || s.switches.Alpha != want {
			t.Errorf("%q: alpha %v, want %v, %v", alpha, s.switches.Alpha, want, err)
		}
	}
}
