// Package report writes one estimate of a lake, or two estimates side by side, as one HTML page.
//
//	lake ──► queries (SQL, package queries) ────► answers ──┬─► headline, warnings, explanations (words)
//	                                                        └─► JSON ─┐
//	charts (Vega-Lite, package queries), themes, vega/*.js ─────────┴─► page.html.tmpl ──► one file
//
// The page is a single file of at most 1.5 MB and makes no requests. It includes the chart libraries, whose
// versions and digests fetch-vega pins. Its size depends on the number of services, virtual networks and
// links, but hardly on the number of flows, because every number on it is an aggregate that DuckDB computes.
//
// Texts from a trace, such as names of services, are untrusted. They are inserted into the page only through
// html/template, which escapes them, and as JSON in which <, > and & are escaped. The content security policy
// of the page permits only scripts with the listed digests, and no requests.
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
	"parsimon/schema/variant"
)

// Options select the content of a report.
type Options struct {
	Estimate Estimate
	// Base is the estimate to compare with; nil: none. The lake must contain the comparison (tables
	// comparisons and comparison_links).
	Base *Estimate
	// Command is the command line that creates this report.
	Command string
	// Program names the program that creates it, with its commit and the version of its method.
	Program string
	// Query selects the files that the queries read, and limits their memory and threads.
	Query queries.Options
}

// Write writes the report of an estimate of the lake as one HTML page.
//
// It returns an error if the lake cannot be opened, if the comparison is missing, or if a query fails. Output
// that was written before an error is not usable.
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
	Scenario string
	Variant  variant.Variant
	Name     string // name of the scenario; need not be unique
}

// Choose finds the estimate of a scenario, which is given by its id and name. It returns the estimate of
// the variant with the name asked. If asked is empty, it returns the preferred estimate, or else the
// answer of the scenario.
func Choose(files []queries.File, scenario, name, asked, prefer string) (Estimate, error) {
	variants := map[string]variant.Variant{} // by name
	answer := ""
	for _, f := range files {
		estimated := f.Table == schema.Windows.Name || f.Table == schema.Slowdowns.Name
		if f.Scenario == scenario && estimated {
			variants[f.Variant.String()] = f.Variant
			if f.Answer {
				answer = f.Variant.String()
			}
		}
	}
	have := slices.Sorted(maps.Keys(variants))
	if len(have) == 0 {
		return Estimate{}, fmt.Errorf("scenario %s is not estimated: run it", scenario)
	}
	if _, known := variants[prefer]; !known {
		prefer = ""
	}
	chosen, found := variants[cmp.Or(asked, prefer, answer, have[0])]
	if !found {
		return Estimate{}, fmt.Errorf("scenario %s has no estimate %q; it has %s", scenario, asked,
			strings.Join(have, ", "))
	}
	return Estimate{scenario, chosen, name}, nil
}

// Compared reports whether the lake contains the comparison with the base that a report needs. If there are
// several services, the comparison must be grouped by service. If the estimates cannot be compared, it
// returns an error.
func Compared(ctx context.Context, lake string, o Options) (_ bool, err error) {
	switch {
	case o.Estimate.Variant.Sampled() || o.Base.Variant.Sampled():
		return false, errors.New("a report compares estimates of every flow, and one of these is from windows of " +
			"time (run --within): parsimon compare --within answers what changed, from the same windows of both")
	case *o.Base == o.Estimate:
		return false, fmt.Errorf("scenario %s, variant %s, is compared with itself", o.Base.Scenario,
			o.Base.Variant)
	}
	db, err := queries.Open(ctx, lake, o.Query)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	a, err := ask(ctx, db, queries.Known("compared"), parameters(o.Estimate, o.Base))
	return err == nil && a.Is(0, "compared"), err
}
