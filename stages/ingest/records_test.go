package ingest

import (
	"fmt"
	"strings"
	"testing"
)

// The lines of a hosts table that an error proposes match the neighbors of an address and all others of its
// family. A text that is not an address matches itself.
func TestProposedLinesOfHosts(t *testing.T) {
	for address, want := range map[string][2]string{
		"203.0.113.77":     {"203.0.113.0/24", "0.0.0.0/0"},
		" 203.0.113.77 ":   {"203.0.113.0/24", "0.0.0.0/0"},
		"2001:db8:1:2:3::": {"2001:db8:1:2::/64", "::/0"},
		"web-7":            {"web-7", "0.0.0.0/0"},
	} {
		near, all := hostsRules(address)
		if near != want[0] || all != want[1] {
			t.Errorf("%q: %s and %s, want %s and %s", address, near, all, want[0], want[1])
		}
	}
	r := RejectCount{Reason: unknownSrc, Rows: 9}
	if r.Advice() != "" {
		t.Error("advice without addresses")
	}
	for i := range 7 {
		r.Unknown = append(r.Unknown, UnknownAddress{Address: fmt.Sprintf("10.0.%d.9", i), Bytes: int64(70 - i)})
	}
	text := r.Advice()
	if !strings.HasPrefix(text, "most bytes: 10.0.0.9 with 70 bytes, ") || strings.Contains(text, "10.0.5.9") ||
		!strings.Contains(text, "10.0.4.9 with 66 bytes. ") || !strings.Contains(text, "line 10.0.0.0/24,NODE") {
		t.Error(text)
	}
	r.Unknown[0].Switch = "row 3: 10.0.0.9 is a switch"
	if !strings.HasSuffix(r.Advice(), "66 bytes. row 3: 10.0.0.9 is a switch") {
		t.Error(r.Advice())
	}
}

// Reasons of several files are added up, most rows first, and so are the addresses of a reason, of which the
// twenty with the most bytes remain.
func TestReasonsAddUp(t *testing.T) {
	var many []UnknownAddress
	for i := range 25 {
		many = append(many, UnknownAddress{Address: fmt.Sprint(i), Rows: 1, Bytes: int64(100 + i)})
	}
	one := []RejectCount{
		{Reason: "a", Rows: 3, Example: "first"}, {Reason: unknownSrc, Rows: 25, Unknown: many[:13]},
	}
	two := []RejectCount{
		{Reason: "b", Rows: 4}, {Reason: "a", Rows: 2, Example: "second"},
		{Reason: unknownSrc, Rows: 2, Unknown: append(many[13:25:25], UnknownAddress{"7", 2, 1000, ""})},
	}
	got := AddReasons(one, two)
	if len(got) != 3 || got[0].Reason != unknownSrc || got[0].Rows != 27 || got[1].Reason != "a" ||
		got[1].Rows != 5 || got[1].Example != "first" || got[2].Reason != "b" || got[2].Rows != 4 {
		t.Fatalf("%+v", got)
	}
	u := got[0].Unknown
	if len(u) != maxUnknown || u[0].Address != "7" || u[0].Rows != 3 || u[0].Bytes != 1107 ||
		u[1].Address != "24" || u[19].Address != "5" {
		t.Errorf("%+v", u)
	}
}

// An address of many keeps its place among those with the most bytes, however many are added after it.
func TestMostUnknownAddresses(t *testing.T) {
	var m unknownAddresses
	m.add(UnknownAddress{Address: "largest", Bytes: 1 << 40})
	for i := range 50*maxUnknown + 5 {
		m.add(UnknownAddress{Address: fmt.Sprint(i), Bytes: int64(i)})
	}
	if len(m) > 50*maxUnknown {
		t.Errorf("%d addresses are kept", len(m))
	}
	m.cut()
	if len(m) != maxUnknown || m[0].Address != "largest" || m[1].Address != "1004" || m[19].Bytes != 986 {
		t.Errorf("%+v", m)
	}
}
