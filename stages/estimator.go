package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// Estimator says how the slowdowns of flows are found.
type Estimator uint8

const (
	// Independent is the paper's estimator (§3.4): at each hop it draws a packet-normalised delay from the
	// bucket of the flow's size, independently, and adds up the delays of the path.
	Independent Estimator = iota
	// Flow follows the packets of each flow. Link cases exchange, in two passes, what the packets of their
	// flows observed (FeedbackBuilder). The case of the flow's own host then replays the flow with complete
	// feedback (Simulator.Replay). So waits at different links add up where packets meet them one after the
	// other; a rate that several links reduce at the same time is reduced once, because one sender reacts to
	// all marks; and the wait for the host's NIC and the limit of the window count once.
	Flow
	// WholeNetwork simulates every packet of every flow over all hops (Exact). It has no error of its own, but one
	// simulation cannot be divided into link cases: it takes longer than a few passes where there are many cores.
	WholeNetwork
)

var estimatorNames = []string{"independent", "flow", "exact"}

// String returns the estimator's name, as in --estimator and in the lake.
func (e Estimator) String() string { return estimatorNames[e] }

// ParseEstimator returns the estimator of a name.
func ParseEstimator(name string) (Estimator, error) {
	i := slices.Index(estimatorNames, name)
	if i < 0 {
		return 0, fmt.Errorf("no estimator %q: must be one of %v", name, estimatorNames)
	}
	return Estimator(i), nil
}

// Backend is what simulates link cases.
type Backend uint8

const (
	// Kernel is the link kernel, package simkernel.
	Kernel Backend = iota
	// NS3Backend is the paper's ns-3 as a separate program, package stages/ns3. It yields FCTs only.
	NS3Backend
)

var backendNames = []string{"kernel", "ns3"}

// String returns the backend's name, as in --link-backend.
func (b Backend) String() string { return backendNames[b] }

// ParseBackend returns the backend of a name.
func ParseBackend(name string) (Backend, error) {
	i := slices.Index(backendNames, name)
	if i < 0 {
		return 0, fmt.Errorf("no link backend %q: must be one of %v", name, backendNames)
	}
	return Backend(i), nil
}

var errNS3Estimator = errors.New("ns-3 does not report the wait of each packet, which estimator flow needs: " +
	"use --link-backend ns3 with --estimator independent")

var errNoCases = errors.New("estimator exact runs no link cases: --link-backend does nothing there")

// CheckBackend returns an error if an estimator needs more than a backend yields.
func CheckBackend(b Backend, e Estimator) error {
	switch {
	case b == Kernel || e == Independent:
		return nil
	case e == WholeNetwork:
		return errNoCases
	}
	return errNS3Estimator
}

// CaseSolver simulates one link case in place of the link kernel. It sets the FCTs and ideal FCTs of r and
// leaves its counters zero. It is safe for use by several goroutines.
type CaseSolver interface {
	Simulate(ctx context.Context, c *linkcase.Case, targetDelayNS int64, p *simkernel.Params,
		r *linkcase.Result) error
}
