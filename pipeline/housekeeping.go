package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline/cache"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/workloads"
	"parsimon/schema"
	"parsimon/schema/variant"
	"parsimon/stages/estimators"
)

// Usage is the disk space that a lake uses.
type Usage struct {
	Lake       string       `json:"lake"`
	Bytes      int64        `json:"bytes"` // files that several scenarios share are counted once
	CacheBytes int64        `json:"cache_bytes"`
	Owners     []OwnerUsage `json:"scenarios"`
	Workloads  []OwnerUsage `json:"workloads"`
}

// OwnerUsage is the disk space that one scenario or workload uses.
type OwnerUsage struct {
	ID      string           `json:"id"`
	Name    string           `json:"name,omitempty"`
	Bytes   int64            `json:"bytes"`
	Own     int64            `json:"own_bytes"` // of files that are not shared, which removing it would free
	Tables  map[string]int64 `json:"tables"`
	AgeDays float64          `json:"age_days"` // since it was last worked on

	place lake.Place
}

// ReadUsage sums the sizes of the files of a lake.
func ReadUsage(l *lake.Lake) (*Usage, error) {
	u := &Usage{Lake: l.Path(), Owners: []OwnerUsage{}, Workloads: []OwnerUsage{}}
	scenarios, err := l.Scenarios()
	if err != nil {
		return nil, err
	}
	ingested, err := l.Workloads()
	if err != nil {
		return nil, err
	}
	seen := map[lake.Identity]bool{}
	for _, id := range scenarios {
		spec, _ := ReadSpec(l, id) // a damaged scenario has no name
		o, err := u.read(l, lake.Of(id), lake.Of(id).SpecPath(), seen)
		if err != nil {
			return nil, err
		}
		o.Name = spec.Name
		u.Owners = append(u.Owners, o)
	}
	for _, id := range ingested {
		p := lake.Place{Workload: id}
		o, err := u.read(l, p, p.WorkloadPath(), seen)
		if err != nil {
			return nil, err
		}
		u.Workloads = append(u.Workloads, o)
	}
	u.CacheBytes = cache.Bytes(lake.CachePath(l.Path()))
	return u, nil
}

// read sums the sizes of the files of a scenario or workload. The time of its state file tells when it was
// last worked on.
func (u *Usage) read(l *lake.Lake, p lake.Place, state string, seen map[lake.Identity]bool) (o OwnerUsage,
	err error) {
	o = OwnerUsage{ID: string(p.Scenario) + string(p.Workload), Tables: map[string]int64{}, place: p}
	info, err := os.Stat(filepath.Join(l.Path(), state))
	if err != nil {
		return o, err
	}
	o.AgeDays = time.Since(info.ModTime()).Hours() / 24
	err = l.EachFile(p, func(f lake.FileUsage) error {
		o.Bytes += f.Bytes
		o.Tables[f.Table] += f.Bytes
		if f.Links <= 1 {
			o.Own += f.Bytes
		}
		if !seen[f.Identity] {
			seen[f.Identity] = true
			u.Bytes += f.Bytes
		}
		return nil
	})
	return o, err
}

// A Removal selects scenarios and workloads for removal.
type Removal struct {
	Scenarios []string // ids or names
	Workloads []lake.WorkloadID
	OlderThan time.Duration // selects scenarios last worked on longer ago than this; 0: none
	KeepLast  int           // the number of newest scenarios to keep among those
	// OldWorkloads also selects workloads that were ingested longer ago than OlderThan, except for the newest
	// KeepLast.
	OldWorkloads bool
	DryRun       bool
}

// Remove removes scenarios and workloads. It returns the removed ones or, in a dry run, those that would be
// removed.
func Remove(ctx context.Context, l *lake.Lake, r Removal) ([]OwnerUsage, error) {
	usage, err := ReadUsage(l)
	if err != nil {
		return nil, err
	}
	remove := map[lake.Place]bool{}
	for _, name := range r.Scenarios {
		id, _, err := ResolveNoted(l, name, true)
		is := func(o OwnerUsage) bool { return name != "" && (o.ID == name || o.Name == name) }
		if err != nil && slices.ContainsFunc(usage.Workloads, is) && !slices.ContainsFunc(usage.Owners, is) {
			return nil, fmt.Errorf("%s is a workload: parsimon rm --workload %s", name, name)
		}
		if err != nil {
			return nil, err
		}
		remove[lake.Of(id)] = true
	}
	for _, id := range r.Workloads {
		if !slices.ContainsFunc(usage.Workloads, func(o OwnerUsage) bool { return o.ID == string(id) }) {
			return nil, fmt.Errorf("no workload %q in %s", id, l.Path())
		}
		remove[lake.Place{Workload: id}] = true
	}
	old := func(all []OwnerUsage) { // the ones last worked on are at the end
		for i, o := range all {
			if o.AgeDays > r.OlderThan.Hours()/24 && i < len(all)-r.KeepLast {
				remove[o.place] = true
			}
		}
	}
	if r.OlderThan > 0 {
		old(usage.Owners)
	}
	if r.OldWorkloads {
		old(slices.SortedFunc(slices.Values(usage.Workloads),
			func(a, b OwnerUsage) int { return cmp.Compare(b.AgeDays, a.AgeDays) }))
	}
	// Windows are removed together with the scenario that they were drawn from.
	for _, o := range usage.Owners {
		spec, err := ReadSpec(l, o.place.Scenario)
		if err == nil && spec.Windows != nil && remove[lake.Of(spec.Windows.Of)] {
			remove[o.place] = true
		}
	}
	removed := []OwnerUsage{}
	for _, o := range slices.Concat(usage.Owners, usage.Workloads) {
		if remove[o.place] {
			removed = append(removed, o)
		}
	}
	slices.SortFunc(removed, func(a, b OwnerUsage) int {
		return strings.Compare(a.place.String(), b.place.String())
	})
	if len(removed) > 0 && !r.DryRun {
		err = removePlaces(ctx, l, removed)
	}
	return removed, err
}

// readersWait is how long a removal waits for queries that may read the files to be removed.
const readersWait = 10 * time.Second

// removePlaces removes scenarios and workloads if no process works on them and no query reads the lake.
// Otherwise it removes nothing. The views are written before the files are removed, so that views never name
// missing files, even if the removal is killed.
func removePlaces(ctx context.Context, l *lake.Lake, owners []OwnerUsage) error {
	sessions := make([]*lake.Session, len(owners))
	for i, o := range owners {
		s, err := l.Lock(ctx, o.place)
		if err != nil {
			return err
		}
		defer s.Close()
		sessions[i] = s
	}
	readers, err := l.LockOutReaders(ctx, readersWait)
	if err != nil {
		return err
	}
	defer readers.Close()
	for i, o := range owners {
		if err := sessions[i].Withdraw(o.place); err != nil {
			return err
		}
	}
	err = catalog.Write(l) // damage to another place makes this fail, but must not prevent this removal
	for i, o := range owners {
		err = errors.Join(err, sessions[i].RemovePlace(o.place))
	}
	return err
}

// Publish commits the tables of all complete stages of the scenario, and removes data files that no manifest
// or record names. The views of LAKE/parsimon.duckdb are written at the end of a command (catalog.Write).
//
// If the views name files that are to be removed, the views are written first. Shards do not remove files,
// because another shard may have installed a file that it has not recorded yet.
func (e *Estimation) Publish() error {
	if e.Ephemeral {
		return nil
	}
	named, replaced, err := e.commit()
	if err != nil || e.Shard.Count > 0 {
		return err
	}
	if replaced {
		if err := catalog.Write(e.Lake); err != nil {
			return err
		}
	}
	return e.exec.Session().RemoveUnlisted(e.base(), func(path string) bool { return named[path] })
}

// commit commits the tables of all complete stages. It returns the data files that manifests and records
// name, and whether they replace others. Shards commit one after the other, so each shard finds at least the
// complete stages that the previous shard found.
func (e *Estimation) commit() (named map[string]bool, replaced bool, err error) {
	lock, err := e.Lake.LockCatalog()
	if err != nil {
		return nil, false, err
	}
	defer lock.Close()
	session := e.exec.Session()
	all, _, err := begunStages(e.Lake, e.Model)
	if err != nil {
		return nil, false, err
	}
	committed := map[lake.Place][]lake.DataFile{e.base(): nil}
	before := []lake.DataFile(nil)
	named = map[string]bool{}
	for _, s := range all {
		r, found, err := engine.ReadRecords(e.Lake, s)
		if lake.IsReadError(err) {
			return nil, false, err
		}
		if err != nil || !found {
			continue // status reports the error
		}
		complete := r.Complete(MethodVersion)
		for _, f := range r.AllFiles() {
			named[f.Path] = true
			if t, err := f.Table(); complete && err == nil && !t.Temporary {
				committed[s.Place] = append(committed[s.Place], f)
			}
		}
	}
	byName := func(a, b lake.Place) int { return strings.Compare(a.String(), b.String()) }
	for _, p := range slices.SortedFunc(maps.Keys(committed), byName) {
		files := committed[p]
		old, _, err := e.Lake.ReadManifest(p)
		if lake.IsReadError(err) {
			return nil, false, err
		}
		if err == nil {
			before = append(before, old.Files...)
			for _, f := range old.Files {
				if t, err := f.Table(); err == nil && t.Published {
					files = append(files, f)
				}
			}
		}
		for _, f := range files {
			named[f.Path] = true
		}
		if err := session.Commit(p, files); err != nil {
			return nil, false, err
		}
	}
	return named, slices.ContainsFunc(before, func(f lake.DataFile) bool { return !named[f.Path] }), nil
}

// Status is the state of a lake.
type Status struct {
	Lake      string             `json:"lake"`
	Scenarios []ScenarioStatus   `json:"scenarios"`
	Workloads []workloads.Status `json:"workloads"`
	// Left by killed processes; the next command that writes removes them.
	Litter []lake.Litter `json:"litter,omitempty"`
}

// ScenarioStatus is the state of one scenario. State is "complete", "partial" or "damaged". If a stage is
// missing or was interrupted, the state is "partial", and running the scenario again continues it. If
// committed files are missing or unreadable, the state is "damaged", and running the scenario again
// recomputes them.
type ScenarioStatus struct {
	ScenarioID lake.ScenarioID `json:"scenario_id"`
	Name       string          `json:"name"`
	State      string          `json:"state"`
	Variants   []string        `json:"variants"` // complete estimates
	Stages     []StageStatus   `json:"stages"`
	Damage     []string        `json:"damage,omitempty"` // damage to the spec and the manifests

	estimates []variant.Variant // those of Variants
}

// Estimates returns the variants of the complete estimates.
func (s ScenarioStatus) Estimates() []variant.Variant { return s.estimates }

// StageStatus is the state of one stage.
type StageStatus struct {
	Stage     string   `json:"stage"`
	Variant   string   `json:"variant,omitempty"`
	State     string   `json:"state"`
	Done      int      `json:"tasks_done"`
	Tasks     int      `json:"tasks"`
	Rows      int64    `json:"rows"`
	Bytes     int64    `json:"bytes"`
	Seconds   float64  `json:"task_seconds"`              // sum over the tasks
	Collected int      `json:"files_collected,omitempty"` // temporary files that no stage needs any longer
	Damage    []string `json:"damage,omitempty"`
}

// States of stages, scenarios and workloads.
const (
	StateComplete = "complete"
	StatePartial  = "partial"
	StateDamaged  = "damaged"
	StateOther    = "of another version of the method" // running it again produces results of this version
)

// ReadStatus checks every scenario and workload of a lake, and every file that the lake should contain. If
// thorough is set, it verifies the bytes of each file. Otherwise it only checks that the file exists and has
// the right size.
func ReadStatus(l *lake.Lake, thorough bool) (*Status, error) {
	status := &Status{Lake: l.Path(), Scenarios: []ScenarioStatus{}, Workloads: []workloads.Status{}}
	ids, err := l.Scenarios()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if spec, err := ReadSpec(l, id); err == nil && spec.Windows != nil {
			continue // belongs to the estimate of the scenario that it was made from
		}
		s, err := ReadScenarioStatus(l, id, thorough)
		if err != nil {
			return nil, err
		}
		status.Scenarios = append(status.Scenarios, s)
	}
	ingested, err := l.Workloads()
	if err != nil {
		return nil, err
	}
	for _, id := range ingested {
		status.Workloads = append(status.Workloads, workloads.ReadStatus(l, id, thorough))
	}
	if !thorough {
		return status, nil
	}
	status.Litter, err = l.Litter()
	return status, err
}

// ReadScenarioStatus returns the state of one scenario. See ReadStatus.
func ReadScenarioStatus(l *lake.Lake, id lake.ScenarioID, thorough bool) (ScenarioStatus, error) {
	out := ScenarioStatus{ScenarioID: id, State: StateComplete, Variants: []string{}}
	spec, err := ReadSpec(l, id)
	if err != nil {
		out.State, out.Damage = StateDamaged, []string{err.Error()}
	}
	spec.ScenarioID = id
	out.Name = spec.Name
	all, estimated, err := begunStages(l, &Model{Lake: l, Spec: spec})
	if err != nil {
		return out, err
	}
	for _, s := range all {
		st := readStageStatus(l, s, thorough)
		out.Stages = append(out.Stages, st)
		if (s.WritesTable(schema.Slowdowns) || s.WritesTable(schema.SampledSlowdowns)) &&
			st.State == StateComplete {
			out.Variants = append(out.Variants, s.Place.Variant.String())
			out.estimates = append(out.estimates, s.Place.Variant)
		}
		if st.State != StateComplete && out.State != StateDamaged &&
			(out.State != StateOther || st.State == StateDamaged) {
			out.State = st.State
		}
	}
	if !estimated && out.State == StateComplete {
		out.State = StatePartial
	}
	if _, err := l.ReadAnswer(id); err != nil {
		out.State, out.Damage = StateDamaged, append(out.Damage, err.Error())
	}
	begun, err := l.Variants(id)
	for _, v := range append(begun, variant.Variant{}) {
		if _, _, err := l.ReadManifest(lake.Place{Scenario: id, Variant: v}); err != nil {
			out.State, out.Damage = StateDamaged, append(out.Damage, err.Error())
		}
	}
	return out, err
}

// begunStages returns the stages of a scenario that were begun. If the estimate of a variant was begun, it
// also returns the other stages that the estimate needs. Intermediate passes need no estimate.
func begunStages(l *lake.Lake, model *Model) (all []*engine.Stage, estimated bool, err error) {
	begun, err := l.Variants(model.ID())
	if err != nil {
		return nil, false, err
	}
	seen := map[string]bool{}
	add := func(s *engine.Stage) {
		path := s.StatePath()
		if !seen[path] {
			seen[path] = true
			all = append(all, s)
		}
	}
	common := newPlanner(model, Variant{}, Settings{}, nil)
	add(common.generate)
	ofAllFlows := func(v variant.Variant) bool { return !v.Sampled() }
	windowsOnly := len(begun) > 0 && !slices.ContainsFunc(begun, ofAllFlows)
	routed := common.route()
	if routed != nil && (!windowsOnly || routed.Begun(l)) {
		add(routed)
	}
	for _, stored := range begun {
		if stored.Sampled() {
			s := CombineStage(model.ID(), stored)
			add(s)
			estimated = estimated || s.Begun(l)
			continue
		}
		v, err := VariantOf(stored)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w in this version: estimate in another lake, or remove the scenario "+
				"(parsimon rm %s)", lake.Place{Scenario: model.ID(), Variant: stored}, err, model.ID())
		}
		plan := newPlanner(model, v, Settings{}, nil).plan()
		// A lake can have tables of fewer passes without a replay, and a simulation of the whole network
		// without an estimate.
		last := plan.Writer(schema.SenderFCTs)
		if v.Estimator == estimators.Exact {
			last = plan.Writer(schema.Slowdowns)
		}
		whole := last == nil || last.Begun(l)
		estimated = estimated || whole
		if v.Estimator == estimators.Flow && v.Passes == 1 { // its feedback is an input of pass 2
			two := newPlanner(model, v.pass(2), Settings{}, nil).plan()
			s := two.Find("feedback", 1)
			if s.Begun(l) {
				plan = append(plan, s)
			}
		}
		for _, s := range plan {
			if whole || s.Begun(l) {
				add(s)
			}
		}
	}
	return all, estimated, nil
}

// readStageStatus reads the records of a stage and checks the files that they name. A stage that has both
// damaged and missing files is reported as damaged, not as partial.
func readStageStatus(l *lake.Lake, s *engine.Stage, thorough bool) StageStatus {
	out := StageStatus{Stage: s.Name, Variant: s.Place.Variant.String(), State: StateComplete}
	r, found, err := engine.ReadRecords(l, s)
	if err != nil {
		out.State, out.Damage = StateDamaged, []string{err.Error()}
		return out
	}
	if !found {
		out.State = StatePartial
		return out
	}
	out.Tasks = len(r.Tasks)
	check := l.CheckSize
	if thorough {
		check = l.Check
	}
	for _, rec := range r.Done {
		if rec == nil {
			continue
		}
		out.Done++
		out.Seconds += rec.Seconds
		for _, f := range rec.Files {
			out.Rows += f.Rows
			err := check(f)
			if lake.IsCollected(err) {
				out.Collected++
				continue
			}
			out.Bytes += f.Bytes
			if err != nil {
				out.Damage = append(out.Damage, err.Error())
			}
		}
	}
	switch {
	case out.Damage != nil:
		out.State = StateDamaged
	case r.Method != MethodVersion:
		out.State = StateOther
	case out.Done < out.Tasks:
		out.State = StatePartial
	}
	return out
}

// LastRun returns the variant of the scenario's last run. ok is false if the lake does not have its estimate
// of every flow.
func (m *Model) LastRun() (v Variant, ok bool) {
	v, err := VariantOf(m.Lake.Answer(m.ID()))
	return v, err == nil && m.estimated(v)
}

// held completes a variant from the answer of the scenario's last run, if an automatic estimate can choose
// that answer.
func held(model *Model, like Variant) Variant {
	v, none := VariantOf(model.Lake.Answer(model.ID()))
	chosen := v == (Variant{Estimator: estimators.Exact}) ||
		v == (Variant{Estimator: estimators.Flow, Passes: MaxPasses})
	if like.Auto && none == nil && chosen && model.estimated(v) {
		return v
	}
	return like
}

// estimated reports whether the lake holds the complete estimate of a variant.
func (m *Model) estimated(v Variant) bool {
	_, incomplete := ReadOnly(m, v, Settings{}).Records(schema.Slowdowns)
	return incomplete == nil
}

// Upgraded describes the changes that Upgrade made to a lake.
type Upgraded struct {
	Scenarios []lake.ScenarioID `json:"scenarios"`
	Workloads []lake.WorkloadID `json:"workloads"`
	Version   int               `json:"schema_version"`
}

// Upgrade converts a lake of an older schema version to this version (lake.Upgrade). It removes windows of
// time that older versions stored among other scenarios. The next run with --within simulates them again.
func Upgrade(ctx context.Context, l *lake.Lake) (*Upgraded, error) {
	u := &Upgraded{Scenarios: []lake.ScenarioID{}, Workloads: []lake.WorkloadID{}, Version: schema.Version}
	places, errs := l.Upgrade(ctx, readersWait)
	for _, p := range places {
		if p.Workload != "" {
			u.Workloads = append(u.Workloads, p.Workload)
		} else {
			u.Scenarios = append(u.Scenarios, p.Scenario)
		}
	}
	ids, err := l.Scenarios()
	if err != nil {
		return u, errors.Join(errs, err)
	}
	for _, id := range ids {
		spec, err := ReadSpec(l, id)
		if err != nil || spec.Windows == nil || id.Hidden() { // status reports damage
			continue
		}
		session, err := l.Lock(ctx, lake.Of(id))
		if err == nil {
			err = session.RemovePlace(lake.Of(id))
			session.Close()
		}
		errs = errors.Join(errs, err)
	}
	return u, errs
}
