package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/queries"
)

// Begin opens a scenario for an estimate from its beginning, in the lake in a directory, which is made if there is
// none.
func Begin(ctx context.Context, dir string, s *scenario.Scenario, v Variant, o Settings) (*Estimation, error) {
	// What would fail after the work fails before it.
	if err := queries.CheckLakePath(dir); err != nil {
		return nil, err
	}
	model, err := modelOf(s)
	if err == nil {
		err = model.check(v, o)
	}
	if err != nil {
		return nil, err
	}
	l, err := lake.Open(dir, true)
	if err != nil {
		return nil, err
	}
	model.Lake = l
	e, err := newEstimation(ctx, model, v, o)
	if err != nil {
		return nil, err
	}
	e.source = sourceOf(model, e.Settings, s)
	return e, e.begin()
}

// modelOf is the model of a scenario, in no lake.
func modelOf(s *scenario.Scenario) (*Model, error) {
	n, err := s.Network()
	if err != nil {
		return nil, err
	}
	canonical, err := s.Canonical()
	if err != nil {
		return nil, err
	}
	moves, err := s.Moves(n)
	if err != nil {
		return nil, err
	}
	spec := Spec{
		ScenarioID: lake.ScenarioID(scenario.IDOf(canonical)), Name: s.Name, Seed: s.Seed, Params: s.Params(),
		AllowUnreachable: s.AllowUnreachable, MaxRejects: s.MaxRejects, MaxLoad: s.MaxLoad(), Canonical: canonical,
		Moves: moves,
	}
	if spec.Switches, err = s.Buffers(); err != nil {
		return nil, err
	}
	if spec.Classes, err = s.Classes(); err != nil {
		return nil, err
	}
	m, err := newModel(nil, spec, n)
	if err == nil {
		m.waits = s.HasJobs()
	}
	return m, err
}

// CheckScenario reports what is wrong with a scenario, and with estimates of it, before any work.
func CheckScenario(s *scenario.Scenario, v Variant, o Settings) error {
	m, err := modelOf(s)
	if err != nil {
		return err
	}
	return m.check(v, o)
}

// Resume opens a scenario that the lake holds (see OpenModel) for an estimate or single stages. With Auto, the variant
// is the answer of the last run if the lake still has it.
func Resume(ctx context.Context, dir, name string, v Variant, o Settings) (*Estimation, error) {
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil, err
	}
	model, err := OpenModel(l, name)
	if err != nil {
		return nil, err
	}
	if err := model.check(v, o); err != nil {
		return nil, err
	}
	e, err := newEstimation(ctx, model, held(model, v), o)
	if err != nil {
		return nil, err
	}
	return e, e.begin() // the scenario last worked on
}

// ReadOnly opens an estimate of a model for reading. It neither locks nor writes.
func ReadOnly(model *Model, v Variant, o Settings) *Estimation {
	exec := engine.Reader(model.Lake, withDefaults(o).Settings)
	o.Settings = exec.Settings
	return &Estimation{Model: model, Settings: o, variant: v.withDefaults(), exec: exec, existed: true}
}

// ErrUnchanged is Derive's error for changes to what is there already.
var ErrUnchanged = errors.New("nothing would change")

// Derive opens a scenario made from one that the lake holds, for an estimate from its beginning. Its flows are those of
// the base, whose files it shares unless the changes are of flows. A cable that fails makes the same scenario, under
// the same id, as it does for Begin.
func Derive(ctx context.Context, dir, base string, c scenario.Changes, v Variant, o Settings) (*Estimation, error) {
	from, model, applied, err := change(dir, base, &c)
	if err == nil && model.ID() == from.ID() {
		err = fmt.Errorf("scenario %s: %w", from.ID(), ErrUnchanged)
	}
	if err == nil {
		err = model.check(v, o)
	}
	if err != nil {
		return nil, err
	}
	o.Base = from.ID()
	e, err := newEstimation(ctx, model, v, o)
	if err != nil {
		return nil, err
	}
	e.source = &derivedFlows{model, generated(model.Lake, from.ID()), applied.Flows}
	if c.FoundStarts {
		of := newMethod(&Model{Lake: model.Lake, Spec: Spec{ScenarioID: from.ID()}}, Variant{}, Settings{}, nil)
		e.source = &foundStarts{model, of.generate, of.exactStage()}
	}
	if err := e.markEphemeral(); err != nil {
		e.Close()
		return nil, err
	}
	return e, e.begin()
}

// markEphemeral marks a scenario that is made to be deleted. One that a user has made stays, and is estimated whole.
func (e *Estimation) markEphemeral() error {
	state, session := e.base().StatePath(lake.EphemeralFile), e.exec.Session()
	switch {
	case !e.Ephemeral:
		return nil
	case !e.existed:
		return session.WriteState(state, true)
	}
	found, err := e.Lake.ReadState(state, &e.Ephemeral)
	e.Ephemeral = found
	return err
}

// Forget deletes the scenario if it was made to be deleted. What a user has made of the same changes stays.
func (e *Estimation) Forget() error {
	var ephemeral bool
	if found, err := e.Lake.ReadState(e.base().StatePath(lake.EphemeralFile), &ephemeral); err != nil || !found {
		return err
	}
	return e.exec.Session().RemovePlace(e.base())
}

func withDefaults(o Settings) Settings {
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = DefaultMemory
	}
	o.Method = methodVersion
	return o
}

// newEstimation locks the scenario and makes the executor.
func newEstimation(ctx context.Context, model *Model, v Variant, o Settings) (*Estimation, error) {
	o, v = withDefaults(o), v.withDefaults()
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
		if err := session.RemoveState(at.StatePath(lake.EphemeralFile)); err != nil {
			session.Close()
			return nil, err
		}
	}
	o.Log = o.Log.With().Str("scenario", string(model.ID())).Str("name", model.Spec.Name).Logger()
	exec := engine.New(session, o.Settings)
	o.Settings = exec.Settings
	return &Estimation{
		Model: model, Settings: o, variant: v, exec: exec, existed: existed,
		began: time.Now(), beganCPU: engine.ProcessorSeconds(),
	}, nil
}

// begin makes the scenario known, and the one last worked on. A scenario keeps its first name, which table scenarios
// has too; another one becomes an alias.
func (e *Estimation) begin() error {
	if known, err := ReadSpec(e.Lake, e.ID()); err == nil {
		e.Spec.Aliases = known.Aliases
		if name := e.Spec.Name; name != known.Name && !slices.Contains(known.Aliases, name) {
			e.Spec.Aliases = append(e.Spec.Aliases, name)
		}
		e.Spec.Name = known.Name
	}
	err := e.exec.Session().WriteState(e.base().SpecPath(), e.Spec)
	if err != nil {
		e.Close()
	}
	return err
}
