package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

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
