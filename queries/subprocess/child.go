package subprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
)

// variable is set in the environment of a child.
const variable = "PARSIMON_QUERY_PROCESS"

// reportFD is the file descriptor for the report of a child.
const reportFD = 3

// Exit codes of a child. Others come from a crash.
const (
	exitAnswered = 0
	exitReported = 3 // an error, on reportFD
	exitOrphaned = 4 // the parent is gone
)

// Source returns the data files of a lake to read, with the given limits, and a function that is called when the query
// has ended.
type Source func(lake string, limits duckdb.Options) (o queries.Options, release func() error, err error)

// Main does the work of a child process and does not return, if this process is one. Otherwise it returns at once.
// Every executable that calls Run calls Main first, before it reads its arguments.
func Main(source Source) {
	if os.Getenv(variable) == "" {
		return
	}
	// The terminal sends Ctrl-C to parent and child. The parent kills the child.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGINT)
	err := serve(source)
	if err == nil {
		os.Exit(exitAnswered)
	}
	out := os.NewFile(reportFD, "report")
	if json.NewEncoder(out).Encode(reportOf(err)) != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(exitReported)
}

// serve reads the request from standard input and writes the answer to standard output.
func serve(source Source) error {
	var r Request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	go func() { // until the process ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(exitOrphaned)
	}()
	if r.MemoryBytes > 0 {
		if _, err := (duckdb.Options{MemoryBytes: r.MemoryBytes, Threads: r.Threads}).LimitProcess(); err != nil {
			return err
		}
		debug.SetMemoryLimit(heapBytes)
	}
	return answer(context.Background(), source, r)
}

// heapBytes is the size of Go's heap at which the garbage collector works harder. Formats hold batches of rows.
const heapBytes = 96 << 20

// answer runs the query and writes its answer.
func answer(ctx context.Context, source Source, r Request) (err error) {
	o, release, err := source(r.Lake, duckdb.Options{MemoryBytes: r.MemoryBytes, Threads: r.Threads})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	db, err := queries.Open(ctx, r.Lake, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var rows *format.Rows
	if r.Question == "" {
		rows, err = db.SQL(ctx, r.SQL)
	} else {
		q, getErr := queries.Get(r.Question)
		if getErr != nil {
			return getErr
		}
		rows, err = db.Run(ctx, q, r.Params)
	}
	if err != nil {
		return err
	}
	return rows.Write(os.Stdout, r.Format)
}
