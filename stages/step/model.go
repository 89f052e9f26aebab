package step

import (
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/moves"
	"parsimon/stages/topology"
)

// A Model is what every step knows of a scenario, except for its flows.
type Model struct {
	Network *topology.Network
	Router  *topology.Router
	Params  simkernel.Params // of the transport
	Buffers network.BufferParams
	Classes []TrafficClass // the queues of ports, as SettleClasses has them; nil: all data wait in one
	Moves   *moves.Moves   // nil: each flow has one path
	Seed    uint64
	// Unreachable says what happens to flows between hosts without a path.
	Unreachable Unreachable
	// Acks says when ACKs come.
	Acks Acks
}

// Unreachable says what happens to flows without a path.
type Unreachable uint8

const (
	// RefuseUnreachable makes them an error.
	RefuseUnreachable Unreachable = iota
	// CountUnreachable counts them instead. They have no hops.
	CountUnreachable
)

// Acks says when the ACKs of a link's flows come.
type Acks uint8

const (
	// SpreadAcks: as if they were spread over the workload's time (paper, §3.2).
	SpreadAcks Acks = iota
	// SimultaneousAcks: while the reverse link sends, as routing finds it.
	SimultaneousAcks
)

// Options are the options of estimators.
type Options struct {
	// Passes of link cases, for an estimator that has several.
	Passes int
	// ClusterError is the accepted error of clusters of links, a fraction; 0: links are not clustered.
	ClusterError float64
	// Intervals says whether the estimate has intervals and warnings.
	Intervals Intervals
	// Cache stores results of link cases; nil: none.
	Cache CaseStore
}

// Intervals says whether an estimate has intervals and warnings.
type Intervals uint8

// Estimates have intervals and warnings, or slowdowns only.
const (
	WithIntervals Intervals = iota
	WithoutIntervals
)

// CaseKey is the digest of everything that the result of a link case depends on: the version of the kernel, the
// transport's constants, and the case itself with its flows' starts relative to the first. Cases of the same key have the
// same result, in any scenario, run or link.
type CaseKey [16]byte

// CaseStore caches results of link cases. It is safe for use by several goroutines.
type CaseStore interface {
	// Lookup appends the result stored under the key to dst. ok is false if there is no verified result.
	Lookup(key CaseKey, dst []byte) (result []byte, ok bool)
	// Store keeps a copy of a result. It does not report failures: a run does not fail for them.
	Store(key CaseKey, result []byte)
}
