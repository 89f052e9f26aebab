package step

import (
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/moves"
	"parsimon/stages/topology"
)

// A Model is what every step knows about a scenario, except for its flows.
type Model struct {
	Network *topology.Network
	Router  *topology.Router
	Params  simkernel.Params // of the transport
	Buffers network.BufferParams
	Classes []TrafficClass // queues of ports, from SettleClasses; nil: each port has one
	Moves   *moves.Moves   // nil: each flow has one path
	Seed    uint64
	// Unreachable says how flows between hosts without a path are treated.
	Unreachable Unreachable
	// Acks says when ACKs arrive.
	Acks Acks
}

// Unreachable says how flows without a path are treated.
type Unreachable uint8

const (
	// RefuseUnreachable treats them as an error.
	RefuseUnreachable Unreachable = iota
	// CountUnreachable counts them. They have no hops.
	CountUnreachable
)

// Acks says when the ACKs of a link's flows arrive.
type Acks uint8

const (
	// SpreadAcks are spread evenly over the time of the workload (paper, §3.2).
	SpreadAcks Acks = iota
	// SimultaneousAcks arrive while the reverse link sends, according to routing.
	SimultaneousAcks
)

// Options are the options of estimators.
type Options struct {
	// Passes is the number of passes of link cases, for estimators that make several.
	Passes int
	// ClusterError is the accepted error of clusters of links, a fraction. If it is 0, links are not
	// clustered.
	ClusterError float64
	// Intervals says whether the estimate has intervals and warnings.
	Intervals Intervals
	// Cache stores results of link cases. It may be nil.
	Cache CaseStore
}

// Intervals says whether an estimate has intervals and warnings.
type Intervals uint8

// Estimates have intervals and warnings, or slowdowns only.
const (
	WithIntervals Intervals = iota
	WithoutIntervals
)

// CaseKey is the digest of everything that the result of a link case depends on: the version of the kernel,
// the constants of the transport, and the case itself, with the starts of its flows relative to the first.
// Cases with the same key have the same result in any scenario, run or link.
type CaseKey [16]byte

// CaseStore caches results of link cases. It is safe for concurrent use.
type CaseStore interface {
	// Lookup appends the result stored under the key to dst. ok is false if there is no verified result.
	Lookup(key CaseKey, dst []byte) (result []byte, ok bool)
	// Store keeps a copy of a result. It does not report failures, because a run can continue without the
	// cache.
	Store(key CaseKey, result []byte)
}
