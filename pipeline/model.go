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

// A Spec is the record of a scenario that the lake keeps beside its tables: every stage can run from the lake alone.
type Spec struct {
	ScenarioID       lake.ScenarioID `json:"scenario_id"`
	Name             string          `json:"name"`
	Seed             uint64          `json:"seed"`
	AllowUnreachable bool            `json:"allow_unreachable"`
	MaxRejects       float64         `json:"max_rejects"`
	MaxLoad          float64         `json:"max_load"` // 0 for traces
	scenario.Settled
	Windows *windows.Spec `json:"windows,omitempty"` // of a scenario of windows of another
	// Aliases are names under which the scenario was asked for later. Name is the first one, as in table scenarios.
	Aliases []string `json:"aliases,omitempty"`
	// Named says when a user last gave the scenario a name: of several of one name, the newest is meant.
	Named map[string]time.Time `json:"named,omitempty"`
	// FoundStarts says that the flows start when they did in a simulation of the whole network (Changes.FoundStarts).
	FoundStarts bool `json:"found_starts,omitempty"`
}

// A Model is a scenario of a lake, ready to be estimated.
type Model struct {
	Lake    *lake.Lake
	Spec    Spec
	Network *topology.Network
	Router  *topology.Router
	waits   bool // flows wait for others, as far as that is known
}

// ID is the scenario's id.
func (m *Model) ID() lake.ScenarioID { return m.Spec.ScenarioID }

// base is the place of the tables that do not depend on the variant.
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

// limit makes reading of the lake's tables refuse links and flows that the scenario does not have; flows is 0 as long
// as their number is not known.
func (m *Model) limit(flows int64) {
	if m.Lake != nil {
		m.Lake = m.Lake.Within(lake.Network{Links: int64(len(m.Network.Links)), Flows: flows})
	}
}

// limitToFlows is limit with the flows that the lake has of the scenario, if they are complete.
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

// OpenModel opens a scenario that the lake holds (see Resolve); the one last worked on if none is named.
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

// ReadSpec reads the spec of a scenario, and checks its constants, since nothing that a lake contains is trusted. A
// spec of another scenario, and none, are errors.
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
	err = spec.Params.Validate()
	if err == nil && !spec.Switches.IsZero() {
		err = spec.Switches.Validate(&spec.Params)
	}
	return spec, err
}

// Resolve finds the scenario that a user names: by its id, its name or an alias, or the beginning of the id (at least 4
// digits). Of several of one name it is the one that a user named last.
func Resolve(l *lake.Lake, name string) (lake.ScenarioID, error) {
	id, _, err := ResolveNoted(l, name, false)
	return id, err
}

// ResolveNoted is Resolve with a note, for the user, where several scenarios have the name. Whole, these are an error,
// and beginnings of ids name nothing.
func ResolveNoted(l *lake.Lake, name string, whole bool) (_ lake.ScenarioID, note string, _ error) {
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
		s, _ := ReadSpec(l, id)                  // a damaged one has no name
		if s.ScenarioID = id; s.Windows == nil { // windows belong to the scenario that they were drawn from
			specs = append(specs, s)
		}
	}
	slices.SortStableFunc(specs, func(a, b Spec) int { return a.Named[name].Compare(b.Named[name]) })
	all := names.Of(specs, func(s Spec) names.Thing {
		return names.Thing{ID: string(s.ScenarioID), Names: append([]string{s.Name}, s.Aliases...),
			About: func() string { return about(l, s.ScenarioID, s.Named[name]) }}
	})
	at, note, err := names.Find("scenario", name, l.Path(), all, whole)
	if err != nil {
		return "", "", err
	}
	return specs[at].ScenarioID, note, nil
}

// about says when a scenario's flows start and when it was given a name.
func about(l *lake.Lake, id lake.ScenarioID, named time.Time) string {
	text := "named " + named.UTC().Format(time.RFC3339)
	if _, g, err := completeGenerated(l, generated(l, id)); err == nil { // another one says nothing of its flows
		text = "flows start " + units.Time(g.FirstStartNS) + " to " + units.Time(g.LastStartNS) + ", " + text
	}
	return "[" + text + "]"
}

// noScenario is the error for a lake without scenarios.
func noScenario(l *lake.Lake) error {
	if ids, err := l.Workloads(); err == nil && len(ids) > 0 {
		return fmt.Errorf("%s holds no scenario yet; parsimon run --workload %s estimates one", l.Path(), ids[0])
	}
	return fmt.Errorf("%s holds no scenario: is it a lake?", l.Path())
}

// ShellName names a scenario in a command line: by a name that needs no quotes and that only it has, else by its id.
func ShellName(l *lake.Lake, id lake.ScenarioID) string {
	s, _ := ReadSpec(l, id) // a damaged one has no name
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

// LastWorkedOn is the scenario with flows that was last worked on.
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

// CheckChanges reports the errors of changes of a scenario that the lake holds, and with estimates of what comes
// of them, before any work. It returns the cables that they change.
func (m *Model) CheckChanges(ctx context.Context, c scenario.Changes, v Variant, o Settings) ([]scenario.CableChange, error) {
	changed, applied, err := m.change(ctx, &c)
	if err == nil {
		err = changed.check(v, o)
	}
	if err != nil {
		return nil, err
	}
	services := slices.AppendSeq(slices.Collect(maps.Keys(applied.Flows.Move)), maps.Keys(applied.Flows.Scale))
	services = slices.DeleteFunc(services, func(name string) bool { return name == workload.OtherServices })
	if classes := changed.Spec.Classes; !reflect.DeepEqual(classes, m.Spec.Classes) {
		for _, c := range classes {
			services = append(services, c.Services...)
		}
	}
	return applied.Cables, m.checkServices(services)
}

// change returns the scenario with changes.
func (m *Model) change(ctx context.Context, c *scenario.Changes) (changed *Model, applied *scenario.Applied, err error) {
	spec, n := m.Spec, m.Network.Clone()
	if applied, err = c.Apply(n, spec.Canonical, spec.Seed, spec.Params); err != nil {
		return nil, nil, fmt.Errorf("scenario %s (%s): %w", m.ID(), spec.Name, err)
	}
	spec.Aliases, spec.Settled, spec.ScenarioID = nil, *applied.Settled, lake.ScenarioID(scenario.IDOf(applied.Canonical))
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

// checkServices reports services without flows.
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
			seen[strings.Clone(f.Service)] = true // the batch's memory is used again
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

// Begin opens a scenario for an estimate from its beginning, in the lake in a directory, which is made if there is
// none.
func Begin(ctx context.Context, dir string, s *scenario.Scenario, v Variant, o Settings) (*Estimation, error) {
	// What would fail after the work fails before it.
	if err := queries.CheckLakePath(dir); err != nil {
		return nil, err
	}
	model, err := modelOf(ctx, s)
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
	model.limit(0)
	e, err := newEstimation(ctx, model, v, o)
	if err == nil {
		e.source = sourceOf(model, e.Settings, s)
	}
	return e, err
}

// modelOf is the model of a scenario, in no lake.
func modelOf(ctx context.Context, s *scenario.Scenario) (*Model, error) {
	settled, err := s.Settle()
	if err != nil {
		return nil, err
	}
	m, err := newModel(ctx, nil, Spec{
		ScenarioID: lake.ScenarioID(scenario.IDOf(settled.Canonical)), Name: s.Name, Seed: s.Seed, Settled: *settled,
		AllowUnreachable: s.AllowUnreachable, MaxRejects: s.MaxRejects, MaxLoad: s.MaxLoad(),
		Named: map[string]time.Time{s.Name: time.Now()},
	}, settled.Network)
	if err == nil {
		m.waits = s.HasJobs()
	}
	return m, err
}

// CheckScenario reports the errors of a scenario, and of estimates of it, before any work.
func CheckScenario(ctx context.Context, s *scenario.Scenario, v Variant, o Settings) error {
	m, err := modelOf(ctx, s)
	if err != nil {
		return err
	}
	return m.check(v, o)
}

// Resume opens a scenario that the lake holds (see OpenModel) for an estimate or single stages. With Auto, the variant
// is the answer of the last run if the lake still has it.
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
	return place.open(m, held(m, v), o)
}

// confirm reports a scenario that is no longer as it was when the model was opened: another process may have removed
// it, or may have started it again, while this one waited for its lock.
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

// ReadOnly opens an estimate of a model for reading. It neither locks nor writes.
func ReadOnly(model *Model, v Variant, o Settings) *Estimation {
	exec := engine.Reader(model.Lake, withDefaults(o).Settings)
	o.Settings = exec.Settings
	return &Estimation{Model: model, Settings: o, variant: v.withDefaults(), exec: exec}
}

// ErrUnchanged is Derive's error for changes that leave the scenario as it is.
var ErrUnchanged = errors.New("nothing would change")

// Derive opens a scenario made from one that the lake holds, for an estimate from its beginning. Its flows are those of
// the base, whose files it shares unless the changes are of flows. A cable that fails makes the same scenario, under
// the same id, as it does for Begin.
func Derive(ctx context.Context, from *Model, c scenario.Changes, v Variant, o Settings) (*Estimation, error) {
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

// Forget deletes the scenario if a command made it in order to delete it. A scenario that a user has made of the same
// changes stays.
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

// newEstimation locks the scenario, makes the executor, and makes the scenario the one last worked on.
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

// lockModel takes the lock of a scenario. What the lake said about the scenario before may be out of date by then.
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

// open opens an estimate of the scenario, which takes over the lock. If it fails, the lock is given up.
func (p lockedPlace) open(model *Model, v Variant, o Settings) (*Estimation, error) {
	o = withDefaults(o)
	o.Log = o.Log.With().Str("scenario", string(model.ID())).Str("name", model.Spec.Name).Logger()
	var err error
	switch deleted := lake.Of(model.ID()).StatePath(lake.EphemeralFile); {
	case !o.Ephemeral: // a scenario that a user works on is no longer a sweep's to delete
		err = p.session.RemoveState(deleted)
	case model.Spec.Windows != nil: // they are removed with the scenario that they were drawn from
	case !p.known:
		err = p.session.WriteState(deleted, true)
	default: // one that a user has made stays, and is estimated whole
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

// begin makes the scenario known, and the one last worked on. A scenario keeps its first name, which table scenarios
// has too; another one becomes an alias.
func (m *Model) begin(session *lake.Session) error {
	if !utf8.ValidString(m.Spec.Name) { // no table can hold it
		return fmt.Errorf("the name %q of the scenario is not UTF-8 text: give another with --name", m.Spec.Name)
	}
	if known, err := ReadSpec(m.Lake, m.ID()); err == nil {
		m.Spec.Aliases = known.Aliases
		if name := m.Spec.Name; name != known.Name && !slices.Contains(known.Aliases, name) {
			m.Spec.Aliases = append(m.Spec.Aliases, name)
		}
		named := maps.Collect(maps.All(known.Named))
		maps.Copy(named, m.Spec.Named)
		m.Spec.Name, m.Spec.Named = known.Name, named
	}
	return session.WriteState(m.base().SpecPath(), m.Spec)
}
