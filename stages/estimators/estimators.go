// Package estimators lists the estimators.
package estimators

import (
	"fmt"
	"slices"
)

// Name identifies an estimator: how the slowdowns of flows are found.
type Name uint8

const (
	// Independent is the paper's estimator (§3.4): at each hop it draws a packet-normalised delay from the
	// bucket of the flow's size, independently, and adds up the delays of the path.
	Independent Name = iota
	// Flow follows the packets of each flow (package flow). Link cases exchange, in two passes, what the packets of their
	// flows observed (FeedbackBuilder). The case of the flow's own host then replays the flow with complete
	// feedback (Simulator.Replay). So waits at different links add up where packets meet them one after the
	// other; a rate that several links reduce at the same time is reduced once, because one sender reacts to
	// all marks; and the wait for the host's NIC and the limit of the window count once.
	Flow
	// Exact simulates every packet of every flow over all hops (package exact). It has no error of its own, but one
	// simulation cannot be divided into link cases: it takes longer than a few passes where there are many cores.
	Exact
)

var all = []string{"independent", "flow", "exact"}

// String returns the estimator's name, as in --estimator and in the lake.
func (e Name) String() string { return all[e] }

// Parse returns the estimator of a name.
func Parse(name string) (Name, error) {
	i := slices.Index(all, name)
	if i < 0 {
		return 0, fmt.Errorf("no estimator %q: must be one of %v", name, all)
	}
	return Name(i), nil
}
