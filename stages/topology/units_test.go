package topology

import (
	"errors"
	"testing"
)

func TestParseSpeed(t *testing.T) {
	for text, want := range map[string]int64{
		"10G": 10e9, "10g": 10e9, "100Gbps": 100e9, "100 Gb/s": 100e9, "2.5G": 25e8, "1T": 1e12, "40000": 40e9,
		"1000": 1e9, "25000": 25e9,
		"10000000": 1e7, "25000000000": 25e9, "1e9": 1e9, "25GE": 25e9, "10GbE": 10e9, "100gbase-x-qsfp28": 100e9,
		"1000base-t": 1e9, "800M": 8e8, "64kbps": 64e3,
	} {
		if got, err := ParseSpeed(text); err != nil || got != want {
			t.Errorf("%q: %d bps, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "fast", "100", "10", "G", "-10G", "10 parsecs", "10G 20G",
		"99999999999999999999", "0.0001", "NaN", "0", "0G", "0.0"} {
		if got, err := ParseSpeed(text); err == nil {
			t.Errorf("%q: %d bps, want an error", text, got)
		}
	}
}

// Without ErrZeroSpeed, the error for a speed of 0 would ask for a unit and, with a unit, report that it is
// out of range.
func TestZeroSpeed(t *testing.T) {
	for _, text := range []string{"0", "0G", "0.0", "0Mbps"} {
		_, err := ParseSpeed(text)
		if !errors.Is(err, ErrZeroSpeed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLengthDelay(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		ns         int64
	}{{"3m", "", 15}, {"3", "", 15}, {"0.5", "m", 3}, {"10", "ft", 15}, {"100 cm", "", 5}, {"2", "km", 10_000},
		{"5m", "ft", 25}} {
		if got, err := LengthDelay(c.text, c.unit); err != nil || got != c.ns {
			t.Errorf("%q %q: %d ns, %v; want %d", c.text, c.unit, got, err, c.ns)
		}
	}
	for _, c := range [][2]string{{"-3m", ""}, {"3", "furlong"}, {"long", ""}, {"NaN", ""}, {"Inf", ""}} {
		if got, err := LengthDelay(c[0], c[1]); err == nil {
			t.Errorf("%q %q: %d ns, want an error", c[0], c[1], got)
		}
	}
}

func TestMatchPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"leaf*", "leaf1", true}, {"leaf*", "spine1", false}, {"*", "", true}, {"*", "Ethernet1/1", true},
		{"e?-4?", "e1-49", true}, {"e?-4?", "e1-4", false},
		{"a*b*c", "axxbxxbc", true}, {"a*b*c", "axxbxx", false}, {"", "", true}, {"", "x", false},
		{"x**", "x", true},
	} {
		got := MatchPattern(c.pattern, c.name)
		if got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestCompareNatural(t *testing.T) {
	order := []string{"a", "leaf1", "leaf01", "leaf2", "leaf10", "leaf10a", "leaf10b", "spine1"}
	for i, a := range order {
		for k, b := range order {
			got := CompareNatural(a, b)
			if (got < 0) != (i < k) && a != "leaf01" && b != "leaf01" || (got == 0) != (i == k) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
}

// A change of bandwidth is a speed, or a share of the present one above 0%. A share of 0 would take a cable
// down, which --fail does.
func TestParseSpeedOrShare(t *testing.T) {
	for text, want := range map[string]int64{"40G": 40e9, "50%": 20e9, "250%": 100e9, "0.0000000025%": 1} {
		s, err := ParseSpeedOrShare(text)
		if err != nil || s.Of(40e9) != want {
			t.Errorf("%q of 40 Gbps: %d bps, %v; want %d", text, s.Of(40e9), err, want)
		}
	}
	for _, text := range []string{"0%", "-5%", "x%", "", "0"} {
		if s, err := ParseSpeedOrShare(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, s)
		}
	}
}

// Delays are at most 1,000 s, and may be lengths.
func TestParseDelay(t *testing.T) {
	for text, want := range map[string]int64{"0ns": 0, "1.2us": 1200, "1000s": 1e12, "3m": 15, "2km": 10_000} {
		got, err := ParseDelay(text)
		if err != nil || got != want {
			t.Errorf("%s: %d ns, want %d; %v", text, got, want, err)
		}
	}
	for _, bad := range []string{"-1ns", "1000.000000001s", "-1m", ""} {
		if _, err := ParseDelay(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// Messages count things in plain English.
func TestCount(t *testing.T) {
	for want, got := range map[string]string{"0 cables": Count(0, "cable"), "1 cable": Count(1, "cable"),
		"2 cables": Count(2, "cable"), "1 switch": Count(1, "switch"), "3 switches": Count(3, "switch")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
