// Package stages is the estimation method: from flows on a network to the slowdown of every flow.
//
//	flows
//	  │ route                 path of each flow → its hops, by link
//	  ▼
//	hops ═══ barrier 1: a link case needs all of its flows
//	  │ simulate              link case of each link → observations of each flow's packets   ◄──┐
//	  ▼                                                                                         │ one pass
//	observations ═══ barrier 2: a flow needs all of its hops                                    │
//	  │ feedback              observations at the other hops → feedback of each hop  ───────────┘
//	  ▼ after the last pass
//	sender feedback
//	  │ replay                hosts' uplinks with complete feedback → an FCT of each flow
//	  ▼
//	sample                    FCTs by replay and by link cases → slowdown, and what each hop contributes
//	  ▼
//	intervals, warnings       confidence intervals of percentiles; conditions of lower accuracy
//
// That is estimator Flow. Estimator Independent is the paper's: it has one pass, and in place of feedback and replay
// the stage bucket, from hop delays of each link to delay distributions by flow size and to a random draw for each hop.
// With clustering, only one link of each cluster is simulated, and the delays at the others are drawn from the
// representative's.
//
// Stages read and write record batches (schema.Batches, schema.Sink). They do not know files, tasks, workers or
// retries; package pipeline does. The files that users provide are read by the packages below: stages/topology,
// stages/workload and stages/ingest.
//
// A stage's object is the reusable memory of one worker. What it writes is a function of its input alone: it does
// not depend on partitions, on the order of tasks or on the worker. Random numbers are keyed by seed, purpose and
// id (stages/rng). The columns that a stage reads of a table are the fields of a struct (columns.Each).
package stages

import (
	"fmt"
	"slices"
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
