package scenario

import (
	"encoding/json"
	"strings"
	"testing"

	"parsimon/simkernel"
)

func transported(t *testing.T, transport string) *Scenario {
	t.Helper()
	return mustLoad(t, tinyFiles(t, strings.Replace(tinyScenario, "fail: []", "transport: "+transport, 1)))
}

func TestTransportKinds(t *testing.T) {
	seen := map[string]string{}
	for _, kind := range simkernel.Transports() {
		s := transported(t, "{kind: "+kind+"}")
		of, err := simkernel.ParseTransport(kind)
		if err != nil {
			t.Fatal(err)
		}
		want := simkernel.ParamsOf(of)
		want.SetWindow(simkernel.AutoWindow)
		if of == simkernel.DCQCN {
			want.Seed = s.Seed
		}
		if s.Params() != want {
			t.Errorf("%s: %+v", kind, s.Params())
		}
		id := scenarioID(t, s)
		other := seen[id]
		if other != "" {
			t.Errorf("%s has the id of %s", kind, other)
		}
		seen[id] = kind
		// The flag has the same effect as the file.
		flagged := mustLoad(t, tinyFiles(t, tinyScenario))
		if err := flagged.SetAll([]Setting{{"transport.kind", kind}}); err != nil || scenarioID(t, flagged) != id {
			t.Errorf("Set(%s): %v, id %s, want %s", kind, err, scenarioID(t, flagged), id)
		}
		// Constants are restored from the lake.
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var back simkernel.Params
		if err := json.Unmarshal(text, &back); err != nil || back != want {
			t.Errorf("%s: %s comes back as %+v, %v", kind, text, back, err)
		}
	}
	if err := mustLoad(t, tinyFiles(t, tinyScenario)).SetAll([]Setting{{"transport.kind", "tcp"}}); err == nil {
		t.Error("SetTransport took tcp")
	}
}

func TestTransportConstants(t *testing.T) {
	for _, kind := range []string{
		"dcqcn, gain: 0.01, alpha_timer: 55us, decrease_timer: 4us, increase_timer: 300us, additive_increase: " +
			"5Mbps, hyper_increase: 50Mbps, max_mark_per_gbps: 16KB, min_mark_per_gbps: 4KB, max_marking: 25%",
		"timely, smoothing: 0.5, decrease: 0.5, low: 10us, high: 100us, min_rtt: 5us, additive_increase: 5Mbps, " +
			"hyper_increase: 60Mbps, hyper_after: 4",
		"hpcc, target: 90%, max_stage: 3, additive_increase: 100, base_rtt: 20us",
		"swift, base_target: 30us, per_hop: 2us, additive_increase: 2, decrease: 0.5, max_decrease: 0.4, " +
			"scaling: 100us, min_scaling: 0.2, max_scaling: 50",
	} {
		// Every key changes the id, and is kept when a constant that all transports share changes.
		keys := strings.Split(kind, ", ")
		seen := map[string]bool{}
		for i := range keys {
			id := scenarioID(t, transported(t, "{kind: "+strings.Join(keys[:i+1], ", ")+"}"))
			if seen[id] {
				t.Errorf("%s: %s does not change the id", keys[0], keys[i])
			}
			seen[id] = true
		}
	}
	s := transported(t, "{window: 30KB, header: 50B, gain: 0.5}")
	if err := s.SetAll([]Setting{{"transport.kind", "timely"}}); err != nil {
		t.Fatal(err)
	}
	want := simkernel.ParamsOf(simkernel.TIMELY)
	want.SetWindow(30_000)
	if s.Params() != want {
		t.Errorf("%+v, want %+v", s.Params(), want)
	}
}

func TestTransportRefuses(t *testing.T) {
	for transport, want := range map[string]string{
		"{kind: dcqcn, smoothing: 0.5}": "transport.smoothing: is an unknown key (keys: " +
			"ack, additive_increase, alpha_timer,",
		"{mark_per_gbps: 3KB, kind: timely}": "transport.mark_per_gbps: is an unknown key",
		"{kind: dcqcn, alpha_timer: 1ns}":    "transport.alpha_timer: is 1ns, must be 1000 to",
		"{kind: dcqcn, min_mark_per_gbps: 4KB}": "transport: dcqcn marks from 4000 to 3000 " +
			"bytes per Gbps",
		"{kind: timely, low: 1ms}": "transport: timely thresholds are 1000000 and " +
			"500000 ns",
		"{kind: timely, hyper_after: x}": "transport.hyper_after: is \"x\", want a whole " +
			"number",
		"{kind: hpcc, target: 0}":         "transport.target: is 0, must be above 0",
		"{kind: swift, min_scaling: 200}": "transport: swift scales from 200 to 100 packets",
		"{kind: swift, decrease: 2}":      "transport.decrease: is 2, must be 0 to 1",
		"{window: 0}":                     "transport.window: is 0, must be auto or 1 to",
		"{window: {wan: small}}":          "transport.window.wan: ",
		"{window: {far: 1MB}}": "transport.window.far: is an unknown key " +
			"(keys: lan, wan)",
		"{kind: [swift]}":            "transport.kind: is a list",
		"{kind: swift, kind: swift}": "is given twice",
		"{kind: timely, additive_increase: 5Mbps, header: 5000}": "transport.header: is 5000",
	} {
		_, err := Load(tinyFiles(t, strings.Replace(tinyScenario, "fail: []", "transport: "+transport, 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", transport, err, want)
		}
	}
}

// An MTU is the payload of packets.
func TestMTU(t *testing.T) {
	s := mustLoad(t, tinyFiles(t, tinyScenario))
	if err := s.SetAll([]Setting{{"transport.payload", "9KB"}}); err != nil || s.Params().PayloadBytes != 9000 {
		t.Errorf("%v, %+v", err, s.Params())
	}
	for _, bad := range []string{"65537", "0", "-1", "jumbo"} {
		if s.SetAll([]Setting{{"transport.payload", bad}}) == nil || s.Params().PayloadBytes != 9000 {
			t.Errorf("--mtu %s", bad)
		}
	}
	set, err := LoadWith(tinyFiles(t, tinyScenario), []Setting{{"mtu", "4096"}})
	if err != nil || set.Params().PayloadBytes != 4096 {
		t.Errorf("--set mtu: %v", err)
	}
}
