package pipeline

import (
	"context"
	"database/sql"
	"path/filepath"
	"runtime/debug"
	"sync"

	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/stages"
)

// DefaultMemory is what a run may use, unless it is told otherwise.
const DefaultMemory = 4 << 30

// How a run keeps to its memory: Go's collector works the harder the nearer the limit is, tasks begin only
// while what they are expected to hold fits together, and DuckDB, which works when no task does, has the
// same limit and spills beyond it. Partitions and chunks are of limited size whatever the workload, so that
// one task at a time always goes.

// taskBytes is about what a task of a stage holds, from the columns it keeps of each row of its range.
func (r *Run) taskBytes(s stage, t task) int64 {
	switch s.name {
	case "route":
		return 250 * (t.Hi - t.Lo)
	case "simulate", "replay":
		return 250 * r.hopsOn(t)
	case "bucket", "draw":
		return 150 * r.hopsOn(t)
	case "feedback", "sender-feedback":
		return 1300 * (t.Hi - t.Lo)
	case "sample":
		return 900 * (t.Hi - t.Lo)
	}
	return 0
}

// hopsOn is how many flows cross the links of a task.
func (r *Run) hopsOn(t task) (hops int64) {
	for id := t.Lo; id < min(t.Hi, int64(len(r.linkFlows))); id++ {
		hops += r.linkFlows[id]
	}
	return hops
}

func flowsByLink(loads *stages.Loads) []int64 {
	flows := make([]int64, len(loads.Links))
	for id, l := range loads.Links {
		flows[id] = l.Flows
	}
	return flows
}

// limitGo bounds the memory of Go's heap until it is undone: to a little less than all, since the program itself
// and DuckDB at rest are no part of it.
func limitGo(bytes int64) (undo func()) {
	was := debug.SetMemoryLimit(-1)
	bytes -= bytes / 16
	if bytes < was {
		debug.SetMemoryLimit(bytes)
	}
	return func() { debug.SetMemoryLimit(was) }
}

// A room is memory that tasks share.
type room struct {
	mu    sync.Mutex
	freed sync.Cond
	left  int64
	tasks int
}

func newRoom(bytes int64) *room {
	m := &room{left: bytes}
	m.freed.L = &m.mu
	return m
}

// enter waits until there is room for a task, or no other is in.
func (m *room) enter(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.tasks > 0 && bytes > m.left {
		m.freed.Wait()
	}
	m.left -= bytes
	m.tasks++
}

func (m *room) leave(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left += bytes
	m.tasks--
	m.freed.Broadcast()
}

// openQueries opens the run's lake for questions, within the run's memory: what does not fit spills to
// where the run's unfinished files are.
func (r *Run) openQueries(ctx context.Context) (*queries.DB, error) {
	debug.FreeOSMemory() // what the stages have left
	return queries.Open(ctx, r.lake.root, queries.Options{Options: duckOptions(r.memory, r.workers, r.spill())})
}

// openDuckDB opens an empty DuckDB within the run's memory, for SQL of our own over the lake's files.
func (r *Run) openDuckDB(ctx context.Context) (*sql.DB, error) {
	debug.FreeOSMemory()
	return duckdb.Open(ctx, duckOptions(r.memory, r.workers, r.spill()))
}

// duckOptions returns the limits of a DuckDB. The stages' own SQL needs at least 128 MiB.
func duckOptions(bytes int64, threads int, spill string) duckdb.Options {
	return duckdb.Options{MemoryBytes: max(128<<20, bytes), Threads: threads, SpillDir: spill}
}

// spill is where DuckDB spills; empty, for nowhere, in a lake that is only read.
func (r *Run) spill() string {
	if r.lake.tmp == "" {
		return ""
	}
	return filepath.Join(r.lake.tmp, "duckdb")
}
