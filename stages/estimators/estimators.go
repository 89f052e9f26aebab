// Package estimators lists the estimators.
package estimators

import (
	"fmt"

	"parsimon/stages/exact"
	"parsimon/stages/flow"
	"parsimon/stages/independent"
	"parsimon/stages/step"
)

// all lists the estimators. To add one, append a line: Parse, flags, plans, status and repair use this list.
var all = [...]step.Estimator{
	Independent: independent.Estimator(),
	Flow:        flow.Estimator(),
	Exact:       exact.Estimator(),
}

// A Name identifies an estimator. It is an index into the list.
type Name uint8

// The estimators that other packages refer to.
const (
	Independent Name = iota
	Flow
	Exact
)

// Estimator returns the estimator that n identifies.
func (n Name) Estimator() *step.Estimator { return &all[n] }

// String returns the name as it appears in --estimator and in the lake.
func (n Name) String() string { return all[n].Name }

// All returns the names of all estimators, in the order of the list.
func All() []Name {
	var names []Name
	for i := range all {
		names = append(names, Name(i))
	}
	return names
}

// Parse returns the Name of the estimator that is called name.
func Parse(name string) (Name, error) {
	var known []string
	for i := range all {
		if all[i].Name == name {
			return Name(i), nil
		}
		known = append(known, all[i].Name)
	}
	return 0, fmt.Errorf("no estimator %q: must be one of %v", name, known)
}
