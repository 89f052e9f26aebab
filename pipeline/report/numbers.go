package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"parsimon/schema/units"
)

// times formats a ratio with three or four digits: 1.006×, 12.4×.
func times(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x >= 1000:
		return thousands(int64(math.Round(x))) + "×"
	case x >= 100:
		return fmt.Sprintf("%.0f×", x)
	case x >= 10:
		return fmt.Sprintf("%.1f×", x)
	case x >= 1.1:
		return fmt.Sprintf("%.2f×", x)
	}
	return fmt.Sprintf("%.3f×", x)
}

func percent(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x > 0.9995 && x < 1:
		return "more than 99.9%"
	case x != 0 && math.Abs(x) < 0.095, math.Abs(x) > 0.995 && math.Abs(x) < 1:
		return fmt.Sprintf("%.1f%%", 100*x)
	}
	return fmt.Sprintf("%.0f%%", 100*x)
}

func signed(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	text := fmt.Sprintf("%+.1f%%", 100*x)
	if text == "+0.0%" || text == "-0.0%" {
		return "0.0%"
	}
	return strings.Replace(text, "-", "−", 1)
}

// millis formats a time that is given in ms.
func millis(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x < 1:
		return fmt.Sprintf("%.3g µs", 1e3*x)
	case x >= 1e3:
		return fmt.Sprintf("%.3g s", x/1e3)
	}
	return fmt.Sprintf("%.3g ms", x)
}

func thousands(n int64) string {
	if n < 0 {
		return "−" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

func bytesText(bytes int64) string {
	number, prefix, _ := strings.Cut(units.Human(float64(bytes)), " ")
	return number + " " + prefix + "B"
}

// spanText formats a time that is given in ns.
func spanText(ns int64) string {
	d := time.Duration(ns)
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return millis(float64(ns) / 1e6)
}
