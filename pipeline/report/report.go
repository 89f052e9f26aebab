// Package report writes one estimate of a lake, or two side by side, as one HTML page.
//
//	lake ──► questions (SQL, package queries) ──► answers ──┬─► headline, warnings, explanations (words)
//	                                                        └─► JSON ─┐
//	charts (Vega-Lite, package queries), themes, vega/*.js ─────────┴─► page.html.tmpl ──► one file
//
// The page is a single file of at most 1.5 MB that makes no request: the chart libraries, whose versions and
// digests fetch-vega pins, are part of it. Its size depends on the number of services, virtual networks and links
// but hardly on the number of flows, because every number on it is an aggregate computed by DuckDB.
//
// Texts of a trace, such as names of services, are untrusted. They reach the page in two ways only: through
// html/template, which escapes them, and as JSON in which <, > and & are escaped. The page's content security policy
// runs only those scripts whose digests it lists and allows no request at all.
package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"parsimon/queries"
	"parsimon/schema"
)

// Options say what to report.
type Options struct {
	Estimate Estimate
	// Base is what the estimate is compared with; nil: nothing. The lake has to hold the comparison (tables comparisons
	// and comparison_links).
	Base *Estimate
	// Command is the command line that makes this report.
	Command string
	// Query says which files the questions read and bounds their memory and threads.
	Query queries.Options
}

// Write writes the report of an estimate of the lake as one HTML page.
//
// Errors: the lake cannot be opened; it lacks the comparison; a question fails. What was written before an error is of
// no use.
func Write(ctx context.Context, w io.Writer, lake string, o Options) (err error) {
	db, err := queries.Open(ctx, lake, o.Query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c := &content{db: db, lake: lake, estimate: o.Estimate, base: o.Base, answers: map[string]*answer{},
		asked: map[string]map[string]string{}}
	if err := c.collect(ctx); err != nil {
		return err
	}
	return c.writePage(w, o)
}

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
	a, err := ask(ctx, db, queries.Known("compared"), parameters(o.Estimate, o.Base))
	return err == nil && a.Is(0, "compared"), err
}
