package lake

import (
	"fmt"
	"regexp"

	"parsimon/schema"
)

// A ScenarioID names a scenario: 16 hexadecimal digits, the beginning of the SHA-256 of its canonical form.
type ScenarioID string

// A WorkloadID names an ingested workload: up to 64 letters, digits, dots, dashes and underscores.
type WorkloadID string

var (
	scenarioPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)
	workloadPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	variantPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)
)

// ParseScenarioID checks that text is a scenario id.
func ParseScenarioID(text string) (ScenarioID, error) {
	if !scenarioPattern.MatchString(text) {
		return "", fmt.Errorf("%q is not a scenario id: want 16 hexadecimal digits", text)
	}
	return ScenarioID(text), nil
}

// ParseWorkloadID checks that text can name a workload.
func ParseWorkloadID(text string) (WorkloadID, error) {
	if !workloadPattern.MatchString(text) {
		return "", fmt.Errorf("workload name %q: want up to 64 letters, digits, dots, dashes and underscores", text)
	}
	return WorkloadID(text), nil
}

// A Place says what the rows of a data file belong to: a scenario and, for tables that depend on how the
// scenario was estimated, a variant; or a workload.
type Place struct {
	Scenario ScenarioID `json:"scenario,omitempty"`
	Variant  string     `json:"variant,omitempty"`
	Workload WorkloadID `json:"workload,omitempty"`
}

// Of returns the place of a scenario's tables that do not depend on a variant.
func Of(id ScenarioID) Place { return Place{Scenario: id} }

// owner is the first path segment below a table or below _state.
func (p Place) owner() string {
	if p.Workload != "" {
		return "workload=" + string(p.Workload)
	}
	return "scenario=" + string(p.Scenario)
}

// String names the place in messages.
func (p Place) String() string {
	switch {
	case p.Workload != "":
		return "workload " + string(p.Workload)
	case p.Variant != "":
		return fmt.Sprintf("scenario %s, variant %s", p.Scenario, p.Variant)
	}
	return "scenario " + string(p.Scenario)
}

// Dir is the lake-relative directory of the place's files of a table.
func (p Place) Dir(t schema.Table) string {
	dir := t.Name + "/" + p.owner()
	if t.Variant && p.Workload == "" {
		dir += "/variant=" + p.Variant
	}
	return dir
}

// File is the lake-relative path of data file n of a table.
func (p Place) File(t schema.Table, n int) string {
	return fmt.Sprintf("%s/part-%05d.parquet", p.Dir(t), n)
}

// StatePath is the lake-relative path of a state file of the place.
func (p Place) StatePath(elem ...string) string {
	path := stateDir + "/" + p.owner()
	if p.Variant != "" {
		path += "/variant=" + p.Variant
	}
	for _, e := range elem {
		path += "/" + e
	}
	return path
}
