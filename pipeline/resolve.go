package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema/names"
)

// Resolve finds the scenario that a user names: by its id, the beginning of the id (at least 4 digits), its name or an
// alias; the one last worked on if the name is empty. The error for an unknown name lists the scenarios, the most
// similar first.
func Resolve(l *lake.Lake, name string) (lake.ScenarioID, error) {
	ids, err := l.Scenarios()
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("%s holds no scenario: is it a lake?", l.Path())
	}
	if name == "" {
		return lastWorkedOn(l, ids)
	}
	specs := map[lake.ScenarioID]Spec{}
	if slices.Contains(ids, lake.ScenarioID(name)) {
		return lake.ScenarioID(name), nil
	}
	// Windows belong to the scenario that they were drawn from.
	ids = slices.DeleteFunc(ids, func(id lake.ScenarioID) bool { return spec(l, specs, id).Windows != nil })
	matches := []func(id lake.ScenarioID) bool{
		func(id lake.ScenarioID) bool { return len(name) >= 4 && strings.HasPrefix(string(id), name) },
		func(id lake.ScenarioID) bool { return spec(l, specs, id).Name == name },
		func(id lake.ScenarioID) bool { return slices.Contains(spec(l, specs, id).Aliases, name) },
	}
	for _, match := range matches {
		var found []lake.ScenarioID
		for _, id := range ids {
			if match(id) {
				found = append(found, id)
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], nil
		}
		return "", fmt.Errorf("%q may be any of %s in %s", name, listScenarios(l, specs, name, found), l.Path())
	}
	return "", fmt.Errorf("no scenario %q in %s; it holds %s", name, l.Path(), listScenarios(l, specs, name, ids))
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

// lastWorkedOn is the scenario with flows that was last worked on.
func lastWorkedOn(l *lake.Lake, ids []lake.ScenarioID) (lake.ScenarioID, error) {
	for i := len(ids) - 1; i >= 0; i-- {
		if spec, err := ReadSpec(l, ids[i]); err == nil && spec.Windows != nil {
			continue
		}
		if _, err := engine.Complete(l, generated(l, ids[i]), methodVersion); err == nil {
			return ids[i], nil
		}
	}
	return "", fmt.Errorf("%s holds no scenario with flows: run one", l.Path())
}

// spec reads each spec once. A damaged one has no name.
func spec(l *lake.Lake, known map[lake.ScenarioID]Spec, id lake.ScenarioID) Spec {
	s, ok := known[id]
	if !ok {
		s, _ = ReadSpec(l, id)
		known[id] = s
	}
	return s
}

// listScenarios writes scenarios for an error message, the most similar to the one that was asked for first.
func listScenarios(l *lake.Lake, specs map[lake.ScenarioID]Spec, asked string, ids []lake.ScenarioID) string {
	const most = 20
	distance := func(id lake.ScenarioID) int {
		d := names.Distance(asked, string(id))
		if name := spec(l, specs, id).Name; name != "" {
			d = min(d, names.Distance(asked, name))
		}
		return d
	}
	sorted := slices.Clone(ids)
	slices.SortStableFunc(sorted, func(a, b lake.ScenarioID) int { return cmp.Compare(distance(a), distance(b)) })
	var list []string
	for i, id := range sorted {
		if i == most {
			list = append(list, fmt.Sprintf("%d more", len(sorted)-i))
			break
		}
		list = append(list, fmt.Sprintf("%s (%q)", id, spec(l, specs, id).Name))
	}
	return strings.Join(list, ", ")
}
