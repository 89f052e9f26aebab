package sampled

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/schema/sizebin"
	"parsimon/schema/units"
	"parsimon/stages"
)

// An Ask says which percentiles are wanted, and how precisely.
type Ask struct {
	Within     float64   // half of the width of an interval, relative to the percentile
	Of         []float64 // quantiles of pipeline.Quantiles
	By         string    // "", service, vnet or size_bin; with "=NAME" of one group only
	Confidence float64   // of the intervals, such as 0.95
	Budget     time.Duration
}

// Groups that By can name.
const (
	byService = "service"
	byVNet    = "vnet"
	bySizeBin = "size_bin"
)

// Validate reports an Ask that cannot be answered.
func (a Ask) Validate() error {
	switch name, _, _ := strings.Cut(a.By, "="); {
	case !(a.Within > 0 && a.Within < 1):
		return fmt.Errorf("precision %v: must be above 0 and below 100%%", a.Within)
	case !(a.Confidence >= 0.5 && a.Confidence <= 0.999):
		return fmt.Errorf("confidence %v: must be 50%% to 99.9%%", a.Confidence)
	case name != "" && !slices.Contains([]string{byService, byVNet, bySizeBin}, name):
		return fmt.Errorf("group %q: must be %s, %s or %s, or one of these with =NAME", a.By, byService, byVNet, bySizeBin)
	case len(a.Of) == 0:
		return fmt.Errorf("no percentile is asked for")
	}
	for _, q := range a.Of {
		if !slices.Contains(pipeline.Quantiles, q) {
			return fmt.Errorf("quantile %v: must be one of %v", q, pipeline.Quantiles)
		}
	}
	return nil
}

// wants reports whether the intervals of a group have to be narrow.
func (a Ask) wants(k Key) bool {
	column, name, one := strings.Cut(a.By, "=")
	switch column {
	case byService:
		return k.By == stages.ByService && k.Bin == sizebin.Count && (!one || k.Label == name)
	case byVNet:
		return k.By == stages.ByVNet && (!one || k.Label == name)
	case bySizeBin:
		return k.By == stages.ByNothing && (one && k.binName() == name || !one && k.Bin != sizebin.Count)
	}
	return k == all
}

// An AskText is an Ask as the flags of a command line have it.
type AskText struct {
	Within, Confidence, By string
	Of                     []string
	Budget                 time.Duration
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
	if t.Budget < 0 {
		return a, fmt.Errorf("--budget must be 0 or more")
	}
	a.By, a.Budget = t.By, t.Budget
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
