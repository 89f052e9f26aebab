package stages

import (
	"fmt"
	"slices"
	"strings"
)

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

// Without says which ingredients of estimator Flow are left out, for studies of what each is worth.
type Ablation uint8

// The ingredients that can be left out.
const (
	AblateFeeder    Ablation = 1 << iota // the link before the target
	AblateRoundTrip                      // what packets and ACKs need to be sent on links outside the case
	AblateNICWaits                       // link cases are not told what the host's other flows cost
	AblateWaits                          // link cases are not told what packets waited elsewhere
	AblateMarks                          // nobody is told what was marked elsewhere
	AblateDamping                        // link cases are told the newest pass alone
)

var ablationNames = []string{"feeder", "round-trip", "nic-waits", "waits", "marks", "damping"}

// WithoutNames lists the ingredients that can be left out.
func AblationNames() []string { return ablationNames }

// String names the ingredients, joined by plus signs; nothing for none.
func (w Ablation) String() string {
	var names []string
	for i, n := range ablationNames {
		if w&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, "+")
}

// ParseWithout is the inverse of String.
func ParseAblation(text string) (Ablation, error) {
	var w Ablation
	if text == "" {
		return w, nil
	}
	for _, name := range strings.Split(text, "+") {
		i := slices.Index(ablationNames, name)
		if i < 0 {
			return w, fmt.Errorf("no ingredient %q: must be of %v, joined by +", name, ablationNames)
		}
		w |= 1 << i
	}
	return w, nil
}
