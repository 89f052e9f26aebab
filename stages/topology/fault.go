package topology

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// A FaultKind classifies a fault. Kinds that have a repair are listed in Repairs.
type FaultKind string

// The kinds of faults.
const (
	FaultFormat        FaultKind = "format"        // not readable as its format: syntax, a missing column
	FaultRange         FaultKind = "range"         // a number outside the limits
	FaultRole          FaultKind = "role"          // an unknown kind of node
	FaultStatus        FaultKind = "status"        // an unknown status, or not a network cable
	FaultUnknownNode   FaultKind = "unknown-node"  // a cable end that no node has
	FaultUncabled      FaultKind = "uncabled"      // a host without a cable
	FaultNoHost        FaultKind = "no-host"       // no node is a host
	FaultUnknownSpeed  FaultKind = "unknown-speed" // a cable without a speed
	FaultOneSided      FaultKind = "one-sided"     // a cable that only one of its two ends reports
	FaultDoubled       FaultKind = "doubled"       // the same cable or node listed twice
	FaultContradictory FaultKind = "contradictory" // two different speeds, delays or roles for one cable or node
	FaultSharedPort    FaultKind = "shared-port"   // one port at the end of two cables
	FaultParallel      FaultKind = "parallel"      // several cables between the same two nodes
	FaultSelfLoop      FaultKind = "self-loop"     // a cable from a node to itself
	FaultIsland        FaultKind = "island"        // a part that no cable joins to the rest
	FaultSimilarNames  FaultKind = "similar-names" // two names that differ in upper and lower case only
)

// A Repair is what Options.Repair does about the faults of one kind.
type Repair struct {
	Kind FaultKind
	Doc  string
}

// Repairs lists the kinds of faults that can be repaired, in the order of the help text.
func Repairs() []Repair {
	return []Repair{
		{FaultOneSided, "keep the cable, as its one end reports it"},
		{FaultDoubled, "keep the first of the two"},
		{FaultContradictory, "keep the lower speed and the longer delay of a cable, and the first row of a node"},
		{FaultSharedPort, "keep all cables of the port"},
		{FaultParallel, "make one cable of the summed bandwidth (a link aggregation group)"},
		{FaultSelfLoop, "leave the cable out"},
		{FaultIsland, "leave out all parts but the one with the most hosts"},
		{FaultSimilarNames, "take the names as one, in the first spelling"},
	}
}

// ParseRepair reads a kind of fault that has a repair.
func ParseRepair(text string) (FaultKind, error) {
	var kinds []string
	for _, r := range Repairs() {
		if string(r.Kind) == text {
			return r.Kind, nil
		}
		kinds = append(kinds, string(r.Kind))
	}
	return "", fmt.Errorf("%q: must be of %s", text, strings.Join(kinds, ", "))
}

// A Fault is one thing that is wrong with a topology.
type Fault struct {
	File string    `json:"file"`
	Line int       `json:"line"` // from 1; the row of a Parquet file; 0 where the whole file is to blame
	Text string    `json:"text"`
	Kind FaultKind `json:"kind"`
}

func (f Fault) Error() string {
	switch {
	case f.Line == 0:
		return fmt.Sprintf("topology %s: %s", f.File, f.Text)
	case strings.EqualFold(filepath.Ext(f.File), ".parquet"):
		return fmt.Sprintf("topology %s: row %d: %s", f.File, f.Line, f.Text)
	}
	return fmt.Sprintf("topology %s: line %d: %s", f.File, f.Line, f.Text)
}

// maxErrors bounds the lines of the error that Read returns.
const maxErrors = 50

// joinFaults makes one error of faults; nil for none.
func joinFaults(faults []Fault) error {
	var errs []error
	for i, f := range faults {
		if i == maxErrors {
			errs = append(errs, fmt.Errorf("and %d more faults; \"parsimon topology\" lists all", len(faults)-i))
			break
		}
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}
