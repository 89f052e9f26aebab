package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"parsimon/queries"
	"parsimon/schema"
)

// Estimate is one estimate of the lake.
type Estimate struct {
	Scenario, Variant string
	Name              string // of the scenario; need not be unique
	Windows           bool   // it was estimated from windows of time, not of every flow
}

// Choose finds the estimate of a scenario, given by its id and name: of a variant or, where that is empty, of the one
// to prefer, or else the answer.
func Choose(files []queries.File, scenario, name, variant, prefer string) (Estimate, error) {
	windows, answer := map[string]bool{}, "" // by variant
	for _, f := range files {
		sampled := f.Table == schema.Windows.Name
		if f.Scenario == scenario && (sampled || f.Table == schema.Slowdowns.Name) {
			windows[f.Variant] = sampled
			if f.Answer {
				answer = f.Variant
			}
		}
	}
	have := slices.Sorted(maps.Keys(windows))
	if len(have) == 0 {
		return Estimate{}, fmt.Errorf("scenario %s is not estimated: run it", scenario)
	}
	if _, known := windows[prefer]; !known {
		prefer = ""
	}
	chosen := cmp.Or(variant, prefer, answer, have[0])
	if !slices.Contains(have, chosen) {
		return Estimate{}, fmt.Errorf("scenario %s has no estimate %q; it has %s", scenario, variant,
			strings.Join(have, ", "))
	}
	return Estimate{scenario, chosen, name, windows[chosen]}, nil
}

var comparisonQuery = own("comparison", `SELECT count(*) FILTER (service <> 'all') > 0 OR count(*) > 0 AND
		(SELECT count(DISTINCT service) FROM intervals WHERE scenario = $scenario AND variant = $variant) < 2 AS compared
	FROM comparisons WHERE scenario = $scenario AND variant = $variant
		AND base_scenario = $base_scenario AND base_variant = $base_variant`)

// Compared reports whether the lake holds the comparison with the base that a report needs: by service, where there are
// several. Estimates that cannot be compared are an error.
func Compared(ctx context.Context, lake string, o Options) (_ bool, err error) {
	switch {
	case o.Estimate.Windows || o.Base.Windows:
		return false, errors.New("a report compares estimates of every flow, and one of these is from windows of time " +
			"(run --within): parsimon compare --within answers what changed, from the same windows of both")
	case *o.Base == o.Estimate:
		return false, fmt.Errorf("scenario %s, variant %s, is compared with itself", o.Base.Scenario, o.Base.Variant)
	}
	db, err := queries.Open(ctx, lake, o.Query)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	a, err := ask(ctx, db, comparisonQuery, parameters(o.Estimate, o.Base))
	return err == nil && a.Is(0, "compared"), err
}
