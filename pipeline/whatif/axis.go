package whatif

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// An Axis is a key of a scenario file and the values that a sweep gives it.
type Axis struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// ParseAxis parses KEY=V,V. Commas within brackets and braces do not separate values.
func ParseAxis(axis string) (a Axis, err error) {
	key, list, ok := strings.Cut(axis, "=")
	a.Key = strings.TrimSpace(key)
	list += ","
	depth := 0
	from := 0
	for i, c := range list {
		switch {
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
			if depth < 0 {
				return a, axisError(axis)
			}
		case c == ',' && depth == 0:
			a.Values = append(a.Values, strings.TrimSpace(list[from:i]))
			from = i + 1
		}
	}
	if !ok || a.Key == "" || depth != 0 || slices.Contains(a.Values, "") {
		return a, axisError(axis)
	}
	for i, value := range a.Values {
		if slices.Contains(a.Values[:i], value) {
			return a, fmt.Errorf("%q: the value %s stands twice", axis, value)
		}
	}
	return a, nil
}

func axisError(axis string) error {
	return fmt.Errorf("%q: want KEY=VALUE,VALUE such as workload.max_load=20%%,40%%", axis)
}

// numberOf returns the number that a value starts with. A percentage is converted to a share. It returns NaN
// if there is no number.
func numberOf(value string) float64 {
	var x float64
	var unit string
	n, _ := fmt.Sscanf(value, "%g%s", &x, &unit) // without a number, n is 0
	if n == 0 {
		return math.NaN()
	}
	if unit == "%" {
		x /= 100
	}
	return x
}
