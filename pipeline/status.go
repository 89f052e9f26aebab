package pipeline

import (
	"fmt"
	"slices"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/workloads"
	"parsimon/schema"
	"parsimon/schema/variant"
	"parsimon/stages/estimators"
)

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

// ReadStatus checks every scenario and workload of a lake, and every file that the lake should contain.
// how says how closely it checks each file. With lake.ByContent, it also lists what killed processes left.
func ReadStatus(l *lake.Lake, how lake.Verification) (*Status, error) {
	status := &Status{Lake: l.Path(), Scenarios: []ScenarioStatus{}, Workloads: []workloads.Status{}}
	ids, err := l.Scenarios()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if spec, err := ReadSpec(l, id); err == nil && spec.Windows != nil {
			continue // belongs to the estimate of the scenario that it was made from
		}
		s, err := ReadScenarioStatus(l, id, how)
		if err != nil {
			return nil, err
		}
		status.Scenarios = append(status.Scenarios, s)
	}
	ingested, err := l.BegunWorkloads()
	if err != nil {
		return nil, err
	}
	for _, id := range ingested {
		status.Workloads = append(status.Workloads, workloads.ReadStatus(l, id, how))
	}
	if how != lake.ByContent {
		return status, nil
	}
	status.Litter, err = l.Litter()
	return status, err
}

// ReadScenarioStatus returns the state of one scenario. See ReadStatus.
func ReadScenarioStatus(l *lake.Lake, id lake.ScenarioID, how lake.Verification) (ScenarioStatus, error) {
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
		st := readStageStatus(l, s, how)
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
	stored, err := l.Variants(model.ID())
	if err != nil {
		return nil, false, err
	}
	b := &begun{lake: l, model: model, seen: map[string]bool{}}
	b.addCommon(stored)
	for _, v := range stored {
		sizes := MessageSizesStage(model.ID(), v)
		if sizes.Begun(l) {
			b.add(sizes)
		}
		if v.Sampled() {
			s := CombineStage(model.ID(), v)
			b.add(s)
			b.estimated = b.estimated || s.Begun(l)
			continue
		}
		if err := b.addEstimate(v); err != nil {
			return nil, false, err
		}
	}
	return b.stages, b.estimated, nil
}

// begun collects the stages of a scenario that were begun.
type begun struct {
	lake      *lake.Lake
	model     *Model
	seen      map[string]bool // paths of states
	stages    []*engine.Stage
	estimated bool // the estimate of a variant was begun
}

// add adds a stage, once.
func (b *begun) add(s *engine.Stage) {
	path := s.StatePath()
	if !b.seen[path] {
		b.seen[path] = true
		b.stages = append(b.stages, s)
	}
}

// addCommon adds the stages that all variants share. If all variants are estimates from windows of time, the
// scenario itself need not be routed.
func (b *begun) addCommon(stored []variant.Variant) {
	common := newPlanner(b.model, Variant{}, Settings{}, nil)
	b.add(common.generate)
	ofAllFlows := func(v variant.Variant) bool { return !v.Sampled() }
	windowsOnly := len(stored) > 0 && !slices.ContainsFunc(stored, ofAllFlows)
	routed := common.route()
	if routed != nil && (!windowsOnly || routed.Begun(b.lake)) {
		b.add(routed)
	}
}

// addEstimate adds the stages of one variant. A lake can have tables of fewer passes without a replay, and a
// simulation of the whole network without an estimate. Of these, it adds only the stages that were begun.
func (b *begun) addEstimate(stored variant.Variant) error {
	v, err := VariantOf(stored)
	if err != nil {
		return fmt.Errorf("%s: %w in this version: estimate in another lake, or remove the scenario "+
			"(parsimon rm %s)", lake.Place{Scenario: b.model.ID(), Variant: stored}, err, b.model.ID())
	}
	plan := newPlanner(b.model, v, Settings{}, nil).plan()
	last := plan.Writer(schema.SenderFCTs)
	if v.Estimator == estimators.Exact {
		last = plan.Writer(schema.Slowdowns)
	}
	estimateBegun := last == nil || last.Begun(b.lake)
	b.estimated = b.estimated || estimateBegun
	if v.Estimator == estimators.Flow && v.Passes == 1 { // its feedback is an input of pass 2
		two := newPlanner(b.model, v.pass(2), Settings{}, nil).plan()
		s := two.Find("feedback", 1)
		if s.Begun(b.lake) {
			plan = append(plan, s)
		}
	}
	for _, s := range plan {
		if estimateBegun || s.Begun(b.lake) {
			b.add(s)
		}
	}
	return nil
}

// readStageStatus reads the records of a stage and checks the files that they name. A stage that has both
// damaged and missing files is reported as damaged, not as partial.
func readStageStatus(l *lake.Lake, s *engine.Stage, how lake.Verification) StageStatus {
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
	for _, rec := range r.Done {
		if rec == nil {
			continue
		}
		out.Done++
		out.Seconds += rec.Seconds
		for _, f := range rec.Files {
			out.Rows += f.Rows
			err := l.Verify(f, how)
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
