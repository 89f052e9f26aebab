package sampling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parsimon/schema/sizebin"
	"parsimon/stages/confidence"
)

// An Ask requests percentiles at a precision.
type Ask struct {
	Within     float64       // half of the width of an interval, relative to the percentile
	Of         []float64     // quantiles, from pipeline.Quantiles
	By         string        // groups of flows: "", service, vnet or size_bin; one group only if "=NAME" follows
	Confidence float64       // of the intervals, such as 0.95
	Budget     time.Duration // 0: no limit
}

// Validate returns an error for an Ask that cannot be answered.
func (a Ask) Validate() error {
	name, _, _ := strings.Cut(a.By, "=")
	switch {
	case !(a.Within > 0 && a.Within < 1):
		return fmt.Errorf("precision %v: must be above 0 and below 100%%", a.Within)
	case !(a.Confidence >= 0.5 && a.Confidence <= 0.999):
		return fmt.Errorf("confidence %v: must be 50%% to 99.9%%", a.Confidence)
	case name != "" && !slices.Contains([]string{"service", "vnet", "size_bin"}, name):
		return fmt.Errorf("group %q: must be service, vnet or size_bin, or one of these with =NAME", a.By)
	}
	return nil
}

// wants reports whether the percentiles of a group are requested.
func (a Ask) wants(k Key) bool {
	column, name, one := strings.Cut(a.By, "=")
	switch column {
	case "service":
		return k.By == confidence.ByService && k.Bin == sizebin.Count && (!one || k.Label == name)
	case "vnet":
		return k.By == confidence.ByVNet && (!one || k.Label == name)
	case "size_bin":
		return k.By == confidence.ByNothing && (one && k.binName() == name || !one && k.Bin != sizebin.Count)
	}
	return k == all
}

// asked returns the requested groups that have flows, in the order of the index.
func (s *sampler) asked() []Key {
	return slices.DeleteFunc(slices.Clone(s.index.order), func(k Key) bool {
		return s.index.totals[k] == 0 || !s.ask.wants(k)
	})
}
