package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/workloads"
	"parsimon/schema"
	"parsimon/stages"
)

// Status says what a lake holds.
type Status struct {
	Lake      string             `json:"lake"`
	Scenarios []ScenarioStatus   `json:"scenarios"`
	Workloads []workloads.Status `json:"workloads"`
	Litter    []lake.Litter      `json:"litter,omitempty"` // of killed processes: the next command that writes removes it
}

// ScenarioStatus says how far one scenario is. State is "complete", "partial" (a stage is missing or was cut short: run
// the scenario again and it continues) or "damaged" (committed files are missing or unreadable: run it again and they
// are made again).
type ScenarioStatus struct {
	ScenarioID lake.ScenarioID `json:"scenario_id"`
	Name       string          `json:"name"`
	State      string          `json:"state"`
	Variants   []string        `json:"variants"` // complete estimates
	Stages     []StageStatus   `json:"stages"`
	Damage     []string        `json:"damage,omitempty"` // of the spec and of manifests
}

// StageStatus says how far one stage is.
type StageStatus struct {
	Stage     string   `json:"stage"`
	Variant   string   `json:"variant,omitempty"`
	State     string   `json:"state"`
	Done      int      `json:"tasks_done"`
	Tasks     int      `json:"tasks"`
	Rows      int64    `json:"rows"`
	Bytes     int64    `json:"bytes"`
	Seconds   float64  `json:"task_seconds"`              // summed over the tasks
	Collected int      `json:"files_collected,omitempty"` // temporary files that no stage needs any more
	Damage    []string `json:"damage,omitempty"`
}

// States of a stage, scenario or workload.
const (
	StateComplete = "complete"
	StatePartial  = "partial"
	StateDamaged  = "damaged"
	StateOther    = "of another version of the method" // run it again for answers of this one
)

// ReadStatus looks at every scenario and workload of a lake and at every file it should hold: at its bytes if thorough,
// or else only whether it is there and of the right size.
func ReadStatus(l *lake.Lake, thorough bool) (*Status, error) {
	status := &Status{Lake: l.Path(), Scenarios: []ScenarioStatus{}, Workloads: []workloads.Status{}}
	ids, err := l.Scenarios()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if spec, err := ReadSpec(l, id); err == nil && spec.Windows != nil {
			continue // a part of the estimate of the scenario that it was made from
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

// ReadScenarioStatus looks at one scenario; see ReadStatus.
func ReadScenarioStatus(l *lake.Lake, id lake.ScenarioID, thorough bool) (ScenarioStatus, error) {
	out := ScenarioStatus{ScenarioID: id, State: StateComplete, Variants: []string{}}
	spec, err := ReadSpec(l, id)
	if err != nil {
		out.State, out.Damage = StateDamaged, []string{err.Error()}
	}
	spec.ScenarioID, out.Name = id, spec.Name
	all, estimated, err := begunStages(l, &Model{Lake: l, Spec: spec})
	if err != nil {
		return out, err
	}
	for _, s := range all {
		st := readStageStatus(l, s, thorough)
		out.Stages = append(out.Stages, st)
		if (s.WritesTable(schema.Slowdowns) || s.WritesTable(schema.SampledSlowdowns)) && st.State == StateComplete {
			out.Variants = append(out.Variants, s.Place.Variant)
		}
		if st.State != StateComplete && out.State != StateDamaged && (out.State != StateOther || st.State == StateDamaged) {
			out.State = st.State
		}
	}
	if !estimated && out.State == StateComplete {
		out.State = StatePartial
	}
	if _, err := l.ReadAnswer(id); err != nil {
		out.State, out.Damage = StateDamaged, append(out.Damage, err.Error())
	}
	names, err := l.Variants(id)
	for _, name := range append(names, "") {
		if _, _, err := l.ReadManifest(lake.Place{Scenario: id, Variant: name}); err != nil {
			out.State, out.Damage = StateDamaged, append(out.Damage, err.Error())
		}
	}
	return out, err
}

// begunStages are the stages of a scenario that were begun or, in a variant whose estimate was begun, are needed for
// it. A pass on the way to others need not be estimated.
func begunStages(l *lake.Lake, model *Model) (all []*engine.Stage, estimated bool, err error) {
	names, err := l.Variants(model.ID())
	if err != nil {
		return nil, false, err
	}
	seen := map[string]bool{}
	add := func(s *engine.Stage) {
		if path := s.StatePath(); !seen[path] {
			seen[path] = true
			all = append(all, s)
		}
	}
	common := newMethod(model, Variant{}, Settings{}, nil)
	add(common.generate)
	windowsOnly := len(names) > 0 && !slices.ContainsFunc(names,
		func(name string) bool { return !strings.Contains(name, SampledPart) })
	if !windowsOnly || common.route.Begun(l) {
		add(common.route)
	}
	for _, name := range names {
		if strings.Contains(name, SampledPart) { // of exact windows, too
			s := CombineStage(model.ID(), name)
			add(s)
			estimated = estimated || s.Begun(l)
			continue
		}
		if strings.HasPrefix(name, exactName+"-") {
			add(&engine.Stage{Name: exactName, Place: lake.Place{Scenario: model.ID(), Variant: name}})
			continue
		}
		v, err := ParseVariant(name)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w in this version: estimate in another lake, or remove the scenario "+
				"(parsimon rm %s)", lake.Place{Scenario: model.ID(), Variant: name}, err, model.ID())
		}
		plan := newMethod(model, v, Settings{}, nil).plan()
		// Tables of fewer passes may be there without a replay, and a whole-network simulation without an estimate.
		last := plan.Writer(schema.SenderFCTs)
		if v.Estimator == stages.WholeNetwork {
			last = plan.Writer(schema.Slowdowns)
		}
		whole := last == nil || last.Begun(l)
		estimated = estimated || whole
		if v.Estimator == stages.Flow && v.Passes == 1 { // its feedback is for pass 2
			two := newMethod(model, v.pass(2), Settings{}, nil).plan()
			if s := two.Find("feedback", 1); s.Begun(l) {
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

// readStageStatus reads the records of a stage and looks at the files that they name. Damage outweighs missing files:
// a damaged stage is not called partial.
func readStageStatus(l *lake.Lake, s *engine.Stage, thorough bool) StageStatus {
	out := StageStatus{Stage: s.Name, Variant: s.Place.Variant, State: StateComplete}
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

// held completes a variant from the answer of the scenario's last run, if that is one of those
// that an estimate may choose.
func held(model *Model, like Variant) Variant {
	v, none := ParseVariant(model.Lake.Answer(model.ID()))
	chosen := v == (Variant{Estimator: stages.WholeNetwork}) || v == (Variant{Estimator: stages.Flow, Passes: MaxPasses})
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
