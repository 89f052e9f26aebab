package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/stages"
)

// Status says what a lake holds.
type Status struct {
	Lake      string           `json:"lake"`
	Scenarios []ScenarioStatus `json:"scenarios"`
	Workloads []WorkloadStatus `json:"workloads"`
}

// WorkloadStatus says what an ingested trace holds. State is "complete" or "damaged" (ingest it again,
// and it is made again of its records, or of the sources where those are damaged).
type WorkloadStatus struct {
	ID      string   `json:"workload"`
	Format  string   `json:"format"`
	State   string   `json:"state"`
	Sources int      `json:"sources"`
	Rows    int64    `json:"rows"` // flows + merged + rejects
	Flows   int64    `json:"flows"`
	Merged  int64    `json:"merged"`
	Rejects int64    `json:"rejects"`
	Damage  []string `json:"damage,omitempty"`
}

// ScenarioStatus says how far one scenario is. State is "complete", "partial" (a stage is missing
// or was cut short: run it again and it continues) or "damaged" (committed files are gone or
// unreadable: run it again and they are made again).
type ScenarioStatus struct {
	ScenarioID string        `json:"scenario_id"`
	Name       string        `json:"name"`
	State      string        `json:"state"`
	Variants   []string      `json:"variants"`
	Stages     []StageStatus `json:"stages"`
}

// StageStatus says how far one stage is.
type StageStatus struct {
	Stage   string   `json:"stage"`
	Variant string   `json:"variant,omitempty"`
	State   string   `json:"state"`
	Done    int      `json:"tasks_done"`
	Tasks   int      `json:"tasks"`
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"`
	Gone    int      `json:"files_let_go,omitempty"` // which nobody needs any more
	Damage  []string `json:"damage,omitempty"`
}

// States of a stage or scenario.
const (
	stateComplete = "complete"
	statePartial  = "partial"
	stateDamaged  = "damaged"
)

// ReadStatus looks at every scenario of a lake and at every file it should hold: at its bytes if
// thorough, or else only whether it is there and as long as it should be.
func ReadStatus(l *Lake, thorough bool) (*Status, error) {
	status := &Status{Lake: l.root, Scenarios: []ScenarioStatus{}, Workloads: []WorkloadStatus{}}
	ids, err := l.scenarios()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		s, err := l.scenarioStatus(id, thorough)
		if err != nil {
			return nil, err
		}
		status.Scenarios = append(status.Scenarios, s)
	}
	workloads, err := l.workloads()
	if err != nil {
		return nil, err
	}
	for _, id := range workloads {
		status.Workloads = append(status.Workloads, l.workloadStatus(id, thorough))
	}
	return status, nil
}

func (l *Lake) workloadStatus(id string, thorough bool) WorkloadStatus {
	out := WorkloadStatus{ID: id, State: stateComplete}
	var w workloadState
	if _, err := l.readState(l.workloadPath(id), &w); err != nil {
		out.State, out.Damage = stateDamaged, []string{err.Error()}
		return out
	}
	out.Format, out.Sources, out.Flows, out.Merged = w.Setting.Format, len(w.Sources), w.Merge.Flows, w.Merge.Merged
	out.Rows, out.Rejects, _, _ = w.counts()
	check := l.checkSize
	if thorough {
		check = l.check
	}
	parts := slices.Clone(w.Merge.Parts)
	for _, s := range w.Sources {
		parts = append(parts, s.Parts...)
	}
	for _, p := range parts {
		if err := check(p); err != nil {
			out.State, out.Damage = stateDamaged, append(out.Damage, err.Error())
		}
	}
	return out
}

func (l *Lake) scenarioStatus(id string, thorough bool) (ScenarioStatus, error) {
	out := ScenarioStatus{ScenarioID: id, State: stateComplete, Variants: []string{}}
	var sp spec
	if _, err := l.readState(l.statePath(place{scenario: id}, "spec.json"), &sp); err != nil {
		out.State = stateDamaged
	}
	out.Name = sp.Name
	variants, err := l.variants(id)
	if err != nil {
		return out, err
	}
	run := &Run{spec: spec{ScenarioID: id}}
	all := []stage{run.generateStage(), run.routeStage()}
	estimated := false
	for _, v := range variants {
		if v == "exact" || strings.HasPrefix(v, "exact-") {
			all = append(all, stage{"exact", place{id, v}, nil})
			continue
		}
		parsed, err := parseVariant(v)
		if err != nil {
			return out, fmt.Errorf("%s: %w", l.statePath(place{id, v}), err)
		}
		run.estimator, run.passes, run.ablation, run.cluster, run.backend = parsed.estimator, parsed.passes, parsed.ablation, parsed.cluster, parsed.backend
		if run.estimator == stages.Independent {
			estimated = true
			if run.cluster != nil {
				all = append(all, run.clusterStage(), run.drawStage())
			}
			all = append(all, run.simulateStage(), run.bucketStage(), run.sampleStage(), run.intervalsStage())
			continue
		}
		if run.cluster != nil {
			if run.passes == 1 {
				all = append(all, run.clusterStage())
			}
			all = append(all, run.imputeStage(run.passes))
		}
		all = append(all, run.passStage(run.passes))
		for _, s := range []stage{run.relaxStage(run.passes), run.tellStage()} { // towards another pass, or the estimate
			if l.begun(s) {
				all = append(all, s)
			}
		}
		if l.begun(run.sendersStage()) { // a pass on the way to others need not be estimated
			estimated = true
			all = append(all, run.sendersStage(), run.sampleStage(), run.intervalsStage())
		}
	}
	for _, s := range all {
		st := l.stageStatus(s, thorough)
		out.Stages = append(out.Stages, st)
		if s.name == "sample" && st.State == stateComplete {
			out.Variants = append(out.Variants, s.place.variant)
		}
		if st.State == stateDamaged || st.State == statePartial && out.State == stateComplete {
			out.State = st.State
		}
	}
	if !estimated && out.State == stateComplete {
		out.State = statePartial
	}
	return out, nil
}

func (l *Lake) stageStatus(s stage, thorough bool) StageStatus {
	out := StageStatus{Stage: s.name, Variant: s.place.variant, State: stateComplete}
	plan, done, found, err := s.records(l)
	if err != nil {
		out.State = stateDamaged
		out.Damage = append(out.Damage, err.Error())
		return out
	}
	if !found {
		out.State = statePartial
		return out
	}
	out.Tasks = len(plan.Tasks)
	for _, rec := range done {
		if rec == nil {
			continue
		}
		out.Done++
		for _, p := range rec.Parts {
			out.Rows += p.Rows
			if p.Gone {
				out.Gone++
				continue
			}
			out.Bytes += p.Bytes
			check := l.checkSize
			if thorough {
				check = l.check
			}
			if err := check(p); err != nil {
				out.Damage = append(out.Damage, err.Error())
			}
		}
	}
	switch {
	case out.Damage != nil:
		out.State = stateDamaged
	case out.Done < out.Tasks:
		out.State = statePartial
	}
	return out
}

// begun says whether a stage has a plan.
func (l *Lake) begun(s stage) bool {
	_, err := os.Stat(s.path(l, "plan.json"))
	return err == nil
}

// variants lists the ways a scenario has been estimated, or begun to be.
func (l *Lake) variants(id string) ([]string, error) {
	dirs, err := os.ReadDir(filepath.Join(l.root, stateDir, "scenario="+id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, d := range dirs {
		if v, ok := strings.CutPrefix(d.Name(), "variant="); ok {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out, nil
}

// resolve finds the scenario a user means: the one named (by its id or the first letters of it, or by
// its name), or the one last worked on.
func (l *Lake) resolve(scenario string) (string, error) {
	ids, err := l.scenarios()
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("%s holds no scenario: is it a lake?", l.root)
	}
	if scenario == "" {
		for _, id := range slices.Backward(ids) { // a scenario without flows is not one yet
			if _, _, err := (stage{"generate", place{scenario: id}, nil}).complete(l); err == nil {
				return id, nil
			}
		}
		return "", fmt.Errorf("%s holds no scenario that got as far as its flows: run one", l.root)
	}
	var found []string
	for _, id := range ids {
		if id == scenario {
			return id, nil
		}
		if len(scenario) >= 4 && len(id) > len(scenario) && id[:len(scenario)] == scenario {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		for _, id := range ids {
			var sp spec
			if _, err := l.readState(l.statePath(place{scenario: id}, "spec.json"), &sp); err == nil && sp.Name == scenario {
				found = append(found, id)
			}
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		return "", fmt.Errorf("%q may be any of %v in %s", scenario, found, l.root)
	}
	return "", fmt.Errorf("no scenario %q in %s; it holds %v", scenario, l.root, ids)
}
