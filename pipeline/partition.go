package pipeline

import (
	"parsimon/pipeline/engine"
	"parsimon/stages"
)

// Rows that a partition of links should have, so that several fit the memory of a worker (about 100 bytes a row, and
// the observations): more where there are many partitions, since each reads from every file of hops. minPartitions
// keeps several workers busy on a small scenario.
const (
	partitionRows    = 500_000
	maxPartitionRows = 2_000_000
	manyPartitions   = 64
	minPartitions    = 16
)

func everyLink(int32) bool { return true }

// simulated says which links have a case of their own.
func simulated(of []int32) func(int32) bool {
	if of == nil {
		return everyLink
	}
	return func(id int32) bool { return of[id] == id }
}

// linkTasks cuts the wanted links into ranges. Unless a number of partitions is asked for, a stage that was begun keeps
// its ranges.
func (m *method) linkTasks(loads *stages.Loads, want func(int32) bool, prior []engine.Task) []engine.Task {
	if m.Partitions > 0 || len(prior) == 0 {
		return m.cutLinks(loads, want, minPartitions)
	}
	tasks := make([]engine.Task, len(prior))
	for n, p := range prior {
		tasks[n] = rangeTask(loads, want, p.Lo, p.Hi)
	}
	return tasks
}

// rangeTask is the task of links lo to hi.
func rangeTask(loads *stages.Loads, want func(int32) bool, lo, hi int64) engine.Task {
	t := engine.Task{Lo: lo, Hi: hi}
	for id := lo; id < hi; id++ {
		t.Rows += loads.Links[id].Flows
		if want(int32(id)) {
			t.Cost += loads.Links[id].Packets
		}
	}
	return t
}

// cutLinks cuts the wanted links into as many ranges as are asked for, or at least so many.
func (m *method) cutLinks(loads *stages.Loads, want func(int32) bool, least int64) []engine.Task {
	return cutLinks(loads, want, int64(m.Partitions), least)
}

// cutLinks cuts the wanted links into a number of ranges of about the same cost; 0: by size, at least so many. Then the
// ranges depend on nothing but the workload, so that runs with other settings find each other's results.
func cutLinks(loads *stages.Loads, want func(int32) bool, ranges, least int64) []engine.Task {
	var rows, packets int64
	for id, l := range loads.Links {
		if want(int32(id)) {
			rows += l.Flows
			packets += l.Packets
		}
	}
	if ranges <= 0 {
		size := min(max(partitionRows, rows/manyPartitions), maxPartitionRows)
		ranges = max(least, (rows+size-1)/size)
	}
	var tasks []engine.Task
	var lo, cost int64
	left := packets
	for id, l := range loads.Links {
		if !want(int32(id)) {
			continue
		}
		share := left / max(1, ranges-int64(len(tasks)))
		if cost > 0 && cost+l.Packets/2 > share && int64(len(tasks)) < ranges-1 {
			tasks = append(tasks, rangeTask(loads, want, lo, int64(id)))
			lo, left, cost = int64(id), left-cost, 0
		}
		cost += l.Packets
	}
	return append(tasks, rangeTask(loads, want, lo, int64(len(loads.Links))))
}
