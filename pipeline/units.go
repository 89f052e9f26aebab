package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A unit is a suffix of a quantity and how many base units it stands for.
type unit struct {
	suffix string
	factor float64
}

var (
	bandwidthUnits = []unit{{"Tbps", 1e12}, {"Gbps", 1e9}, {"Mbps", 1e6}, {"Kbps", 1e3}, {"bps", 1}}
	durationUnits  = []unit{{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"μs", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	bytesUnits     = []unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}
)

// parseQuantity reads a number with one of the units, or a plain number of the base unit. The
// answer is whole: 1.5us is 1,500 ns, and 0.5ns is an error.
func parseQuantity(text string, units []unit) (int64, error) {
	number, factor := strings.TrimSpace(text), 1.0
	for _, u := range units {
		n := len(number) - len(u.suffix)
		if n > 0 && strings.EqualFold(number[n:], u.suffix) {
			number, factor = strings.TrimSpace(number[:n]), u.factor
			break
		}
	}
	example := map[string]string{"Tbps": "10Gbps", "ns": "1.5us", "TiB": "30KB"}[units[0].suffix]
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(x) {
		return 0, fmt.Errorf("is %q, want a number with a unit such as %s", text, example)
	}
	v := x * factor
	whole := math.Round(v)
	switch {
	case math.Abs(whole) > 1<<53:
		return 0, fmt.Errorf("is %q, which is out of range", text)
	case math.Abs(v-whole) > 1e-9*max(1, math.Abs(whole)):
		return 0, fmt.Errorf("is %q, which is no whole number of %s", text, baseUnit(units))
	}
	return int64(whole), nil
}

func baseUnit(units []unit) string {
	for _, u := range units {
		if u.factor == 1 {
			return u.suffix
		}
	}
	panic("pipeline: units without a base unit")
}

// parseShare reads a share as a number or, with a % behind it, in percent.
func parseShare(text string) (float64, error) {
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

// parseSeed reads a seed: the lake keeps it as a signed integer.
func parseSeed(text string) (uint64, error) {
	x, err := strconv.ParseUint(text, 10, 63)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("is %s, must be 0 to 2^63-1", text)
	}
	if err != nil {
		return 0, fmt.Errorf("is %q, want a whole number of at least 0", text)
	}
	return x, nil
}

// ParseBandwidth reads a bandwidth such as 40Gbps, in bps.
func ParseBandwidth(text string) (int64, error) { return parseQuantity(text, bandwidthUnits) }
