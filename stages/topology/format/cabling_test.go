package format

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// loadText loads a file of the given name and content.
func loadText(t *testing.T, name, text string, o Options) *Loaded {
	t.Helper()
	l, err := LoadData(name, []byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func loadFixture(t *testing.T, name string, o Options) *Loaded {
	t.Helper()
	l, err := Load(filepath.Join("testdata", name), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// wantFaults compares faults with "line kind" and, after a space, a part of the text.
func wantFaults(t *testing.T, l *Loaded, want ...string) {
	t.Helper()
	var got []string
	for _, f := range l.Faults {
		got = append(got, f.Error())
	}
	if len(l.Faults) != len(want) {
		t.Fatalf("%d faults, want %d:\n%s", len(l.Faults), len(want), strings.Join(got, "\n"))
	}
	for i, w := range want {
		part := strings.SplitN(w, " ", 3)
		f := l.Faults[i]
		if itoa(f.Line) != part[0] || string(f.Kind) != part[1] ||
			len(part) > 2 && !strings.Contains(f.Text, part[2]) {
			t.Errorf("fault %d is line %d, %s: %s; want %q", i, f.Line, f.Kind, f.Text, w)
		}
	}
}

func wantNotes(t *testing.T, l *Loaded, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !slices.ContainsFunc(l.Notes, func(note string) bool { return strings.Contains(note, part) }) {
			t.Errorf("no note says %q:\n%s", part, strings.Join(l.Notes, "\n"))
		}
	}
}

func parseSpeedRules(t *testing.T, texts ...string) (rules []SpeedRule) {
	t.Helper()
	for _, text := range texts {
		r, err := ParseSpeedRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

func TestCablingList(t *testing.T) {
	l := loadFixture(t, "cabling.csv", Options{})
	wantFaults(t, l)
	if l.Hosts != 12 || l.Switches != 6 || l.Cables != 20 {
		t.Errorf("%d hosts, %d switches, %d cables", l.Hosts, l.Switches, l.Cables)
	}
	n := l.Network
	for id, want := range map[int32]topology.Node{
		0:  {ID: 0, Name: "web01", Kind: topology.KindHost, Pod: -1, Rack: 0},
		11: {ID: 11, Name: "web12", Kind: topology.KindHost, Pod: -1, Rack: 3},
		12: {ID: 12, Name: "leaf1", Kind: topology.KindTor, Pod: -1, Rack: 0},
		17: {ID: 17, Name: "spine2", Kind: topology.KindSpine, Pod: -1, Rack: -1},
	} {
		v, _ := n.Node(id)
		if v != want {
			t.Errorf("node %+v, want %+v", v, want)
		}
	}
	k := n.Links[0]
	if k.BandwidthBps != 25e9 || k.DelayNS != 15 || k.Src != 0 || k.Dst != 12 {
		t.Errorf("link 0 is %+v", k)
	}
	wantNotes(
		t,
		l,
		"planned: 4 cables",
		"24 rows with a length, at 5 ns/m",
		"12 devices with one cable",
		"4 tor",
		"2 spine",
		"columns not used: label",
	)
}

func TestCablingFaults(t *testing.T) {
	l := loadFixture(t, "cabling_faults.csv", Options{})
	wantFaults(t, l,
		"6 doubled (line 5)",
		"8 contradictory has 40 Gbps here and 100 Gbps before (line 7)",
		"9 parallel a second cable between leaf1 and spine1 (the first: line 5)",
		"10 shared-port port spine1:Ethernet3 is cabled to leaf1:Ethernet50 as well (line 9)",
		"10 parallel a second cable between leaf2 and spine1",
		"11 self-loop leaf1:Ethernet51 and leaf1:Ethernet52",
		"12 unknown-speed leaf2:Ethernet51 – spine2:Ethernet1 has no speed",
		`13 format speed is "100", which has no unit: write 100M or 100G`,
		"14 similar-names Spine2 is also written spine2",
		"15 island db1, db2, leaf9",
		`16 format length is "3 parsecs"`,
		`17 status status "perhaps" is unknown`)
	if l.Network != nil {
		t.Error("a network in spite of faults")
	}
	if _, err := Read(filepath.Join("testdata", "cabling_faults.csv")); err == nil ||
		strings.Count(err.Error(), "\n") != 10 ||
		strings.Contains(err.Error(), "leaf9") {
		t.Errorf("Read joins every fault but the island, and says %v", err)
	}
}

// A number in kbit/s, as in NetBox, is not read as Mbps or bps if the name of a port states the speed.
func TestCablingSpeedsInKbps(t *testing.T) {
	rows := "h1,eno1,sw1,Gi1/0/1,1000000\nh2,eno1,sw1,Te1/1/1,10000000\n"
	wantFaults(t, loadText(t, "c.csv", "a,port_a,b,port_b,speed\n"+rows, Options{}),
		"2 format h1:eno1 – sw1:Gi1/0/1 has 1 Tbps by its speed and 1 Gbps by the name of a port",
		"3 format h2:eno1 – sw1:Te1/1/1 has 10 Mbps by its speed and 10 Gbps by the name of a port")
	l := loadText(t, "c.csv", "a,port_a,b,port_b,Speed (Kbps)\n"+rows, Options{})
	wantFaults(t, l)
	if l.Network.Links[0].BandwidthBps != 1e9 || l.Network.Links[2].BandwidthBps != 1e10 {
		t.Errorf("%+v", l.Network.Links)
	}
}

// Each repair does what its documentation states, and nothing else.
func TestCablingRepairs(t *testing.T) {
	const header = "a,pa,b,pb,speed\n"
	base := "h1,e,s1,p1,10G\nh2,e,s2,p1,10G\ns1,p2,s2,p2,40G\n"
	for _, c := range []struct {
		name, rows string
		repair     topology.FaultKind
		fault      string
		cables     int
		bps        int64 // of s1–s2
	}{
		{"doubled", "s1,p2,s2,p2,40G\n", topology.FaultDoubled, "5 doubled", 3, 40e9},
		{"contradictory", "s1,p2,s2,p2,25G\n", topology.FaultContradictory, "5 contradictory", 3, 25e9},
		{"parallel", "s1,p3,s2,p3,25G\n", topology.FaultParallel, "5 parallel", 4, 65e9},
		{"shared port", "s1,p2,s3,p1,10G\ns2,p7,s3,p2,10G\n", topology.FaultSharedPort, "5 shared-port", 5, 40e9},
		{"self-loop", "s1,p8,s1,p9,40G\n", topology.FaultSelfLoop, "5 self-loop", 3, 40e9},
		{"island", "h8,e,s8,p1,10G\n", topology.FaultIsland, "5 island", 3, 40e9},
		{"similar names", "S1,p5,s3,p1,10G\ns2,p7,s3,p2,10G\n", topology.FaultSimilarNames, "5 similar-names", 5,
			40e9},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.NewReplacer("pa", "port_a", "pb", "port_b").Replace(header) + base + c.rows
			o := Options{HostPatterns: []string{"h*"}}
			wantFaults(t, loadText(t, "c.csv", text, o), c.fault)
			o.Repair = []topology.FaultKind{c.repair}
			o.HostPatterns = append(o.HostPatterns, "stro*")
			l := loadText(t, "c.csv", text, o)
			wantFaults(t, l)
			wantNotes(t, l, "pattern stro* matches no device")
			guessed := loadText(t, "c.csv", text, Options{})
			if c.name != "island" { // which is found of the hosts
				wantNotes(t, guessed, "a guess that the faults below disturb")
			}
			if l.Cables != c.cables || l.Repaired[c.repair] != 1 {
				t.Errorf("%d cables, repaired %v", l.Cables, l.Repaired)
			}
			bps := bandwidth(t, l, "s1:s2")
			if bps != c.bps {
				t.Errorf("s1 – s2 has %d bps, want %d", bps, c.bps)
			}
		})
	}
}

// If most cables of a list are listed from both ends, all must be.
func TestCablingFromBothEnds(t *testing.T) {
	text := "local_device,local_port,remote_device,remote_port,speed\n" +
		"s1,p1,h1,e,10G\nh1,e,s1,p1,10G\ns1,p2,h2,e,10G\nh2,e,s1,p2,10G\ns1,p3,h3,e,10G\n"
	wantFaults(t, loadText(t, "lldp.csv", text, Options{}), "6 one-sided s1:p3 reports a cable to h3:e")
	l := loadText(t, "lldp.csv", text, Options{Repair: []topology.FaultKind{topology.FaultOneSided}})
	wantFaults(t, l)
	wantNotes(t, l, "listed from both ends (2 of 3)")
	if l.Cables != 3 || l.Hosts != 3 {
		t.Errorf("%d cables, %d hosts", l.Cables, l.Hosts)
	}
}

// If there is a column remote_device, "device" is the near device. A column of ports is a column of devices
// only if it contains DEVICE:PORT and the other end has no column of devices either.
func TestCablingOfNeighbors(t *testing.T) {
	rows := "s1,Ethernet0,h1,eth0\ns1,Ethernet4,s2,Ethernet4\ns2,Ethernet0,h2,eth0\n"
	o := Options{DefaultSpeedBps: 1e10}
	want := loadText(t, "lldp.csv", "local_device,local_port,remote_device,remote_port\n"+rows, o)
	got := loadText(t, "lldp.csv", "device,local_port,remote_device,remote_port\n"+rows, o)
	for _, l := range []*Loaded{want, got} {
		wantFaults(t, l)
		if l.Cables != 3 || l.Switches != 2 || l.Hosts != 2 ||
			strings.Contains(strings.Join(l.Notes, "\n"), "not used") {
			t.Errorf("%d cables, %d switches, %d hosts; %q", l.Cables, l.Switches, l.Hosts, l.Notes)
		}
	}
	sameNetwork(t, "device", got.Network, want.Network)
	both := loadText(t, "lldp.csv", "device,local_device,remote_device\nrow1,s1,h1\nrow2,s1,h2\n", o)
	wantFaults(t, both)
	wantNotes(t, both, "columns not used: device")

	wantFaults(
		t,
		loadText(t, "c.csv", "local_port,remote_device,remote_port\nEthernet0,h1,eth0\n", o),
		"1 format has no column device_a",
	)
	wantFaults(t, loadText(t, "c.csv", "device,local_port,speed\ns1,Ethernet0,1G\n", o),
		"1 format has no column device_a", "1 format has no column device_b")
	wantFaults(
		t,
		loadText(
			t,
			"c.csv",
			"local_port,remote_port\ns1:Ethernet0,h1:eth0\nEthernet4,h2:eth0\ns1:Ethernet8,h3:eth0\n",
			o,
		),
		"3 format names no device at one end",
	)
	named := loadText(
		t,
		"c.csv",
		"device,port_a,port_b\nrow1,s1:Ethernet0,h1:eth0\nrow2,s1:Ethernet4,h2:eth0\n",
		o,
	)
	wantFaults(t, named)
	wantNotes(t, named, "columns not used: device")
}

// Switches list their neighbors and servers list none, so most cables are listed from one end. A switch that
// does not list a cable to itself is a fault.
func TestCablingOfSilentServers(t *testing.T) {
	list := "a,port_a,b,port_b,speed\nleaf1,1,h1,e,25G\nleaf1,2,h2,e,25G\nleaf1,3,h3,e,25G\nleaf2,1,h4,e,25G\nleaf2,2,h5,e,25G\n" +
		"leaf1,49,spine,1,100G\nspine,1,leaf1,49,100G\nleaf2,49,spine,2,100G\n"
	l := loadText(t, "cables.csv", list+"spine,2,leaf2,49,100G\n", Options{})
	if len(l.Faults) > 0 ||
		l.Cables != 7 {
		t.Errorf("%d cables, want 7; faults %v", l.Cables, l.Faults)
	}
	if l := loadText(t, "cables.csv", list, Options{}); len(l.Faults) != 1 ||
		l.Faults[0].Kind != topology.FaultOneSided {
		t.Errorf("a cable that the spine does not list: faults %v", l.Faults)
	}
}

// Without ports, a cable that is listed twice looks like two cables, and an option decides.
func TestCablingWithoutPorts(t *testing.T) {
	text := "source,target,bandwidth\nh1,s1,10G\nh2,s1,10000\nh2,s1,10G\n"
	wantFaults(t, loadText(t, "c.csv", text, Options{}), "4 doubled without ports")
	for kind, bps := range map[topology.FaultKind]int64{topology.FaultDoubled: 10e9,
		topology.FaultParallel: 20e9} {
		l := loadText(t, "c.csv", text, Options{Repair: []topology.FaultKind{kind}})
		wantFaults(t, l)
		wantNotes(t, l, "1 row with a plain number, read as Mbps")
		got := bandwidth(t, l, "h2:s1")
		if got != bps {
			t.Errorf("%s: %d bps, want %d", kind, got, bps)
		}
	}
}

func TestCablingNetBox(t *testing.T) {
	l := loadFixture(t, "netbox_cables.csv", Options{})
	wantFaults(
		t,
		l,
		"2 unknown-speed",
		"3 unknown-speed",
		"4 unknown-speed",
		"5 unknown-speed",
		"6 unknown-speed",
	)
	l = loadFixture(
		t,
		"netbox_cables.csv",
		Options{Speeds: parseSpeedRules(t, "srv*=10G", "core-*:swp?=100G", "nobody:*=1G")},
	)
	wantFaults(t, l)
	wantNotes(
		t,
		l,
		"5 cables from --speed rules",
		"rule nobody:*=1Gbps applies to no cable",
		"1 cable being decommissioned",
		"planned: 1 cable",
	)
	for link, want := range map[int][2]int64{0: {10e9, 10}, 4: {10e9, 15}, 6: {100e9, 600}} {
		k := l.Network.Links[link]
		if k.BandwidthBps != want[0] || k.DelayNS != want[1] {
			t.Errorf("link %d: %d bps, %d ns, want %v", link, k.BandwidthBps, k.DelayNS, want)
		}
	}
	panel := "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name\na,dcim.interface,1,panel,dcim.frontport,2\n"
	wantFaults(t, loadText(t, "p.csv", panel, Options{}), "2 status panel:2 may be a port of a patch panel")
}

func TestCablingNodeList(t *testing.T) {
	text := "a,b,speed\nx1,t1,10G\nx1,t2,10G\nx2,t1,10G\nx2,t2,10G\nt1,c1,40G\nt2,c1,40G\n"
	nodes := filepath.Join(t.TempDir(), "nodes.csv")
	write := func(text string) {
		if err := os.WriteFile(nodes, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(
		"device,role,rack,pod\nx1,Server,R2,A\nx2,server,R1,A\nt1,leaf,R1,A\nt2,leaf,,A\nc1,core,,\nspare,leaf,,\n",
	)
	l := loadText(t, "c.csv", text, Options{NodeList: nodes})
	wantFaults(t, l)
	wantNotes(t, l, "1 device listed without a cable")
	for _, want := range []topology.Node{{ID: 0, Name: "x1", Kind: topology.KindHost, Pod: 0, Rack: 1},
		{ID: 1, Name: "x2", Kind: topology.KindHost, Pod: 0, Rack: 0},
		{ID: 2, Name: "c1", Kind: topology.KindSpine, Pod: -1, Rack: -1},
		{ID: 3, Name: "t1", Kind: topology.KindTor, Pod: 0, Rack: 0}} {
		v, _ := l.Network.Node(want.ID)
		if v != want {
			t.Errorf("node %+v, want %+v", v, want)
		}
	}
	write("device,role\nx1,server\nx2,server\nx2,server\nx1,leaf\nx3,server\nt1,throne\n")
	l = loadText(t, "c.csv", text, Options{NodeList: nodes})
	slices.SortStableFunc(l.Faults, func(a, b Fault) int { return a.Line - b.Line })
	wantFaults(
		t,
		l,
		"4 doubled",
		"5 contradictory",
		"6 uncabled host 2 (x3) has no cable",
		`7 role role "throne" is unknown`,
	)
	write("node\nx1\nx2\n")
	l = loadText(t, "c.csv", text, Options{NodeList: nodes})
	wantFaults(t, l)
	wantNotes(t, l, "every device in it is a host")
}

// Names that are numbers are ids, and a list with semicolons and odd spellings is read like any other.
func TestCablingSpellings(t *testing.T) {
	l := loadText(
		t,
		"c.csv",
		"\ufeffDevice A;Device-B;Speed_Gbps;Delay;Status\r\n7;100;25;1.5us;\r\n8;100;25;;FAILED;\r\n",
		Options{},
	)
	wantFaults(t, l)
	n := l.Network
	v, _ := n.Node(100)
	if v.Kind != topology.KindTor || v.Name != "tor 100" {
		t.Errorf("node 100 is %+v", v)
	}
	if n.Links[0].DelayNS != 1500 || n.Links[0].BandwidthBps != 25e9 || !n.Links[2].Failed ||
		n.Links[2].DelayNS != 1000 {
		t.Errorf("links %+v", n.Links)
	}
	wantNotes(
		t,
		l,
		"named by their ids",
		"1 cable down",
		"1 cable without delay or length: 1000 ns by default",
	)
	wantFaults(t, loadText(t, "c.csv", "a,speed\nx,1G\n", Options{}), "1 format has no column device_b")
	wantFaults(t, loadText(t, "c.csv", "", Options{}), "1 format is empty")
	wantFaults(
		t,
		loadText(t, "c.csv", "a,b,speed\ns1,s2,1G\ns2,s3,1G\ns3,s1,1G\n", Options{}),
		"0 no-host no host (3 nodes): state hosts with --host-pattern",
	)
	wantFaults(t, loadText(t, "c.csv", "a,b,speed\nx,y,1G,9\n,y,1G\nx,y\"z,1G\nx,y,1G\n", Options{}),
		"2 format has 4 columns", "3 format names no device", "4 format")
}

// Hosts with several cables are inferred from the names of hosts with one, from words, or from the names of
// their ports.
func TestCablingMultiHomed(t *testing.T) {
	l := loadText(t, "c.csv", "a,b,speed\nweb1,t1,10G\nweb2,t1,10G\nweb2,t2,10G\nweb3,t2,10G\n", Options{})
	wantFaults(t, l)
	wantNotes(t, l, "1 device with several cables, named or cabled like hosts, such as web2")
	if l.Hosts != 3 || len(l.Network.Racks()) != 3 {
		t.Errorf("%d hosts, racks %v", l.Hosts, l.Network.Racks())
	}
	wide := "a,b,speed\nweb1,t1,10G\nweb1,t2,10G\ndb1,t1,10G\ndb1,t2,10G\nt1,wan1,10G\nt2,wan1,10G\n"
	wantNotes(t, loadText(t, "c.csv", wide, Options{HostPatterns: []string{"web*"}}),
		"no pattern matches these, which look like hosts and are switches now (1): db1")
	wantNotes(t, loadText(t, "c.csv", wide, Options{HostPatterns: []string{"web*", "db*", "wan*"}}),
		"a pattern matches these, which look like switches; hosts do not forward traffic (1): wan1")
	list := filepath.Join(t.TempDir(), "nodes.csv")
	if err := os.WriteFile(list, []byte("device\nweb1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantNotes(t, loadText(t, "c.csv", wide, Options{HostPatterns: []string{"web*", "db*"}, NodeList: list}),
		"the list is without these, which look like hosts and are switches now (1): db1",
		"--host-pattern has no effect")
	for _, c := range []struct {
		rows  string
		hosts int
	}{
		{"db1,,t1,\ndb1,,t2,\ndb2,,t1,\ndb2,,t2,\nt1,,t2,\n", 2},                                      // a word
		{"x1,eth0,a1,p1\nx1,eth1,a2,p1\nx2,eth0,a1,p2\nx2,eth1,a2,p2\na1,p9,s1,p1\na2,p9,s1,p2\n", 2}, // ports
		{"h1,e,t1,p1\nh2,e,t2,p1\nt1,p2,sw1,e1\nt2,p2,sw1,e2\nt1,p3,sw2,e1\nt2,p3,sw2,e2\n", 2},       // switches
		// a router with one cable
		{"h1,e,t1,p1\nh2,e,t2,p1\nt1,p2,t2,p2\nwan1,e0,t1,p9\n", 2},
		// routers in spite of their names
		{"web1,eth0,web2,eth0\nh1,e,web1,eth1\nh2,e,web2,eth2\n", 2},
	} {
		l := loadText(
			t,
			"c.csv",
			"a,port_a,b,port_b,speed\n"+strings.ReplaceAll(c.rows, "\n", ",10G\n"),
			Options{},
		)
		if l.Hosts != c.hosts {
			t.Errorf("%q: %d hosts, want %d: %v", c.rows, l.Hosts, c.hosts, l.Notes)
		}
	}
}

type parquetCable struct {
	A     string  `parquet:"device_a"`
	B     string  `parquet:"device_b"`
	Speed int64   `parquet:"speed_bps"`
	Delay *string `parquet:"delay,optional"`
}

func TestCablingParquet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cables.parquet")
	parquetFile(t, file, []parquetCable{{"h1", "s", 1e9, nil}, {"h2", "s", 1e9, nil}, {"s", "s", 1e9, nil}})
	l, err := Load(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, l, "3 self-loop")
	text := l.Faults[0].Error()
	if !strings.Contains(text, "cables.parquet: row 3: ") {
		t.Error(text)
	}
	l, err = Load(file, Options{Repair: []topology.FaultKind{topology.FaultSelfLoop}})
	if err != nil || l.Network == nil || l.Network.Links[0].BandwidthBps != 1e9 {
		t.Errorf("%+v, %v", l, err)
	}
}

// The pods of a three-tier network are its parts without the spines.
func TestCablingPods(t *testing.T) {
	want := topologytest.MustClos(
		t,
		topology.ClosSpec{
			Pods:           2,
			RacksPerPod:    2,
			HostsPerRack:   2,
			Planes:         2,
			SpinesPerPlane: 1,
			HostBps:        10e9,
			FabricBps:      40e9,
			HostDelayNS:    1000,
			FabricDelayNS:  1000,
		},
	)
	var b strings.Builder
	b.WriteString("a,b,speed\n")
	for i := 0; i < len(want.Links); i += 2 {
		l := want.Links[i]
		b.WriteString(itoa(int(l.Dst)) + "," + itoa(int(l.Src)) + "," + itoa(int(l.BandwidthBps)) + "\n")
	}
	l := loadText(t, "c.csv", b.String(), Options{})
	wantFaults(t, l)
	for i, v := range l.Network.Nodes {
		w := want.Nodes[i]
		w.Name = v.Name
		if v != w {
			t.Errorf("node %+v, want %+v", v, w)
		}
	}
}

func FuzzCabling(f *testing.F) {
	for _, name := range []string{"cabling.csv", "cabling_faults.csv", "netbox_cables.csv"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, true)
	}
	f.Add([]byte("a;b;speed\n1;2;10G\n3;2;1e9\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) { fuzzFormat(t, "fuzz.csv", data, repair) })
}

// fuzzFormat loads arbitrary data and expects either a network that can be described, or faults.
func fuzzFormat(t *testing.T, name string, data []byte, repair bool) {
	o := Options{Speeds: []SpeedRule{{"*", "*1", 1e9}}}
	if repair {
		for _, r := range Repairs {
			o.Repair = append(o.Repair, r.Kind)
		}
	}
	l, err := LoadData(name, data, o)
	if err != nil {
		return
	}
	if (l.Network == nil) == (len(l.Faults) == 0) &&
		!slices.ContainsFunc(l.Faults, func(f Fault) bool { return f.Kind == topology.FaultIsland }) {
		t.Fatalf("network %v, faults %v", l.Network, l.Faults)
	}
	if l.Network == nil || len(l.Network.Nodes) > 300 {
		return
	}
	topology.Describe(l.Network)
	if _, err := topology.NewRouter(t.Context(), l.Network, 1); err != nil {
		t.Fatal(err)
	}
}
