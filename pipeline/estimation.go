package pipeline

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/workload"
)

// An Estimation estimates one scenario of a lake in one way. It holds the scenario's lock until Close.
type Estimation struct {
	*method
	exec     *engine.Executor
	existed  bool // the lake knew the scenario before
	began    time.Time
	beganCPU float64
}

// Estimate runs the plan of the variant: flows become hops, hops become link cases, every link case is simulated on its
// own, and each flow's delays are put together. With AutoPasses it makes passes, each followed by an estimate, until
// the percentiles of slowdown stop changing.
func (e *Estimation) Estimate(ctx context.Context) error {
	if e.variant.Passes == AutoPasses && e.variant.Estimator == stages.Flow {
		return e.estimateUntilSettled(ctx)
	}
	return e.run(ctx, nil)
}

// run runs the plan of the variant. Tables that next reads are kept.
func (e *Estimation) run(ctx context.Context, next engine.Plan) error {
	plan := e.plan()
	if err := e.exec.Run(ctx, plan, next); err != nil {
		return e.forgetUnborn(err)
	}
	return e.Publish()
}

// forgetUnborn removes a scenario whose flows could not be made: it never existed.
func (e *Estimation) forgetUnborn(err error) error {
	generate := e.generateStage()
	if e.source == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if _, incomplete := engine.Complete(e.Lake, generate, methodVersion); incomplete == nil {
		return err
	}
	s := e.exec.Session()
	return errors.Join(err, s.RemoveState(e.base().SpecPath()), engine.RemoveStage(s, generate))
}

// Generate runs stage generate alone.
func (e *Estimation) Generate(ctx context.Context) error {
	if err := e.exec.RunStage(ctx, nil, e.generateStage()); err != nil {
		return e.forgetUnborn(err)
	}
	return nil
}

// RunStage runs one stage alone, by its name. Stages of one pass run for the variant's number of passes.
func (e *Estimation) RunStage(ctx context.Context, name string) error {
	s := stageOf(e.planOf, e.variant, name)
	if s == nil {
		how := "estimator " + e.variant.Estimator.String()
		if e.variant.Cluster == nil {
			how += " without clustering"
		}
		return fmt.Errorf("%s has no stage %s", how, name)
	}
	plan := e.plan()
	if s.Pass == e.variant.Passes && plan.Find(name, s.Pass) == nil {
		plan = e.planOf(e.variant.pass(s.Pass + 1))
	}
	if err := e.exec.RunStage(ctx, plan, s); err != nil {
		return err
	}
	if slices.ContainsFunc(s.Writes, func(t schema.Table) bool { return !t.Temporary }) {
		return e.Publish()
	}
	return nil
}

// planOf is the plan of another variant of the scenario.
func (e *Estimation) planOf(v Variant) engine.Plan {
	m := *e.method
	m.variant = v
	return m.plan()
}

// Variant is how the estimate is made.
func (e *Estimation) Variant() Variant { return e.variant }

// Plan is the plan of the variant.
func (e *Estimation) Plan() engine.Plan { return e.plan() }

// Executor runs the plan.
func (e *Estimation) Executor() *engine.Executor { return e.exec }

// Collect removes the temporary tables of a complete estimate, unless they are kept, and commits the others.
func (e *Estimation) Collect() error {
	if err := e.exec.Collect(e.plan(), nil); err != nil {
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

// Begin opens a scenario for an estimate from its beginning, in the lake in a directory, which is made if there is
// none.
func Begin(ctx context.Context, dir string, s *scenario.Scenario, v Variant, o Settings) (*Estimation, error) {
	// What would fail after the work fails before it.
	if err := errors.Join(queries.CheckLakePath(dir), queries.CheckVersion(ctx, dir), checkVariant(v)); err != nil {
		return nil, err
	}
	n, err := s.Network()
	if err != nil {
		return nil, err
	}
	canonical, err := s.Canonical()
	if err != nil {
		return nil, err
	}
	spec := Spec{
		ScenarioID: lake.ScenarioID(scenario.IDOf(canonical)), Name: s.Name, Seed: s.Seed, Params: s.Params(),
		AllowUnreachable: s.AllowUnreachable, MaxRejects: s.MaxRejects, MaxLoad: s.MaxLoad(), Canonical: canonical,
		Planned: s.PlannedCables(), Buffer: s.SwitchBuffer(),
	}
	l, err := lake.Open(dir, true)
	if err != nil {
		return nil, err
	}
	model, err := newModel(l, spec, n)
	if err != nil {
		return nil, err
	}
	if o.Donor != "" {
		_, incomplete := engine.Complete(l, generated(l, o.Donor), methodVersion)
		if incomplete != nil || o.Donor == spec.ScenarioID {
			o.Donor = ""
		}
	}
	o.Base = o.Donor
	e, err := newEstimation(ctx, model, v, o)
	if err != nil {
		return nil, err
	}
	if e.source = sourceOf(e.method, s); o.Donor != "" {
		e.source = &derivedFlows{e.method, generated(l, o.Donor), workload.FlowChanges{}}
	}
	return e, e.writeSpec()
}

// Resume opens a scenario that the lake holds (see OpenModel) for an estimate or single stages.
func Resume(ctx context.Context, dir, name string, v Variant, o Settings) (*Estimation, error) {
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil, err
	}
	model, err := OpenModel(l, name)
	if err != nil {
		return nil, err
	}
	if err := checkVariant(v); err != nil {
		return nil, err
	}
	e, err := newEstimation(ctx, model, v, o)
	if err != nil {
		return nil, err
	}
	return e, e.writeSpec() // the scenario last worked on
}

// ReadOnly opens an estimate of a model for reading. It neither locks nor writes.
func ReadOnly(model *Model, v Variant, o Settings) *Estimation {
	m := &method{Model: model, variant: v, Settings: o}
	e := &Estimation{method: m, exec: engine.Reader(model.Lake, withDefaults(o).Settings), existed: true}
	e.Settings.Settings = e.exec.Settings
	return e
}

// Derive opens a scenario made from one that the lake holds, for an estimate from its beginning. Its flows are those of
// the base, whose files it shares unless the changes are of flows. A cable that fails makes the same scenario, under
// the same id, as it does for Begin.
func Derive(ctx context.Context, dir, base string, c scenario.Changes, v Variant, o Settings) (*Estimation, error) {
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil, err
	}
	from, err := OpenModel(l, base)
	if err != nil {
		return nil, err
	}
	spec := from.Spec
	canonical, said, _, err := c.Apply(from.Network, spec.Planned, spec.Canonical, spec.Seed)
	if err != nil {
		return nil, fmt.Errorf("scenario %s (%s): %w", from.ID(), from.Spec.Name, err)
	}
	spec.Aliases = nil
	spec.Canonical, spec.ScenarioID = canonical, lake.ScenarioID(scenario.IDOf(canonical))
	if spec.ScenarioID == from.ID() {
		return nil, fmt.Errorf("nothing would change in scenario %s", from.ID())
	}
	spec.AllowUnreachable = spec.AllowUnreachable || c.AllowUnreachable
	if spec.Name = c.Name; spec.Name == "" {
		spec.Name = from.Spec.Name + ", " + strings.Join(said, ", ")
	}
	model, err := newModel(l, spec, from.Network)
	if err != nil {
		return nil, err
	}
	o.Base = from.ID()
	e, err := newEstimation(ctx, model, v, o)
	if err != nil {
		return nil, err
	}
	e.source = &derivedFlows{e.method, generated(l, from.ID()), c.FlowChanges}
	if e.Ephemeral && !e.existed {
		if err := e.exec.Session().WriteState(e.base().StatePath(ephemeralState), true); err != nil {
			return nil, errors.Join(err, e.close())
		}
	}
	return e, e.writeSpec()
}

// ephemeralState marks a scenario that a sweep has made and will delete. What a user has made of the same changes
// stays.
const ephemeralState = "ephemeral.json"

// Forget deletes the scenario if it was made to be deleted.
func (e *Estimation) Forget() error {
	var ephemeral bool
	if found, err := e.Lake.ReadState(e.base().StatePath(ephemeralState), &ephemeral); err != nil || !found {
		return err
	}
	return e.exec.Session().RemovePlace(e.base())
}

// checkVariant reports settings that do not go together.
func checkVariant(v Variant) error { return stages.CheckBackend(v.Backend, v.Estimator) }

func withDefaults(o Settings) Settings {
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = DefaultMemory
	}
	o.Method = methodVersion
	return o
}

// newEstimation locks the scenario and makes the executor.
func newEstimation(ctx context.Context, model *Model, v Variant, o Settings) (*Estimation, error) {
	if v.Passes == 0 {
		v.Passes = DefaultPasses
	}
	o = withDefaults(o)
	lock := model.Lake.Lock
	if o.Shard.Count > 0 {
		lock = model.Lake.LockShared
	}
	at := lake.Of(model.ID())
	existed := model.Lake.Exists(at.SpecPath())
	session, err := lake.Waiting(ctx, o.Wait, func() (*lake.Session, error) { return lock(ctx, at) })
	if err != nil {
		return nil, err
	}
	if !o.Ephemeral { // a scenario that a user works on is no longer a sweep's to delete
		if err := session.RemoveState(at.StatePath(ephemeralState)); err != nil {
			session.Close()
			return nil, err
		}
	}
	o.Log = o.Log.With().Str("scenario", string(model.ID())).Str("name", model.Spec.Name).Logger()
	exec := engine.New(session, o.Settings)
	o.Settings = exec.Settings
	if o.NS3 != nil {
		o.NS3.Scratch = session.TmpPath()
	}
	return &Estimation{
		method: &method{Model: model, variant: v, Settings: o}, exec: exec, existed: existed,
		began: time.Now(), beganCPU: engine.ProcessorSeconds(),
	}, nil
}

// writeSpec makes the scenario known, and the one last worked on. A scenario keeps its first name, which table
// scenarios has too; another one becomes an alias.
func (e *Estimation) writeSpec() error {
	if known, err := ReadSpec(e.Lake, e.ID()); err == nil {
		e.Spec.Aliases = known.Aliases
		if name := e.Spec.Name; name != known.Name && !slices.Contains(known.Aliases, name) {
			e.Spec.Aliases = append(e.Spec.Aliases, name)
		}
		e.Spec.Name = known.Name
	}
	if err := e.exec.Session().WriteState(e.base().SpecPath(), e.Spec); err != nil {
		return errors.Join(err, e.close())
	}
	return nil
}

func (e *Estimation) close() error {
	e.Close()
	return nil
}

// LimitHeap bounds the memory of Go's heap until undo: to a little less than all, since the program and DuckDB at rest
// are no part of it.
func LimitHeap(bytes int64) (undo func()) {
	was := debug.SetMemoryLimit(-1)
	bytes -= bytes / 16
	if bytes < was {
		debug.SetMemoryLimit(bytes)
	}
	return func() { debug.SetMemoryLimit(was) }
}

// spillPath is where DuckDB spills; empty, for nowhere, where the lake is only read.
func (e *Estimation) spillPath() string {
	if e.exec.Session() == nil {
		return ""
	}
	return filepath.Join(e.exec.Session().TmpPath(), "duckdb")
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

// duckOptions are the limits of DuckDB. The SQL over the lake's files needs at least 128 MiB.
func (e *Estimation) duckOptions() duckdb.Options {
	return duckdb.Options{MemoryBytes: max(128<<20, e.MemoryBytes), Threads: e.Workers, SpillDir: e.spillPath()}
}
