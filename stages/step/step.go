// Package step has what the parts of the method share: the model of a scenario, and the steps of an estimate as data.
//
//	estimator ─► steps: what each reads and writes, how it is cut into tasks ─┬─► method.Run: in memory
//	                                                                          └─► package pipeline: files, workers, repair
//
// A step begins when all of what it reads is complete: that is the barrier. Its tasks do not depend on each other, and
// what they write does not depend on how the step is cut.
package step

import (
	"context"

	"parsimon/schema"
)

// A Step is one step of an estimate.
type Step struct {
	Name string
	// Pass counts the steps of one name from 1; 0: the step runs once per estimate.
	Pass   int
	Reads  []Output
	Writes []schema.Table
	Cut    Cut
	// Open reads what all tasks share, and returns the function that does a task.
	Open func(in Inputs) (Work, error)
	// Costs is about how long each task takes, in any unit; nil: Task.Cost of the cut.
	Costs func(in Inputs, tasks []Range) ([]int64, error)

	// Unit is the unit of progress.
	Unit string
	// BytesPerRow is about what a task holds in memory per row that it reads.
	BytesPerRow int64
	// Sharing says which estimates share what the step writes.
	Sharing Sharing
	// Owner is the estimator whose step it is (Estimator.Plan).
	Owner *Owner
}

// Sharing says which estimates share what a step writes.
type Sharing uint8

const (
	// ByEstimator: those of the same estimator with the same options.
	ByEstimator Sharing = iota
	// ByScenario: all estimates of the scenario.
	ByScenario
)

// WritesTable reports whether a step writes a table.
func (s *Step) WritesTable(t schema.Table) bool {
	for _, w := range s.Writes {
		if w.Name == t.Name {
			return true
		}
	}
	return false
}

// An Output is one table of the step that writes it.
type Output struct {
	Step  *Step
	Table schema.Table
}

// Output names one of the step's tables.
func (s *Step) Output(t schema.Table) Output { return Output{s, t} }

// A Work does one task. It may be called for several tasks at the same time.
type Work func(ctx context.Context, t Task) error

// Always is the Open of a step whose tasks share nothing.
func Always(work Work) func(Inputs) (Work, error) {
	return func(Inputs) (Work, error) { return work, nil }
}

// WithMemory is a Work that does each task in memory that no other task uses at the same time: made by newMemory, or
// left by a task that is done.
func WithMemory[M any](newMemory func() (M, error), work func(context.Context, M, Task) error) Work {
	idle := make(chan M, 1<<10)
	return func(ctx context.Context, t Task) error {
		memory, err := takeIdle(idle, newMemory)
		if err != nil {
			return err
		}
		if err := work(ctx, memory, t); err != nil {
			return err // the memory may hold what the failed task has left
		}
		select {
		case idle <- memory:
		default: // enough are idle
		}
		return nil
	}
}

func takeIdle[M any](idle chan M, newMemory func() (M, error)) (M, error) {
	select {
	case memory := <-idle:
		return memory, nil
	default:
		return newMemory()
	}
}

// A Range is rows of table flows, or links, from Lo to Hi, excluded.
type Range struct{ Lo, Hi int64 }

// By says what a step is cut by.
type By uint8

const (
	// Whole steps are one task.
	Whole By = iota
	// ByFlows cuts a step into the chunks of table flows: a task for each part that was written.
	ByFlows
	// ByLinks cuts a step into ranges of links of about the same number of packets.
	ByLinks
	// LikeStep cuts a step as the step that wrote Cut.Of was cut: each task reads what the task of the same number
	// wrote.
	LikeStep
)

// A Cut says how a step is cut into tasks.
type Cut struct {
	By By
	// Of is the table that decides: for ByLinks, what each link carries; for LikeStep, a table of that step.
	Of Output
	// Wants selects the links whose packets count for ByLinks; nil: all.
	Wants func(in Inputs) (func(link int32) bool, error)
	// Cost is the unit of the cost of a range of links.
	Cost Cost
	// Size returns the rows and the cost of the one task of a whole step; nil: it has none.
	Size func(in Inputs) (rows Range, cost int64, err error)
}

// Cost is the unit of the cost of ranges of links.
type Cost uint8

// Costs of ranges of links: the packets of those that are wanted, or all flows.
const (
	Packets Cost = iota
	Flows
)

// Inputs reads the tables that the earlier steps wrote. A caller closes what it reads, as columns.Each does.
type Inputs interface {
	// Read streams a table; of several outputs, one after the other. It may leave out rows outside of the selection.
	Read(keep Selection, of ...Output) schema.Batches
	// Part streams what the task number n of a step wrote.
	Part(o Output, n int) schema.Batches
	// Tasks are the tasks of a step.
	Tasks(s *Step) []Range
	// Workload describes the flows.
	Workload() (Workload, error)
}

// A Selection is the rows of a table whose column is from Lo to Hi, excluded. The zero value selects all rows.
type Selection struct {
	Column string
	Range
}

// All selects all rows.
var All = Selection{}

// A Task is one task of a step.
type Task interface {
	Inputs
	Number() int
	Range() Range
	// Sink takes the task's rows of a table; nil if the step does not write it.
	Sink(t schema.Table) schema.Sink
	// Add reports progress.
	Add(n int64)
	// Warn tells the user what is known before the work is done.
	Warn(text string)
	// Note keeps statistics of the task: a value with JSON names. criticalNS is the time of its longest piece that
	// cannot be divided; below 0: the whole task is one piece.
	Note(stats any, criticalNS int64)
	// Workers is how many workers a step of one task may use.
	Workers() int
	// Parallel calls do for 0 to n-1 on these workers.
	Parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error
}

// Select selects the rows of a column in the task's range.
func Select(t Task, column string) Selection { return Selection{column, t.Range()} }

// A Workload describes the flows of a scenario.
type Workload struct {
	Flows        int64
	FirstStartNS int64
	LastStartNS  int64
	// Closed: flows wait for others, or are compute steps.
	Closed bool
	// Notes are remarks about the flows, for the user.
	Notes []string
}
