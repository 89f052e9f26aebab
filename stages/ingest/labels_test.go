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
