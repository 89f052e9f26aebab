package format

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const netboxHeader = "ID,Label,Termination A,Termination B,Device A,Device B,Rack A,Rack " +
	"B,Status,Type,Length\n"

// NetBox 3 and 4 export interface connections with DEVICE > PORT in one column.
func TestNetBoxConnections(t *testing.T) {
	list := "Device,Interface,Connection,Reachable\nweb1,eth0,leaf1 > Ethernet1,True\nweb2,eth0,leaf1 > " +
		"Ethernet2,True\nleaf1,Ethernet1,web1 > eth0,True\nleaf1,Ethernet2,web2 > " +
		"eth0,True\nleaf1,Ethernet3,,\nleaf1,Ethernet4,web9 > eth0,False\n"
	l := loadText(t, "c.csv", list, Options{DefaultSpeedBps: 1e10})
	wantFaults(t, l)
	wantNotes(t, l, "1 row: unused ports", "1 row: connections that are not reachable")
	if l.Hosts != 2 || l.Switches != 1 || l.Cables != 2 {
		t.Errorf("%d hosts, %d switches, %d cables; want 2, 1 and 2", l.Hosts, l.Switches, l.Cables)
	}
	several := "Device,Interface,Connection\nleaf1,Ethernet1,\"web1 > eth0, web2 > eth0\"\nweb1,eth0,leaf1 > " +
		"Ethernet1\nweb2,eth0,leaf1 > Ethernet1\n"
	l = loadText(t, "c.csv", several, Options{Speeds: parseSpeedRules(t, "leaf1:Ethernet1=100G")})
	wantFaults(t, l)
	bps := bandwidth(t, l, "web1:leaf1")
	if l.Cables != 2 || bps != 50e9 {
		t.Errorf("%d cables of %d bps, want two that share 100 Gbps", l.Cables, bps)
	}
}

// A cable with several terminations is a breakout or a trunk. Together its cables have the speed of the row.
func TestNetBoxTerminations(t *testing.T) {
	breakout := "Termination A,Termination B,Device A,Device " +
		"B,Speed\nEthernet1,\"eth0,eth0,eth0,eth0\",leaf1,\"h2,h1,h4,h3\",100G\n"
	l := loadText(t, "c.csv", breakout, Options{})
	wantFaults(t, l)
	if l.Cables != 4 || bandwidth(t, l, "h3:leaf1") != 25e9 {
		t.Errorf("%d cables, %d bps; want 4 of 25 Gbps", l.Cables, bandwidth(t, l, "h3:leaf1"))
	}
	trunk := "Termination A,Termination B,Device A,Device " +
		"B,Speed\ne,e1,h1,leaf1,10G\ne,e1,h2,leaf2,10G\n\"p1,p2\",\"q1,q2\",leaf1,leaf2,200G\n"
	l = loadText(t, "c.csv", trunk, Options{})
	wantFaults(t, l)
	if l.Cables != 4 || bandwidth(t, l, "leaf1:leaf2") != 200e9 {
		t.Errorf("%d cables, %d bps; want a LAG of 200 Gbps", l.Cables, bandwidth(t, l, "leaf1:leaf2"))
	}
	uneven := "Termination A,Termination B,Device A,Device B,Speed\n\"p1,p2\",\"q1,q2,q3\",leaf1,leaf2,200G\n"
	wantFaults(
		t,
		loadText(t, "c.csv", uneven, Options{}),
		"2 format has 2 terminations at one side and 3 at the other",
	)
}

// A device whose ports are F1, F2, R1 and R2 is a patch panel, also if its name has no such word. Otherwise it
// would be a switch with a LAG that servers share. A device that also has other ports is none.
func TestPatchPanelsWithShortPorts(t *testing.T) {
	list := netboxHeader + "1,,eth0,F1,web1,x7,A,A,Connected,cat6,\n2,,eth0,f2,web2,x7,A,A,Connected,cat6,\n" +
		"3,,R1,Ethernet1,x7,leaf1,A,A,Connected,cat6,\n4,,R2,Ethernet2,x7,leaf1,A,A,Connected,cat6,\n"
	l := loadText(t, "c.csv", list, Options{DefaultSpeedBps: 1e10})
	wantFaults(t, l)
	wantCounts(t, l, "cabling", 2, 1, 2)
	l = loadText(t, "c.csv", strings.Replace(list, ",f2,", ",2,", 1), Options{DefaultSpeedBps: 1e10})
	wantCounts(t, l, "cabling", 3, 1, 4)
}

// Patch panels are followed through: as switches they would add a hop and make servers share a cable.
func TestPatchPanels(t *testing.T) {
	o := Options{DefaultSpeedBps: 1e10}
	list := netboxHeader + "1,,eth0,Port 1,web1,panel1,R1,R1,Connected,cat6,2 m\n2,,eth0,Port " +
		"2,web2,panel1,R1,R1,Connected,cat6,\n3,,Rear 1,Ethernet1,panel1,leaf1,R1,R1,Connected,cat6,10 m\n4,,Rear " +
		"2,Ethernet2,panel1,leaf1,R1,R1,Connected,cat6,\n5,,eth0,Ethernet3,web3,leaf1,R1,R1,Connected,cat6,\n"
	l := loadText(t, "c.csv", list, o)
	wantFaults(t, l)
	wantNotes(t, l, "2 connections followed through 1 patch panel (panel1)")
	if l.Hosts != 3 || l.Switches != 1 || l.Cables != 3 || l.Network.Links[0].DelayNS != 60 {
		t.Errorf(
			"%d hosts, %d switches, %d cables, %d ns; want 3, 1, 3 and 60 ns",
			l.Hosts,
			l.Switches,
			l.Cables,
			l.Network.Links[0].DelayNS,
		)
	}
	dangling := strings.Replace(list, "4,,Rear 2", "4,,Rear 7", 1)
	wantFaults(
		t,
		loadText(t, "c.csv", dangling, o),
		"3 status panel1:Port 2 may be a port of a patch panel, and no cable leads on",
	)
	crowded := strings.Replace(list, "4,,Rear 2", "4,,Rear 1", 1)
	wantFaults(t, loadText(t, "c.csv", crowded, o), "2 status 3 cables end at ports of that number",
		"3 status panel1:Port 2")

	// The file has the port types of NetBox's bulk import, and two panels whose own ports have no
	// recognizable names.
	typed := "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name,status\n" +
		"h1,dcim.interface,eth0,p1,dcim.frontport,1,connected\np1,dcim.rearport,1,p2,dcim.rearport,1,connected\n" +
		"p2,dcim.frontport,1,leaf1,dcim.interface,Ethernet1,connected\nh2,dcim.interface,eth0,leaf1,dcim.interface,Ethernet2,connected\n" +
		"p1,dcim.rearport,2,p2,dcim.rearport,2,connected\n"
	l = loadText(t, "c.csv", typed, o)
	wantFaults(t, l)
	if l.Hosts != 2 || l.Switches != 1 || l.Cables != 2 {
		t.Errorf("%d hosts, %d switches, %d cables; want 2, 1 and 2", l.Hosts, l.Switches, l.Cables)
	}
	planned := strings.Replace(typed, "p2,dcim.rearport,1,connected", "p2,dcim.rearport,1,planned", 1)
	l = loadText(t, "c.csv", planned, o)
	wantNotes(t, l, "planned: 1 cable")
	if l.Cables != 1 {
		t.Errorf("%d cables: a connection with a planned part is no part of the network", l.Cables)
	}

	// A list of devices that gives it another role states that it is not a panel.
	nodes := filepath.Join(t.TempDir(), "nodes.csv")
	if err := os.WriteFile(nodes,
		[]byte("device,role\npanel1,leaf\nleaf1,leaf\nweb1,server\nweb2,server\nweb3,server\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	l = loadText(t, "c.csv", list, Options{DefaultSpeedBps: 1e10, NodeList: nodes})
	if l.Switches != 2 {
		t.Errorf("%d switches, want 2", l.Switches)
	}
}

// A cell lists devices and ports in any order. If several devices have different ports, the owner of each is
// unknown, and a port that is assumed would join the wrong ends.
func TestTerminationsOfACell(t *testing.T) {
	for _, c := range []struct {
		of   end
		want []end
	}{
		{end{"leaf1", "p1"}, []end{{"leaf1", "p1"}}},
		{end{"leaf1", "p1, p2"}, []end{{"leaf1", "p1"}, {"leaf1", "p2"}}},
		{end{"h1, h2", "eth0,eth0"}, []end{{"h1", "eth0"}, {"h2", "eth0"}}},
		{end{"h1,h2,h3", "eth0"}, []end{{"h1", "eth0"}, {"h2", "eth0"}, {"h3", "eth0"}}},
		{end{"h1,h2", "eth0,eth1"}, []end{{"h1", ""}, {"h2", ""}}},
	} {
		got := terminations(c.of)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v has the ends %v, want %v", c.of, got, c.want)
		}
	}
}

// Ports have commas in their names, too: a piece without an arrow belongs to the port before it.
func TestConnectionsOfACell(t *testing.T) {
	for text, want := range map[string][]end{
		"leaf1 > Ethernet1":           {{"leaf1", "Ethernet1"}},
		"a > slot 1, port 2, b >  p ": {{"a", "slot 1, port 2"}, {"b", "p"}},
		"leaf1":                       {{"leaf1", ""}},
	} {
		got := connections(text)
		if !slices.Equal(got, want) {
			t.Errorf("%q has the ends %q, want %q", text, got, want)
		}
	}
}
