package scenario

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/datasets"
	"parsimon/schema"
	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

const tinyScenario = `# three racks
name: tiny
seed: 7
topology:
  clos: {pods: 1, racks_per_pod: 3, hosts_per_rack: 2, planes: 1, spines_per_plane: 1,
         host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1500}
workload:
  max_load: 40%
  duration: 2ms
  services:
    - name: a
      sizes: webserver
      matrix: m.csv
    - name: b
      vnet: blue
      sizes: s.txt
      sigma: 2
      share: 3
      racks: [0, 2]
fail: []
`

func tinyFiles(t testing.TB, scenario string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tiny.yaml": scenario, "m.csv": "0,1,1\n1,0,1\n1,1,0\n", "s.txt": "100 50\n2000 100\n",
		"flows.csv": "src,dst,size_bytes,start_ns\n0,1,5,0\n",
		"bad.csv":   "0,1\n", "net.yaml": "clos: {pods: 1, racks_per_pod: 1, hosts_per_rack: 2, planes: 1, " +
			"oversubscription: 1, host_bandwidth: 1Gbps, fabric_bandwidth: 1Gbps}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "tiny.yaml")
}

func mustLoad(t testing.TB, path string) *Scenario {
	t.Helper()
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func scenarioID(t testing.TB, s *Scenario) string {
	t.Helper()
	id, err := s.ID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestLoadScenario(t *testing.T) {
	s := mustLoad(t, tinyFiles(t, tinyScenario))
	if s.Name != "tiny" || s.Seed != 7 || s.MaxRejects != 0.01 || s.FlowFile() != "" || s.MaxLoad() != 0.4 ||
		s.Params() != paramsOf(simkernel.DCTCP) {
		t.Errorf("%+v", s)
	}
	n, err := s.Network()
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Hosts()) != 6 || n.Links[len(n.Links)-1].DelayNS != 1500 {
		t.Errorf("%d hosts, last link %+v", len(n.Hosts()), n.Links[len(n.Links)-1])
	}
	w, err := s.Workload(n)
	if err != nil {
		t.Fatal(err)
	}
	a := w.Services[0]
	b := w.Services[1]
	if w.DurationNS != 2_000_000 || w.MaxLoad != 0.4 || a.Matrix.Weight(0, 1) != 1 || a.Sigma != 1 ||
		a.Share != 1 || a.Racks != nil ||
		b.VNet != "blue" || b.Sizes.Mean() != 50+0.5*(100+1901.0/2) || b.Sigma != 2 || b.Share != 3 ||
		len(b.Racks) != 2 || b.Matrix.Racks() != 2 {
		t.Errorf("%+v", w)
	}
	r, err := topology.NewRouter(t.Context(), n, s.Seed)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := workload.NewPlan(r, w); err != nil || p.MaxLoad < 0.4-1e-9 || p.MaxLoad > 0.4+1e-9 {
		t.Errorf("plan %+v, %v", p, err)
	}
}

// Every shipped scenario can be loaded and planned, and its most loaded link has the requested load.
func TestShippedScenarios(t *testing.T) {
	for _, name := range datasets.Names(datasets.Scenarios) {
		s := mustLoad(t, name)
		if s.Name != path.Base(name) {
			t.Errorf("scenario %s is named %s", name, s.Name)
		}
		n, err := s.Network()
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.Workload(n)
		if err != nil {
			t.Fatal(err)
		}
		if run, err := s.Jobs(n); err != nil || len(run)+len(w.Services) == 0 {
			t.Errorf("%s: %d jobs, %v", name, len(run), err)
		}
		if len(w.Services) == 0 {
			continue
		}
		r, err := topology.NewRouter(t.Context(), n, s.Seed)
		if err != nil {
			t.Fatal(err)
		}
		p, err := workload.NewPlan(r, w)
		if err != nil {
			t.Fatal(err)
		}
		if p.MaxLoad < s.MaxLoad()-1e-9 || p.MaxLoad > s.MaxLoad()+1e-9 {
			t.Errorf("%s: %v of load expected, %v asked for", name, p.MaxLoad, s.MaxLoad())
		}
		flows := 0.0
		for _, rate := range p.ServiceFlowsPerSecond {
			flows += rate
		}
		t.Logf("%s (%s): %d hosts, %.3g flows a second, most loaded: %s", name, scenarioID(t, s), len(n.Hosts()),
			flows, n.Links[p.MaxLink].Tier)
	}
	// The commented scenario states the defaults, with the paper's window.
	paper := simkernel.DefaultParams()
	paper.StatedMarks = true
	s := mustLoad(t, "small")
	if s.Params() != paper || s.MaxRejects != 0.01 || s.Seed != 13 {
		t.Errorf("small does not say the defaults: %+v", s)
	}
	for _, name := range datasets.Names(datasets.Topologies) {
		flows := filepath.Join(filepath.Dir(tinyFiles(t, tinyScenario)), "flows.csv")
		s, err := FromFiles(name, flows)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Network(); err != nil || len(n.Hosts()) < 7 || s.Name != "flows" || s.MaxLoad() != 0 {
			t.Errorf("topology %s: %+v, %v", name, s, err)
		}
	}
}

func TestScenarioErrorsNameThePlace(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"seed: 7", "sede: 7", "tiny.yaml:3: sede: is an unknown key (keys: allow_unreachable, "},
		{"seed: 7", "seed: -1", `tiny.yaml:3: seed: is "-1"`},
		{"seed: 7", "seed: 9223372036854775808", "tiny.yaml:3: seed: is 9223372036854775808, must be 0 to 2^63-1"},
		{"seed: 7", "seed:", "tiny.yaml:3: seed: is empty, want a single value"},
		{"seed: 7", "seed: [7]", "tiny.yaml:3: seed: is a list"},
		{"seed: 7", "seed: &x 7", "tiny.yaml:3: seed: is an anchor or alias"},
		{"seed: 7", "seed: 7\nseed: 8", "tiny.yaml:4"},
		{"seed: 7", "seed: 7: 8", "tiny.yaml:3"},
		{"max_load: 40%", "max_load: 140%", "tiny.yaml:8: workload.max_load: is 140%, must be above 0 and below 1"},
		{"max_load: 40%", "max_load: much", `tiny.yaml:8: workload.max_load: is "much"`},
		{"max_load: 40%", "", "tiny.yaml:7: workload: needs max_load"},
		{"duration: 2ms", "duration: 2 fortnights",
			`tiny.yaml:9: workload.duration: is "2 fortnights", want a number with a unit such as 1.5us`},
		{"duration: 2ms", "duration: 0.5ns", "not a whole number of ns"},
		{"duration: 2ms", "duration: 0", "workload.duration: is 0, must be 1 to"},
		{"duration: 2ms", "flows_count: 5\n  duration: 2ms", "workload: needs one of duration and flows_count"},
		{"duration: 2ms", "flows: flows.csv\n  duration: 2ms", "workload: has a flow file, and so " +
			"workload.max_load has no meaning"},
		{"sigma: 2", "sigma: 9", "tiny.yaml:17: workload.services[1].sigma: is 9, must be 0 to 8"},
		{"sigma: 2", "sigma: .nan", "workload.services[1].sigma: is .nan, which is not a finite number"},
		{"sigma: 2", "sigma: -.inf", "workload.services[1].sigma: is -.inf, which is not a finite number"},
		{"10Gbps", ".inf", "topology.clos.host_bandwidth: is .inf, which is not a finite number"},
		{"share: 3", "share: 0", "workload.services[1].share: is 0, must be above 0"},
		{"racks: [0, 2]", "racks: [0, 0]", "workload.services[1].racks[1]: is 0 for the second time"},
		{"racks: [0, 2]", "racks: 0", "workload.services[1].racks: is 0, want a list"},
		{"name: b", "name: a", "tiny.yaml:14: workload.services[1]: is named \"a\" like another"},
		{"sizes: webserver", "sizes: websurfer", "workload.services[0].sizes: is \"websurfer\", want " +
			"cachefollower, hadoop, webserver, one size such as 10KB, or a file"},
		{"sizes: webserver", "sizes: gone.txt", "tiny.yaml:12: workload.services[0].sizes: sizes: open "},
		{"matrix: m.csv", "matrix: bad.csv", "workload.services[0].matrix: matrix "},
		{"matrix: m.csv", "matrix: {kind: blob}", "workload.services[0].matrix.kind: is \"blob\""},
		{"pods: 1", "pods: 0", "tiny.yaml:5: topology.clos.pods: is 0, must be 1 to"},
		{"spines_per_plane: 1", "oversubscription: 2", "topology.clos: oversubscription of 2"},
		{"10Gbps", "10Gx", `topology.clos.host_bandwidth: is "10Gx", want a number with a unit such as 10G or 100Gbps`},
		{"10Gbps", "1Kbps", "topology.clos.host_bandwidth: is 1Kbps, must be 10000 to"},
		{"fail: []", "fail: [[1]]", "tiny.yaml:20: fail[0]: is a list"},
		{"fail: []", "transport: {kind: tcp}", "transport.kind: is \"tcp\", must be one of"},
		{"fail: []", "transport: {gain: 0}", "transport.gain: is 0, must be above 0"},
		{"fail: []", "max_rejects: 101%", "max_rejects: is 101%, must be 0 to 1"},
		{"fail: []", "allow_unreachable: perhaps", "allow_unreachable: want true or false"},
		{"fail: []", "---\na: 1", "more than one document"},
		{"topology:", "topology:\n  file: net.json\nhuh:", "tiny.yaml:5: topology.file"},
		{"topology:", "topology:\n  name: tiny\nhuh:", "topology.name: is \"tiny\", and these ship: " +
			"dragonfly-128, "},
	} {
		text := strings.Replace(tinyScenario, c.old, c.new, 1)
		if text == tinyScenario {
			t.Fatalf("%q is not in the scenario", c.old)
		}
		_, err := Load(tinyFiles(t, text))
		var at *tree.FieldError
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &at) || at.Line < 1 ||
			!strings.HasSuffix(at.File, "tiny.yaml") {
			t.Errorf("%q → %q: error %v, want %q", c.old, c.new, err, c.want)
		}
	}
	for _, c := range [][2]string{{"nowhere.yaml", "and no shipped scenario has the name"},
		{tinyFiles(t, ""), "is empty"}, {tinyFiles(t, "x"), "want keys and values"},
		{tinyFiles(t, "seed: 1"), "has no topology"}} {
		if _, err := Load(c[0]); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: error %v, want %q", c[0], err, c[1])
		}
	}
}

// A folder, such as a lake, does not hide the shipped scenario with the same name.
func TestScenarioNamedLikeAFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"small", "mine"} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := mustLoad(t, "small")
	if s.Name != "small" {
		t.Errorf("loaded %q", s.Name)
	}
	if _, err := Load("mine"); err == nil || !strings.Contains(err.Error(), "mine: is a directory") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := FromFiles("large-2to1", "mine"); err == nil || !strings.Contains(err.Error(), "mine is a "+
		"directory") {
		t.Errorf("a folder for a flow file: %v", err)
	}
}

// ID names the scenario in the lake.
func (s *Scenario) ID() (string, error) {
	c, err := s.Settle()
	if err != nil {
		return "", err
	}
	return IDOf(c.Canonical), nil
}

// Errors that only the topology shows name the file, line and key too.
func TestScenarioErrorsAgainstTheTopology(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"racks: [0, 2]", "racks: [0, 99]", "tiny.yaml:19: workload.services[1].racks[1]: is 99, and the " +
			"topology has racks 0 to 2"},
		{"fail: []", `fail: ["a:b"]`, "tiny.yaml:20: fail[0]: cable \"a:b\""},
	} {
		s := mustLoad(t, tinyFiles(t, strings.Replace(tinyScenario, c.old, c.new, 1)))
		if _, err := s.ID(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.new, err, c.want)
		}
	}
}

func TestScenarioFailures(t *testing.T) {
	s := mustLoad(t, tinyFiles(t, tinyScenario))
	for _, bad := range []string{"0:1", "0:99", "nobody:0", "99", ""} {
		s.Fail = []string{bad}
		if _, err := s.Network(); err == nil || !strings.Contains(err.Error(), "fail: ") {
			t.Errorf("failing %s: %v", bad, err)
		}
	}
	s.Fail = []string{"pod0-tor0:pod0-fabric0"}
	n, err := s.Network()
	if err != nil {
		t.Fatal(err)
	}
	down := 0
	for _, l := range n.Links {
		if l.Failed {
			down++
		}
	}
	if down != 2 {
		t.Errorf("%d links are down", down)
	}
}

// The id depends on the same inputs as the results, and on nothing else.
func TestScenarioID(t *testing.T) {
	base := scenarioID(t, mustLoad(t, tinyFiles(t, tinyScenario)))
	if len(base) != 16 {
		t.Errorf("id %q", base)
	}
	with := func(edits ...string) *Scenario {
		text := tinyScenario
		for i := 0; i < len(edits); i += 2 {
			next := strings.Replace(text, edits[i], edits[i+1], 1)
			if next == text {
				t.Fatalf("%q is not in the scenario", edits[i])
			}
			text = next
		}
		return mustLoad(t, tinyFiles(t, text))
	}
	for name, s := range map[string]*Scenario{
		"the folder":          with(),
		"the name":            with("name: tiny", "name: other"),
		"a comment":           with("# three racks", "# 3 racks"),
		"the order of keys":   with("name: tiny\nseed: 7\n", "seed: 7\nname: tiny\n"),
		"units":               with("duration: 2ms", "duration: 2000000"),
		"how a share is said": with("40%", "0.4"),
		"how spines are said": with("spines_per_plane: 1", "oversubscription: 3"),
		"a default said":      with("sizes: s.txt", "sizes: s.txt\n      matrix: {kind: uniform, seed: 1}"),
		"a default transport": with("fail: []", "transport: {kind: dctcp, window: auto, gain: 0.0625}"),
		"ecmp":                with("fail: []", "balance: ecmp"),
		"ecmp by switch":      with("fail: []", "balance: {tor: ecmp, \"*spine*\": ecmp}"),
		"what is tolerated":   with("fail: []", "allow_unreachable: true\nmax_rejects: 50%"),
	} {
		id := scenarioID(t, s)
		if id != base {
			t.Errorf("%s changes the id", name)
		}
	}
	seen := map[string]string{base: "the scenario"}
	differ := func(name string, s *Scenario) {
		id := scenarioID(t, s)
		if other, taken := seen[id]; taken {
			t.Errorf("%s has the id of %s", name, other)
		}
		seen[id] = name
	}
	differ("a seed", with("seed: 7", "seed: 8"))
	differ("a load", with("40%", "41%"))
	differ("a duration", with("2ms", "3ms"))
	differ("a service", with("name: b", "name: c"))
	differ("a vnet", with("blue", "green"))
	differ("sizes", with("s.txt", "hadoop"))
	differ("a matrix", with("m.csv", "database"))
	differ("another matrix", with("m.csv", "{kind: database, seed: 2}"))
	differ("a sigma", with("sigma: 2", "sigma: 1.5"))
	differ("racks", with("[0, 2]", "[2, 0]"))
	differ("a delay", with("1500", "1600"))
	differ("a window", with("fail: []", "transport: {window: 10KB}"))
	differ("a window of long paths", with("fail: []", "transport: {window: {wan: 10KB}}"))
	differ("windows of both", with("fail: []", "transport: {window: {wan: 10KB, lan: 18KB}}"))
	differ("a threshold that is stated", with("fail: []", "transport: {mark_per_gbps: 3KB}"))
	differ("a failure", with("fail: []", `fail: ["6:9"]`))
	differ("weights by bandwidth", with("fail: []", `balance: wcmp`))
	differ("other weights", with("fail: []", "balance: wcmp\nweights: [\"6:9=20G\"]"))
	differ("flowlets", with("fail: []", "balance: flowlet"))
	differ("flowlets at leaves", with("fail: []", "balance: {tor: flowlet}"))
	differ("spines that spray", with("fail: []", "balance: {tor: flowlet, spine: spray}"))
	differ("a gap", with("fail: []", "balance: flowlet\nflowlet_gap: 60us"))
	differ("an event", with("fail: []", `events: ["6:9 down 1ms..2ms"]`))
	differ("another event", with("fail: []", `events: ["6:9 loss 0.1%"]`))
	differ("a convergence", with("fail: []", "events: [\"6:9 down 1ms..2ms\"]\nconverge: 1ms"))
	differ("a switch down", with("fail: []", `fail: ["pod0-tor0"]`))
	differ("a delay", with("topology:\n", "topology:\n  delays: [tor-fabric=5us]\n"))
	differ("two failures", with("fail: []", `fail: ["6:9", "7:9"]`))
	differ("a flow file", with("max_load: 40%", "flows: flows.csv", "  duration: 2ms\n", "",
		tinyScenario[strings.Index(tinyScenario, "  services:"):strings.Index(tinyScenario, "fail:")], ""))
	s := with()
	if err := s.SetAll([]Setting{{"workload.duration", "1s"}}); err != nil {
		t.Fatal(err)
	}
	differ("Set duration", s)
	if err := s.SetAll([]Setting{{"workload.max_load", "90%"}}); err != nil {
		t.Fatal(err)
	}
	differ("Set max_load", s)

	two := with("fail: []", `fail: ["6:9", "7:9"]`)
	again := with("fail: []", `fail: ["pod0-fabric0:pod0-tor1", "9:6", "6:9"]`)
	if scenarioID(t, two) != scenarioID(t, again) {
		t.Error("the order and the words of failures change the id")
	}
	if c, err := two.Settle(); err != nil || !json.Valid(c.Canonical) {
		t.Errorf("%+v, %v", c, err)
	}
}

// Ids never change, because folders of lakes are named after them.
func TestScenarioIDIsFixed(t *testing.T) {
	const want = "b02c6d523f9d3dd3"
	id := scenarioID(t, transported(t, "{window: 18KB}"))
	if id != want {
		t.Errorf("id %s, want %s; if rows change too, raise canonicalVersion", id, want)
	}
}

func TestTraceScenario(t *testing.T) {
	dir := filepath.Dir(tinyFiles(t, tinyScenario))
	flows := filepath.Join(dir, "flows.csv")
	a, err := FromFiles("small-4to1", flows)
	if err != nil {
		t.Fatal(err)
	}
	before := scenarioID(t, a)
	moved := filepath.Join(dir, "moved.csv")
	if err := os.WriteFile(moved, []byte("src,dst,size_bytes,start_ns\n0,1,5,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := FromFiles("small-4to1", moved)
	if err != nil {
		t.Fatal(err)
	}
	if scenarioID(t, b) != before {
		t.Error("the path of the flow file changes the id")
	}
	if err := os.WriteFile(moved, []byte("src,dst,size_bytes,start_ns\n0,1,6,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, _ = FromFiles("small-4to1", moved)
	if scenarioID(t, b) == before {
		t.Error("the content of the flow file does not change the id")
	}
	if a.FlowFile() != flows || a.SetAll([]Setting{{"workload.max_load", "50%"}}) == nil ||
		a.SetAll([]Setting{{"workload.duration", "1s"}}) == nil {
		t.Error("a trace has neither a load nor a duration to set")
	}
	if _, err := a.Workload(nil); err == nil {
		t.Error("a trace has nothing to generate")
	}
	for _, c := range [][2]string{{"nothing", flows}, {"small-4to1", filepath.Join(dir, "gone.csv")},
		{dir, flows}} {
		if _, err := FromFiles(c[0], c[1]); err == nil {
			t.Errorf("FromFiles(%q, %q): no error", c[0], c[1])
		}
	}
}

func TestParseQuantity(t *testing.T) {
	for text, want := range map[string]int64{"5s": 5e9, "1.5us": 1500, "2µs": 2000, "3ms": 3e6, "7ns": 7, "7": 7,
		"0.001us": 1} {
		if got, err := units.Parse(text, units.Duration); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]int64{"30KB": 30_000, "1KiB": 1024, "60B": 60, "1.5MB": 1_500_000} {
		if got, err := units.Parse(text, units.Bytes); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "s", "NaN", "Inf", "1e300s", "-", "1.5ns", "1 s s", "0x10Gbps5"} {
		if got, err := units.Parse(text, units.Duration); err == nil {
			t.Errorf("%q: %d, no error", text, got)
		}
	}
}

func FuzzLoadScenario(f *testing.F) {
	f.Add([]byte(tinyScenario))
	for _, name := range datasets.Names(datasets.Scenarios) {
		data, err := datasets.Read(datasets.Scenarios, name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("? {}\n: - |\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parse("fuzz.yaml", "", data)
		if (s == nil) == (err == nil) {
			t.Fatalf("scenario %v, error %v", s, err)
		}
	})
}

// A service that is confined to some hosts stays on them.
func TestServiceOnSomeHosts(t *testing.T) {
	text := strings.Replace(tinyScenario, "racks: [0, 2]", "hosts: [0-1, \"4\"]", 1)
	s := mustLoad(t, tinyFiles(t, text))
	n, err := s.Network()
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Workload(n)
	if err != nil {
		t.Fatal(err)
	}
	got := w.Services[1].Hosts
	if !slices.Equal(got, []int32{0, 1, 4}) || w.Services[0].Hosts != nil {
		t.Fatalf("hosts %v and %v", w.Services[0].Hosts, got)
	}
	router, err := topology.NewRouter(t.Context(), n, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]map[int32]bool{"": {}, "blue": {}}
	_, err = workload.Generate(t.Context(), router, w, 1, recordFunc(func(rec arrow.Record) error {
		vnet := rec.Column(schema.Flows.Index("vnet")).(*array.String)
		for _, end := range []string{"src", "dst"} {
			for i, h := range rec.Column(schema.Flows.Index(end)).(*array.Int32).Int32Values() {
				seen[vnet.Value(i)][h] = true
			}
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(seen["blue"]) != 3 || !seen["blue"][0] || !seen["blue"][1] || !seen["blue"][4] || len(seen[""]) < 4 {
		t.Errorf("hosts with flows: %v", seen)
	}
	whole := mustLoad(t, tinyFiles(t, strings.Replace(text, "0-1, ", "0, 1, ", 1)))
	narrow := mustLoad(t, tinyFiles(t, strings.Replace(text, "0-1, ", "0-2, ", 1)))
	a, errA := s.ID()
	b, errB := whole.ID()
	c, errC := narrow.ID()
	if errA != nil || errB != nil || errC != nil || a != b || a == c {
		t.Errorf("ids %s, %s, %s (%v, %v, %v)", a, b, c, errA, errB, errC)
	}
	for change, want := range map[string]string{"0-9": "node 6 is not a host", "x": "no node"} {
		s, err := Load(tinyFiles(t, strings.Replace(text, "0-1", change, 1)))
		if err == nil {
			_, err = s.Workload(n)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "tiny.yaml:") {
			t.Errorf("%s: error %v, want %q", change, err, want)
		}
	}
}

type recordFunc func(arrow.Record) error

func (f recordFunc) Write(rec arrow.Record) error { return f(rec) }

// parse reads the text of a scenario file.
func parse(file, dir string, data []byte) (*Scenario, error) {
	top, err := parseYAML(file, data)
	if err != nil {
		return nil, err
	}
	return read(top, dir)
}
