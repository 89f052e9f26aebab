package sampled

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/schema/sizebin"
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
