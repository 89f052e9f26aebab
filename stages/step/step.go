// Package step defines what the parts of the method share: the model of a scenario, and the steps of an
// estimate as data.
//
//	estimator ─► steps: what each reads and writes, how it is cut into tasks ─┬─► method.Run: in memory
//	                                                                          └─► pipeline: files, workers, repair
//
// A step begins when everything that it reads is complete; this is the barrier. Its tasks are independent of
// each other. The rows that it writes do not depend on how it is divided.
package step

import (
	"context"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// A Step is one step of an estimate.
type Step struct {
	Name string
	// Pass numbers the steps with the same name from 1. It is 0 if the step runs once per estimate.
	Pass   int
	Reads  []Output
	Writes []schema.Table
	Cut    Cut
	// Open reads what all tasks share and returns the function that runs a task.
	Open func(in Inputs) (Work, error)
	// Costs estimates how long each task takes, in any unit. If it is nil, the costs are those of the cut.
	Costs func(in Inputs, tasks []Range) ([]int64, error)

	// Unit is the unit of progress.
	Unit string
	// BytesPerRow is about how much memory a task needs per row that it reads, in bytes.
	BytesPerRow int64
	// Sharing says which estimates share what the step writes.
	Sharing Sharing
	// Owner is the estimator that the step belongs to (Estimator.Plan).
	Owner *Owner
}

// Sharing says which estimates share what a step writes.
type Sharing uint8

const (
	// ByEstimator means that estimates of the same estimator with the same options share it.
	ByEstimator Sharing = iota
	// ByScenario means that all estimates of the scenario share it.
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

// An Output is a table and the step that writes it.
type Output struct {
	Step  *Step
	Table schema.Table
}

// Output returns one of the step's tables.
func (s *Step) Output(t schema.Table) Output { return Output{s, t} }

// A Work runs one task. It may run several tasks at the same time.
type Work func(ctx context.Context, t Task) error

// Always returns the Open of a step whose tasks share nothing.
func Always(work Work) func(Inputs) (Work, error) {
	return func(Inputs) (Work, error) { return work, nil }
}

// Copy returns a step that copies a table that another step wrote. Questions read only the tables that the
// steps of an estimator write. An estimator that uses the link cases of another estimator copies link_stats.
func Copy(name string, from Output) *Step {
	return &Step{
		Name:        name,
		Reads:       []Output{from},
		Writes:      []schema.Table{from.Table},
		Cut:         Cut{By: LikeStep, Of: from},
		Unit:        "rows",
		BytesPerRow: 500,
		Open: Always(func(_ context.Context, t Task) error {
			return columns.ForEach(t.Part(from, t.Number()), t.Sink(from.Table).Write)
		}),
	}
}

// WithMemory returns a Work that gives each task memory that no other task uses at the same time. The memory
// comes from newMemory or from a task that has finished.
func WithMemory[M any](newMemory func() (M, error), work func(context.Context, M, Task) error) Work {
	idle := make(chan M, 1<<10)
	return func(ctx context.Context, t Task) error {
		memory, err := takeIdle(idle, newMemory)
		if err != nil {
			return err
		}
		if err := work(ctx, memory, t); err != nil {
			return err // the failed task may have left data in memory
		}
		select {
		case idle <- memory:
		default: // enough memory is idle
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

// A Range is rows Lo to Hi-1 of table flows, or links Lo to Hi-1.
type Range struct{ Lo, Hi int64 }

// By specifies what a step is divided by.
type By uint8

const (
	// Whole steps have one task.
	Whole By = iota
	// ByFlows divides a step by the chunks of table flows: one task for each part that was written.
	ByFlows
	// ByLinks divides a step into ranges of links with about the same number of packets.
	ByLinks
	// LikeStep divides a step like the step that wrote Cut.Of. Each task reads what the task with the same
	// number wrote.
	LikeStep
)

// A Cut specifies how a step is divided into tasks.
type Cut struct {
	By By
	// Of is the table that the cut depends on. For ByLinks it is the load of each link. For LikeStep it is a
	// table of that step.
	Of Output
	// Wants returns which links' packets count for ByLinks. If it is nil, all links count.
	Wants func(in Inputs) (func(link int32) bool, error)
	// Cost is the unit of the cost of a range of links.
	Cost Cost
	// Size returns the rows and the cost of the only task of a Whole step. If it is nil, these are not known.
	Size func(in Inputs) (rows Range, cost int64, err error)
}

// Cost is the unit of the cost of ranges of links.
type Cost uint8

// Costs of ranges of links: the packets of the wanted links, or all flows.
const (
	Packets Cost = iota
	Flows
)

// Inputs reads the tables that earlier steps wrote. The caller must close what it reads, as columns.Each
// does.
type Inputs interface {
	// Read streams a table. It streams several outputs one after another. It may omit rows outside the
	// selection.
	Read(keep Selection, of ...Output) schema.Batches
	// Part streams what task n of a step wrote.
	Part(o Output, n int) schema.Batches
	// Tasks returns the tasks of a step.
	Tasks(s *Step) []Range
	// Workload describes the flows.
	Workload() (Workload, error)
}

// A Selection selects the rows of a table whose column is at least Lo and below Hi. The zero value selects
// all rows.
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
	// Sink returns the sink for the task's rows of a table, or nil if the step does not write the table.
	Sink(t schema.Table) schema.Sink
	// Add reports progress.
	Add(n int64)
	// Warn shows the user a warning that is known before the work is done.
	Warn(text string)
	// Note keeps statistics of the task, a value with JSON names. criticalNS is the time, in ns, of its
	// longest part that cannot be divided. It is below 0 if the whole task cannot be divided.
	Note(stats any, criticalNS int64)
	// Workers returns the number of workers that a step with one task may use.
	Workers() int
	// Parallel calls do for 0 to n-1 on these workers.
	Parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error
}

// Select selects the rows whose column is in the task's range.
func Select(t Task, column string) Selection { return Selection{column, t.Range()} }

// A Workload describes the flows of a scenario.
type Workload struct {
	Flows        int64
	FirstStartNS int64
	LastStartNS  int64
	// Closed says that flows wait for others or are compute steps.
	Closed bool
	// Notes are remarks about the flows, for the user.
	Notes []string
}
