package stages

import (
	"context"
	"errors"
	"fmt"

	"parsimon/simkernel"
)

// A LinkBackend says what simulates link cases.
type Backend uint8

const (
	// Kernel is the link kernel, package simkernel.
	Kernel Backend = iota
	// NS3Backend is the paper's ns-3, a program of its own (NS3). It answers FCTs alone.
	NS3Backend
)

var linkBackendNames = []string{"kernel", "ns3"}

// String is the backend's name, as in --link-backend.
func (b Backend) String() string { return linkBackendNames[b] }

// LinkBackendNames lists the backends.
func BackendNames() []string { return linkBackendNames }

// ParseLinkBackend finds a backend by name.
func ParseBackend(name string) (Backend, error) {
	for i, n := range linkBackendNames {
		if n == name {
			return Backend(i), nil
		}
	}
	return 0, fmt.Errorf("no link backend %q: must be one of %v", name, linkBackendNames)
}

var errNS3Estimator = errors.New("ns-3 does not say what each packet waited, which estimator flow goes by: --link-backend ns3 goes with --estimator independent")

// CheckLinkBackend says whether an estimator can go by what a backend answers.
func CheckBackend(b Backend, e Estimator) error {
	if b == NS3Backend && e != Independent {
		return errNS3Estimator
	}
	return nil
}

// A CaseSolver simulates one link case in the place of the link kernel. It fills in the FCTs and ideal
// FCTs of r and leaves its counters zero. It serves several goroutines.
type CaseSolver interface {
	Simulate(ctx context.Context, c *simkernel.Case, targetDelayNS int64, p *simkernel.Params, r *simkernel.Result) error
}
