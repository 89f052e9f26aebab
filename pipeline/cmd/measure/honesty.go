package main

import (
	"context"
	"fmt"
	"strings"
)

// A warning must name an estimate with an error from the first on, and should not name one below the second.
const (
	namedError    = 0.1
	harmlessError = 0.03
)

// loads are the mean load of the 10% most loaded links of an estimate, and the largest load.
type loads struct {
	Top10   float64 `json:"top10_mean_load"`
	Largest float64 `json:"max_load"`
}

func (b *bench) loads(ctx context.Context, lake string, e estimate) loads {
	for _, l := range question[loads](ctx, b, lake, "load_top10", e) {
		return l
	}
	return loads{}
}

// serviceErrors are the errors of a service against a truth.
type serviceErrors struct {
	Service, Truth string
	P50            float64 `json:"p50_error"`
	P90            float64 `json:"p90_error"`
	P99            float64 `json:"p99_error"`
	P999           float64 `json:"p999_error"`
}

// A judged estimate is held against a truth.
type judged struct {
	errors   percentiles // of all flows, or of service main
	bySize   validation
	warnings []string
	holds    []bool // the intervals of p50, p90, p99 and p99.9 of all flows hold the truth
}

// judge holds an estimate against the truth. Bounds of intervals are known to the width of a cell of slowdown, 0.2%.
func (b *bench) judge(ctx context.Context, lake string, e estimate, way []string, truth string) judged {
	j := judged{bySize: b.validate(ctx, lake, e, way, truth)}
	j.errors = j.bySize["all"].errors
	for _, s := range question[serviceErrors](ctx, b, lake, "error_by_service", e) {
		if s.Service == "main" && s.Truth == "exact" {
			j.errors = percentiles{s.P50, s.P90, s.P99, s.P999}
		}
	}
	for _, r := range query[struct{ Kind string }](ctx, b, lake,
		"SELECT DISTINCT kind FROM warnings_all WHERE "+e.where()+" ORDER BY kind") {
		j.warnings = append(j.warnings, r.Kind)
	}
	for _, r := range query[struct{ Holds bool }](ctx, b, lake, `
		SELECT v.true_slowdown BETWEEN i.lo / 1.002 AND i.hi * 1.002 AS holds
		FROM (FROM intervals_all WHERE `+e.where()+` AND size_bin = 'all' AND service IS NULL AND vnet IS NULL) i
		JOIN validations v USING (scenario, variant, size_bin, quantile) ORDER BY quantile`) {
		j.holds = append(j.holds, r.Holds)
	}
	return j
}

// marks says which intervals hold the truth.
func (j judged) marks() string {
	var text []string
	for _, holds := range j.holds {
		text = append(text, map[bool]string{true: "yes", false: "no"}[holds])
	}
	return strings.Join(text, " / ")
}

// worst is the largest error of the four percentiles, and of p99 of a flow size.
func (j judged) worst() float64 {
	worst := abs(j.bySize.worstBin())
	for _, x := range j.errors {
		worst = max(worst, abs(x))
	}
	return worst
}

// A tally counts over scenarios how good an estimate was, and how well it knew.
type tally struct {
	p99                      figures
	unnamed, named, harmless []string
	warned, intervals, held  int
}

func (t *tally) add(name string, j judged) {
	t.p99.add(name, j.errors.p99())
	worst, warned := j.worst(), len(j.warnings) > 0
	switch {
	case worst >= namedError && !warned:
		t.unnamed = append(t.unnamed, name)
	case worst >= namedError:
		t.named = append(t.named, name)
	case warned && worst < harmlessError:
		t.harmless = append(t.harmless, name)
	}
	if warned {
		t.warned++
	}
	for _, holds := range j.holds {
		t.intervals++
		if holds {
			t.held++
		}
	}
}

func (t *tally) print(b *bench, way string) {
	mean, worst, name := t.p99.magnitudes()
	b.printf("\n%s:\n\n- mean |p99 error| %.1f%%, largest %.1f%% (%s)", way, 100*mean, 100*worst, name)
	b.printf("- errors of %.0f%% and more with a warning: %s; without: %s", 100*namedError, listed(t.named),
		listed(t.unnamed))
	b.printf("- warnings in %d scenarios; all errors are below %.0f%% in %s", t.warned, 100*harmlessError,
		listed(t.harmless))
	b.printf("- intervals that hold the truth: %d of %d", t.held, t.intervals)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", "))
}
