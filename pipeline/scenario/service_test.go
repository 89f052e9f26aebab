package scenario

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// There are two hosts on each of two switches, and twins on pairs of hosts.
const graphScenario = `name: graph
topology:
  graph:
    hosts: [a, b, c, d]
    switches: [left, right]
    bandwidth: 10Gbps
    delay: 1us
    cables:
      - a:left
      - b:left
      - c:right
      - {ends: d:right, bandwidth: 25Gbps, delay: 2us}
      - left:right
workload:
  max_load: 30%
  flows_count: 4000
  services:
    - {name: main, pairs: ["a:c", "0:d"], sizes: 10KB, arrivals: poisson}
    - {name: cross, pairs: ["b:d"], sizes: webserver, sigma: 2, share: 2}
    - {name: same, pairs: ["d:b"], twin_of: cross}
`

func graphFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "graph.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGraphScenario(t *testing.T) {
	s := mustLoad(t, graphFile(t, graphScenario))
	n, err := s.Network()
	if err != nil {
		t.Fatal(err)
	}
	d := n.Links[6]
	if len(n.Hosts()) != 4 || len(n.Links) != 10 || d.Src != 3 || d.Dst != 5 || d.BandwidthBps != 25e9 ||
		d.DelayNS != 2000 || n.Links[0].BandwidthBps != 10e9 {
		t.Errorf("%+v", n)
	}
	if v, ok := n.Node(5); !ok || v.Name != "right" || v.Kind != topology.KindSwitch {
		t.Errorf("%+v", v)
	}
	w, err := s.Workload(n)
	if err != nil {
		t.Fatal(err)
	}
	main := w.Services[0]
	cross := w.Services[1]
	same := w.Services[2]
	if !slices.Equal(main.Pairs, [][2]int32{{0, 2}, {0, 3}}) || !main.Poisson || main.Sigma != 0 ||
		main.Sizes.Mean() != 10_000 || main.Matrix != nil {
		t.Errorf("main: %+v", main)
	}
	if cross.Poisson || cross.Sigma != 2 || same.TwinOf != "cross" || same.Sigma != 2 ||
		same.Share != 2 || same.Sizes != cross.Sizes {
		t.Errorf("cross: %+v, same: %+v", cross, same)
	}
}

func TestGraphScenarioErrors(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"hosts: [a, b, c, d]", "hosts: [a, b, c, a]",
			`graph.yaml:4: topology.graph.hosts[3]: is "a", want a name that no other node has`},
		{"switches: [left, right]", `switches: [left, "ri:ght"]`, "without a colon"},
		{"- a:left", "- a:nowhere",
			`graph.yaml:9: topology.graph.cables[0]: is "a:nowhere", want the names of two nodes`},
		{"- a:left", "- {bandwidth: 1Gbps}", "topology.graph.cables[0]: has no ends"},
		{"- left:right", "- right:d", "topology.graph.cables[4]: cable 5:3: the two nodes are joined twice"},
		{"- a:left", "", "topology.graph.hosts[0]: host 0 (a) has no cable"},
		{"    bandwidth: 10Gbps\n", "", "topology.graph.cables[0]: has no bandwidth"},
		{"delay: 1us", "delay: 1Gbps", "topology.graph.delay: is \"1Gbps\""},
		{"  graph:", "  name: small-1to1\n  graph:", "topology: needs one of name, file, clos, fabric and graph"},
		{`"0:d"]`, `"x:d"]`, `workload.services[0].pairs[1]: is "x:d": no node has the name or id "x"`},
		{`"0:d"]`, `"d"]`, `workload.services[0].pairs[1]: is "d", want two hosts as A:B`},
		{`"0:d"]`, `"0:left"]`, "node 4 is not a host of the network"},
		{`"0:d"]`, `"0:c"]`, "pair 0:2 is listed twice"},
		{`["b:d"]`, "[]", "workload.services[1].pairs: are 0, want 1 to"},
		{`["b:d"]`, `["b:d"], racks: [0]`, "workload.services[1].racks: has no meaning beside pairs"},
		{`["b:d"]`, `["b:d"], matrix: uniform`, "workload.services[1].matrix: has no meaning beside pairs"},
		{"sizes: 10KB", "sizes: 0KB", "workload.services[0].sizes: is 0KB: "},
		{"arrivals: poisson", "arrivals: regular",
			`workload.services[0].arrivals: is "regular", want poisson or lognormal`},
		{"arrivals: poisson", "arrivals: poisson, sigma: 1", "workload.services[0].sigma: has no meaning with " +
			"poisson arrivals"},
		{"twin_of: cross", "twin_of: same",
			`workload.services[2].twin_of: is "same", want the name of a service before this one`},
		{"twin_of: cross", "twin_of: cross, share: 1", "workload.services[2].share: has no meaning beside twin_of"},
		{"twin_of: cross", "twin_of: cross, sizes: 1KB", "workload.services[2].sizes: has no meaning beside " +
			"twin_of"},
	} {
		text := strings.Replace(graphScenario, c.old, c.new, 1)
		if text == graphScenario {
			t.Fatalf("%q is not in the scenario", c.old)
		}
		s, err := Load(graphFile(t, text))
		if err == nil {
			var n *topology.Network
			var w *workload.Workload
			if n, err = s.Network(); err == nil {
				w, err = s.Workload(n)
			}
			if err == nil {
				r, e := topology.NewRouter(t.Context(), n, 1)
				if e != nil {
					t.Fatal(e)
				}
				_, err = workload.NewPlan(r, w)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q → %q: error %v, want %q", c.old, c.new, err, c.want)
		}
	}
}

// The id includes all properties of a graph, and those of pairs, arrivals and twins.
func TestGraphScenarioID(t *testing.T) {
	seen := map[string]string{scenarioID(t, mustLoad(t, graphFile(t, graphScenario))): "the scenario"}
	for _, c := range [][2]string{
		{"delay: 1us", "delay: 2us"}, {"25Gbps", "40Gbps"}, {"[left, right]", "[left, right, other]"},
		{"- b:left", "- b:right"},
		{`"0:d"`, `"1:d"`}, {"arrivals: poisson", "sigma: 0"},
		{"twin_of: cross", "sizes: webserver, sigma: 2, share: 2"}, {"10KB", "11KB"},
	} {
		id := scenarioID(t, mustLoad(t, graphFile(t, strings.Replace(graphScenario, c[0], c[1], 1))))
		if other, taken := seen[id]; taken {
			t.Errorf("%v has the id of %s", c, other)
		}
		seen[id] = c[1]
	}
}
