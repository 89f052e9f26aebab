package subprocess

import (
	"errors"
	"strings"
	"syscall"

	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
)

// Request is one query, its limits and the format of its answer.
type Request struct {
	Lake string
	// Question is the name of a question with its parameters. If it is empty, SQL is the text of a SELECT.
	Question string
	Params   map[string]string
	SQL      string
	// Format is one of format.Names.
	Format string
	// MemoryBytes limits DuckDB. The process may hold a little more.
	MemoryBytes int64
	// Threads is the number of DuckDB's threads. 0 means one for each core.
	Threads int
}

// MemoryError is the error of a query that needs more memory than its limit.
type MemoryError struct{ Reason string }

func (e *MemoryError) Error() string {
	return "the query needs more memory than its limit: " + e.Reason
}

// Kinds of errors in a report.
const (
	kindOther   = "other"
	kindMemory  = "memory"
	kindRefused = "refused"
	kindDamaged = "damaged"
	kindPipe    = "pipe" // the reader of the answer has closed it
)

// report is how the child describes its error to the parent, as JSON.
type report struct{ Kind, Text string }

// reportOf describes an error of the child. Errors of DuckDB can quote values of the lake, so control characters are
// escaped, except for line ends.
func reportOf(err error) report {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = format.Escape(line)
	}
	r := report{kindOther, strings.Join(lines, "\n")}
	switch {
	case duckdb.IsOutOfMemory(err):
		r = report{kindMemory, lines[0]}
	case errors.Is(err, queries.ErrRefused):
		r.Kind = kindRefused
	case errors.Is(err, queries.ErrDamaged):
		r.Kind = kindDamaged
	case errors.Is(err, syscall.EPIPE):
		r.Kind = kindPipe
	}
	return r
}

// reported is an error of the child in the parent. It has the child's text and unwraps to the kind.
type reported struct {
	text string
	kind error
}

func (e *reported) Error() string { return e.text }
func (e *reported) Unwrap() error { return e.kind }

// err returns the error that the report describes.
func (r report) err() error {
	switch r.Kind {
	case kindMemory:
		return &MemoryError{r.Text}
	case kindRefused:
		return &reported{r.Text, queries.ErrRefused}
	case kindDamaged:
		return &reported{r.Text, queries.ErrDamaged}
	case kindPipe:
		return &reported{r.Text, syscall.EPIPE}
	}
	return errors.New(r.Text)
}
