package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// An estimate must be named by a warning from the first error on, and must not be below the second.
const (
	namedError    = 0.1
	harmlessError = 0.03
)

// honesty compares what an estimate says of itself with its errors: warnings, and intervals with and without the
// method's own part.
func honesty(ctx context.Context, b *bench) {
	names := b.names([]string{"mini-mix"},
		[]string{"mini-star", "mini-mix", "mini-slow-40-2", "a2a-64k-4x", "chain-60", "fasthosts-60",
			"ft8-ws-60", "incast-64k-30", "onefast-60", "sigma3-60", "slowplane-60", "wan-100us",
			"7", "47", "65", "95", "121", "145", "1001", "1003"})
	b.honestyOf(ctx, names)
}

// heldOut does the same on the shipped scenarios on which nothing was chosen, with --exact as the truth.
func heldOut(ctx context.Context, b *bench) {
	b.honestyOf(ctx, b.names([]string{"held-out/microbursts"}, b.shipped("held-out")))
}

// honestyOf prints errors, warnings and coverage of estimates, each against its truth, and what a run chooses by
// default beside them.
func (b *bench) honestyOf(ctx context.Context, names []string) {
	way := estimator(b.ways("flow")[0])
	b.printf("Errors of p50 / p90 / p99 / p99.9, and of p99 of the worst flow size. An interval \"holds\" the truth if that " +
		"lies inside: the same four percentiles of all flows, of the interval without the method's part and of the whole one.")
	b.header("scenario", "busiest link", "flow: error", "worst bin", "warnings", "workload's part holds", "interval holds",
		"method's part, ±", "default", "error", "worst bin", "warnings")
	var t, byDefault honestyTally
	for _, name := range names {
		s, lake := b.source(name), b.lake()
		j, d := b.judge(ctx, lake, s, way), b.judge(ctx, lake, s, estimator("auto"))
		loads := b.loads(ctx, lake, j.estimate)
		if b.err != nil {
			return
		}
		t.add(name, j)
		byDefault.add(name, d)
		b.row(name, share(loads.Largest), j.errors["all"].errors, percent(j.errors.worstBin()),
			strings.Join(j.warnings, ", "),
			marks(j.held, func(h heldInterval) bool { return h.Workload }),
			marks(j.held, func(h heldInterval) bool { return h.Both }), methodParts(j.held),
			d.Variant, d.errors["all"].errors, percent(d.errors.worstBin()), strings.Join(d.warnings, ", "))
	}
	t.print(b, "flow")
	byDefault.print(b, "default")
}

// A judged estimate is held against a truth.
type judged struct {
	estimate
	errors   validation
	warnings []string
	held     []heldInterval
}

// judge estimates the flows of a source in a way and holds that against the truth. Bounds of intervals are known to the
// width of a cell of slowdown, 0.2%.
func (b *bench) judge(ctx context.Context, lake string, s source, way []string) judged {
	e := b.run(ctx, lake, append(slices.Clone(s.flags), way...)...)
	j := judged{estimate: e, errors: b.validate(ctx, lake, e, way, s.truth)}
	for _, r := range query[struct{ Kind string }](ctx, b, lake,
		"SELECT DISTINCT kind FROM warnings_all WHERE "+e.where()+" ORDER BY kind") {
		j.warnings = append(j.warnings, r.Kind)
	}
	j.held = query[heldInterval](ctx, b, lake, `
		SELECT v.true_slowdown BETWEEN coalesce(i.workload_lo, i.lo) / 1.002
				AND coalesce(i.workload_hi, i.hi) * 1.002 AS workload,
			v.true_slowdown BETWEEN i.lo / 1.002 AND i.hi * 1.002 AS both, coalesce(i.method_error, 0) AS method
		FROM (FROM intervals_all WHERE `+e.where()+` AND size_bin = 'all' AND service IS NULL AND vnet IS NULL) i
		JOIN validations v USING (scenario, variant, size_bin, quantile) ORDER BY quantile`)
	return j
}

// A heldInterval says whether the interval of a percentile of all flows holds the truth.
type heldInterval struct {
	Workload bool    `json:"workload"`
	Both     bool    `json:"both"`
	Method   float64 `json:"method"`
}

func marks(held []heldInterval, of func(heldInterval) bool) string {
	var text []string
	for _, h := range held {
		text = append(text, map[bool]string{true: "yes", false: "no"}[of(h)])
	}
	return strings.Join(text, " / ")
}

func methodParts(held []heldInterval) string {
	var text []string
	for _, h := range held {
		text = append(text, fmt.Sprintf("%.1f%%", 100*h.Method))
	}
	return strings.Join(text, " / ")
}

// honestyTally counts over scenarios.
type honestyTally struct {
	unnamed, named, alarms, harmless []string
	intervals, workload, both        int
	weak                             []string
}

func (t *honestyTally) add(name string, j judged) {
	worst, kinds := abs(j.errors.worstBin()), j.warnings
	for _, x := range j.errors["all"].errors {
		worst = max(worst, abs(x))
	}
	switch {
	case worst >= namedError && len(kinds) == 0:
		t.unnamed = append(t.unnamed, name)
	case worst >= namedError:
		t.named = append(t.named, name)
	case len(kinds) > 0 && worst < harmlessError:
		t.harmless = append(t.harmless, name)
	}
	if len(kinds) > 0 {
		t.alarms = append(t.alarms, name)
	}
	if worst >= namedError/2 {
		t.weak = append(t.weak, fmt.Sprintf("%s %.0f%%", name, 100*worst))
	}
	for _, h := range j.held {
		t.intervals++
		if h.Workload {
			t.workload++
		}
		if h.Both {
			t.both++
		}
	}
}

func (t *honestyTally) print(b *bench, title string) {
	b.printf("\n%s:\n", title)
	b.printf("- Errors of %.0f%% and more: %d of %d scenarios are named by a warning%s.", 100*namedError, len(t.named),
		len(t.named)+len(t.unnamed), namesOf("; without one: ", t.unnamed))
	b.printf("- Warnings in %d scenarios; with all errors below %.0f%%: %d%s.", len(t.alarms), 100*harmlessError, len(t.harmless),
		namesOf(" (", t.harmless, ")"))
	b.printf("- Intervals that hold the truth: %d of %d; of the workload's part alone: %d.", t.both, t.intervals, t.workload)
	if slices.Sort(t.weak); len(t.weak) > 0 {
		b.printf("- Errors of %.0f%% and more somewhere: %s.", 50*namedError, strings.Join(t.weak, ", "))
	}
}

// namesOf lists names between two texts; nothing for none.
func namesOf(before string, names []string, after ...string) string {
	if len(names) == 0 {
		return ""
	}
	return before + strings.Join(names, ", ") + strings.Join(after, "")
}
