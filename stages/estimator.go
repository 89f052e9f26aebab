package stages

import (
	"fmt"
	"slices"
	"strings"
)

// Estimator says how the slowdowns of flows are found.
type Estimator uint8

const (
	// Independent is the paper's estimator (§3.4): at each hop it draws a packet-normalised delay from the
	// bucket of the flow's size, independently, and adds up the delays of the path.
	Independent Estimator = iota
	// Flow follows the packets of each flow. Link cases exchange, in passes, what the packets of their flows
	// observed (FeedbackBuilder). The case of the flow's own host then replays the flow with complete
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

// Ablation is a set of ingredients of estimator Flow that are left out, to measure what each contributes.
type Ablation uint8

// The ingredients that can be left out.
const (
	AblateFeeder    Ablation = 1 << iota // the link before the target, in link cases
	AblateRoundTrip                      // transmission times of packets and ACKs on links outside the case
	AblateNICWaits                       // feedback of NIC waits
	AblateWaits                          // feedback of queueing waits
	AblateMarks                          // feedback of ECN marks, in passes and replay
	AblateDamping                        // the mean with the feedback of the pass before
)

var ablationNames = []string{"feeder", "round-trip", "nic-waits", "waits", "marks", "damping"}

// AblationNames lists the names of the ingredients that can be left out.
func AblationNames() []string { return slices.Clone(ablationNames) }

// String returns the names of the ingredients, joined by plus signs; "" for none.
func (a Ablation) String() string {
	var names []string
	for i, n := range ablationNames {
		if a&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, "+")
}

// ParseAblation is the inverse of Ablation.String.
func ParseAblation(text string) (Ablation, error) {
	var a Ablation
	if text == "" {
		return a, nil
	}
	for _, name := range strings.Split(text, "+") {
		i := slices.Index(ablationNames, name)
		if i < 0 {
			return a, fmt.Errorf("no ingredient %q: must be of %v, joined by +", name, ablationNames)
		}
		a |= 1 << i
	}
	return a, nil
}
