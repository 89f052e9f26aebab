package stages

import "fmt"

// An Estimator says how link cases become the slowdowns of flows.
type Estimator uint8

const (
	// Independent is the paper's (§3.4): at each hop an independent draw of the packet-normalised
	// delay from the bucket of the flow's size; delays add up.
	Independent Estimator = iota
	// Flow follows each flow's own packets. Link cases tell each other, in passes, what the packets of
	// their flows met (Relaxer); then the case of the flow's own host, told what its packets met on
	// the rest of the path, plays its whole journey (Simulator.Senders). So waits at different links
	// add up where packets meet them one after the other; rate that is lost to several links at the
	// same time is lost once, because one sender reacts to all marks; the host's own NIC is charged
	// once; and so is a window below the bandwidth-delay product.
	Flow
)

var estimatorNames = []string{"independent", "flow"}

// String is the estimator's name, as in --estimator and in the lake.
func (e Estimator) String() string { return estimatorNames[e] }

// EstimatorNames lists the estimators.
func EstimatorNames() []string { return estimatorNames }

// ParseEstimator finds an estimator by name.
func ParseEstimator(name string) (Estimator, error) {
	for i, n := range estimatorNames {
		if n == name {
			return Estimator(i), nil
		}
	}
	return 0, fmt.Errorf("no estimator %q: must be one of %v", name, estimatorNames)
}
