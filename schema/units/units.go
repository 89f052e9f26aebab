// Package units parses and formats quantities with units: times, sizes, lengths, counts and shares. For
// bandwidths see topology.ParseSpeed.
package units

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Unit is the suffix of a quantity, with its value in base units.
type Unit struct {
	Suffix string
	Factor float64
}

// Units that Parse accepts, the largest first.
var (
	// Lengths are in multiples of the base unit, so that inches and feet are whole numbers.
	Length = []Unit{{"km", 1e6}, {"cm", 10}, {"mm", 1}, {"m", 1000}, {"ft", 304.8}, {"in", 25.4},
		{"mi", 1609344}}
	Duration = []Unit{{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"μs", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	Bytes    = []Unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}
	Count = []Unit{{"G", 1e9}, {"M", 1e6}, {"K", 1e3}, {"", 1}}
)

// Parse parses a number with one of the units, or a number without a unit, which is in the base unit. The
// result is whole: 1.5us is 1,500 ns, and 0.5ns is an error.
func Parse(text string, units []Unit) (int64, error) {
	v, err := ParseFloat(text, units, 1)
	whole := math.Round(v)
	if err == nil && math.Abs(v-whole) > 1e-9*max(1, math.Abs(whole)) {
		return 0, fmt.Errorf("is %q, which is not a whole number of %s", text, Base(units))
	}
	return int64(whole), err
}

// ParseDate parses a time of RFC 3339 and returns it as ns since 1970. A space may replace the T. A time
// without a zone is in UTC.
func ParseDate(text string) (ns int64, err error) {
	text = strings.Replace(text, " ", "T", 1)
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04:05", text)
	}
	if err == nil && (t.Unix() < 0 || t.Year() >= 2262) {
		err = errors.New("out of range")
	}
	return t.UnixNano(), err
}

// ParseFloat parses a number with one of the units, or a number without a unit, which is multiplied by plain.
func ParseFloat(text string, units []Unit, plain float64) (float64, error) {
	number := strings.TrimSpace(text)
	factor := plain
	for _, u := range units {
		n := len(number) - len(u.Suffix)
		if n > 0 && strings.EqualFold(number[n:], u.Suffix) {
			number = strings.TrimSpace(number[:n])
			factor = u.Factor
			break
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(x) {
		example := map[string]string{"ns": "1.5us", "TiB": "30KB", "G": "10G", "km": "5m"}[units[0].Suffix]
		return 0, fmt.Errorf("is %q, want a number with a unit such as %s", text, example)
	}
	v := x * factor
	if math.Abs(v) <= 1<<53 {
		return v, nil
	}
	return 0, fmt.Errorf("is %q, which is out of range", text)
}

// Base returns the suffix of the base unit.
func Base(units []Unit) string {
	for _, u := range units {
		if u.Factor == 1 {
			return u.Suffix
		}
	}
	panic("units: units without a base Unit")
}

// ParseShare parses a share, which is a number, or a percentage with a % sign.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("is %q, want a share such as 0.5 or 50%%", text)
	}
	if percent {
		x /= 100
	}
	return x, nil
}

// ParseSeed parses a seed. It must fit a signed integer, as which the lake stores it.
func ParseSeed(text string) (uint64, error) {
	x, err := strconv.ParseUint(text, 10, 63)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("is %s, must be 0 to 2^63-1", text)
	}
	if err != nil {
		return 0, fmt.Errorf("is %q, want a whole number of at least 0", text)
	}
	return x, nil
}

// Human formats a number with three digits and the prefix of a unit.
func Human(x float64) string {
	for _, prefix := range []string{"", " k", " M", " G", " T"} {
		if x < 999.5 {
			if prefix == "" {
				return fmt.Sprintf("%.0f", x)
			}
			return fmt.Sprintf("%.3g%s", x, prefix)
		}
		x /= 1000
	}
	return fmt.Sprintf("%.3g P", x)
}

// CenturyNS separates times since 1970, which are larger, from times since the start of a trace.
const CenturyNS = 1e17

// Time formats the start time of a flow as a duration, or as a date if it is above CenturyNS.
func Time(ns int64) string {
	if ns > CenturyNS {
		return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
	}
	return time.Duration(ns).String()
}
