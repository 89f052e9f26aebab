package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampling/windows"
	"parsimon/pipeline/scenario"
	"parsimon/queries"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/workload"
)

// A Spec is the description of a scenario that the lake stores beside its tables. With it, every stage can
// run from the lake alone.
type Spec struct {
	ScenarioID       lake.ScenarioID `json:"scenario_id"`
	Name             string          `json:"name"`
	Seed             uint64          `json:"seed"`
	AllowUnreachable bool            `json:"allow_unreachable"`
	MaxRejects       float64         `json:"max_rejects"`
	MaxLoad          float64         `json:"max_load"` // 0 for traces
	scenario.Settled
	Windows *windows.Spec `json:"windows,omitempty"` // set if the scenario consists of windows of another one
	// Aliases are names that later commands gave the scenario. Name is the first name, as in table scenarios.
	Aliases []string `json:"aliases,omitempty"`
	// Named maps each name to the time at which a user last gave it to the scenario. If several scenarios
	// have the same name, it refers to the newest.
	Named map[string]time.Time `json:"named,omitempty"`
	// FoundStarts is set if the flows start at the times found by a simulation of the whole network
	// (Changes.FoundStarts).
	FoundStarts bool `json:"found_starts,omitempty"`
}

// A Model is a scenario of a lake that is ready to be estimated.
type Model struct {
	Lake    *lake.Lake
	Spec    Spec
	Network *topology.Network
	Router  *topology.Router
	waits   bool // flows wait for others, if that is known yet
}

// ID returns the scenario's id.
func (m *Model) ID() lake.ScenarioID { return m.Spec.ScenarioID }

// base returns the place of the tables that do not depend on the variant.
func (m *Model) base() lake.Place { return lake.Of(m.ID()) }

func newModel(ctx context.Context, l *lake.Lake, spec Spec, n *topology.Network) (*Model, error) {
	router, err := topology.NewRouter(ctx, n, spec.Seed)
	if err != nil {
		return nil, err
	}
	err = spec.Moves.Check(n)
	if err == nil {
		err = spec.Moves.Configure(router)
	}
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", spec.ScenarioID, err)
	}
	m := &Model{l, spec, n, router, false}
	m.limit(0)
	return m, nil
}

// limit makes reads of the lake's tables reject links and flows that the scenario does not have. flows is 0
// if their number is not known yet.
func (m *Model) limit(flows int64) {
	if m.Lake != nil {
		m.Lake = m.Lake.Within(lake.Network{Links: int64(len(m.Network.Links)), Flows: flows})
	}
}

// limitToFlows calls limit with the number of the scenario's flows if the lake has all of them.
func (m *Model) limitToFlows() {
	r, err := engine.Complete(m.Lake, generated(m.Lake, m.ID()), MethodVersion)
	if err != nil {
		return
	}
	flows := int64(0)
	for _, f := range r.Files(schema.Flows) {
		flows += f.Rows
	}
	m.limit(flows)
}

// OpenModel opens a scenario of the lake by name (see Resolve). Without a name, it opens the scenario last
// worked on.
func OpenModel(ctx context.Context, l *lake.Lake, scenario string) (*Model, error) {
	id, err := LastWorkedOn(l)
	if scenario != "" {
		id, err = Resolve(l, scenario)
	}
	if err != nil {
		return nil, err
	}
	spec, err := ReadSpec(l, id)
	if err != nil {
		return nil, err
	}
	r, g, err := completeGenerated(l, generated(l, id))
	if err != nil {
		return nil, err
	}
	n, err := format.FromTables(l.Read(schema.Nodes, r.Files(schema.Nodes), nil),
		l.Read(schema.Links, r.Files(schema.Links), nil))
	if err != nil {
		return nil, fmt.Errorf("topology of scenario %s: %w", id, err)
	}
	m, err := newModel(ctx, l, spec, n)
	if err == nil {
		m.waits = g.Closed()
		m.limitToFlows()
	}
	return m, err
}

// OpenModelIn is OpenModel for the lake in a directory.
func OpenModelIn(ctx context.Context, dir, scenario string) (*Model, error) {
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil, err
	}
	return OpenModel(ctx, l, scenario)
}

// ReadSpec reads the spec of a scenario and checks its constants, because no content of a lake is trusted. A
// missing spec, or the spec of another scenario, is an error.
func ReadSpec(l *lake.Lake, id lake.ScenarioID) (spec Spec, err error) {
	path := lake.Of(id).SpecPath()
	found, err := l.ReadState(path, &spec)
	switch {
	case err != nil:
		return spec, err
	case !found:
		return spec, fmt.Errorf("%s holds no scenario %s", l.Path(), id)
	case spec.ScenarioID != id:
		return spec, fmt.Errorf("%s/%s is the spec of scenario %q, not of %s", l.Path(), path, spec.ScenarioID, id)
	}
	return spec, spec.checkConstants()
}

// checkConstants checks the constants of the transport and of the switches.
func (s *Spec) checkConstants() error {
	err := s.Params.Validate()
	if err == nil && !s.Switches.IsZero() {
		err = s.Switches.Validate(&s.Params)
	}
	return err
}

// Resolve finds the scenario that a user names by its id, its name, an alias, or a prefix of the id of at
// least 4 digits. If several scenarios have the name, it returns the one that a user named last.
func Resolve(l *lake.Lake, name string) (lake.ScenarioID, error) {
	id, _, err := ResolveNoted(l, name, names.Abbreviated)
	return id, err
}

// ResolveNoted is Resolve with a note for the user if several scenarios have the name. With names.Exact,
// several scenarios are an error, and prefixes of ids are not accepted.
func ResolveNoted(l *lake.Lake, name string, match names.Match) (_ lake.ScenarioID, note string, _ error) {
	ids, err := l.Scenarios()
	switch {
	case err != nil:
		return "", "", err
	case len(ids) == 0:
		return "", "", noScenario(l)
	case slices.Contains(ids, lake.ScenarioID(name)):
		return lake.ScenarioID(name), "", nil
	}
	var specs []Spec
	for _, id := range ids {
		s, _ := ReadSpec(l, id) // a damaged scenario has no name
		s.ScenarioID = id
		if s.Windows == nil { // windows belong to the scenario that they were drawn from
			specs = append(specs, s)
		}
	}
	slices.SortStableFunc(specs, func(a, b Spec) int { return a.Named[name].Compare(b.Named[name]) })
	all := names.Of(specs, func(s Spec) names.Thing {
		return names.Thing{ID: string(s.ScenarioID), Names: append([]string{s.Name}, s.Aliases...),
			About: func() string { return about(l, s.ScenarioID, s.Named[name]) }}
	})
	at, note, err := names.Find("scenario", name, l.Path(), all, match)
	if err != nil {
		return "", "", err
	}
	return specs[at].ScenarioID, note, nil
}

// about returns a text that says when a scenario was given a name and when its flows start.
func about(l *lake.Lake, id lake.ScenarioID, named time.Time) string {
	text := "named " + named.UTC().Format(time.RFC3339)
	// If its flows are not complete, their start is omitted.
	if _, g, err := completeGenerated(l, generated(l, id)); err == nil {
		text = "flows start " + units.Time(g.FirstStartNS) + " to " + units.Time(g.LastStartNS) + ", " + text
	}
	return "[" + text + "]"
}

// noScenario returns the error for a lake without scenarios.
func noScenario(l *lake.Lake) error {
	if ids, err := l.Workloads(); err == nil && len(ids) > 0 {
		return fmt.Errorf("%s holds no scenario yet; parsimon run --workload %s estimates one", l.Path(), ids[0])
	}
	return fmt.Errorf("%s holds no scenario: is it a lake?", l.Path())
}

// ShellName returns a name for a scenario in a command line. This is a unique name that needs no quotes or,
// if there is none, its id.
func ShellName(l *lake.Lake, id lake.ScenarioID) string {
	s, _ := ReadSpec(l, id) // a damaged scenario has no name
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	for _, name := range append([]string{s.Name}, s.Aliases...) {
		if strings.Trim(name, plain) != "" {
			continue
		}
		if found, err := Resolve(l, name); err == nil && found == id {
			return name
		}
	}
	return string(id)
}

// LastWorkedOn returns the scenario last worked on, among those with flows.
func LastWorkedOn(l *lake.Lake) (lake.ScenarioID, error) {
	ids, err := l.Scenarios()
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", noScenario(l)
	}
	for _, id := range slices.Backward(ids) {
		if spec, err := ReadSpec(l, id); err == nil && spec.Windows != nil {
			continue
		}
		if _, err := engine.Complete(l, generated(l, id), MethodVersion); err == nil {
			return id, nil
		}
	}
	return "", fmt.Errorf("%s holds no scenario with flows: run one", l.Path())
}

// CheckChanges checks, before any work, changes of a scenario of the lake and estimates of the changed
// scenario. It returns the id of that scenario, which Derive opens, and the cables that the changes affect.
func (m *Model) CheckChanges(
	ctx context.Context, c scenario.Changes, v Variant, o Settings,
) (lake.ScenarioID, []scenario.CableChange, error) {
	changed, applied, err := m.change(ctx, &c)
	if err == nil {
		err = changed.check(v, o)
	}
	if err != nil {
		return "", nil, err
	}
	services := slices.AppendSeq(slices.Collect(maps.Keys(applied.Flows.Move)), maps.Keys(applied.Flows.Scale))
	services = slices.DeleteFunc(services, func(name string) bool { return name == workload.OtherServices })
	classes := changed.Spec.Classes
	if !reflect.DeepEqual(classes, m.Spec.Classes) {
		for _, c := range classes {
			services = append(services, c.Services...)
		}
	}
	return changed.ID(), applied.Cables, m.checkServices(services)
}

// change returns a copy of the scenario with the changes applied.
func (m *Model) change(
	ctx context.Context, c *scenario.Changes,
) (changed *Model, applied *scenario.Applied, err error) {
	spec := m.Spec
	n := m.Network.Clone()
	if applied, err = c.Apply(n, spec.Canonical, spec.Seed, spec.Params); err != nil {
		return nil, nil, fmt.Errorf("scenario %s (%s): %w", m.ID(), spec.Name, err)
	}
	spec.Aliases, spec.Settled, spec.ScenarioID = nil, *applied.Settled,
		lake.ScenarioID(scenario.IDOf(applied.Canonical))
	spec.AllowUnreachable = spec.AllowUnreachable || c.AllowUnreachable
	spec.FoundStarts = spec.FoundStarts || c.FoundStarts
	spec.Name = cmp.Or(c.Name, spec.Name+", "+strings.Join(applied.Descriptions, ", "))
	spec.Named = map[string]time.Time{spec.Name: time.Now()}
	if changed, err = newModel(ctx, m.Lake, spec, n); err != nil {
		return nil, nil, err
	}
	changed.waits = m.waits && !c.FoundStarts
	if m.waits && len(applied.Flows.Scale) > 0 {
		err = m.Refuse(Variant{Auto: true}, scaled)
	}
	return changed, applied, err
}

// checkServices returns an error that lists the services without flows.
func (m *Model) checkServices(asked []string) error {
	if len(asked) == 0 {
		return nil
	}
	r, err := engine.Complete(m.Lake, generated(m.Lake, m.ID()), MethodVersion)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	type labeled struct {
		Service string `col:"service"`
	}
	err = columns.Each(m.Lake.Read(schema.Flows, r.Files(schema.Flows), nil), func(f *labeled) error {
		if !seen[f.Service] {
			seen[strings.Clone(f.Service)] = true // the memory of the batch is reused
		}
		return nil
	})
	all := slices.Sorted(maps.Keys(seen))
	for _, name := range asked {
		if err == nil && !seen[name] {
			return fmt.Errorf("scenario %s (%s): no service %q; it has %q%s", m.ID(), m.Spec.Name, name, all,
				names.DidYouMean(name, all))
		}
	}
	return err
}

// Begin opens a scenario for a new estimate, in the lake in directory dir. If the directory does not exist,
// it is created.
func Begin(ctx context.Context, dir string, s *scenario.Scenario, v Variant, o Settings) (*Estimation,
	error) {
	// Errors that would occur after the work are reported before it.
	if err := queries.CheckLakePath(dir); err != nil {
		return nil, err
	}
	model, err := modelOf(ctx, s)
	if err != nil {
		return nil, err
	}
	return model.beginIn(ctx, dir, v, o, func(e *Estimation) *source { return sourceOf(model, e.Settings, s) })
}

// beginIn checks a model that is not in a lake, and opens it for a new estimate in the lake in directory dir.
func (m *Model) beginIn(ctx context.Context, dir string, v Variant, o Settings,
	from func(*Estimation) *source) (*Estimation, error) {
	if err := m.check(v, o); err != nil {
		return nil, err
	}
	l, err := lake.Open(dir, true)
	if err != nil {
		return nil, err
	}
	m.Lake = l
	m.limit(0)
	e, err := newEstimation(ctx, m, v, o)
	if err == nil {
		e.source = from(e)
	}
	return e, err
}

// modelOf returns the model of a scenario that is not in a lake.
func modelOf(ctx context.Context, s *scenario.Scenario) (*Model, error) {
	settled, err := s.Settle()
	if err != nil {
		return nil, err
	}
	m, err := newModel(ctx, nil, Spec{
		ScenarioID: lake.ScenarioID(scenario.IDOf(settled.Canonical)), Name: s.Name, Seed: s.Seed,
		Settled:          *settled,
		AllowUnreachable: s.AllowUnreachable, MaxRejects: s.MaxRejects, MaxLoad: s.MaxLoad(),
		Named: map[string]time.Time{s.Name: time.Now()},
	}, settled.Network)
	if err == nil {
		m.waits = s.HasJobs() || s.Traffic().Waits()
	}
	return m, err
}

// CheckScenario checks a scenario, and an estimate of it, before any work. It returns the id of the scenario,
// which Begin opens.
func CheckScenario(
	ctx context.Context, s *scenario.Scenario, v Variant, o Settings,
) (lake.ScenarioID, error) {
	m, err := modelOf(ctx, s)
	if err != nil {
		return "", err
	}
	return m.ID(), m.check(v, o)
}

// Resume opens a scenario of the lake (see OpenModel) for an estimate or for single stages. With Auto, the
// variant is the answer of the last run if the lake still has it.
func Resume(ctx context.Context, dir, name string, v Variant, o Settings) (*Estimation, error) {
	model, err := OpenModelIn(ctx, dir, name)
	if err != nil {
		return nil, err
	}
	return model.Resume(ctx, v, o)
}

// Resume opens an estimate of a scenario that the lake holds.
func (m *Model) Resume(ctx context.Context, v Variant, o Settings) (*Estimation, error) {
	if err := m.check(v, o); err != nil {
		return nil, err
	}
	place, err := lockModel(ctx, m, o)
	if err != nil {
		return nil, err
	}
	if err := m.confirm(); err != nil {
		if !place.known {
			err = errors.Join(err, place.session.RemoveUncommitted(m.base()))
		}
		place.session.Close()
		return nil, err
	}
	return place.open(m, withAnswer(m, v), o)
}

// confirm returns an error if the scenario has changed since the model was opened. While this process waited
// for the lock, another process may have removed the scenario or begun it again.
func (m *Model) confirm() error {
	spec, err := ReadSpec(m.Lake, m.ID())
	if err == nil {
		_, _, err = completeGenerated(m.Lake, generated(m.Lake, m.ID()))
	}
	if err != nil {
		return fmt.Errorf("scenario %s was removed or changed while this command waited for it: %w", m.ID(), err)
	}
	m.Spec = spec
	return nil
}

// ReadOnly opens an estimate of a model for reading. It neither takes a lock nor writes.
func ReadOnly(model *Model, v Variant, o Settings) *Estimation {
	exec := engine.Reader(model.Lake, withDefaults(o).Settings)
	o.Settings = exec.Settings
	return &Estimation{Model: model, Settings: o, variant: v.withDefaults(), exec: exec}
}

// ErrUnchanged is the error of Derive if the changes leave the scenario unchanged.
var ErrUnchanged = errors.New("nothing would change")

// Derive opens a scenario that is a changed copy of a scenario of the lake, for a new estimate. It has the
// flows of the base scenario, and shares their files unless the changes affect flows. A failed cable yields
// the same scenario, with the same id, as it does with Begin.
func Derive(ctx context.Context, from *Model, c scenario.Changes, v Variant, o Settings) (*Estimation,
	error) {
	model, applied, err := from.change(ctx, &c)
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
	switch {
	case err != nil:
		return nil, err
	case c.FoundStarts:
		e.source = model.foundStarts(from.ID())
	default:
		e.source = model.derivedFlows(from.ID(), applied.Flows)
	}
	return e, nil
}

// Forget deletes the scenario if a command created it only temporarily. If a user has made a scenario with
// the same changes, it stays.
func (e *Estimation) Forget() error {
	var ephemeral bool
	if found, err := e.Lake.ReadState(e.base().StatePath(lake.EphemeralFile), &ephemeral); err != nil || !found {
		return err
	}
	return e.exec.Session().RemoveUncommitted(e.base())
}

func withDefaults(o Settings) Settings {
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = DefaultMemory
	}
	o.Method = MethodVersion
	return o
}

// newEstimation locks the scenario, creates the executor, and records the scenario as the one last worked on.
func newEstimation(ctx context.Context, model *Model, v Variant, o Settings) (*Estimation, error) {
	place, err := lockModel(ctx, model, o)
	if err != nil {
		return nil, err
	}
	return place.open(model, v, o)
}

// A lockedPlace is the place of a scenario whose lock this process holds.
type lockedPlace struct {
	session *lake.Session
	known   bool // the lake had the scenario when the lock was taken
}

// lockModel takes the lock of a scenario. Anything read from the lake before may be out of date once the lock
// is taken.
func lockModel(ctx context.Context, model *Model, o Settings) (p lockedPlace, err error) {
	lock := model.Lake.Lock
	if o.Shard.Count > 0 {
		lock = model.Lake.LockShared
	}
	at := lake.Of(model.ID())
	p.session, err = lake.Waiting(ctx, o.Wait, func() (*lake.Session, error) { return lock(ctx, at) })
	if err == nil {
		p.known = model.Lake.Exists(at.SpecPath())
	}
	return p, err
}

// open opens an estimate of the scenario. The estimate takes over the lock. If open fails, it releases the
// lock.
func (p lockedPlace) open(model *Model, v Variant, o Settings) (*Estimation, error) {
	o = withDefaults(o)
	o.Log = o.Log.With().Str("scenario", string(model.ID())).Str("name", model.Spec.Name).Logger()
	var err error
	switch deleted := lake.Of(model.ID()).StatePath(lake.EphemeralFile); {
	case !o.Ephemeral: // once a user works on a scenario, a sweep may no longer delete it
		err = p.session.RemoveState(deleted)
	case model.Spec.Windows != nil: // windows are removed with the scenario that they belong to
	case !p.known:
		err = p.session.WriteState(deleted, true)
	default: // a scenario that a user has made stays and gets a full estimate
		o.Ephemeral, err = p.session.ReadState(deleted, new(bool))
	}
	if err == nil {
		err = model.begin(p.session)
	}
	if err != nil {
		p.session.Close()
		return nil, err
	}
	model.limitToFlows()
	p.session.Lake = model.Lake
	exec := engine.New(p.session, o.Settings)
	o.Settings = exec.Settings
	return &Estimation{Model: model, Settings: o, variant: v.withDefaults(), exec: exec, isNew: !p.known,
		began: time.Now(), beganCPU: engine.ProcessorSeconds()}, nil
}

// begin registers the scenario in the lake, and records it as the one last worked on. A scenario keeps its
// first name, which is also in table scenarios. Other names become aliases.
func (m *Model) begin(session *lake.Session) error {
	if !utf8.ValidString(m.Spec.Name) { // no table can store it
		return fmt.Errorf("the name %q of the scenario is not UTF-8 text: give another with --name", m.Spec.Name)
	}
	if known, err := ReadSpec(m.Lake, m.ID()); err == nil {
		m.Spec.Aliases = known.Aliases
		name := m.Spec.Name
		if name != known.Name && !slices.Contains(known.Aliases, name) {
			m.Spec.Aliases = append(m.Spec.Aliases, name)
		}
		named := maps.Collect(maps.All(known.Named))
		maps.Copy(named, m.Spec.Named)
		m.Spec.Name = known.Name
		m.Spec.Named = named
	}
	return session.WriteState(m.base().SpecPath(), m.Spec)
}
