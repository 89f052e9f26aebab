// Package connections merges the records of flow logs into flows, and stores the times at which the log saw
// their bytes.
//
//	records of all sources, as they are read                              collector.go, record.go
//	  │ sorted by connection and time
//	  ▼
//	records of one connection ─► without repeated ones ─► parts without   merge.go
//	  │                                                   idle times
//	  ▼ observers of one part are resolved, samples are scaled            flow.go, handover.go, exporters.go
//	flow without id ─────────────────────────────► its intervals          intervals.go
//	  │ sorted by second: starts are drawn                                starts.go
//	  ▼ sorted by start: ids                            │
//	table flows                                         ▼ sorted by start
//	                                           table workload_intervals
//
// The records of one flow are in memory.
package connections

import (
	"cmp"
	"strings"

	"parsimon/schema"
	"parsimon/stages/topology"
)

// Settings determine how records are merged into flows, and limit the resources of the merge.
type Settings struct {
	Network  *topology.Network
	Seed     uint64  // of the starts that are drawn
	GapSigma float64 // shape of the log-normal gaps between them
	// IdleNS separates flows of one connection: a record that starts later than this after the end of all
	// records before it begins another flow.
	IdleNS      int64
	TmpDir      string
	MemoryBytes int64 // for the rows that are sorted
}

// A Source is one source file. Open returns its batches of table records.
type Source struct {
	N    int32
	Open func() schema.Batches
}

// A Result describes the flows that were written. Records is the number of all records; each is in one flow.
type Result struct {
	Records   int64
	Repeated  int64 // records that an earlier source has, too, and that count once
	Flows     int64
	Synthetic int64 // flows whose start was not measured
	Intervals int64 // rows of table workload_intervals

	FirstStartNS, LastStartNS int64
	LastEndNS                 int64   // of the rows of table workload_intervals; 0 if there are none
	Bytes                     float64 // of all flows
	LargestBytes              int64   // of one flow

	// IntervalNS is the time over which exporters are resolved. It is ten times the duration of records, but
	// at least 5 minutes. 99% of the bytes are in records of at most this duration.
	IntervalNS int64
	Labels     []Label
	Gaps       []Gap
	Sampled    Sampled
	// Shared is the number of records, by connection and time, that a source has in common with the next
	// source that has them.
	Shared map[[2]int32]int64
}

// A Label counts the flows of one service and virtual network.
type Label struct {
	Service string `json:"service"`
	VNet    string `json:"vnet"`
	Flows   int64  `json:"flows"`
	Bytes   int64  `json:"bytes"`
}

// Compare orders labels by their bytes, most first.
func (l Label) Compare(m Label) int {
	return cmp.Or(cmp.Compare(m.Bytes, l.Bytes), strings.Compare(l.Service, m.Service),
		strings.Compare(l.VNet, m.VNet))
}

// A Gap is a time without starts of flows, from FromNS to before ToNS, that a complete log would not have.
type Gap struct{ FromNS, ToNS int64 }

// Sampled describes the flows of which packets were sampled.
type Sampled struct {
	Flows       int64
	SampleBytes float64 // bytes that one sampled packet represents
	// Missing is a lower bound of the number of flows without a sampled packet, from the numbers of flows
	// with one and with two (A. Chao, "Nonparametric estimation of the number of classes in a population",
	// 1984).
	Missing float64
}
