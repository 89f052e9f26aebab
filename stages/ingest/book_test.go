package ingest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// Addresses of both families are ranges of IPv6 addresses. A CIDR with bits beyond its length is one address.
func TestRangesOfAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.0.0/16": "::ffff:10.1.0.0/112", "0.0.0.0/0": "::ffff:0.0.0.0/96", "::/0": "::/0",
		"10.1.1.12/24": "::ffff:10.1.1.12/128", "10.1.1.12/32": "::ffff:10.1.1.12/128",
		"10.1.1.12": "::ffff:10.1.1.12/128",
		"fd00::/8":  "fd00::/8", "fd00::1/8": "fd00::1/128", "fd00::1": "fd00::1/128",
		"::ffff:10.1.1.12": "::ffff:10.1.1.12/128",
		"":                 "", "web": "", "10.1.0.0/33": "", "10.1.0": "",
	} {
		got, isRange := parseRange(text)
		if isRange != (want != "") || isRange && got != netip.MustParsePrefix(want) {
			t.Errorf("%q: %s, %v; want %s", text, got, isRange, want)
		}
		if (checkAddress(text) == nil) != (isRange || text == "web" || text == "10.1.0") {
			t.Errorf("%q: %v", text, checkAddress(text))
		}
	}
}

// A text has its own value, and then those of the ranges that contain it, the longest first, with the number
// of bits that they fix.
func TestValuesOfRanges(t *testing.T) {
	r := newRanges[string]()
	for _, key := range []string{"10.0.0.0/8", "web", "10.1.2.3", "10.1.0.0/16", "fd00::/8", "0.0.0.0/0",
		"10.2.0.0/16"} {
		r.set(key, "of "+key)
	}
	want := []int{128, 112, 104, 96, 8}
	if !slices.Equal(r.bits, want) {
		t.Errorf("lengths %d, want %d", r.bits, want)
	}
	for text, want := range map[string]string{
		"10.1.2.3":        "128 of 10.1.2.3, 112 of 10.1.0.0/16, 104 of 10.0.0.0/8, 96 of 0.0.0.0/0",
		"::ffff:10.1.2.4": "112 of 10.1.0.0/16, 104 of 10.0.0.0/8, 96 of 0.0.0.0/0",
		"fd00::1":         "8 of fd00::/8", "fe00::1": "", "web": "128 of web", "db": "", "10.0.0.0/8": "",
	} {
		var got []string
		for bits, value := range r.of(text) {
			got = append(got, fmt.Sprint(bits, " ", value))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		for bits, value := range r.of(text) { // a loop may end at the first value
			if fmt.Sprint(bits, " ", value) != got[0] {
				t.Errorf("%s: the first value is %d %s", text, bits, value)
			}
			break
		}
	}
	r.byText["10.1.2.3"] = "its text"
	for bits, value := range r.of("10.1.2.3") {
		if bits != 128 || value != "its text" {
			t.Errorf("%d %s", bits, value)
		}
		break
	}
	value, ok := r.get("10.1.2.3/32")
	if !ok || value != "of 10.1.2.3" {
		t.Errorf("%q, %v", value, ok)
	}
	if _, ok = r.get("10.1.2.0/24"); ok {
		t.Error("a range that was not set has a value")
	}
}

// namedNetwork is a rack of hosts with names, and a switch named tor.
func namedNetwork(t *testing.T, hosts ...string) *topology.Network {
	t.Helper()
	var nodes []topology.Node
	var cables []topology.Cable
	for i, name := range append(hosts, "tor") {
		kind := topology.KindHost
		if i == len(hosts) {
			kind = topology.KindTor
		} else {
			cables = append(cables, topology.Cable{A: int32(i), B: int32(len(hosts)), BandwidthBps: 1e9, DelayNS: 1})
		}
		nodes = append(nodes, topology.Node{ID: int32(i), Name: name, Kind: kind})
	}
	n, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Names with and without a domain are the same, unless they are those of two nodes, or nothing is left
// without the domain.
func TestDomainsOfNames(t *testing.T) {
	b := newAddressBook(namedNetwork(t, "a", "b.example.com", "c.org", "a.example.com"),
		[]string{" .example.com. ", "org"})
	for text, want := range map[string]int32{
		"b": 1, " b.example.com. ": 1, "b.org": 1, "c": 2, "c.example.com": 2, "c.org": 2, "c.net": -1, "tor": 4,
		".example.com": -1, "example.com": -1, "0": 0, "+3": 3, "3.00": 3, "03": 3, "4.5": -1, "-3": -1,
	} {
		got, err := b.host(text)
		if err != nil || got != want {
			t.Errorf("%q is node %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"a", "a.example.com", " a.org "} {
		_, err := b.host(text)
		if err == nil || !strings.Contains(err.Error(), "nodes 0 and 3 have that name; rename") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if b.bare(".example.com") != ".example.com" || b.bare("x.example.com.") != "x" || b.bare(" x. ") != "x." {
		t.Errorf("%q, %q, %q", b.bare(".example.com"), b.bare("x.example.com."), b.bare(" x. "))
	}
	names := newAddressBook(namedNetwork(t, "web.example.com", "db"), nil)
	for name, want := range map[string]string{
		"web": "; --domain example.com makes it web.example.com", "db.corp.net.": "; --domain corp.net makes it db",
		"web.corp.net": "", "x": "", "10.0.0.1": "", "we": "",
	} {
		got := names.domainHint(name)
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// Addresses in the given ranges are off the fabric in any spelling. Names are only if all addresses are.
func TestAddressesOffTheFabric(t *testing.T) {
	b := newAddressBook(topologytest.SmallNetwork(t), nil)
	if err := b.setOff([]string{" 203.0.113.0/24 ", "fd00::/8", "198.51.100.7"}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"203.0.113.0": true, " 203.0.113.255": true, "203.0.114.0": false, "::ffff:203.0.113.9": true,
		"fd12::1": true,
		"fe00::1": false, "198.51.100.7": true, "198.51.100.8": false, "web": false, "": false,
	} {
		if b.isOff(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	if err := b.setOff([]string{"any"}); err != nil || !b.isOff("web") || !b.isOff("10.0.0.1") {
		t.Error("any address is off the fabric", err)
	}
	if err := b.setOff([]string{"web"}); err == nil || !strings.Contains(err.Error(),
		`"web": must be an address`) {
		t.Error(err)
	}
}

// A row of the hosts table gives a node an address once. Another node with the same address, id or name is an
// error of the row. The first row of a switch is remembered.
func TestRowsOfTheHostsTable(t *testing.T) {
	b := newAddressBook(namedNetwork(t, "a", "b"), []string{"net"})
	for i, c := range []struct{ address, node, fault string }{
		{"10.0.0.1", "a", ""}, {"10.0.0.1/32", " a.net ", ""}, {"x.net", "1", ""}, {"a", "a", ""}, {"1", "b", ""},
		{"10.0.0.1", "b", `"10.0.0.1" is already node 0`}, {"x", "a", `"x" is already node 1`},
		{"b", "a", `"b" is already node 1`}, {"1", "a", `"1" is already node 1`}, {"10.0.0.9", "c",
			`node "c" is not a node`},
		{"", "a", `"" is neither an address`}, {"10.0.0.0/40", "a", "is neither an address"},
		{"10.0.0.2", "tor", ""}, {"10.0.0.3", "2", ""},
	} {
		err := b.addHost(fmt.Sprint("row ", i), c.address, c.node)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	want := map[int32][2]string{2: {"row 12", "tor"}}
	if !maps.Equal(b.rowOf, want) {
		t.Errorf("rows of switches: %v, want %v", b.rowOf, want)
	}
	if b.isSwitch("hosts.csv", "10.0.0.1") != "" || b.isSwitch("hosts.csv", "none") != "" ||
		!strings.HasPrefix(b.isSwitch("hosts.csv", "10.0.0.3"),
			"hosts.csv row 12: tor is a switch of the topology; it has 2 cables") {
		t.Error(b.isSwitch("hosts.csv", "10.0.0.3"))
	}
	twice := newAddressBook(namedNetwork(t, "1", "b"), nil)
	if err := twice.addHost("row 1", "1", "b"); err == nil || !strings.Contains(err.Error(),
		"may be several nodes") {
		t.Error(err)
	}
}
