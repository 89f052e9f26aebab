package duckdb

import (
	"fmt"
	"runtime"
)

// LimitProcess bounds, on Linux, how much this process may allocate beyond what it has now, until undo: to the memory
// limit and an allowance. DuckDB does not count all of its allocations: SELECT len(range(2000000000)) passes any
// limit of the buffer manager. Under this one its statement fails with an error that IsOutOfMemory reports. What
// fails to allocate outside of DuckDB ends the process. Without a memory limit nothing is bounded. One limit at a
// time: undo restores what was set before.
func (o Options) LimitProcess() (undo func() error, err error) {
	if o.MemoryBytes == 0 {
		return func() error { return nil }, nil
	}
	undo, err = limitData(o.MemoryBytes + o.Allowance())
	if err != nil {
		return nil, fmt.Errorf("limit the memory of the process: %w", err)
	}
	return undo, nil
}

// Allowance returns how much more memory than DuckDB the process may have: for Go's heap, the code and data of
// the program, what DuckDB does not count in an ordinary query, and the stacks and malloc arenas of the threads.
func (o Options) Allowance() int64 {
	threads := o.Threads
	if threads == 0 {
		threads = runtime.NumCPU()
	}
	return 192<<20 + int64(threads)*(16<<20)
}
