package pipeline

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/stages"
)

// An Estimation estimates one scenario of a lake in one way: a model, a variant, and the executor that runs the plan
// of both. It holds the scenario's lock until Close.
type Estimation struct {
	*Model
	Settings
	variant  Variant
	source   source // where the flows come from; nil: the lake holds them
	exec     *engine.Executor
	existed  bool // the lake knew the scenario before
	began    time.Time
	beganCPU float64
}

// Variant is how the estimate is made.
func (e *Estimation) Variant() Variant { return e.variant }

// Plan is the plan of the variant.
func (e *Estimation) Plan() engine.Plan { return e.method(e.variant).plan() }

// method makes the stages of a variant.
func (e *Estimation) method(v Variant) *method {
	return newMethod(e.Model, v, e.Settings, e.source)
}

// Executor runs the plan.
func (e *Estimation) Executor() *engine.Executor { return e.exec }

// Took is the time, and the processor time, in seconds, since the estimation was opened.
func (e *Estimation) Took() (seconds, cpuSeconds float64) {
	return time.Since(e.began).Seconds(), engine.ProcessorSeconds() - e.beganCPU
}

// Estimate runs the plan of the variant: flows become hops, hops become link cases, every link case is simulated on its
// own, and each flow's delays are put together. With Auto it chooses between two passes and the whole network.
func (e *Estimation) Estimate(ctx context.Context) error {
	estimate := e.run
	if e.variant.Auto {
		estimate = func(ctx context.Context) error { return estimateAuto(ctx, e) }
	}
	return estimate(ctx)
}

// run runs the plan of the variant and commits its tables.
func (e *Estimation) run(ctx context.Context) error {
	if err := e.exec.Run(ctx, e.Plan()); err != nil {
		return e.forgetUnborn(err)
	}
	return e.Publish()
}

// Generate runs stage generate alone.
func (e *Estimation) Generate(ctx context.Context) error {
	if err := e.exec.RunStage(ctx, nil, e.method(e.variant).generate); err != nil {
		return e.forgetUnborn(err)
	}
	return nil
}

// forgetUnborn removes a scenario whose flows could not be made: it never existed.
func (e *Estimation) forgetUnborn(err error) error {
	if e.source == nil || errors.Is(err, context.Canceled) {
		return err
	}
	generate := e.method(e.variant).generate
	if _, incomplete := engine.Complete(e.Lake, generate, methodVersion); incomplete == nil {
		return err
	}
	s := e.exec.Session()
	return errors.Join(err, s.RemoveState(e.base().SpecPath()), engine.RemoveStage(s, generate))
}

// RunStage runs one stage alone, by its name. Stages of one pass run for the variant's number of passes.
func (e *Estimation) RunStage(ctx context.Context, name string) error {
	plan := e.Plan()
	s := plan.Find(name, 0)
	if e.variant.Estimator == stages.Flow && (s == nil || s.Pass > 0) { // the feedback of pass 1 is for pass 2
		plan = e.method(e.variant.pass(MaxPasses)).plan()
		s = plan.Find(name, e.variant.Passes)
	}
	if s == nil {
		how := "estimator " + e.variant.Estimator.String()
		if e.variant.Cluster == nil {
			how += " without clustering"
		}
		return fmt.Errorf("%s has no stage %s", how, name)
	}
	if err := e.exec.RunStage(ctx, plan, s); err != nil {
		return err
	}
	if slices.ContainsFunc(s.Writes, func(t schema.Table) bool { return !t.Temporary }) {
		return e.Publish()
	}
	return nil
}

// Collect removes the temporary tables of a complete estimate that other processes have made, unless they are kept, and
// commits the others.
func (e *Estimation) Collect() error {
	if err := e.exec.Collect(e.Plan()); err != nil {
		return err
	}
	return e.Publish()
}

// Close gives up the scenario.
func (e *Estimation) Close() {
	if s := e.exec.Session(); s != nil {
		s.Close()
	}
}

// OpenQueries opens the lake for questions, within the memory of the estimate.
func (e *Estimation) OpenQueries(ctx context.Context) (*queries.DB, error) {
	debug.FreeOSMemory() // what the stages have left
	o, err := catalog.Options(e.Lake, e.duckOptions())
	if err != nil {
		return nil, err
	}
	return queries.Open(ctx, e.Lake.Path(), o)
}

// OpenDuckDB opens an empty DuckDB within the memory of the estimate, for SQL over the lake's files.
func (e *Estimation) OpenDuckDB(ctx context.Context) (*sql.DB, error) {
	debug.FreeOSMemory() // what the stages have left
	return duckdb.Open(ctx, e.duckOptions())
}

// duckOptions are the limits of DuckDB. The SQL over the lake's files needs at least 128 MiB. It spills into the
// session's own directory, and nowhere where the lake is only read.
func (e *Estimation) duckOptions() duckdb.Options {
	o := duckdb.Options{MemoryBytes: max(128<<20, e.MemoryBytes), Threads: e.Workers}
	if s := e.exec.Session(); s != nil {
		o.SpillDir = filepath.Join(s.TmpPath(), "duckdb")
	}
	return o
}

// gcPercent lets the heap grow to three times what is in use before it is collected, where the limit allows: 4% less
// processor time than with Go's default on an estimate of 200,000 flows.
const gcPercent = 200

// LimitHeap bounds the memory of Go's heap until undo: to a tenth less than all, since the program, DuckDB at rest and
// what the collector is late with are no part of it.
func LimitHeap(bytes int64) (undo func()) {
	was, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(gcPercent)
	if os.Getenv("GOGC") != "" { // the user's choice
		debug.SetGCPercent(percent)
	}
	bytes -= bytes / 10
	if bytes < was {
		debug.SetMemoryLimit(bytes)
	}
	return func() {
		debug.SetMemoryLimit(was)
		debug.SetGCPercent(percent)
	}
}
