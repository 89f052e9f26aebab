package ingest

import (
	"slices"
	"strings"
	"testing"

	"parsimon/stages/rng"
	"parsimon/stages/topology/topologytest"
)

// A port of a labels table is empty, a number or a range. Anything else is an error, and not another port.
func TestPortsOfLabels(t *testing.T) {
	for text, want := range map[string]label{
		"":            {lo: 0, hi: 65535},
		"443":         {lo: 443, hi: 443},
		"443.0":       {lo: 443, hi: 443},
		"0":           {lo: 0, hi: 0},
		"65535":       {lo: 65535, hi: 65535},
		"6800-6815":   {lo: 6800, hi: 6815},
		"5 - 5":       {lo: 5, hi: 5},
		"65534-65535": {lo: 65534, hi: 65535},
	} {
		lo, hi, err := parsePorts(text)
		if err != nil || lo != want.lo || hi != want.hi {
			t.Errorf("%q: %d to %d, %v", text, lo, hi, err)
		}
	}
	for _, text := range []string{"65536", "-1", "6-5", "http", "1-", "1.5", "1-2-3", "1-70000"} {
		lo, hi, err := parsePorts(text)
		if err == nil || !strings.Contains(err.Error(), `port "`+text+`"`) {
			t.Errorf("%q: %d to %d, %v", text, lo, hi, err)
		}
	}
	for want, l := range map[string]label{
		"any": {lo: 0, hi: 65535}, "7": {lo: 7, hi: 7}, "0-65534": {hi: 65534}, "1-65535": {lo: 1, hi: 65535},
	} {
		got := l.ports()
		if got != want || l.anyPort() != (want == "any") {
			t.Errorf("%+v: %q", l, got)
		}
	}
}

// The ranges of byPort have the labels that a search at each port finds. Ports of no range have the label of
// any port, or none.
func TestRangesOfPortsAgreeWithEachPort(t *testing.T) {
	s := rng.New(1, rng.Start)
	for trial := range 50 {
		var c class
		for _, bits := range []int{32, 24, 8} {
			held := rangeLabels{bits: bits}
			for range s.IntN(4) {
				lo := s.IntN(60)
				service := string(rune('a' + s.IntN(26)))
				held.labels = append(held.labels, label{lo: lo, hi: lo + s.IntN(10), service: service})
			}
			if s.IntN(3) == 0 {
				held.labels = append(held.labels, label{hi: allPorts - 1, service: "any"})
			}
			c = append(c, held)
		}
		ranges := c.byPort()
		for port := range 80 {
			want, found := c.at(port)
			at := slices.IndexFunc(ranges, func(p portLabel) bool { return p.lo <= port && port <= p.hi })
			if (at >= 0) != (found && !want.anyPort()) {
				t.Fatalf("trial %d, port %d: range %d, but its own label is %+v", trial, port, at, want)
			}
			if at >= 0 && (ranges[at].label != want.label || ranges[at].rank != want.rank) {
				t.Fatalf("trial %d, port %d: %+v, want %+v", trial, port, ranges[at], want)
			}
		}
	}
}

// Of the labels of both ends of a flow, that with fewer ports applies, and then that of fewer addresses.
func TestRanksOfLabels(t *testing.T) {
	one := label{lo: 80, hi: 80}
	two := label{lo: 80, hi: 81}
	var ranks []int64
	for _, l := range []label{{hi: allPorts - 1}, two, one} {
		for _, bits := range []int{0, 8, 128} {
			ranks = append(ranks, rangeLabels{bits: bits}.rank(l))
		}
	}
	if !slices.IsSorted(ranks) || len(slices.Compact(ranks)) != 9 {
		t.Errorf("ranks %d", ranks)
	}
	c := class{{bits: 32, labels: []label{one}}, {bits: 8, labels: []label{{hi: allPorts - 1, service: "any"}}}}
	got, found := c.others()
	if !found || got.lo != -1 || got.hi != -1 || got.service != "any" {
		t.Errorf("the label of any port: %+v", got)
	}
	_, found = c[:1].others()
	if found {
		t.Error("a label of port 80 applies to any port")
	}
}

// A service has one model of traffic. A model without a service, or another one, is an error of the row.
func TestModelsOfServices(t *testing.T) {
	b := newAddressBook(topologytest.SmallNetwork(t), nil)
	for _, c := range []struct{ service, model, fault string }{
		{" web ", " poisson ", ""}, {"web", "poisson", ""}, {"web", "", ""}, {"", "", ""},
		{"web", "bursty", `of service "web" is "bursty", and an earlier row says "poisson"`},
		{"", "bursty", `"bursty" is that of one service, and the row has service ""`},
		{"*", "bursty", `the row has service "*"`}, {"db", "bursty", ""},
	} {
		err := b.addTraffic(c.service, c.model)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if len(b.traffic) != 2 || b.traffic["web"] != "poisson" || b.traffic["db"] != "bursty" {
		t.Errorf("models %v", b.traffic)
	}
}

// The ranges of ports of a class are as long as they can be, and end with the last port. Of two labels of a
// port, that with fewer ports applies, and the first of two with as many.
func TestRangesOfPorts(t *testing.T) {
	of := func(service string, lo, hi int) label { return label{lo: lo, hi: hi, service: service} }
	for name, c := range map[string]struct {
		class class
		want  []portLabel
	}{
		"one range": {class{{8, []label{of("a", 0, 5)}}}, []portLabel{{0, 5, 65_531_008, of("a", 0, 5)}}},
		"the last port": {class{{8, []label{of("a", 60_000, 65_535)}}}, []portLabel{{60_000, 65_535, 60_001_008,
			of("a", 60_000, 65_535)}}},
		"fewer ports": {class{{8, []label{of("a", 1, 9), of("b", 4, 5)}}}, []portLabel{
			{1, 3, 65_528_008, of("a", 1, 9)}, {4, 5, 65_535_008, of("b", 4, 5)}, {6, 9, 65_528_008, of("a", 1, 9)}}},
		"as many ports": {class{{8, []label{of("a", 1, 2), of("b", 2, 3)}}}, []portLabel{
			{1, 1, 65_535_008, of("a", 1, 2)}, {2, 2, 65_535_008, of("a", 1, 2)}, {3, 3, 65_535_008, of("b", 2, 3)}}},
		"a longer prefix": {class{{24, []label{of("a", 1, 9)}}, {8, []label{of("b", 9, 10)}}}, []portLabel{
			{1, 8, 65_528_024, of("a", 1, 9)}, {9, 9, 65_528_024, of("a", 1, 9)}, {10, 10, 65_535_008, of("b", 9,
				10)}}},
		"any port": {class{{8, []label{of("a", 0, 65_535)}}}, nil},
	} {
		got := c.class.byPort()
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		for _, p := range got {
			at, found := c.class.at(p.hi)
			want := (portLabel{p.hi, p.hi, p.rank, p.label})
			if !found || at != want {
				t.Errorf("%s: port %d has %+v, want %+v", name, p.hi, at, want)
			}
		}
	}
	every := of("a", 0, 65_535)
	got, found := class{{24, nil}, {8, []label{of("b", 1, 65_535), every}}}.others()
	want := (portLabel{-1, -1, 1_008, every})
	if !found || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Rows of the labels table with the same range and ports must agree. Addresses in the same ranges have one
// class, whose rows are those of the table that DuckDB reads.
func TestClassesOfAddresses(t *testing.T) {
	b := newAddressBook(topologytest.SmallNetwork(t), []string{"net"})
	for _, l := range [][5]string{
		{"10.0.0.0/8", " 80 ", " web ", " red "}, {"10.0.0.0/8", "80", "web", "red"}, {"10.0.0.0/8", "80-81",
			"other", ""},
		{"10.0.0.0/8", "79-80", "other", ""}, {"10.1.0.0/16", "", "any", ""}, {"db.net", "", "db", ""},
		{"10.0.0.0/8", "80.0", "web", "blue",
			"10.0.0.0/8, port 80, is service \"web\" of network \"blue\", and an earlier row"},
		{"10.0.0.0/8", "80-81", "web", "", "port 80-81, is service \"web\""}, {"10.0.0.0/8", "81-80", "web", "",
			"is not a whole number"},
		{"", "", "web", "", "is neither an address"},
	} {
		err := b.addLabel(l[0], l[1], l[2], l[3])
		if (err == nil) != (l[4] == "") || err != nil && !strings.Contains(err.Error(), l[4]) {
			t.Errorf("%q: %v", l, err)
		}
	}
	for i, c := range []struct {
		address string
		class   int32
	}{{"11.0.0.1", 0}, {"10.0.0.1", 1}, {"10.1.0.1", 2}, {"10.2.0.1", 1}, {"db", 3}, {"db.net", 3}, {"web", 0},
		{"10.1.0.2", 2}} {
		got := b.class(c.address)
		if got != c.class {
			t.Errorf("%d: %s has class %d, want %d", i, c.address, got, c.class)
		}
	}
	// The longer range has a label for any port, so that those of the shorter one do not apply.
	want := []string{
		"(1, 79, 79, 65535104, 'other', '')", "(1, 80, 80, 65536104, 'web', 'red')",
		"(1, 81, 81, 65535104, 'other', '')",
		"(2, -1, -1, 1112, 'any', '')", "(3, -1, -1, 1128, 'db', '')",
	}
	got := b.classRows()
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The label of a flow is that of the end with the higher rank. What it lacks is taken from its any port, and
// then from the other end.
func TestLabelsOfFlows(t *testing.T) {
	b := newAddressBook(topologytest.SmallNetwork(t), nil)
	for _, l := range [][4]string{
		{"10.0.0.0/8", "", "wide", "red"}, {"10.0.0.0/8", "80", "web", ""}, {"20.0.0.0/16", "", "narrow", ""},
		{"20.0.0.0/16", "90-91", "pair", "blue"}, {"30.0.0.0/8", "", "", "green"},
	} {
		if err := b.addLabel(l[0], l[1], l[2], l[3]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		src              string
		srcPort          int32
		dst              string
		dstPort          int32
		service, network string
	}{
		{"1.1.1.1", 80, "2.2.2.2", 80, "", ""},
		{"10.0.0.1", 1, "2.2.2.2", 2, "wide", "red"}, {"10.0.0.1", 80, "2.2.2.2", 2, "web", "red"},
		{"2.2.2.2", 80, "10.0.0.1", 80, "web", "red"}, {"10.0.0.1", 1, "10.0.0.2", 80, "web", "red"},
		{"10.0.0.1", 1, "20.0.0.1", 2, "narrow", "red"}, {"20.0.0.1", 2, "10.0.0.1", 1, "narrow", "red"},
		{"20.0.0.1", 90, "10.0.0.1", 80, "web", "red"}, {"10.0.0.1", 80, "20.0.0.1", 90, "web", "red"},
		{"20.0.0.1", 90, "10.0.0.1", 81, "pair", "blue"}, {"10.0.0.1", 81, "20.0.0.1", 91, "pair", "blue"},
		{"30.0.0.1", 1, "20.0.0.1", 1, "narrow", "green"}, {"30.0.0.1", 80, "10.0.0.1", 1, "wide", "red"},
		{"10.0.0.1", 1, "30.0.0.1", 80, "wide", "green"},
	} {
		src := &regularAddress{class: b.class(c.src)}
		dst := &regularAddress{class: b.class(c.dst)}
		service, network := b.labelOf(src, dst, c.srcPort, c.dstPort)
		if service != c.service || network != c.network {
			t.Errorf("%+v: service %q of network %q", c, service, network)
		}
	}
}
