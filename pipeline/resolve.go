package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema/names"
)

// Resolve finds the scenario that a user names: by its id, its name or an alias, or the beginning of the id (at least 4
// digits). A text that fits several scenarios names none.
func Resolve(l *lake.Lake, name string) (lake.ScenarioID, error) { return resolve(l, name, false) }

// ResolveWhole is Resolve without beginnings of ids.
func ResolveWhole(l *lake.Lake, name string) (lake.ScenarioID, error) { return resolve(l, name, true) }

func resolve(l *lake.Lake, name string, whole bool) (lake.ScenarioID, error) {
	ids, err := l.Scenarios()
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", fmt.Errorf("%s holds no scenario: is it a lake?", l.Path())
	case slices.Contains(ids, lake.ScenarioID(name)):
		return lake.ScenarioID(name), nil
	}
	var all []names.Thing
	for _, id := range ids {
		s, _ := ReadSpec(l, id) // a damaged one has no name
		if s.Windows == nil {   // windows belong to the scenario that they were drawn from
			all = append(all, names.Thing{ID: string(id), Names: append([]string{s.Name}, s.Aliases...)})
		}
	}
	at, err := names.Find("scenario", name, l.Path(), all, whole)
	if err != nil {
		return "", err
	}
	return lake.ScenarioID(all[at].ID), nil
}

// ShellName names a scenario in a command line: by its name, where that needs no quotes and only it has it, else by
// its id.
func ShellName(l *lake.Lake, id lake.ScenarioID) string {
	s, err := ReadSpec(l, id)
	if err != nil || s.Name == "" || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != "" {
		return string(id)
	}
	if found, err := Resolve(l, s.Name); err != nil || found != id {
		return string(id)
	}
	return s.Name
}

// LastWorkedOn is the scenario with flows that was last worked on.
func LastWorkedOn(l *lake.Lake) (lake.ScenarioID, error) {
	ids, err := l.Scenarios()
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("%s holds no scenario: is it a lake?", l.Path())
	}
	for _, id := range slices.Backward(ids) {
		if spec, err := ReadSpec(l, id); err == nil && spec.Windows != nil {
			continue
		}
		if _, err := engine.Complete(l, generated(l, id), methodVersion); err == nil {
			return id, nil
		}
	}
	return "", fmt.Errorf("%s holds no scenario with flows: run one", l.Path())
}
