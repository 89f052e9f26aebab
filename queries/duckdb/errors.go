package duckdb

import (
	"context"
	"errors"
	"strings"

	driver "github.com/marcboeker/go-duckdb/v2"
)

// shortError is an error of DuckDB without the statement's text. It unwraps to the full error.
type shortError struct {
	line string
	err  error
}

func (e *shortError) Error() string { return e.line }
func (e *shortError) Unwrap() error { return e.err }

// FirstLine returns an error whose message is the first line of err's. The other lines of DuckDB's
// messages quote the statement, which means nothing to a reader who did not write it. nil stays nil.
func FirstLine(err error) error {
	if err == nil {
		return nil
	}
	line, _, more := strings.Cut(err.Error(), "\n")
	if !more {
		return err
	}
	return &shortError{line, err}
}

// IsOutOfMemory reports whether a statement failed because it needs more than the memory limit.
func IsOutOfMemory(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Type == driver.ErrorTypeOutOfMemory || strings.Contains(e.Msg, "bad_alloc"))
}

// OrCause returns the cause of the context's end if it has ended, and err otherwise: DuckDB reports an
// interrupted statement in several ways.
func OrCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
