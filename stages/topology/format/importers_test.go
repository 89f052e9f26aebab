package format

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

func fixture(t testing.TB, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sonicCopy copies the SONiC fixture, with edits of its files.
func sonicCopy(t *testing.T, edits map[string][2]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"leaf01", "leaf02", "tor01", "tor02"} {
		data := fixture(t, "sonic", name+".json")
		if e, ok := edits[name]; ok {
			if !bytes.Contains(data, []byte(e[0])) {
				t.Fatalf("%s does not hold %q", name, e[0])
			}
			data = bytes.Replace(data, []byte(e[0]), []byte(e[1]), 1)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSONiC(t *testing.T) {
	l := loadFixture(t, "sonic", Options{})
	wantFaults(t, l)
	if l.Format != "sonic" || l.Hosts != 4 || l.Switches != 4 || l.Cables != 8 {
		t.Errorf("%s: %d hosts, %d switches, %d cables", l.Format, l.Hosts, l.Switches, l.Cables)
	}
	for id, want := range map[int32]topology.Node{
		0: {ID: 0, Name: "server1", Kind: topology.KindHost, Pod: -1, Rack: 0},
		4: {ID: 4, Name: "leaf01", Kind: topology.KindFabric, Pod: -1, Rack: -1},
		7: {ID: 7, Name: "tor02", Kind: topology.KindTor, Pod: -1, Rack: 1}} {
		v, _ := l.Network.Node(id)
		if v != want {
			t.Errorf("node %+v, want %+v", v, want)
		}
	}
	for _, k := range l.Network.Links {
		want := [2]int64{100e9, 200}
		if strings.Contains(k.Tier, topology.KindHost) {
			want = [2]int64{25e9, 25}
		}
		if k.BandwidthBps != want[0] || k.DelayNS != want[1] {
			t.Errorf("link %+v, want %v", k, want)
		}
	}
}

func TestSONiCSettings(t *testing.T) {
	l := loadFixture(t, "sonic", Options{})
	if len(l.Settings) != 2 {
		t.Fatalf("settings of %d switches, want those of the 2 tors", len(l.Settings))
	}
	s := l.Settings[0]
	if len(s.Taken) != 17 {
		t.Errorf("%d values taken: %+v", len(s.Taken), s.Taken)
	}
	file := filepath.Join("testdata", "sonic", "tor01.json")
	for _, want := range []TakenSetting{
		{"marking", "ecn_all", "", "WRED_PROFILE|AZURE_LOSSLESS|ecn", file, 89, 0, nil},
		{"marking_min", "1048576", "bytes", "WRED_PROFILE|AZURE_LOSSLESS|green_min_threshold", file, 90, 1048576,
			nil},
		{"pool_size", "10875072", "bytes", "BUFFER_POOL|ingress_lossless_pool|size", file, 112, 10875072, nil},
		{"pool", "ingress_lossless_pool", "", "BUFFER_PROFILE|pg_lossless_40000_5m_profile|pool", file, 126, 0,
			nil},
		{"dynamic_threshold", "-3", "log2", "BUFFER_PROFILE|pg_lossless_40000_5m_profile|dynamic_th", file, 123, -3,
			nil},
		{"pfc_priorities", "3,4", "", "PORT_QOS_MAP|Ethernet112,Ethernet114|pfc_enable", file, 137, 0, nil},
	} {
		is := func(k TakenSetting) bool { k.Object = nil; return reflect.DeepEqual(k, want) }
		if !slices.ContainsFunc(s.Taken, is) {
			t.Errorf("no %+v in %+v", want, s.Taken)
		}
	}
	if th, has := s.Taken[7].Object["dynamic_th"]; th != -3 || !has {
		t.Errorf("beside %+v: %d, %v", s.Taken[7], th, has)
	}
	line := strings.Split(string(fixture(t, "sonic", "tor01.json")), "\n")[89]
	if !strings.Contains(line, `"green_min_threshold": "1048576"`) {
		t.Errorf("line 90 is %q", line)
	}
}

func TestSONiCFaults(t *testing.T) {
	for _, c := range []struct {
		name, file string
		edit       [2]string
		want       []string // kind, then a part of the text
	}{
		{"one-sided", "leaf01", [2]string{`"local_port": "Ethernet4"`, `"local_port": "Ethernet44"`}, []string{
			"unknown-speed leaf01:Ethernet44", "one-sided leaf01:Ethernet44 reports a cable to tor01:Ethernet112, " +
				"which does not report it",
			"one-sided tor01:Ethernet112 reports", "shared-port port tor01:Ethernet112 is cabled",
			"parallel a second cable"}},
		{"two speeds", "tor02", [2]string{`"speed": "100000"`, `"speed": "40000"`},
			[]string{"contradictory has 40 Gbps here and 100 Gbps before (leaf01.json:34)"}},
		{"not a speed", "tor02", [2]string{`"speed": "25000"`, `"speed": "fast"`},
			[]string{`format PORT.Ethernet0.speed: is "fast"`}},
		{"hostname twice", "tor02", [2]string{`"hostname": "tor02"`, `"hostname": "tor01"`},
			[]string{"doubled hostname tor01 is that of"}},
		{"syntax", "tor02", [2]string{`{`, `{}`}, []string{"format content after the end of the document"}},
		{"another file", "tor02", [2]string{`{`, `{"a": {}, "b": {`}, []string{"format not readable as JSON"}},
		{"priority", "tor01", [2]string{`"pfc_enable": "3,4"`, `"pfc_enable": "3,9"`},
			[]string{"format want priorities from 0 to 7"}},
		{"DSCP", "tor01", [2]string{`"63": "1"`, `"64": "1"`},
			[]string{"format DSCP_TO_TC_MAP.AZURE.64: the key must be 0 to 63"}},
		{"class", "tor01", [2]string{`"63": "1"`, `"63": "x"`},
			[]string{`format DSCP_TO_TC_MAP.AZURE.63: is "x", want a whole number`}},
		{"queue", "tor02", [2]string{`"AZURE": {"0": "0"`, `"AZURE": {"0": "8"`},
			[]string{"format TC_TO_QUEUE_MAP.AZURE.0: is 8, must be 0 to 7"}},
		{"no DSCP map", "tor01", [2]string{`"dscp_to_tc_map": "AZURE"`, `"dscp_to_tc_map": "A"`},
			[]string{`format PORT_QOS_MAP.Ethernet112,Ethernet114.dscp_to_tc_map: is "A", and DSCP_TO_TC_MAP has no such object`}},
		{"no queue map", "tor01", [2]string{`[TC_TO_QUEUE_MAP|AZURE]`, `[TC_TO_QUEUE_MAP|B]`},
			[]string{"format .tc_to_queue_map: is"}},
		{"no scheduler", "tor01", [2]string{`"scheduler.0": {`, `"s": {`},
			[]string{`format QUEUE.Ethernet112,Ethernet114|5.scheduler: is "scheduler.0", and SCHEDULER has`}},
		{"no profile", "tor01", [2]string{`"wred_profile": "AZURE_LOSSLESS"`, `"wred_profile": "x"`},
			[]string{"format WRED_PROFILE has no such object"}},
		{"weight", "tor01", [2]string{`"weight": "14"`, `"weight": "0"`},
			[]string{"format SCHEDULER.scheduler.0.weight: is 0, must be 1 to 100"}},
		{"alpha", "tor01", [2]string{`"dynamic_th": "-3"`, `"dynamic_th": "1000"`},
			[]string{`format dynamic_th: is "1000", must be -10 to 10`}},
		{"threshold", "tor01", [2]string{`"green_min_threshold": "1048576"`, `"green_min_threshold": "-1"`},
			[]string{`format WRED_PROFILE.AZURE_LOSSLESS.green_min_threshold: is "-1", must be 0 to`}},
		{"scheduling", "tor01", [2]string{`"STRICT"`, `"FIFO"`},
			[]string{`format SCHEDULER.scheduler.2.type: is "FIFO", want STRICT, DWRR or WRR`}},
		{"queues", "tor01", [2]string{`Ethernet114|5"`, `Ethernet114|5-"`},
			[]string{"format QUEUE.Ethernet112,Ethernet114|5-: want PORTS|QUEUE or PORTS|FIRST-LAST"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Load(sonicCopy(t, map[string][2]string{c.file: c.edit}), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(l.Faults) != len(c.want) {
				t.Errorf("%d faults, want %d: %v", len(l.Faults), len(c.want), l.Faults)
			}
			for _, want := range c.want {
				kind, text, _ := strings.Cut(want, " ")
				if !slices.ContainsFunc(l.Faults, func(f Fault) bool {
					return f.Kind == topology.FaultKind(kind) && strings.Contains(f.Text, text) &&
						f.Line > 0 &&
						strings.HasSuffix(f.File, ".json")
				}) {
					t.Errorf("no fault %q in %v", want, l.Faults)
				}
			}
		})
	}
	l, err := Load(
		sonicCopy(
			t,
			map[string][2]string{"leaf01": {`"local_port": "Ethernet4"`, `"local_port": "Ethernet44"`}},
		),
		Options{
			Repair: []topology.FaultKind{
				topology.FaultOneSided,
				topology.FaultSharedPort,
				topology.FaultParallel,
			}, Speeds: parseSpeedRules(t, "leaf*=100G")},
	)
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l)
}

// The queues of ports by DSCP have priorities, weights, marks and PFC. Settings that are not simulated are
// counted. The file has a range of queues, the DSCP map of all ports, and maps that omit values.
func TestSONiCQueues(t *testing.T) {
	l := loadFixture(t, "sonic", Options{})
	if len(l.Settings) != 2 || len(l.Settings[0].Queues) != 2 ||
		l.Settings[0].Queues[0] != l.Settings[1].Queues[1] {
		t.Fatalf("%+v", l.Settings)
	}
	lossless := QueueSetting{Weight: 1, MarkMin: 1 << 20, MarkMax: 1 << 21, PFC: true}
	want := PortQueues{
		{1 << 8, 1, 0, 0, false},
		{},
		{1 << 5, 1, 0, 0, false},
		lossless,
		lossless,
		{1 << 46, 14, 0, 0, false},
		{1 << 48, 1, 0, 0, false},
		{0, 1, 0, 0, false},
	}
	want[3].DSCPs = 1 << 3
	want[3].Weight = 15
	want[4].DSCPs = 1 << 4
	want[1] = QueueSetting{^(uint64(1)<<3 | 1<<4 | 1<<5 | 1<<8 | 1<<46 | 1<<48), 1, 0, 0, false}
	if got := l.Settings[0].Queues[0]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	l, err := LoadData(
		"tor.json",
		[]byte(`{"DEVICE_METADATA": {"localhost": {"hostname": "tor", "type": "ToRRouter"}},
		"PORT": {"Ethernet0": {"speed": "10000"}, "Ethernet4": {"speed": "10000"}},
		"DEVICE_NEIGHBOR": {"Ethernet0": {"name": "a"}, "Ethernet4": {"name": "b"}},
		"DEVICE_NEIGHBOR_METADATA": {"a": {"type": "Server"}, "b": {"type": "Server"}},
		"DSCP_TO_TC_MAP": {"A": {"46": "9"}}, "TC_TO_QUEUE_MAP": {"B": {"9": "5"}}, "MAP_PFC_PRIORITY_TO_QUEUE": {"C": {"3": "5"}},
		"SCHEDULER": {"w": {"type": "WRR", "weight": "7", "pir": "1000"}, "s": {"type": "STRICT"}},
		"PORT_QOS_MAP": {"global": {"dscp_to_tc_map": "A"}, "Ethernet0": {"tc_to_queue_map": "B", "pfc_to_queue_map": "C", "pfc_enable": "3", "dot1p_to_tc_map": "D"}},
		"QUEUE": {"Ethernet0|5-9": {"scheduler": "s"}, "Ethernet0|0": {"scheduler": "w"}, "tor|asic0|Ethernet0|1": {"scheduler": "w"}, "CPU|1": {}}}`),
		Options{},
	)
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l)
	wantNotes(
		t,
		l,
		"roles: 1 device with type ToRRouter in SONiC's files, called tor",
		"left out: dot1p_to_tc_map of 1 port",
		"weights of 1 scheduler count bytes",
		"the rates (pir, cir) of 1 scheduler",
		"queues above 7 in 1 row of QUEUE",
		"2 rows of QUEUE, of the CPU or of system ports",
	)
	got := l.Settings[0].Queues
	if len(got) != 1 || got[0][5] != (QueueSetting{1 << 46, 0, 0, 0, true}) ||
		got[0][0] != (QueueSetting{^(uint64(1) << 46), 7, 0, 0, false}) ||
		got[0][7].Weight != 0 ||
		got[0][1].Weight != 1 {
		t.Errorf("%+v", got)
	}
}

// A directory with one folder per switch, as Batfish expects it, and a single file.
func TestSONiCLayouts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"leaf01", "leaf02", "tor01", "tor02"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "config_db.json"), fixture(t, "sonic", name+".json"),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l)
	sameNetwork(t, "a folder per switch", l.Network, loadFixture(t, "sonic", Options{}).Network)
	l = loadFixture(t, filepath.Join("sonic", "tor01.json"), Options{})
	wantFaults(t, l)
	if l.Hosts != 2 || l.Cables != 4 {
		t.Errorf("one switch: %d hosts, %d cables", l.Hosts, l.Cables)
	}
}

func FuzzSONiC(f *testing.F) {
	for _, name := range []string{"leaf01.json", "tor01.json"} {
		f.Add(fixture(f, "sonic", name), true)
	}
	f.Add(
		[]byte(
			`{"DEVICE_NEIGHBOR": {"Ethernet0": {"name": "x", "port": 3}}, "PORT": [], "CABLE_LENGTH": {"A": {"b": "5m"}}}`,
		),
		false,
	)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) { fuzzFormat(t, "fuzz.json", data, repair) })
}

func TestBatfish(t *testing.T) {
	l := loadFixture(t, "layer1_topology.json", Options{})
	if l.Format != "batfish" || len(l.Faults) != 8 || l.Faults[0].Kind != topology.FaultUnknownSpeed {
		t.Fatalf("%s: %v", l.Format, l.Faults)
	}
	o := Options{Speeds: parseSpeedRules(t, "spine*=100G", "*=25G")}
	l = loadFixture(t, "layer1_topology.json", o)
	wantFaults(t, l)
	if l.Hosts != 4 || l.Switches != 4 || l.Cables != 8 || l.Network.Nodes[4].Name != "leaf1" {
		t.Errorf("%d hosts, %d switches, %d cables", l.Hosts, l.Switches, l.Cables)
	}
	wantNotes(t, l, "listed from both ends (8 of 8)", "8 cables from --speed rules")
	text := string(fixture(t, "layer1_topology.json"))
	for _, c := range []struct{ old, new, want string }{
		{`"interfaceName": "eth0"}, "node2"`, `"interfaceName": "eth1"}, "node2"`, "3 one-sided srv1:eth1"},
		{`"hostname": "srv1", `, ``, "3 format needs hostname and interfaceName"},
		{`"node1": {`, `"node3": {`, "3 format has no node1"},
		{`"edges": [`, `"edges": {"x": [`, "21 format not readable as JSON: the file ends too early"},
		{`"edges": [`, `"edges": [7,`, "2 format has no node1"},
	} {
		l := loadText(t, "layer1_topology.json", strings.Replace(text, c.old, c.new, 1), o)
		if len(l.Faults) == 0 {
			t.Errorf("%s → %s: no fault", c.old, c.new)
			continue
		}
		l.Faults = l.Faults[:1]
		wantFaults(t, l, c.want)
	}
	// A snapshot directory of Batfish lists each cable once.
	dir := filepath.Join(t.TempDir(), "snapshot")
	if err := os.MkdirAll(filepath.Join(dir, "batfish"), 0o755); err != nil {
		t.Fatal(err)
	}
	once := `{"edges": [
 {"node1": {"hostname": "a", "interfaceName": "1"}, "node2": {"hostname": "s", "interfaceName": "1"}},
 {"node1": {"hostname": "b", "interfaceName": "1"}, "node2": {"hostname": "S", "interfaceName": "2"}}]}`
	if err := os.WriteFile(filepath.Join(dir, "batfish", "layer1_topology.json"), []byte(once),
		0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l)
}

func FuzzBatfish(f *testing.F) {
	f.Add(fixture(f, "layer1_topology.json"), false)
	f.Add([]byte(`{"edges": [{"node1": {"hostname": 1, "interfaceName": null}, "node2": []}]}`), true)
	f.Fuzz(
		func(t *testing.T, data []byte, repair bool) { fuzzFormat(t, "layer1_topology.json", data, repair) },
	)
}

func TestYAML(t *testing.T) {
	l := loadFixture(t, "graph.yaml", Options{})
	wantFaults(t, l)
	k := l.Network.Links
	if len(k) != 4 || k[0].BandwidthBps != 25e9 || k[2].BandwidthBps != 10e9 ||
		k[2].DelayNS != 500 ||
		l.Network.Nodes[1].Name != "web2" {
		t.Errorf("links %+v", k)
	}
	clos := "clos: {pods: 2, racks_per_pod: 16, hosts_per_rack: 8, planes: 2, oversubscription: 4,\n" +
		"  host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}\n"
	sameNetwork(
		t,
		"clos",
		loadText(t, "clos.yaml", clos, Options{}).Network,
		topologytest.MustClos(t, topologytest.SmallClos(4)),
	)
	fabric := "fabric: {kind: fat-tree, ports: 4, gpus: 2, host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, " +
		"inner_bandwidth: 1Tbps}\n"
	if l := loadText(t, "fabric.yaml", fabric, Options{}); l.Network == nil || len(l.Network.Hosts()) != 16 ||
		len(l.Network.Nodes) != 44 {
		t.Errorf("fabric: %v", l.Faults)
	}
	// With as many racks as the factor, each plane has one spine.
	most := loadText(t, "clos.yaml", strings.Replace(clos, "oversubscription: 4", "oversubscription: 16", 1),
		Options{})
	wantFaults(t, most)
	graph := string(fixture(t, "graph.yaml"))
	for _, c := range []struct{ text, old, new, want string }{
		{clos, "oversubscription: 4", "oversubscription: 3", "1 format clos: oversubscription of 3 with 16 racks " +
			"per pod needs 5.33"},
		{clos, "oversubscription: 4", "oversubscription: 1000", "1 format clos: oversubscription of 1000 with 16 " +
			"racks per pod needs 0.016"},
		{clos, "oversubscription: 4", "oversubscription: 1e-300",
			"1 format clos: pods*planes*spines_per_plane is 16777216, must be 1 to 4194304"},
		{clos, "oversubscription: 4,", "", "1 format clos: needs spines_per_plane or oversubscription"},
		{clos, "pods: 2", "spines_per_plane: 4, pods: 2",
			"1 format clos: needs spines_per_plane or oversubscription"},
		{clos, "pods: 2", "pods: -1", "1 format clos.pods: is -1, must be 1 to"},
		{clos, "pods: 2,", "", "1 format clos: has no pods"},
		{clos, "10Gbps", "10 parsecs", `2 format clos.host_bandwidth: is "10 parsecs"`},
		{clos, "pods: 2", "pads: 2", "1 format clos.pads: is an unknown key"},
		{clos, "host_bandwidth: 10Gbps,", "", "1 format clos: has no host_bandwidth"},
		{fabric, "ports: 4", "ports: 5", "1 format fabric: ports is 5, must be even"},
		{fabric, "ports: 4", "ports: 4, x: 3", "1 format fabric: a fat-tree has the sizes ports, not ports, x"},
		{fabric, "ports: 4", "prots: 4", "1 format fabric.prots: is an unknown key"},
		{fabric, "kind: fat-tree,", "", "1 format fabric: has no kind"},
		{graph, "[web1, web2]", "[web1, web1]",
			`2 format graph.hosts[1]: is "web1", want a name that no other node has`},
		{graph, "[web1, web2]", `[web1, "we:b2"]`, `2 format graph.hosts[1]: is "we:b2", want a name that`},
		{graph, "[web1, web2]", `[web1, ""]`, `2 format graph.hosts[1]: is "", want a name that`},
		{graph, "- web1:leaf1", "- web1:leaf7",
			`7 format graph.cables[0]: is "web1:leaf7", want the names of two nodes`},
		{graph, "bandwidth: 25Gbps", "", "7 format graph.cables[0]: has no bandwidth"},
		{graph, "graph:", "graphs:", "2 format graphs: is an unknown key"},
		{graph, "- web1:leaf1", "- web1:web1", "7 self-loop"},
	} {
		l := loadText(t, "net.yml", strings.Replace(c.text, c.old, c.new, 1), Options{})
		found := false
		for _, f := range l.Faults {
			part := strings.SplitN(c.want, " ", 3)
			found = found ||
				string(f.Kind) == part[1] && (itoa(f.Line) == part[0] || part[0] == "2") &&
					(len(part) < 3 || strings.Contains(f.Text, part[2]))
		}
		if !found || l.Network != nil {
			t.Errorf("%s → %s: %v, want %q", c.old, c.new, l.Faults, c.want)
		}
	}
}

// Numbers with three digits in a Clos description can mean millions of nodes, which TestClosRefuses tests.
var threeDigits = regexp.MustCompile(`[0-9][0-9_]{2}|[0-9]e|0[xob]`)

func FuzzYAML(f *testing.F) {
	f.Add(fixture(f, "graph.yaml"), false)
	f.Add(
		[]byte(
			"clos: {pods: 1, racks_per_pod: 1, hosts_per_rack: 2, planes: 1, spines_per_plane: 1, host_bandwidth: "+
				"1Gbps, fabric_bandwidth: 1Gbps}",
		),
		false,
	)
	f.Add(
		[]byte(
			"fabric: {kind: torus, x: 2, y: 3, z: 1, hosts_per_switch: 2, gpus: 2, host_bandwidth: 1G, "+
				"fabric_bandwidth: 1G}",
		),
		false,
	)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) {
		if !threeDigits.Match(data) {
			fuzzFormat(t, "fuzz.yaml", data, repair)
		}
	})
}

// The example in every format's documentation is read without a fault.
func TestFormatDocs(t *testing.T) {
	files := map[string]string{
		"cabling":      "x.csv",
		"yaml":         "x.yaml",
		"batfish":      "x.json",
		"sonic":        "x.json",
		"json":         "x.json",
		"containerlab": "x.clab.yml",
		"minigraph":    "x.xml",
		"ns3":          "topology.txt",
		"htsim":        "x.topo",
		"graphml":      "x.graphml",
		"gml":          "x.gml",
	}
	o := Options{Speeds: parseSpeedRules(t, "*=10G")}
	for _, d := range Docs() {
		name := d[0]
		doc := d[1]
		_, example, ok := strings.Cut(doc, "\n\n")
		if !ok {
			_, example, _ = strings.Cut(doc, "  device_a,")
			example = "device_a," + example
		}
		if name == "tables" {
			nodes := &strings.Builder{}
			links := &strings.Builder{}
			for _, line := range strings.Split(example, "\n")[1:] {
				a, b, _ := strings.Cut(strings.TrimSpace(line), " ")
				nodes.WriteString(a + "\n")
				links.WriteString(strings.TrimSpace(b) + "\n")
			}
			if _, err := Read(writeTopology(t, nodes.String(), links.String())); err != nil {
				t.Errorf("tables: %v", err)
			}
			continue
		}
		for part := range strings.SplitSeq(example, "\n\n") {
			if strings.HasPrefix(strings.TrimSpace(part), "parsimon ") {
				continue
			}
			part = strings.ReplaceAll("\n"+part, "\n  ", "\n")
			l := loadText(t, files[name], part, o)
			if l.Format != name || len(l.Faults) > 0 || l.Network == nil {
				t.Errorf("%s, read as %s:\n%s\n%v", name, l.Format, part, l.Faults)
			}
		}
	}
}

// A description is free text: it must not hide that both ends name the same port, which would split a cable
// into two.
func TestLLDPDescriptionsDoNotBeatPortIDs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"leaf1/config_db.json": `{"DEVICE_METADATA": {"localhost": {"hostname": "leaf1", "type": "ToRRouter"}}, "PORT": {
			"Ethernet0": {"alias": "etp1", "speed": "25000"}, "Ethernet48": {"alias": "etp13", "speed": "100000"}}}`,
		"spine1/config_db.json": `{"DEVICE_METADATA": {"localhost": {"hostname": "spine1", "type": "LeafRouter"}}, "PORT": {
			"Ethernet0": {"alias": "etp1", "speed": "100000"}}}`,
		"leaf1/lldp.json": `{"lldp": {"interface": [
			{"Ethernet0": {"chassis": {"web1": {}}, "port": {"id": {"type": "mac", "value": "02:00:00:00:01:01"}, "descr": "eth0"}}},
			{"Ethernet48": {"chassis": {"spine1": {}}, "port": {"id": {"type": "local", "value": "etp1"}, "descr": "leaf1:Ethernet48"}}}]}}`,
		"spine1/lldp.json": `{"lldp": {"interface": {"Ethernet0": {"chassis": {"leaf1": {}},
			"port": {"id": {"type": "local", "value": "etp13"}, "descr": "Ethernet0"}}}}}`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Load(dir, Options{HostPatterns: []string{"web*"}})
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l)
	if l.Cables != 2 || bandwidth(t, l, "leaf1:spine1") != 100e9 {
		t.Errorf("%d cables, %d bps; want 2 and 100 Gbps", l.Cables, bandwidth(t, l, "leaf1:spine1"))
	}
}

// PFC is enabled for priorities from 0 to 7. Another number is a fault of the file, and no priority.
func TestPrioritiesOfPFC(t *testing.T) {
	for text, want := range map[string][]int{"0,7": {0, 7}, "3, 4": {3, 4}, "": nil, "8": nil, "3,-1": nil,
		"3,": nil} {
		f, err := tree.JSON("x.json", []byte(`"`+text+`"`))
		if err != nil {
			t.Fatal(err)
		}
		d := draftOf(func(*draft) {}, nil, "x.json")
		var s SwitchSettings
		got := d.pfcPriorities(&s, "Ethernet0", f)
		faults := 0
		if want == nil && text != "" {
			faults = 1
		}
		if !slices.Equal(got, want) || len(d.Faults) != faults || len(s.Taken) != min(1, len(want)) {
			t.Errorf("%q: priorities %v, want %v; %v, %+v", text, got, want, d.Faults, s.Taken)
		}
	}
}
