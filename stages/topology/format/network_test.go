package format

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/stages/topology"
)

// An operator's list has dual-homed hosts, a LAG of two members, an MLAG peer link, a WAN router, missing
// speeds, ports of other networks, and unused ports.
const operatorList = `local_device,local_port,remote_device,remote_port,speed,length
db1,ens1,leaf1,TwentyFiveGigE1/0/1,n/a,3m
db1,ens2,leaf2,TwentyFiveGigE1/0/1,-,3m
db2,ens1,leaf1,TwentyFiveGigE1/0/2,auto,3m
db2,ens2,leaf2,TwentyFiveGigE1/0/2,25G,3m
leaf1,Ethernet49,spine1,Ethernet1,100G,30m
leaf1,Ethernet50,spine1,Ethernet2,100G,30m
leaf2,Ethernet49,spine1,Ethernet3,100G,30m
leaf1,Ethernet47,leaf2,Ethernet47,100G,1m
leaf1,Ethernet48,leaf2,Ethernet48,100G,1m
spine1,Ethernet60,wan1,xe-0/0/1,,
leaf1,mgmt0,oob-sw1,p1,1G,
leaf1,eth0,sw9,Ethernet1,1G,
sw9,Ethernet2,spine1,eth0,1G,
leaf2,Ethernet46,oob-sw1,p2,1G,
leaf2,Ethernet30,,,,
db1,psu1,pdu7,outlet3,,
`

func TestOperatorList(t *testing.T) {
	rules, err := topology.ParseDelayRule("wan*:*=2ms")
	if err != nil {
		t.Fatal(err)
	}
	l := loadText(
		t,
		"cables.csv",
		operatorList,
		Options{Exclude: []string{"oob-*"}, Delays: []topology.DelayRule{rules}},
	)
	wantFaults(t, l)
	typo := loadText(t, "cables.csv", operatorList, Options{Exclude: []string{"oob-*", "oop-*"}})
	wantFaults(t, typo, `0 format no device matches "oop-*" of --exclude`)
	if l.Hosts != 2 || l.Switches != 4 || l.Cables != 10 {
		t.Errorf("%d hosts, %d switches, %d cables", l.Hosts, l.Switches, l.Cables)
	}
	wantNotes(
		t,
		l,
		"3 rows without one (n/a, -, auto or unknown)",
		"4 cables by the names of their ports",
		"2 link aggregation groups of 4 parallel cables",
		"2 devices with several cables",
		"excluded: 1 device matching oob-*, with 1 cable",
		"left out: 1 row: management cables",
		"left out: 2 cables at management ports of switches",
		"left out: 1 row: unused ports, with one end only",
		"left out: 1 row: power cables",
		"1 switch without a tier, such as wan1",
		"delays: 1 cable of wan*:* have 2000000 ns (spine1:wan1)",
	)
	n := l.Network
	got := n.RackNames()
	if !slices.Equal(got, []string{"leaf1+leaf2"}) {
		t.Errorf("racks %q", got)
	}
	// The WAN cable does not belong to a tier of the other cables.
	cables, err := n.Select("tor-spine")
	if err != nil || len(cables) != 2 {
		t.Errorf("tor-spine: %v, %v", cables, err)
	}
	for _, c := range []struct {
		fail string
		want topology.Failure
	}{
		{"leaf1:Ethernet49", topology.Failure{Member: 1}},
		{"spine1:ethernet3", topology.Failure{}},
		{"leaf1:leaf2", topology.Failure{}},
	} {
		f, err := n.Clone().FailNamed(c.fail)
		if err != nil || len(f) != 1 || f[0].Member != c.want.Member {
			t.Errorf("%s: %v, %v", c.fail, f, err)
		}
	}
	if f, err := n.Clone().FailNamed("leaf2"); err != nil || len(f) != 4 {
		t.Errorf("leaf2: %v, %v", f, err)
	}
	for _, bad := range []string{"leaf9", "leaf1:Ethernet99", "", ":"} {
		if f, err := n.Clone().FailNamed(bad); err == nil {
			t.Errorf("%q fails %v", bad, f)
		}
	}
	// One member fails, then the other.
	x := n.Clone()
	for i, port := range []string{"leaf1:Ethernet49", "spine1:Ethernet2"} {
		f, err := x.FailNamed(port)
		if err != nil || len(f) != 1 || f[0].Member != i+1 {
			t.Errorf("%s: %v, %v", port, f, err)
		}
	}
}

// Port eth0 of a server is not a management port, regardless of the names of its other ports. For ports that
// are, a note names the switches.
func TestManagementPorts(t *testing.T) {
	gpu := "a,port_a,b,port_b,speed\nsrv1,eth0,leaf1,Ethernet1,100G\nsrv1,gpu0,leaf1,Ethernet2,100G\nsrv1,gpu1,leaf1,Ethernet3,100G\n"
	other := "srv2,eth0,leaf1,Ethernet4,100G\n"
	rails := gpu + other + "srv3,eth0,leaf1,Ethernet5,100G\nsrv3,gpu0,leaf2,Ethernet1,100G\nsrv3,gpu1,leaf3,Ethernet1,100G\n" +
		"leaf1,Ethernet49,spine1,1,100G\nleaf2,Ethernet49,spine1,2,100G\nleaf3,Ethernet49,spine1,3,100G\n"
	odd := strings.NewReplacer("gpu0", "1", "gpu1", "2").Replace(rails)
	nodes := filepath.Join(t.TempDir(), "nodes.csv")
	list := "device,role\nsrv1,server\nsrv2,server\nsrv3,server\nleaf1,leaf\nleaf1,leaf\n"
	if err := os.WriteFile(nodes, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	doubled := Options{NodeList: nodes, Repair: []topology.FaultKind{topology.FaultDoubled}}
	for name, c := range map[string]struct {
		text   string
		o      Options
		cables int
		bps    int64 // of all cables
	}{
		"one leaf":     {gpu + other, Options{}, 4, 400e9},
		"rails":        {rails, Options{}, 10, 1000e9},
		"odd names":    {odd, Options{}, 9, 900e9},
		"host pattern": {odd, Options{HostPatterns: []string{"srv*"}}, 10, 1000e9},
		"node list":    {odd, doubled, 10, 1000e9},
	} {
		l := loadText(t, "c.csv", c.text, c.o)
		bps := int64(0)
		if l.Network != nil {
			for _, k := range l.Network.Links {
				bps += k.BandwidthBps
			}
		}
		if l.Cables != c.cables || bps != 2*c.bps {
			t.Errorf(
				"%s: %d cables of %d bps, want %d of %d; %v %v",
				name,
				l.Cables,
				bps/2,
				c.cables,
				c.bps,
				l.Faults,
				l.Notes,
			)
		}
	}
	wantNotes(
		t,
		loadText(t, "c.csv", odd, Options{}),
		"left out: 1 cable at management ports of switches (eth0 beside ports of other names): srv3",
	)
	wantNotes(t, loadText(t, "c.csv", operatorList, Options{}), "beside ports of other names): leaf1, spine1")
}

// The cable list has cables of other networks by type, unused ports, and DEVICE:PORT in one column.
func TestCablingShapes(t *testing.T) {
	netbox := "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name,speed\n" +
		"a1,dcim.interface,eth0,sw,dcim.interface,1,10G\na2,dcim.interface,eth0,sw,dcim.interface,2,10G\n" +
		"a1,dcim.powerport,p,pdu,dcim.poweroutlet,1,\na1,dcim.consoleport,c,cons,dcim.consoleserverport,1,\nsw,dcim.interface,3,,,,\n"
	l := loadText(t, "c.csv", netbox, Options{})
	wantFaults(t, l)
	wantNotes(t, l, "1 row: power cables", "1 row: console cables", "1 row: unused ports")
	joined := loadText(t, "c.csv", "a,b,speed\na1:eth0,sw:1,10G\na2:eth0,sw:2,10G\n", Options{})
	ports := loadText(
		t,
		"c.tsv",
		"port_a\tport_b\tspeed\na1:eth0\tsw:1\t10G\na2:eth0\tsw:2\t10G\n",
		Options{},
	)
	for name, other := range map[string]*Loaded{"a:p": joined, "ports": ports} {
		wantFaults(t, other)
		sameNetwork(t, name, other.Network, l.Network)
		if f, err := other.Network.FailNamed("sw:2"); err != nil || len(f) != 1 {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	wantFaults(
		t,
		loadText(t, "c.csv", "a,b,speed,rate\nx,y,1G,1G\nz,y,1G,1G\n", Options{}),
		"1 format columns speed and rate mean the same",
	)
	wantFaults(t, loadText(t, "c.csv", "a,b\nx,y\nz,y\n", Options{DefaultSpeedBps: 1e10}))
	wantNotes(
		t,
		loadText(
			t,
			"c.csv",
			"Device A,Device B,Speed (Gbps),Length (m)\nx,y,25,3\nz,y,25,3\ny,fra-br-1,25,3\ny,w,25,3\n",
			Options{},
		),
		"4 rows with a length, at 5 ns/m",
		"3 devices with one cable",
	)
	wantNotes(
		t,
		loadText(t, "c.csv", "# site 1\na,b,speed\nx,y,1G\n# later\nz,y,1G\n", Options{}),
		"comments: 2 lines that begin with #",
	)
}

// Roles that a list states are kept, and no other device is inferred to be in its tiers.
func TestStatedRoles(t *testing.T) {
	nodes := filepath.Join(t.TempDir(), "nodes.csv")
	list := "device,role,rack\nh1,server,R-17\nh2,server,R-18\nleaf1,leaf,\nleaf2,leaf,\nspine1,spine,\nedge7,router,\n"
	if err := os.WriteFile(nodes, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "a,b,speed\nh1,leaf1,10G\nh2,leaf2,10G\nleaf1,spine1,40G\nleaf2,spine1,40G\nleaf1,edge7,10G\nleaf1,extra,10G\n"
	l := loadText(t, "c.csv", text, Options{NodeList: nodes})
	wantFaults(t, l)
	wantNotes(
		t,
		l,
		"1 switch without a tier, such as extra",
		"roles: leaf is called tor in tiers",
		"roles: router is called switch",
	)
	// A host at a spine does not make it a tor: its bandwidth to leaves still counts as downward.
	high := loadText(t, "c.csv", text+"h2,spine1,10G\nspine1,edge7,20G\n", Options{NodeList: nodes})
	wantFaults(t, high)
	d := topology.Describe(high.Network)
	if !slices.Contains(
		d.Oversubscription,
		topology.Oversubscription{Kind: "tor", Switches: 2, Min: 1. / 6, Median: 0.25, Max: 0.25},
	) {
		t.Errorf("%+v", d.Oversubscription)
	}
	if cables, err := l.Network.Select("tor-spine"); err != nil || len(cables) != 2 {
		t.Errorf("%v, %v", cables, err)
	}
	places, err := l.Network.RackList("R-18")
	if err != nil || !slices.Equal(places, []int{1}) ||
		!slices.Equal(l.Network.RackNames(), []string{"R-17", "R-18"}) {
		t.Errorf("%v, %v, %q", places, err, l.Network.RackNames())
	}
	if _, err := l.Network.RackList("R-19"); err == nil {
		t.Error("a rack that is not there")
	}
}

// Text of another encoding, as spreadsheets write it, is refused with its line, because it would make a lake
// unreadable.
func TestOtherEncoding(t *testing.T) {
	for line, text := range map[int]string{2: "a,b,speed\nZ\xfcrich1,leaf1,10G\n",
		1: "\xff\xfea\x00,\x00b\x00\n\x00"} {
		file := filepath.Join(t.TempDir(), "cables.csv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s: line %d is not UTF-8 text", file, line)
		if _, err := Load(file, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A rack of dual-homed hosts is named by both of its switches, or by a switch that no other rack has.
func TestRacksOfTwoSwitches(t *testing.T) {
	text := "a,b,speed\n"
	for rack, leaves := range [][2]string{{"leaf1a", "leaf1b"}, {"leaf2a", "leaf2b"}, {"leaf2b", "leaf3"},
		{"7", "8"}} {
		for _, leaf := range leaves {
			text += fmt.Sprintf("srv%d,%s,25G\nsrv%d,%[2]s,25G\n", 2*rack, leaf, 2*rack+1)
		}
	}
	for _, leaf := range []string{"leaf1a", "leaf1b", "leaf2a", "leaf2b", "leaf3", "7", "8"} {
		text += leaf + ",spine1,100G\n"
	}
	l := loadText(t, "c.csv", text, Options{})
	wantFaults(t, l)
	for given, want := range map[string][]int{"leaf1a+leaf1b": {0}, "leaf1b": {0}, "leaf2a, leaf3": {1, 2},
		"leaf2b+leaf3,0": {2, 0}, "7": {3}, "1-2": {1, 2}} {
		if places, err := l.Network.RackList(given); err != nil || !slices.Equal(places, want) {
			t.Errorf("%s: %v, %v, want %v", given, places, err, want)
		}
	}
	for given, want := range map[string]string{"leaf2b": "leaf2b has hosts of 2 racks, such as leaf2a+leaf2b " +
		"and leaf2b+leaf3: name one",
		"spine1": `no rack is named "spine1", no hosts are at such a switch, and it is not a place such as 4-7 or ` +
			"0,2,5; the racks are 7+8, leaf1a+leaf1b, leaf2a+leaf2b, leaf2b+leaf3", "": "the racks are",
		"9": "racks 0 to 3"} {
		if _, err := l.Network.RackList(given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", given, err)
		}
	}
}

func TestPortSpeed(t *testing.T) {
	for name, gbps := range map[string]int64{
		"100GE1/0/1": 100, "TwentyFiveGigE1/0/1": 25, "TenGigabitEthernet1/1": 10, "GigabitEthernet0/1": 1,
		"Gi1/0/1": 1, "xe-0/0/1": 10,
		"ge-0/0/1": 1, "et-0/0/1": 0, "Hu0/0/0/1": 100, "HundredGigE0/1": 100, "fortyGigE0/4": 40, "Ethernet49": 0,
		"eth0": 0, "e1-49": 0,
		"swp1": 0, "t1": 0, "": 0, "1": 0, "9999GE1": 0,
	} {
		got := portSpeed(name)
		if got != gbps*1e9 {
			t.Errorf("%s: %d bps", name, got)
		}
	}
}

const lldpctl = `{"lldp": {"interface": [
 {"eth0": {"chassis": {"oob1": {"id": {"type": "mac", "value": "x"}}}, "port": {"id": {"type": "ifname", "value": "p1"}}}},
 {"Ethernet0": {"chassis": {"web1": {"id": {"type": "mac", "value": "x"}, "capability": [{"type": "Bridge", "enabled": false},
   {"type": "Station", "enabled": true}]}}, "port": {"id": {"type": "mac", "value": "00:01"}, "descr": "ens3",
   "auto-negotiation": {"current": "25GbaseCR - long"}}}},
 {"Ethernet48": {"chassis": {"spine1.dc.example": {"id": {"type": "mac", "value": "x"}}},
   "port": {"id": {"type": "local", "value": "etp1"}, "descr": "Ethernet0"}}}]}}`

// lldpOf is the output of lldpctl for neighbors given as local port, device, port and capability.
func lldpOf(neighbors ...[4]string) string {
	var all []string
	for _, n := range neighbors {
		all = append(
			all,
			fmt.Sprintf(
				`{%q: {"chassis": {%q: {"id": {"type": "mac", "value": "x"}, "capability": {"type": %q, "enabled": true}}},
			"port": {"id": {"type": "local", "value": "etp49"}, "descr": %q}}}`,
				n[0],
				n[1],
				n[3],
				n[2],
			),
		)
	}
	return `{"lldp": {"interface": [` + strings.Join(all, ", ") + `]}}`
}

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Cables of SONiC switches whose configurations list no neighbors come from LLDP.
func TestSONiCNeighbours(t *testing.T) {
	config := func(name string) string {
		return `{"DEVICE_METADATA": {"localhost": {"hostname": "` + name +
			`"}}, "PORT": {"Ethernet0": {"speed": "25000"},
			"Ethernet4": {"speed": "100000"}, "Ethernet48": {"speed": "100000"}}}`
	}
	o := Options{Repair: []topology.FaultKind{topology.FaultContradictory}}
	for name, files := range map[string]map[string]string{
		"LLDP": {"leaf1/lldp.json": lldpctl,
			"leaf2/lldp.json": lldpOf([4]string{"Ethernet0", "web2", "ens3", "Station"},
				[4]string{"Ethernet48", "spine1", "Ethernet4", "Bridge"}),
			"spine1/lldp.json": lldpOf([4]string{"Ethernet0", "leaf1", "Ethernet48", "Router"},
				[4]string{"Ethernet4", "leaf2", "Ethernet48", "Router"})},
	} {
		for _, switchName := range []string{"leaf1", "leaf2", "spine1"} {
			files[switchName+"/config_db.json"] = config(switchName)
		}
		l, err := Load(writeFiles(t, files), o)
		if err != nil {
			t.Fatal(err)
		}
		wantFaults(t, l)
		if l.Format != "sonic" || l.Hosts != 2 || l.Switches != 3 || l.Cables != 4 {
			t.Errorf(
				"%s: %s, %d hosts, %d switches, %d cables: %v",
				name,
				l.Format,
				l.Hosts,
				l.Switches,
				l.Cables,
				l.Notes,
			)
		}
		wantNotes(t, l, "from LLDP", "left out: 1 cable of the management and console networks")
	}
	l, err := Load(writeFiles(t, map[string]string{"leaf1.json": config("leaf1")}), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Faults) != 2 ||
		!strings.Contains(l.Faults[1].Text, "as leaf1/lldp.json; on the switch, sonic-cfggen -m") {
		t.Errorf("no neighbors: %v", l.Faults)
	}
	if l := loadText(t, "a_lldp.json", `{"lldp": {}}`, o); len(l.Faults) == 0 || l.Faults[0].Line == 0 {
		t.Errorf("no interface: %v", l.Faults)
	}
}

func FuzzLLDP(f *testing.F) {
	f.Add([]byte(lldpctl), true)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) { fuzzFormat(t, "a_lldp.json", data, repair) })
}
