package report

import (
	"context"
	"errors"
	"io"

	"parsimon/queries"
)

// Options say what to report.
type Options struct {
	// Scenario is an id, the first four or more characters of one, or a name; SCENARIO@VARIANT
	// names a variant too. Without one, it is the scenario's answer.
	Scenario string
	// Compare is the scenario that this one is compared with, the base, written in the same way. Empty: none.
	// The lake has to hold the comparison (tables comparisons and comparison_links).
	Compare string
	// Command is the command line that makes this report.
	Command string
	// Query says which files the questions read and bounds their memory and threads.
	Query queries.Options
}

// Write writes the report of a scenario of the lake as one HTML page.
//
// Errors: the lake cannot be opened; there is no such scenario or variant, or several (the message lists what
// exists); the lake lacks the comparison; a question fails. What was written before an error is of no use.
func Write(ctx context.Context, w io.Writer, lake string, o Options) (err error) {
	db, err := queries.Open(ctx, lake, o.Query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c := &content{db: db, lake: lake, answers: map[string]*answer{}, asked: map[string]map[string]string{}}
	if c.estimate, c.base, err = resolve(ctx, db, o); err != nil {
		return err
	}
	if err := c.collect(ctx); err != nil {
		return err
	}
	return c.writePage(w, o)
}
