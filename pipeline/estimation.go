package pipeline

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/simkernel/network"
	"parsimon/stages/linksim"
	"parsimon/stages/route"
	"parsimon/stages/topology"
)

// An Estimation is one estimate of one scenario of a lake. It consists of a model, a variant, and the
// executor that runs their plan. It holds the scenario's lock until Close.
type Estimation struct {
	*Model
	Settings
	variant  Variant
	source   *source // provides the flows; nil: the lake holds them
	exec     *engine.Executor
	isNew    bool // this session created the scenario
	began    time.Time
	beganCPU float64
}

// Variant returns the variant of the estimate.
func (e *Estimation) Variant() Variant { return e.variant }

// Plan returns the plan of the variant.
func (e *Estimation) Plan() engine.Plan { return e.planner(e.variant).plan() }

// Tables returns the tables that the plan writes, each once, without temporary ones.
func (e *Estimation) Tables() (tables []schema.Table) {
	written := map[string]bool{}
	for _, s := range e.Plan() {
		for _, t := range s.Writes {
			if !t.Temporary && !written[t.Name] {
				written[t.Name] = true
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// planner returns the planner for the stages of a variant.
func (e *Estimation) planner(v Variant) *planner {
	return newPlanner(e.Model, v, e.Settings, e.source)
}

// Executor returns the executor that runs the plan.
func (e *Estimation) Executor() *engine.Executor { return e.exec }

// Took returns the wall-clock time and the processor time since the estimation was opened, in seconds.
func (e *Estimation) Took() (seconds, cpuSeconds float64) {
	return time.Since(e.began).Seconds(), engine.ProcessorSeconds() - e.beganCPU
}

// Estimate runs the plan of the variant: it finds the hops of each flow, groups the hops into link cases,
// simulates each link case independently, and combines the delays of each flow. With Auto, it chooses between
// two passes and a simulation of the whole network.
func (e *Estimation) Estimate(ctx context.Context) error {
	if e.variant.Auto {
		return estimateAuto(ctx, e)
	}
	if e.Spec.Windows == nil && e.announces() {
		loads, err := e.route(ctx)
		if err != nil {
			return err
		}
		size, err := e.sizeOf(loads)
		if err != nil {
			return err
		}
		e.announce(&size)
	}
	return e.run(ctx)
}

// run runs the plan of the variant and commits its tables.
func (e *Estimation) run(ctx context.Context) error {
	if err := e.exec.Run(ctx, e.Plan()); err != nil {
		return e.forgetUnborn(err)
	}
	return e.Publish()
}

// Generate runs only stage generate.
func (e *Estimation) Generate(ctx context.Context) error {
	return e.forgetUnborn(e.exec.RunStage(ctx, nil, e.planner(e.variant).generate))
}

// forgetUnborn removes the scenario after a failed run if this run created it and left no usable result: its
// flows could not be generated or routed, or its simulation does not terminate. It returns the error of the
// run.
//
// A scenario stays if it was in the lake before or if a manifest names files of it, because then the failed
// run did not create all of it.
func (e *Estimation) forgetUnborn(err error) error {
	if err == nil || !e.isNew || e.source == nil || errors.Is(err, context.Canceled) {
		return err
	}
	endless := errors.Is(err, network.ErrStorm) && e.Lake.Answer(e.ID()).IsZero()
	routes := e.Plan().Writer(schema.LinkLoads)
	if routes != nil { // windows are not routed as a whole
		_, unrouted := engine.Complete(e.Lake, routes, MethodVersion)
		if unrouted == nil && !endless {
			return err
		}
	}
	return errors.Join(err, e.exec.Session().RemoveUncommitted(e.base()))
}

// RunStage runs the stage with the given name. A stage of a pass runs for the variant's number of passes.
func (e *Estimation) RunStage(ctx context.Context, name string) error {
	plan := e.Plan()
	s := plan.Find(name, 0)
	most := e.variant.Estimator.Estimator().Passes
	if most > 0 && (s == nil || s.Pass > 0) { // the feedback of pass 1 is an input of pass 2
		plan = e.planner(e.variant.pass(most)).plan()
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

// Collect commits the tables of a complete estimate whose stages other processes have run. It removes the
// temporary tables unless they are to be kept.
func (e *Estimation) Collect() error {
	if err := e.exec.Collect(e.Plan()); err != nil {
		return err
	}
	return e.Publish()
}

// Close releases the scenario's lock.
func (e *Estimation) Close() {
	s := e.exec.Session()
	if s != nil {
		s.Close()
	}
}

// OpenQueries opens the lake for queries about the scenario, and about others, within the memory limit of the
// estimate.
func (e *Estimation) OpenQueries(ctx context.Context, others ...lake.ScenarioID) (*queries.DB, error) {
	e.FreeMemory()
	o, err := catalog.Options(e.Lake, e.duckOptions(), append(others, e.ID())...)
	if err != nil {
		return nil, err
	}
	return queries.Open(ctx, e.Lake.Path(), o)
}

// OpenDuckDB opens an empty DuckDB database within the memory limit of the estimate, for SQL over the lake's
// files.
func (e *Estimation) OpenDuckDB(ctx context.Context) (*sql.DB, error) {
	e.FreeMemory()
	return duckdb.Open(ctx, e.duckOptions())
}

// FreeMemory releases unused heap memory to the operating system if there is much of it.
func (e *Estimation) FreeMemory() {
	var has runtime.MemStats
	runtime.ReadMemStats(&has)
	if has.HeapSys-has.HeapReleased > uint64(e.MemoryBytes/8) {
		debug.FreeOSMemory()
	}
}

// duckOptions returns the limits of DuckDB. SQL over the lake's files needs at least 128 MiB. DuckDB spills
// into the session's own directory. If the lake is opened for reading, it does not spill.
func (e *Estimation) duckOptions() duckdb.Options {
	o := duckdb.Options{MemoryBytes: max(128<<20, e.MemoryBytes), Threads: e.Workers}
	s := e.exec.Session()
	if s != nil {
		o.SpillDir = filepath.Join(s.TmpPath(), "duckdb")
	}
	return o
}

// Records returns the records of the last stage of the plan that writes the table. This stage must be
// complete. A table that no stage writes has no records.
func (e *Estimation) Records(t schema.Table) (engine.Records, error) {
	writer := e.Plan().Writer(t)
	if writer == nil {
		return engine.Records{}, fmt.Errorf("variant %s has no table %s", e.variant, t.Name)
	}
	return e.exec.Records(writer)
}

// Files returns the data files of one of the estimate's tables. If several stages write the table, these are
// the files of the last one.
func (e *Estimation) Files(t schema.Table) ([]lake.DataFile, error) {
	r, err := e.Records(t)
	if err != nil {
		return nil, err
	}
	return r.Files(t), nil
}

// Read streams one of the estimate's tables. The caller closes the stream.
func (e *Estimation) Read(t schema.Table) (schema.Batches, error) {
	files, err := e.Files(t)
	if err != nil {
		return nil, err
	}
	return e.Lake.Read(t, files, nil), nil
}

// Scan returns SQL that reads one of the estimate's tables. It verifies the table's files first.
func (e *Estimation) Scan(t schema.Table) (string, error) {
	files, err := e.Files(t)
	for _, f := range files {
		err = errors.Join(err, e.Lake.Check(f))
	}
	return ScanFiles(e.Lake, files), err
}

// ScanFiles returns SQL that reads the given data files.
func ScanFiles(l *lake.Lake, files []lake.DataFile) string {
	path := func(f lake.DataFile) string { return filepath.Join(l.Path(), f.Path) }
	return duckdb.ScanParquet(names.Of(files, path)...)
}

// Generated returns the totals of the scenario's flows.
func (e *Estimation) Generated() (Generated, error) {
	r, err := e.Records(schema.Flows)
	if err != nil {
		return Generated{}, err
	}
	return readGenerated(e.Lake, r)
}

// Unreachable returns the number of flows without a path, and the first of them.
func (e *Estimation) Unreachable() (n int64, first *topology.UnreachableError, err error) {
	generate, err := e.Records(schema.Flows)
	if err != nil {
		return 0, nil, err
	}
	route, err := e.Records(schema.LinkLoads)
	if err != nil {
		return 0, nil, err
	}
	return e.unreachable(generate, route)
}

// Loads returns the load of each link of an estimate: flows, bytes and packets by link id, summed over the
// tasks of route.
func Loads(e *Estimation) (*route.Loads, error) {
	in, err := e.Read(schema.LinkLoads)
	if err != nil {
		return nil, err
	}
	return route.ReadLoads(e.Network, in)
}

// Cases sums the statistics of the plan's link cases. The stages that run them must be complete.
func (e *Estimation) Cases() (all linksim.Stats, err error) {
	for _, s := range e.Plan() {
		if !s.WritesTable(schema.SenderFCTs) && (!s.WritesTable(schema.LinkStats) || s.Name == exactName) {
			continue
		}
		r, err := engine.Complete(e.Lake, s, MethodVersion)
		if err != nil {
			return all, err
		}
		tasks, err := engine.Stats[linksim.Stats](r)
		if err != nil {
			return all, err
		}
		for _, t := range tasks {
			all.Add(t)
		}
	}
	return all, nil
}

// Quantiles are the quantiles of slowdown that summaries and reports show.
var Quantiles = []float64{0.5, 0.9, 0.99, 0.999}

// NewTaskRunner creates a task runner for a scenario whose flows are in the lake.
func NewTaskRunner(ctx context.Context, dir, scenario string, v Variant, o Settings) (*engine.TaskRunner,
	error) {
	if v.Auto {
		return nil, errors.New("an estimate that chooses its estimator has no steps that are known in advance: " +
			"name one")
	}
	model, err := OpenModelIn(ctx, dir, scenario)
	if err != nil {
		return nil, err
	}
	e := ReadOnly(model, v, o)
	return engine.NewTaskRunner(model.Lake, lake.Of(model.ID()), e.Plan(), e.Settings.Settings), nil
}
