package exact

import (
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// activeFlows are the flows in the network. The engine refers to a flow by its tag.
type activeFlows struct {
	flows   []activeFlow // by tag; only newTags appends
	free    []int32      // tags that no flow uses
	awaited int          // flows that have been read, must be reported and have not finished
	allRead bool
}

// newTags appends n tags that no flow uses and removes them from the free ones.
func (a *activeFlows) newTags(tags []int32, n int) []int32 {
	for len(a.free) < n {
		a.free = append(a.free, int32(len(a.flows)))
		a.flows = append(a.flows, activeFlow{})
	}
	rest := len(a.free) - n
	tags = append(tags, a.free[rest:]...)
	a.free = a.free[:rest]
	return tags
}

// count returns the number of flows in the network.
func (a *activeFlows) count() int { return len(a.flows) - len(a.free) }

// An activeFlow has what the engine does not store about a flow in the network.
type activeFlow struct {
	number               int64 // of the engine
	row, id, size, start int64
	path                 []int32
	src, dst             int32
	connection           int64
	background           bool
	labels               workload.Labels // if Tables.Report is set
}

// reports reports whether a flow has a row in the results.
func (x *simulation) reports(f *activeFlow) bool {
	return x.options.reports(f.start) && (x.out.Report == nil || !f.background)
}

// slowdown returns the flow's row without the results of the simulation.
func (f *activeFlow) slowdown() tables.SlowdownRow {
	return tables.SlowdownRow{FlowID: f.id, FlowRow: f.row, Src: f.src, Dst: f.dst, Labels: f.labels,
		SizeBytes: f.size, StartNS: f.start, Hops: int16(len(f.path))}
}
