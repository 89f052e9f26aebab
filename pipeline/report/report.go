package report

import (
	"context"
	"errors"
	"io"

	"parsimon/queries"
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
