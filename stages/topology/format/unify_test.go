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

// bandwidth returns the sum of the bandwidths of the cables between two nodes.
func bandwidth(t *testing.T, l *Loaded, ends string) (bps int64) {
	t.Helper()
	if l.Network == nil {
		t.Fatalf("no network: %v", l.Faults)
	}
	a, b, err := l.Network.Cable(ends)
	if err != nil {
		return 0
	}
	for _, c := range l.Network.Members(a, b) {
		bps += l.Network.Links[2*c].BandwidthBps
	}
	return bps
}

// A cable whose ends spell one port in two ways must not become a LAG of twice its bandwidth.
func TestPortSpellingsAreOneCable(t *testing.T) {
	for _, c := range [][2]string{{"Ethernet", "ethernet"}, {"Ethernet", "Eth"}, {"Ethernet", "Et"},
		{"Hu0/0/0/", "HundredGigE0/0/0/"},
		{"GigabitEthernet1/0/", "Gi1/0/"}, {"swp", "SWP"}} {
		list := strings.NewReplacer("OWN", c[0], "OTHER", c[1]).
			Replace("device_a,port_a,device_b,port_b,speed\n" +
				"leaf1,OWN1,srv1,eth0,25G\nleaf2,OWN1,srv2,eth0,25G\n" +
				"leaf1,OWN49,spine1,OTHER1,100G\nspine1,OWN1,leaf1,OTHER49,100G\n" +
				"leaf2,OWN49,spine1,OTHER2,100G\nspine1,OWN2,leaf2,OTHER49,100G\n")
		l := loadText(t, "c.csv", list, Options{})
		wantFaults(t, l)
		bps := bandwidth(t, l, "leaf1:spine1")
		if l.Cables != 4 || bps != 100e9 {
			t.Errorf("%s: %d cables, leaf1 – spine1 %d bps; want 4 and 100 Gbps", c, l.Cables, bps)
		}
	}
}

// A LAG is inferred from parallel cables with distinct ports at both ends, and each is listed.
func TestInferredLAGsAreListed(t *testing.T) {
	l := loadText(
		t,
		"c.csv",
		"a,port_a,b,port_b,speed\nh1,e,s1,p1,10G\nh2,e,s2,p1,10G\ns1,p2,s2,p2,40G\ns1,p3,s2,p3,40G\n",
		Options{},
	)
	wantFaults(t, l)
	wantNotes(t, l, "s1 – s2 (2 × 40 Gbps)")
	onePort := "a,port_a,b,port_b,speed\nh1,e,s1,p1,10G\nh2,e,s2,p1,10G\ns1,p2,s2,,40G\ns1,p3,s2,,40G\n"
	wantFaults(t, loadText(t, "c.csv", onePort, Options{}), "5 parallel")
}

// A short name and the same name with its domain are one device, because people write the one and LLDP the
// other. Two domains are a fault.
func TestNamesWithDomains(t *testing.T) {
	const header = "a,port_a,b,port_b,speed\nh1,e,leaf1,p1,25G\nh2,e,leaf2,p1,25G\nleaf1,p8,spine,p1,100G\n"
	l := loadText(t, "c.csv", header+"leaf2.corp.example.com,p8,spine,p2,100G\n", Options{})
	wantFaults(t, l)
	wantNotes(t, l, "1 device written with and without a domain, such as leaf2.corp.example.com")
	if l.Switches != 3 || bandwidth(t, l, "leaf2:spine") != 100e9 {
		t.Errorf("%d switches, want 3", l.Switches)
	}
	two := header + "leaf2.a.example,p8,spine,p2,100G\nleaf2.b.example,p8,spine,p3,100G\nh3,e,leaf2.b.example,p1,25G\n"
	wantFaults(
		t,
		loadText(t, "c.csv", two, Options{}),
		"3 similar-names leaf2 may be leaf2.a.example or leaf2.b.example",
		"3 island",
	)
	apart := "a,b,speed\nr1.1,r1,10G\nh1,r1.1,10G\nh2,r1,10G\nweb.lab,web,10G\n10.0.0.1,r1,10G\n10.0.0.2,r1,10G\n"
	if l := loadText(t, "c.csv", apart, Options{HostPatterns: []string{"h*", "10.*", "web.lab"}}); l.Hosts+
		l.Switches != 8 {
		t.Errorf(
			"%d hosts, %d switches: addresses, numbers and cabled devices are no domains",
			l.Hosts,
			l.Switches,
		)
	}
}

// The names in a list of devices may have a domain if those of the cables do not, and vice versa.
func TestNodeListWithDomains(t *testing.T) {
	nodes := filepath.Join(t.TempDir(), "nodes.csv")
	list := "device,role\nWEB1.corp.example.com,server\nweb2,server\nleaf1.corp.example.com,leaf\n"
	if err := os.WriteFile(nodes, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	cables := "a,b,speed\nweb1,leaf1,10G\nweb2.corp.example.com,leaf1,10G\n"
	l := loadText(t, "c.csv", cables, Options{NodeList: nodes})
	wantFaults(t, l)
	if l.Hosts != 2 || l.Switches != 1 {
		t.Errorf("%d hosts, %d switches; want 2 and 1", l.Hosts, l.Switches)
	}
}

// A port that one end does not know must not become a separate port.
func TestUnknownPorts(t *testing.T) {
	for _, unknown := range []string{"-", "", "n/a", "--", "unknown", "not advertised"} {
		list := "local_device,local_interface,remote_device,remote_interface\n" +
			"edge1,xe-0/0/0,exit1,Ethernet4\nedge1,xe-0/0/1,exit2,Ethernet4\nexit1,Ethernet4,edge1,?\nexit2,Ethernet4,edge1,?\n" +
			"exit1,Ethernet1,srv1,eth0\nexit2,Ethernet1,srv2,eth0\n"
		l := loadText(
			t,
			"c.csv",
			strings.ReplaceAll(list, "?", unknown),
			Options{DefaultSpeedBps: 1e10, HostPatterns: []string{"srv*"}},
		)
		wantFaults(t, l)
		if l.Cables != 4 {
			t.Errorf("%q: %d cables, want 4", unknown, l.Cables)
		}
	}
	// If each end lists only its own ports, there are two cables, not four, and no LAG of four.
	list := "a,port_a,b,port_b,speed\ns1,p9,h1,e,10G\ns2,p9,h2,e,10G\ns1,p1,s2,,10G\ns1,p2,s2,,10G\ns2,q1,s1,,10G\ns2,q2,s1,,10G\n"
	l := loadText(t, "c.csv", list, Options{})
	wantFaults(t, l)
	if l.Cables != 4 || bandwidth(t, l, "s1:s2") != 20e9 {
		t.Errorf(
			"%d cables, %d bps; want h1, h2 and a LAG of 2 × 10 Gbps",
			l.Cables,
			bandwidth(t, l, "s1:s2"),
		)
	}
}

// The repair of cables that one end reports must not double a bandwidth. Two reports of two devices about
// each other are one cable, and a cable that only one end reports is not a member of a LAG.
func TestOneSidedRepairKeepsTheBandwidth(t *testing.T) {
	list := "a,port_a,b,port_b,speed\ns1,p1,h1,e,10G\nh1,e,s1,p1,10G\ns2,p1,h2,e,10G\nh2,e,s2,p1,10G\n" +
		"s1,p8,s2,to-s1,100G\ns2,p8,s1,to-s2,100G\n"
	wantFaults(t, loadText(t, "c.csv", list, Options{}), "6 one-sided", "7 one-sided")
	o := Options{Repair: []topology.FaultKind{topology.FaultOneSided}}
	l := loadText(t, "c.csv", list, o)
	wantFaults(t, l)
	wantNotes(t, l, "1 cable, each end of which names the other's port differently, such as s1:p8 – s2:to-s1 "+
		"and s2:p8 – s1:to-s2")
	if l.Cables != 3 || bandwidth(t, l, "s1:s2") != 100e9 {
		t.Errorf("%d cables, s1 – s2 %d bps; want 3 and 100 Gbps", l.Cables, bandwidth(t, l, "s1:s2"))
	}
	l = loadText(t, "c.csv", list+"s1,p2,h3,e,10G\nh3,e,s1,p2,10G\ns1,p9,s2,x,100G\n", o)
	if len(l.Faults) == 0 ||
		slices.ContainsFunc(l.Faults, func(f Fault) bool { return f.Kind != topology.FaultParallel }) {
		t.Errorf("cables that one end alone reports are members of a LAG: %v", l.Faults)
	}
}

// 160 dual-homed servers must not become spine switches. They are recognized by names with several numbers,
// or because they outnumber the leaf switches.
func TestDualHomedServers(t *testing.T) {
	for _, c := range []struct{ server, leaf, spine string }{
		{"dc1-r%d-srv%d", "dc1-r%d-leaf%d", "dc1-spine%d"},
		{"ams%dx%d", "ams%dt%d", "amsc%d"},
		{"gold%d-%d", "leaf%d-%d", "spine%d"},
	} {
		var b strings.Builder
		b.WriteString("a,port_a,b,port_b,speed\n")
		for rack := range 10 {
			for side := range 2 {
				leaf := fmt.Sprintf(c.leaf, rack, side)
				for s := range 16 {
					fmt.Fprintf(&b, c.server+",port%d,%s,p%d,25G\n", rack, s, side, leaf, s)
				}
				for spine := range 4 {
					fmt.Fprintf(&b, "%s,u%d,"+c.spine+",d%d,100G\n", leaf, spine, spine, 2*rack+side)
				}
			}
		}
		l := loadText(t, "c.csv", b.String(), Options{})
		wantFaults(t, l)
		if l.Hosts != 160 || l.Switches != 24 || len(l.Network.Racks()) != 10 {
			t.Errorf(
				"%v: %d hosts, %d switches, %d racks; want 160, 24 and 10",
				c,
				l.Hosts,
				l.Switches,
				len(l.Network.Racks()),
			)
		}
	}
}

// The speed that a fault suggests must fit only this cable, not hosts and uplinks alike.
func TestSpeedSuggestionFitsOneCable(t *testing.T) {
	ports := "a,port_a,b,port_b\nh1,e,leaf1,p1\nleaf1,p9,spine,p1\nh2,e,leaf2,p1\nleaf2,p9,spine,p2\n"
	wantFaults(
		t,
		loadText(t, "c.csv", ports, Options{}),
		"2 unknown-speed --speed 'h1:e=25G'",
		"3 unknown-speed --speed 'leaf1:p9=25G'",
		"4 unknown-speed --speed 'h2:e=25G'",
		"5 unknown-speed --speed 'leaf2:p9=25G'",
	)
	plain := "a,b\nh1,leaf1\nleaf1,spine\nh2,leaf2\nleaf2,spine\n"
	wantFaults(
		t,
		loadText(t, "c.csv", plain, Options{}),
		"2 unknown-speed --speed 'h1=25G'",
		"3 unknown-speed --speed 'spine=25G'",
		"4 unknown-speed --speed 'h2=25G'",
		"5 unknown-speed --speed 'spine=25G'",
	)
}

// 4x25G means four lanes of one port: 25 Gbps to each of four devices, or 100 Gbps to one.
func TestBreakouts(t *testing.T) {
	list := "a,port_a,b,port_b,speed\nleaf,p1,h1,e,4x25G\nleaf,p1,h2,e,4x25G\nleaf,p1,h3,e,4 x " +
		"25G\nleaf,p1,h4,e,4x25Gbps\nleaf,p2,h5,e,4x25G\n"
	l := loadText(t, "c.csv", list, Options{})
	wantFaults(t, l)
	if bandwidth(t, l, "h1:leaf") != 25e9 || bandwidth(t, l, "h4:leaf") != 25e9 ||
		bandwidth(t, l, "h5:leaf") != 100e9 {
		t.Errorf(
			"%d, %d, %d bps",
			bandwidth(t, l, "h1:leaf"),
			bandwidth(t, l, "h4:leaf"),
			bandwidth(t, l, "h5:leaf"),
		)
	}
	five := strings.Replace(list, "leaf,p2,h5", "leaf,p1,h5", 1)
	wantFaults(
		t,
		loadText(t, "c.csv", five, Options{}),
		"3 shared-port",
		"4 shared-port",
		"5 shared-port",
		"6 shared-port",
	)
}
