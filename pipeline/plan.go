package pipeline

import "parsimon/stages"

// chunkTasks are the tasks of stages that work on a file of flows at a time.
func chunkTasks(flows []part) []task {
	tasks := make([]task, len(flows))
	var row int64
	for n, p := range flows {
		tasks[n] = task{row, row + p.Rows, p.Rows}
		row += p.Rows
	}
	return tasks
}

// Rows a partition of links should have, so that it fits the memory of a worker several times over
// (about 100 bytes a row, and what packets met): more where there are many partitions, since each
// reads from every file of hops. And the least number of partitions, so that a small scenario too
// keeps some workers busy.
const (
	partitionRows     = 500_000
	partitionRowsMost = 2_000_000
	partitionsMany    = 64
	minPartitions     = 16
)

// everyLink and the like say which links a stage has cases for.
func everyLink(int32) bool { return true }

// linkTasks cuts the wanted links into ranges for a stage. Unless a number of them is asked for, a stage
// that was begun keeps its ranges, and in a scenario made from another has the base's, which can be
// shared where they are the same.
func (r *Run) linkTasks(s stage, loads *stages.Loads, want func(int32) bool) []task {
	if r.partitions > 0 {
		return r.cutLinks(loads, want)
	}
	old, _, found, err := s.records(r.lake)
	if r.from != nil && (err != nil || !found) {
		s.place.scenario = r.from.base.ScenarioID
		old, _, found, err = s.records(r.lake)
	}
	if err != nil || !found || old.Method != methodVersion || len(old.Tasks) == 0 {
		return r.cutLinks(loads, want)
	}
	for n := range old.Tasks {
		t := &old.Tasks[n]
		t.Cost = 0
		for id := t.Lo; id < t.Hi; id++ {
			if want(int32(id)) {
				t.Cost += loads.Links[id].Packets
			}
		}
	}
	return old.Tasks
}

// cutLinks cuts the wanted links into ranges of about the same cost. The number of ranges depends on the
// workload only, so that runs with other workers find each other's work.
func (r *Run) cutLinks(loads *stages.Loads, want func(int32) bool) []task {
	return r.cutLinksInto(loads, want, minPartitions)
}

// cutLinksInto is cutLinks into so many ranges at least.
func (r *Run) cutLinksInto(loads *stages.Loads, want func(int32) bool, least int64) []task {
	var rows, packets int64
	for id, l := range loads.Links {
		if !want(int32(id)) {
			continue
		}
		rows += l.Flows
		packets += l.Packets
	}
	ranges := int64(r.partitions)
	if ranges <= 0 {
		size := min(max(partitionRows, rows/partitionsMany), partitionRowsMost)
		ranges = max(least, (rows+size-1)/size)
	}
	var tasks []task
	var lo, cost int64
	left := packets
	for id, l := range loads.Links {
		if !want(int32(id)) {
			continue
		}
		share := left / max(1, ranges-int64(len(tasks)))
		if cost > 0 && cost+l.Packets/2 > share && int64(len(tasks)) < ranges-1 {
			tasks = append(tasks, task{lo, int64(id), cost})
			lo, left, cost = int64(id), left-cost, 0
		}
		cost += l.Packets
	}
	return append(tasks, task{lo, int64(len(loads.Links)), cost})
}
