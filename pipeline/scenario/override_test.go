package scenario

import (
	"path/filepath"
	"strings"
	"testing"

	"parsimon/datasets"
)

// loadWith reads tinyScenario, with more lines at its end, with settings given as KEY=VALUE.
func loadWith(t *testing.T, more string, settings ...string) (*Scenario, error) {
	t.Helper()
	var all []Setting
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		all = append(all, Setting{key, value})
	}
	return LoadWith(tinyFiles(t, tinyScenario+more), all)
}

// A scenario with settings equals that of a file with these values.
func TestLoadWith(t *testing.T) {
	for _, c := range []struct {
		more     string   // of the file
		settings []string // that change it
		from, to string   // the same change of the text
	}{
		{"", []string{"seed=8"}, "seed: 7", "seed: 8"},
		{"", []string{"load.max=20%"}, "max_load: 40%", "max_load: 20%"},
		{"", []string{"workload.max_load=0.2", "workload.max_load=30%"}, "max_load: 40%", "max_load: 30%"},
		{"", []string{"workload.services[1].sigma=1"}, "sigma: 2", "sigma: 1"},
		{"", []string{"workload.services[1].racks=[1, 2]"}, "racks: [0, 2]", "racks: [1, 2]"},
		{"", []string{"workload.flows_count=50"}, "duration: 2ms", "flows_count: 50"},
		{"", []string{"topology.clos.oversubscription=3"}, "spines_per_plane: 1", "oversubscription: 3"},
		{"", []string{"topology.file=net.yaml", "workload.services=[{name: a, sizes: webserver}]"},
			tinyScenario[strings.Index(tinyScenario, "topology:"):strings.Index(tinyScenario, "fail:")],
			"topology: {file: net.yaml}\nworkload: {max_load: 40%, duration: 2ms, services: [{name: a, sizes: " +
				"webserver}]}\n"},
		{"", []string{
			"topology.clos={pods: 1, racks_per_pod: 3, hosts_per_rack: 2, planes: 1, spines_per_plane: 1, " +
				"host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps}",
			"topology.clos.host_delay=1us", "topology.clos.fabric_delay=1500",
		}, "", ""},
		{"", []string{
			"topology.fabric={kind: torus, x: 3, y: 1, z: 1, hosts_per_switch: 2, host_bandwidth: 10Gbps, " +
				"fabric_bandwidth: 40Gbps}",
			"topology.fabric.gpus=3", "workload.services=[{name: a, sizes: webserver}]", "fail=[]",
		}, tinyScenario[strings.Index(tinyScenario, "topology:"):strings.Index(tinyScenario, "fail:")],
			"topology: {fabric: {kind: torus, x: 3, y: 1, z: 1, hosts_per_switch: 2, gpus: 3, host_bandwidth: 10G, " +
				"fabric_bandwidth: 40G}}\n" +
				"workload: {max_load: 40%, duration: 2ms, services: [{name: a, sizes: webserver}]}\n"},
		{
			"", []string{"fail=['pod0-tor0:pod0-fabric0']", "allow_unreachable=true"},
			"fail: []", "fail: ['pod0-tor0:pod0-fabric0']\nallow_unreachable: true",
		},
		{"", []string{"transport.kind=timely"}, "fail: []", "transport: {kind: timely}"},
		{"transport: {window: 9000}\n", []string{"transport.kind=timely"}, "{window: 9000}", "{kind: timely, " +
			"window: 9000}"},
		{"transport: {window: 9000}\n", []string{"transport.kind=dctcp"}, "", ""},
		{
			"transport: {window: 9000}\n", []string{"transport.kind=timely", "transport.window=12000"},
			"{window: 9000}", "{kind: timely, window: 12000}",
		},
		{
			"transport: {window: 9000}\n", []string{"transport.window=12000", "transport.kind=timely"},
			"{window: 9000}", "{kind: timely, window: 12000}",
		},
	} {
		s, err := loadWith(t, c.more, c.settings...)
		if err != nil {
			t.Errorf("%q: %v", c.settings, err)
			continue
		}
		text := tinyScenario + c.more
		changed := strings.Replace(text, c.from, c.to, 1)
		if (changed == text) != (c.from == "") {
			t.Fatalf("the file has no %q", c.from)
		}
		got := scenarioID(t, s)
		want := scenarioID(t, mustLoad(t, tinyFiles(t, changed)))
		if got != want {
			t.Errorf("%q: scenario %s, of the changed file %s", c.settings, got, want)
		}
		if want := "tiny, " + strings.Join(c.settings, ", "); s.Name != want {
			t.Errorf("name is %q, want %q", s.Name, want)
		}
	}
}

// A setting without effect does not change the id of a shipped scenario. Without settings, the scenario is
// the one that Load reads.
func TestLoadWithShipped(t *testing.T) {
	for _, name := range datasets.Names(datasets.Scenarios) {
		want := scenarioID(t, mustLoad(t, name))
		for _, settings := range [][]Setting{nil, {{"max_rejects", "1%"}}} {
			s, err := LoadWith(name, settings)
			if err != nil {
				t.Errorf("%s with %v: %v", name, settings, err)
				continue
			}
			got := scenarioID(t, s)
			if got != want {
				t.Errorf("%s with %v: scenario %s, want %s", name, settings, got, want)
			}
		}
	}
}

// Settings of parts of a value need the file. Whole values replace those of any scenario, even if it has no
// file.
func TestSettingsThatNeedTheFile(t *testing.T) {
	for key, want := range map[string]bool{
		"workload.services[0].sigma": true, "workload.services.web.sizes": true, "workload.jobs[0].hosts": true,
		"topology.clos.pods": true, "topology.default_delay": true, "workload.services": false,
		"topology.name": false, "topology.clos": false, "workload.max_load": false, "window": false,
		"switches.classes[0].weight": false,
	} {
		got := Setting{Key: key}.NeedsFile()
		if got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}

// Errors name the setting, or the key whose value it makes invalid.
func TestLoadWithErrors(t *testing.T) {
	for setting, want := range map[string]string{
		"workload.max_load=900%":        "with workload.max_load=900%: workload.max_load: ",
		"colour=red":                    "colour",
		"workload.services[2].sigma=1":  "--set workload.services[2].sigma=1: the file has no services[2]",
		"workload.services[x].sigma=1":  `--set workload.services[x].sigma=1: "services[x]": want KEY or KEY[I]`,
		"workload.services[-1].sigma=1": "want KEY or KEY[I]",
		"links[0].bps=1":                "--set links[0].bps=1: the file has no links",
		"seed.more=1":                   "--set seed.more=1: seed has no keys",
		"seed=[1":                       "--set seed=[1: is no YAML value",
		"transport.kind=pigeon":         "transport.kind",
		"=1":                            "is an unknown key",
	} {
		_, err := loadWith(t, "", setting)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "tiny.yaml") {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
	}
	for want, settings := range map[string][]string{
		"workload.flows_count and workload.duration do not go together": {"workload.flows_count=5",
			"workload.duration=1ms"},
		"topology.name and topology.clos do not go together": {"topology.name=small-1to1",
			"topology.clos={pods: 1, racks_per_pod: 3}"},
		"topology.clos.oversubscription and topology.clos.spines_per_plane do not go together": {
			"topology.clos.oversubscription=1", "topology.clos.spines_per_plane=2"},
	} {
		_, err := loadWith(t, "", settings...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", settings, err, want)
		}
	}
	for file, want := range map[string]string{
		"no-such": "no-such", filepath.Join(t.TempDir(), "none.yaml"): "none.yaml"} {
		if _, err := LoadWith(file, []Setting{{"seed", "1"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	bad := tinyFiles(t, tinyScenario+"colour: red\n")
	if _, err := LoadWith(bad, []Setting{{"seed", "1"}}); err == nil || strings.Contains(err.Error(), "seed=1") {
		t.Errorf("a bad file is blamed on the setting: %v", err)
	}
}
