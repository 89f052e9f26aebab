package format

import (
	"math"
	"strings"
	"time"
)

// firstDateNS is the least number of ns since 1970 that is written as a date: 1973. Smaller ones are times since the
// beginning of a workload.
const firstDateNS = 1e17

// forPeople writes the values of a column in ns, by its name, in the unit of the largest one: us, ms or s; or, where
// they are points in time, as dates. It returns the name of the column with that unit. Other columns stay as they
// are.
func forPeople(name string, rows [][]any, column int) string {
	base, isNS := strings.CutSuffix(name, "_ns")
	if !isNS {
		return name
	}
	largest := 0.0
	for _, row := range rows {
		if x, ok := number(row[column]); ok {
			largest = max(largest, math.Abs(x))
		}
	}
	if largest >= firstDateNS && strings.HasSuffix(base, "start") {
		for _, row := range rows {
			if ns, ok := row[column].(int64); ok {
				row[column] = time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000000Z")
			}
		}
		return base
	}
	for _, unit := range []struct {
		name string
		ns   float64
	}{{"_s", 1e9}, {"_ms", 1e6}, {"_us", 1e3}} {
		if largest < unit.ns || largest >= firstDateNS {
			continue
		}
		for _, row := range rows {
			if x, ok := number(row[column]); ok {
				row[column] = x / unit.ns
			}
		}
		return base + unit.name
	}
	return name
}

// number is a value as a float; ok is false for anything but whole numbers and floats.
func number(v any) (x float64, ok bool) {
	switch v := v.(type) {
	case int32:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return 0, false
}
