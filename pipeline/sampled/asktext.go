package sampled

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/units"
)

// An AskText is an Ask as the flags of a command line have it.
type AskText struct {
	Within, Confidence, By string
	Of                     []string
	Budget, Check          time.Duration
}

// Parse is the Ask. Errors name the flag.
func (t AskText) Parse() (a Ask, err error) {
	if a.Within, err = units.ParseShare(t.Within); err != nil {
		return a, fmt.Errorf("--within %q: want a share such as 2%%", t.Within)
	}
	if a.Confidence, err = units.ParseShare(t.Confidence); err != nil {
		return a, fmt.Errorf("--confidence %q: want a share such as 95%%", t.Confidence)
	}
	for _, text := range t.Of {
		q, err := parsePercentile(text)
		if err != nil {
			return a, err
		}
		a.Of = append(a.Of, q)
	}
	if t.Budget < 0 || t.Check < 0 {
		return a, fmt.Errorf("--budget and --check must be 0 or more")
	}
	a.By, a.Budget, a.Check = t.By, t.Budget, t.Check
	return a, a.Validate()
}

// parsePercentile reads a percentile such as p99.
func parsePercentile(text string) (float64, error) {
	percent, err := strconv.ParseFloat(strings.TrimPrefix(text, "p"), 64)
	for _, known := range pipeline.Quantiles {
		if err == nil && math.Abs(known*100-percent) < 1e-6 {
			return known, nil
		}
	}
	return 0, fmt.Errorf("--of %q: want p50, p90, p99 or p99.9", text)
}
