// Package subprocess answers one query in a child process, so that the memory and the time that it takes are
// limited by the operating system. DuckDB does not count all of its allocations, and does not look for an interrupt
// inside a long function: SELECT len(range(2000000000)) passes any memory limit and cannot be cancelled.
//
//	parent                                     child: the same executable, started again
//	Run(ctx, Request, out) ── stdin: Request ─→ Main: RLIMIT_DATA, Source, queries.Open, Run or SQL
//	                       ←─ stdout: answer ──  format.Rows.Write
//	                       ←─ fd 3: report ────  kind and text of an error
//
// The parent kills the child when its context ends. The child exits when its standard input ends, which is the case
// when the parent dies. It reads the lake and writes nothing, so it can be killed at any time.
//
// The limit of the process is the memory limit of DuckDB plus an allowance for the program, for the threads and for
// the answer. It is set on Linux only: on other systems the child has no limit of its own.
package subprocess
