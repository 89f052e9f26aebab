package format

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parsimon/stages/topology"
)

// wantCounts checks the format of a file and its numbers of hosts, switches and cables.
func wantCounts(t *testing.T, l *Loaded, format string, hosts, switches, cables int) {
	t.Helper()
	if l.Format != format || l.Hosts != hosts || l.Switches != switches || l.Cables != cables {
		t.Errorf(
			"%s: %d hosts, %d switches, %d cables; want %s: %d, %d, %d\n%s",
			l.Format,
			l.Hosts,
			l.Switches,
			l.Cables,
			format,
			hosts,
			switches,
			cables,
			strings.Join(l.Notes, "\n"),
		)
	}
}

// kindOf returns the kind of a node with a name.
func kindOf(t *testing.T, l *Loaded, name string) string {
	t.Helper()
	for _, v := range l.Network.Nodes {
		if v.Name == name {
			return v.Kind
		}
	}
	t.Fatalf("no node is named %s", name)
	return ""
}

// The file has links of both forms, aliases of ports, groups, and links out of the lab.
func TestContainerlab(t *testing.T) {
	l := loadFixture(t, "lab.clab.yml", Options{Speeds: parseSpeedRules(t, "spine*=100G", "*=25G")})
	wantFaults(t, l)
	wantCounts(t, l, "containerlab", 3, 3, 6)
	wantNotes(t, l, "left out: 3 links that lead out of the lab", "left out: 1 device without a link")
	if kindOf(t, l, "leaf2") != topology.KindTor || kindOf(t, l, "spine1") != topology.KindSpine ||
		kindOf(t, l, "store1") != topology.KindHost {
		t.Error("roles are neither those of groups and labels nor inferred")
	}
	if IsGenerated(filepath.Join("testdata", "lab.clab.yml")) ||
		!IsGenerated(filepath.Join("testdata", "graph.yaml")) {
		t.Error("scenario files read a lab as a graph, or a graph as a lab")
	}
	lab := "topology:\n  nodes:\n    a: {kind: linux}\n    b: {kind: bridge}\n  links:\n"
	wantFaults(t, loadText(t, "x.clab.yml", lab+"    - endpoints: [\"a:eth1\", \"c:eth1\"]\n", Options{}),
		"6 format is \"c:eth1\", and topology.nodes has no such node")
	wantFaults(
		t,
		loadText(t, "x.clab.yml", lab+"    - endpoints: [\"a:eth1\"]\n", Options{}),
		"6 format has 1 endpoints, want 2",
	)
	wantFaults(
		t,
		loadText(t, "x.clab.yml", "topology: net.json\n", Options{}),
		"1 format has no topology.nodes",
	)
}

// Links are elements DeviceInterfaceLink, with the speed of the link or else of the port. Both switches list
// a cable.
func TestMinigraph(t *testing.T) {
	l := loadFixture(t, "minigraph", Options{})
	wantFaults(t, l)
	wantCounts(t, l, "minigraph", 1, 2, 2)
	wantNotes(t, l, "1 link of type LogicalLink", "1 link of type DeviceMgmtLink")
	if bandwidth(t, l, "web1:leaf1") != 10e9 || bandwidth(t, l, "leaf1:spine1") != 40e9 ||
		kindOf(t, l, "spine1") != topology.KindFabric {
		t.Errorf("%d, %d bps", bandwidth(t, l, "web1:leaf1"), bandwidth(t, l, "leaf1:spine1"))
	}
	leaf := string(fixture(t, "minigraph", "leaf1.xml"))
	spine := string(fixture(t, "minigraph", "spine1.xml"))
	wantFaults(t, loadText(t, "x.xml", leaf, Options{}))
	for _, c := range []struct{ old, new, want string }{
		{"<EndPort>Ethernet0</EndPort>", "<EndPort>Ethernet4</EndPort>", "one-sided"},
		{"<Hostname>spine1</Hostname>\n</Dev", "</Dev", "has no Hostname"},
		{"<Hostname>spine1</Hostname>\n</Dev", "<Hostname>leaf1</Hostname></Dev", "is about leaf1, as is"},
		{"<Speed>40000</Speed>", "<Speed>fast</Speed>", "the speed is"},
		{"</PngDec>", "</PngDoc>", "is not XML"},
		{"<StartDevice>leaf1</StartDevice>", "", "needs StartDevice and EndDevice"},
	} {
		dir := writeFiles(
			t,
			map[string]string{"leaf1.xml": leaf, "spine1.xml": strings.ReplaceAll(spine, c.old, c.new)},
		)
		l, err := Load(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(
			l.Faults,
			func(f Fault) bool { return strings.Contains(string(f.Kind)+" "+f.Text, c.want) },
		) {
			t.Errorf("%s → %s: %v, want %q", c.old, c.new, l.Faults, c.want)
		}
	}
}

// A file of links of sonic-mgmt has headers without separators, and speeds in Mbps.
func TestSonicMgmtLinks(t *testing.T) {
	l := loadText(
		t,
		"lab_links.csv",
		"StartDevice,StartPort,EndDevice,EndPort,BandWidth,VlanID,VlanMode,AutoNeg\n"+
			"dut-01,Ethernet0,fan-01,Ethernet1,40000,1681,Access,off\ndut-01,Ethernet4,fan-01,Ethernet2,40000,1682,Access,off\n"+
			"fan-01,Ethernet64,srv-01,p4p1,100000,1681-1682,Trunk,off\nfan-01,Ethernet65,srv-02,p4p1,100000,,Trunk,off\n",
		Options{},
	)
	wantFaults(t, l)
	wantCounts(t, l, "cabling", 3, 1, 4)
	wantNotes(t, l, "dut-01 – fan-01 (2 × 40 Gbps)")
}

// The table of links that Arista's AVD writes has each cable once, with columns Node and Peer Node. Only the
// first has no prefix, so a reader of names with a prefix finds one end.
func TestAVDLinks(t *testing.T) {
	l := loadText(
		t,
		"FABRIC-topology.csv",
		"Node Type,Node,Node Interface,Peer Type,Peer Node,Peer Interface,Node Interface Enabled\n"+
			"l3leaf,leaf1,Ethernet1,server,srv1,Eth0,True\nl3leaf,leaf2,Ethernet1,server,srv2,Eth0,True\n"+
			"l3leaf,leaf1,Ethernet51,spine,spine1,Ethernet1,True\n"+
			"l3leaf,leaf2,Ethernet51,spine,spine1,Ethernet2,True\n",
		Options{DefaultSpeedBps: 1e10, HostPatterns: []string{"srv*"}},
	)
	wantFaults(t, l)
	wantCounts(t, l, "cabling", 2, 3, 4)
}

// SuzieQ's output is read as CSV and JSON of suzieq-cli, and as Parquet files with values in their paths.
func TestSuzieQ(t *testing.T) {
	o := Options{DefaultSpeedBps: 1e10, HostPatterns: []string{"srv*"}}
	csv := "namespace,hostname,ifname,peerHostname,peerIfname,description,mgmtIP,timestamp\n" +
		"dc1,leaf1,swp1,srv1,eth1,,,1\ndc1,leaf1,swp51,spine1,swp1,,,1\ndc1,spine1,swp1,leaf1,-,,,1\ndc1,leaf1,eth0,oob,swp9,,,1\n"
	l := loadText(t, "lldp.csv", csv, o)
	wantFaults(t, l)
	wantCounts(t, l, "cabling", 1, 2, 2)
	json := `[{"namespace": "dc1", "hostname": "leaf1", "ifname": "swp1", "peerHostname": "srv1", "peerIfname": "eth1"},
		{"namespace": "dc1", "hostname": "leaf1", "ifname": "swp51", "peerHostname": "spine1", "peerIfname": "swp1"}]`
	l = loadText(t, "lldp.json", json, o)
	wantFaults(t, l)
	wantCounts(t, l, "cabling", 1, 2, 2)
	wantFaults(
		t,
		loadText(t, "lldp.json", strings.Replace(json, "dc1", "dc2", 1), o),
		"2 format is of namespace dc1, and the rows before are of dc2",
	)

	type row struct {
		Ifname       string `parquet:"ifname"`
		PeerHostname string `parquet:"peerHostname"`
		PeerIfname   string `parquet:"peerIfname"`
		Active       bool   `parquet:"active"`
		Timestamp    int64  `parquet:"timestamp"`
	}
	dir := t.TempDir()
	for host, rows := range map[string][]row{
		"leaf1": {{"swp1", "srv1", "eth1", true, 5}, {"swp51", "spine9", "swp1", true, 5},
			{"swp51", "spine1", "swp1", true, 9},
			{"swp2", "srv2", "eth1", false, 9}},
		"spine1": {{"swp1", "leaf1", "swp51", true, 9}},
	} {
		path := filepath.Join(dir, "namespace=dc1", "hostname="+host)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		parquetFile(t, filepath.Join(path, "a.parquet"), rows)
	}
	l, err := Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l)
	wantCounts(t, l, "suzieq", 1, 2, 2)
	wantNotes(
		t,
		l,
		"1 row: neighbors that are no longer active",
		"1 row that were polled before the last of their port",
	)
}

const ns3Small = "6 2 6\n4 5\n0 4 25Gbps 1us 0\n1 4 25000000000.0 0.001ms 0\n2 5 25Gbps 1us 0\n3 5 25Gbps " +
	"1us 0\n4 5 100Gbps 2us 0\n4 5 100Gbps 2us 0.001\n"

// Files have one of the three headers of ns-3's topology files. Nodes that are not switches are hosts, and
// keep their ids.
func TestNS3(t *testing.T) {
	l := loadText(t, "topology.txt", ns3Small, Options{})
	wantFaults(t, l)
	wantCounts(t, l, "ns3", 4, 2, 6)
	wantNotes(t, l, "4 – 5 (2 × 100 Gbps)", "left out: the error rates of 1 cable")
	k := l.Network.Links[2]
	if k.Src != 1 || k.BandwidthBps != 25e9 || k.DelayNS != 1000 {
		t.Errorf("link 2 is %+v", k)
	}
	l = loadText(t, "topology.txt", strings.Replace(ns3Small, "6 2 6", "6 2 2 6", 1), Options{})
	wantFaults(t, l)
	wantCounts(t, l, "ns3", 4, 2, 6)
	simAI := "6 2 2 1 8 A100\n3 4 5\n0 3 2400Gbps 0.000025ms 0\n1 3 2400Gbps 0.000025ms 0\n2 4 2400Gbps " +
		"0.000025ms 0\n0 5 100Gbps 0.0005ms 0\n1 5 100Gbps 0.0005ms 0\n2 5 100Gbps 0.0005ms 0\n"
	l = loadText(t, "Spectrum-X_3g_2gps_100Gbps_A100", strings.Replace(simAI, "1 8 A", "1 6 A", 1), Options{})
	wantFaults(t, l)
	wantCounts(t, l, "ns3", 3, 3, 6)
	v, _ := l.Network.Node(4)
	if v.Kind != topology.KindInner {
		t.Errorf("an NVSwitch is %+v", v)
	}
	wantFaults(
		t,
		loadText(t, "t.txt", simAI, Options{}),
		"1 format the header counts 8 links, and the file has words for 6",
	)
	for _, c := range []struct{ old, new, want string }{
		{"4 5\n0 4", "4 9\n0 4", `2 format the id of a switch is "9", want 0 to 5`},
		{"4 5\n0 4", "4 4\n0 4", "2 format switch 4 is listed twice"},
		{"0 4 25Gbps", "0 6 25Gbps", `3 format the end of a link is "6", want 0 to 5`},
		{"0 4 25Gbps 1us", "0 4 fast 1us", `3 format the rate is "fast"`},
		{"0 4 25Gbps 1us", "0 4 25Gbps soon", `3 format the delay`},
		{"2us 0.001", "2us 7", `8 format the error rate is "7", want 0 to 1`},
	} {
		l := loadText(t, "topology.txt", strings.Replace(ns3Small, c.old, c.new, 1), Options{})
		part := strings.SplitN(c.want, " ", 3)
		if !slices.ContainsFunc(
			l.Faults,
			func(f Fault) bool { return itoa(f.Line) == part[0] && strings.Contains(f.Text, part[2]) },
		) {
			t.Errorf("%q → %q: %v, want %q", c.old, c.new, l.Faults, c.want)
		}
	}
	wantNotes(
		t,
		loadText(t, "topology.txt", strings.Replace(ns3Small, "6 2 6", "6 2 5", 1), Options{}),
		"left out: after the links that the header counts, from line 8",
	)
}

const htsimThree = "# comment\nNodes 8\nTiers 3\nPodsize 4\n\nTier 0\nDownlink_speed_Gbps 200\nRadix_Down " +
	"2\nRadix_Up 2\nDownlink_Latency_ns 1000\nSwitch_Latency_ns 300\nTier 1\nDownlink_speed_Gbps " +
	"200\nRadix_Down 2\nRadix_Up 4\nDownlink_Latency_ns 1000\nSwitch_Latency_ns 500\nBundle 1\nTier " +
	"2\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000\nBundle 2\n"

// A fat-tree of htsim has 2 pods of 2 ToR and 2 aggregation switches, and 4 core switches with bundles of
// two.
func TestHtsim(t *testing.T) {
	l := loadText(t, "test.topo", htsimThree, Options{})
	wantFaults(t, l)
	wantCounts(t, l, "htsim", 8, 12, 32)
	n := l.Network
	for _, k := range n.Links {
		want := map[string][2]int64{"host-tor": {200e9, 1150}, "tor-host": {200e9, 1150},
			"tor-fabric": {200e9, 1400}, "fabric-tor": {200e9, 1400}, "fabric-spine": {100e9, 1250},
			"spine-fabric": {100e9, 1250}}[k.Tier]
		if k.BandwidthBps != want[0] || k.DelayNS != want[1] {
			t.Errorf("link %+v, want %v", k, want)
		}
	}
	if len(n.Racks()) != 4 || n.Pods() != 2 || n.Hosts()[7] != 7 {
		t.Errorf("%d racks, %d pods, hosts %v", len(n.Racks()), n.Pods(), n.Hosts())
	}
	r, err := topology.NewRouter(t.Context(), n, 1)
	if err != nil {
		t.Fatal(err)
	}
	if path, err := r.Path(1, 0, 7, nil); err != nil || len(path) != 6 {
		t.Errorf("path %v, %v: every host reaches every other over the core", path, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"Tiers 3", "Tiers 4", "Tiers is 4, want 2 or 3"},
		{"Nodes 8", "Nodes 6", "Nodes is 6, want a multiple of Podsize (4)"},
		{"Radix_Up 4", "Radix_Up 3", "must be multiples of its Bundle"},
		{"Radix_Down 4", "Radix_Down 8", "Radix_Down of tier 2 is 8"},
		{"Podsize 4", "Podsize", "Podsize has no number"}, {"Tier 2", "Tier 3", "tier is 3, want 0 to 2"},
		{"Switch_Latency_ns 500\nBundle 1", "Bundle 0", "tier 1 has no bundle"},
		{"Downlink_Latency_ns 1000\nBundle 2", "Bundle 2", "tier 2 has no downlink_latency_ns"},
		{"Tier 0\n", "Tier 0\nBundle 2\n", "Bundle of tier 0 is 2: hosts have one cable"},
		{"Nodes 8", "Nodes 0", "Nodes is 0, want a multiple of Podsize (4)"},
		{"Nodes 8", "Nodes 1000000000001", "want a whole number from 0 to 10^12"},
		{"Bundle 1", "Bandle 1", "bandle is not a key here"}, {"Radix_Up 2", "Radix_Up two", `Radix_Up is "two"`},
		{"Radix_Down 2\nRadix_Up 4", "Radix_Down 4\nRadix_Up 4",
			"4 ToR switches have 8 cables up, and 4 switches of tier 1 16 down"},
	} {
		l := loadText(t, "test.topo", strings.Replace(htsimThree, c.old, c.new, 1), Options{})
		if l.Network != nil || len(l.Faults) == 0 || !strings.Contains(l.Faults[0].Text, c.want) {
			t.Errorf("%q → %q: %v, want %q", c.old, c.new, l.Faults, c.want)
		}
	}
}

// With two tiers, all switches of the second one are spine switches of all ToR switches. Each of the two
// cables of a bundle has the latency of the tier, and half of that of the switch below it.
func TestHtsimOfTwoTiers(t *testing.T) {
	l := loadText(t, "two.topo", "Nodes 8\nTiers 2\nPodsize 8\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 4\n"+
		"Radix_Up 2\nDownlink_Latency_ns 1000\nSwitch_Latency_ns 300\nTier 1\nDownlink_speed_Gbps 400\n"+
		"Radix_Down 4\nDownlink_Latency_ns 2000\nBundle 2\n", Options{})
	wantFaults(t, l)
	wantCounts(t, l, "htsim", 8, 3, 12)
	n := l.Network
	for _, k := range n.Links {
		want := map[string][2]int64{"host-tor": {100e9, 1150}, "tor-host": {100e9, 1150},
			"tor-spine": {400e9, 2150}, "spine-tor": {400e9, 2150}}[k.Tier]
		if k.BandwidthBps != want[0] || k.DelayNS != want[1] {
			t.Errorf("link %+v, want %v", k, want)
		}
	}
	if len(n.Racks()) != 2 || n.Nodes[0].Pod != -1 || n.Nodes[7].Rack != 1 || n.Nodes[9].Rack != 1 {
		t.Errorf("%d racks, nodes %+v", len(n.Racks()), n.Nodes)
	}
}

const graphmlSmall = `<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="d0"/><key attr.name="Latitude" attr.type="double" for="node" id="d1"/>
  <key attr.name="Longitude" attr.type="double" for="node" id="d2"/><key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d3"/>
  <key attr.name="LinkLabel" attr.type="string" for="edge" id="d4"/>
  <graph edgedefault="undirected"><data key="d0">of the graph</data>
    <node id="0"><data key="d0">Bern</data><data key="d1">46.948</data><data key="d2">7.4474</data></node>
    <node id="1"><data key="d0">Geneva</data><data key="d1">46.2044</data><data key="d2">6.1432</data></node>
    <node id="2"><data key="d0">None</data></node><node id="3"><data key="d0">None</data></node>
    <edge source="0" target="1"><data key="d3">10000000000.0</data></edge>
    <edge source="2" target="0"><data key="d4">2.5 Gbps</data></edge>
    <edge source="3" target="1"><data key="d4">a circuit</data></edge>
  </graph></graphml>`

// The file has names that several nodes have, speeds in three attributes, and delays by distance: Bern and
// Geneva are 129 km apart.
func TestGraphML(t *testing.T) {
	l := loadText(t, "zoo.graphml", graphmlSmall, Options{DefaultSpeedBps: 1e9})
	wantFaults(t, l)
	wantCounts(t, l, "graphml", 2, 2, 3)
	wantNotes(t, l, "1 edge by the distance of the places of their nodes", `such as "a circuit", of 1 edge`)
	if kindOf(t, l, "None (2)") != topology.KindHost || bandwidth(t, l, "Bern:Geneva") != 10e9 ||
		bandwidth(t, l, "None (2):Bern") != 25e8 {
		t.Errorf("%d, %d bps", bandwidth(t, l, "Bern:Geneva"), bandwidth(t, l, "None (2):Bern"))
	}
	ns := l.Network.Links[0].DelayNS
	if ns < 630_000 || ns > 660_000 {
		t.Errorf("Bern – Geneva has %d ns, want about 645 us", ns)
	}
	for _, c := range []struct{ old, new, want string }{
		{`target="1"`, `target="7"`, `an edge joins "0" and "7", and there is no such node`},
		{`<node id="3">`, `<node id="2">`, `two nodes have the id "2"`},
		{"</graph>", "</graf>", "is not XML"},
	} {
		l := loadText(
			t,
			"zoo.graphml",
			strings.Replace(graphmlSmall, c.old, c.new, 1),
			Options{DefaultSpeedBps: 1e9},
		)
		if !slices.ContainsFunc(l.Faults, func(f Fault) bool { return strings.Contains(f.Text, c.want) }) {
			t.Errorf("%q → %q: %v, want %q", c.old, c.new, l.Faults, c.want)
		}
	}
}

const gmlSmall = "# a comment\nCreator \"us\"\ngraph [\n  directed 0\n  node [ id 0 label \"h 1\" graphics " +
	"[ x 1.0 id 9 ] role \"host\" ]\n  node [ id 1 label \"s\" ]\n  node [ id 2 label \"h2\" role \"server\" ]\n" +
	"  edge [ source 0 target 1 LinkSpeed \"10\" LinkSpeedUnits \"G\" delay \"2us\" ]\n  edge [ source 2 " +
	"target 1 bandwidth \"25G\" length \"20m\" ]\n]\n"

func TestGML(t *testing.T) {
	l := loadText(t, "net.gml", gmlSmall, Options{})
	wantFaults(t, l)
	wantCounts(t, l, "gml", 2, 1, 2)
	k := l.Network.Links[0]
	if k.BandwidthBps != 10e9 || k.DelayNS != 2000 ||
		l.Network.Links[2].DelayNS != 100 {
		t.Errorf("links %+v", l.Network.Links)
	}
	for _, bad := range []string{"]", "edge [ source 0", "]]", "node"} {
		l := loadText(t, "net.gml", strings.TrimSuffix(gmlSmall, "]\n")+bad, Options{})
		if bad != "]" &&
			len(l.Faults) == 0 {
			t.Errorf("%q: no fault", bad)
		}
	}
	deep := "graph [" + strings.Repeat(" a [", 1000) + strings.Repeat(" ]", 1001)
	wantFaults(t, loadText(t, "net.gml", deep, Options{}), "1 format is not GML")
}

// A file of a few words must not make the reader allocate gigabytes.
func TestSmallFilesOfLargeNetworks(t *testing.T) {
	for name, text := range map[string]string{
		"topology.txt": "4000000 1 1\n5\n0 5 1Gbps 1us 0\n",
		"links.txt":    "6 1 200000000\n5\n0 5 1Gbps 1us 0\n",
		"x.topo": "Nodes 4000000\nTiers 2\nPodsize 4000000\nTier 0\nDownlink_speed_Gbps 1\nRadix_Down 1\nRadix_Up " +
			"1000\nDownlink_Latency_ns 1\nTier 1\nDownlink_speed_Gbps 1\nRadix_Down 4000000\nDownlink_Latency_ns 1\n",
	} {
		l := loadText(t, name, text, Options{})
		if len(l.Faults) != 1 || l.Network != nil {
			t.Errorf("%s: %v, want one fault", name, l.Faults)
		}
	}
}

// lldpctl -f json0 puts every value in a list.
func TestLLDPJSON0(t *testing.T) {
	entry := func(local, name, kind, port string) string {
		return `{"name": "` + local +
			`", "via": "LLDP", "chassis": [{"id": [{"type": "mac", "value": "02:00:00:00:00:01"}], "name": [{"value": "` +
			name + `"}], "capability": [{"type": "` + kind +
			`", "enabled": true}]}], "port": [{"id": [{"type": "ifname", "value": "` + port +
			`"}], "descr": [{"value": "to ` + local +
			`"}], "auto-negotiation": [{"current": [{"value": "25GbaseCR - long"}]}]}]}`
	}
	file := func(entries ...string) string {
		return `{"lldp": [{"interface": [` + strings.Join(entries, ", ") + `]}]}`
	}
	dir := writeFiles(t, map[string]string{
		"leaf1_lldp.json": file(
			entry("Ethernet0", "web1", "Station", "eth0"),
			entry("Ethernet48", "spine1", "Bridge", "Ethernet0"),
		),
		"spine1_lldp.json": file(entry("Ethernet0", "leaf1", "Bridge", "Ethernet48")),
	})
	l, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l)
	wantCounts(t, l, "sonic", 1, 2, 2)
	if bandwidth(t, l, "web1:leaf1") != 25e9 {
		t.Errorf("%d bps", bandwidth(t, l, "web1:leaf1"))
	}
}

// The error for an unknown format names the format that the file resembles, and the command that converts or
// reads it. Otherwise a file of traffic that is given as the network would have a hundred faults.
func TestUnknownFormats(t *testing.T) {
	const reads = ", which is traffic, not a network. To read it: parsimon "
	for name, c := range map[string]struct{ content, want string }{
		"net.dot": {"graph { a -- b }",
			"looks like a graph of Graphviz; this turns it into a file that is read: gv2gml "},
		"nx.json": {`{"directed": false, "multigraph": false, "graph": {}, "nodes": [], "links": []}`,
			"nx.node_link_graph"},
		"cables.xlsx": {"PK\x03\x04", "libreoffice --headless --convert-to csv "},
		"lab.gns3":    {`{"project_id": "x", "topology": {}}`, "jq -r"},
		"net.gexf":    {"<gexf/>", "nx.read_gexf"},
		"other.json":  {`{"a": 1}`, "no known format (tables, cabling,"},
		"notes.txt":   {"hello", "A cabling list is the simplest"},
		"cables.json": {`{"results": [{"a_terminations": [], "b_terminations": []}]}`, "the API of NetBox"},
		"flows.csv":   {"src,dst,size_bytes,start_ns\n0,1,2,3\n", "a list of flows" + reads + "run --topology "},
		"perm.cm":     {"Nodes 2\nConnections 1\n0->1 start 0 size 5\n", "a connection matrix of htsim" + reads},
		"ring.goal":   {"num_ranks 1\nrank 0 {\n}\n", "a schedule of LogGOPSim" + reads + "convert "},
		"job.0.et":    {"\x05\x0a\x03abc", "a Chakra trace" + reads + "convert "},
		"conn.log": {"#separator \\x09\n#fields\tts\tuid\tid.orig_h\n",
			"a conn.log of Zeek" + reads + "ingest "},
	} {
		dir := writeFiles(t, map[string]string{name: c.content})
		_, err := Load(filepath.Join(dir, name), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzContainerlab(f *testing.F) {
	f.Add(fixture(f, "lab.clab.yml"), false)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) { fuzzFormat(t, "fuzz.clab.yml", data, repair) })
}

func FuzzMinigraph(f *testing.F) {
	f.Add(fixture(f, "minigraph", "leaf1.xml"), false)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) { fuzzFormat(t, "fuzz.xml", data, repair) })
}

func FuzzNS3(f *testing.F) {
	f.Add([]byte(ns3Small), false)
	f.Add([]byte("3 2 1 1 2 H100\n1 2\n0 1 1Gbps 1us 0\n0 2 1Gbps 1us 0\n"), true)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) {
		if !threeDigits.Match(data[:min(len(data), 40)]) {
			fuzzFormat(t, "topology.txt", data, repair)
		}
	})
}

func FuzzHtsim(f *testing.F) {
	f.Add([]byte(htsimThree), false)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) {
		if !threeDigits.Match(data) {
			fuzzFormat(t, "fuzz.topo", data, repair)
		}
	})
}

func FuzzGraphML(f *testing.F) {
	f.Add([]byte(graphmlSmall), false)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) { fuzzFormat(t, "fuzz.graphml", data, repair) })
}

func FuzzGML(f *testing.F) {
	f.Add([]byte(gmlSmall), false)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) { fuzzFormat(t, "fuzz.gml", data, repair) })
}

func FuzzRows(f *testing.F) {
	f.Add([]byte(`[{"hostname": "a", "ifname": "1", "peerHostname": "b", "peerIfname": "2"}]`), false)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) { fuzzFormat(t, "fuzz.json", data, repair) })
}

// Damaged Parquet files of SuzieQ are faults.
func FuzzSuzieQ(f *testing.F) {
	type row struct {
		Hostname string `parquet:"hostname"`
		Peer     string `parquet:"peerHostname"`
	}
	var b strings.Builder
	if err := parquet.Write(&b, []row{{"a", "b"}}); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(b.String()))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkDraft(
			t,
			draftOf(readSuzieQ, map[string][]byte{"hostname=a/x.parquet": data}, "hostname=a/x.parquet"),
		)
	})
}
