package stages

import "fmt"

// An Estimator says what each hop adds to a flow's FCT, and how hops combine.
type Estimator uint8

const (
	// Independent is the paper's (§3.4): at each hop an independent draw of the packet-normalised
	// delay from the bucket of the flow's size; delays add up.
	Independent Estimator = iota
	// Flow takes each flow's own delay at each hop, which keeps the correlation between hops that
	// draws throw away. Of a flow's delay at a hop, the wait of its last packet in the queue is time
	// that nothing else can hide: waits at successive hops add up. The rest is rate lost to other
	// flows and to the host's own NIC. A flow runs at the rate of its tightest hop, and every link
	// case charges the same NIC again, so of the rest only the largest counts.
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

// combine is the delay of a flow from its delays at its hops, in path order, and the waits in them.
func (e Estimator) combine(delays, waits []float64) float64 {
	var sum, rest float64
	for h, d := range delays {
		if e == Flow {
			sum += waits[h]
			rest = max(rest, d-waits[h])
		} else {
			sum += d
		}
	}
	return sum + rest
}
