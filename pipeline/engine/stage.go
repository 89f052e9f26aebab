package engine

import (
	"context"
	"fmt"
	"slices"

	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// A Task is the unit of work of a stage, of retries and of resumed runs.
type Task struct {
	Lo   int64 `json:"lo"` // rows of table flows or links, from Lo up to, but not including, Hi
	Hi   int64 `json:"hi"`
	Cost int64 `json:"cost"` // in the stage's unit of progress
	Rows int64 `json:"rows"` // number of rows that the task holds in memory
}

// A Stage is one step of the method, applied to one scenario.
type Stage struct {
	Name    string
	Pass    int // starts from 1; 0 for a stage that runs once per estimate
	Place   lake.Place
	Command string // command line that runs the stage alone, for messages
	Unit    string // unit of progress and of Task.Cost

	Reads  []Output
	Writes []schema.Table

	// BytesPerRow is the approximate memory, in bytes, that a task needs per row of Task.Rows.
	BytesPerRow int64
	// Cut divides the stage into tasks. prior is the previous division; nil if there is none.
	Cut func(in *Inputs, prior []Task) ([]Task, error)
	// Open reads what all tasks share, and returns the worker that runs them.
	Open func(in *Inputs) (Worker, error)
	// Work returns the approximate duration of each task, in any unit. The longest tasks begin first. If Work
	// is nil, Task.Cost is used.
	Work func(in *Inputs, tasks []Task) ([]int64, error)
	// Check returns an error if the settings of this run do not accept the results of the complete stage.
	Check func(stage Records) error
}

// A Worker runs one task. It is safe for concurrent use. It reads with t.Read, writes with t.Sink and reports
// progress with t.Add. The engine closes the streams that a worker has read and commits its output.
type Worker func(ctx context.Context, t *Attempt) error

// Always returns the Open of a stage whose tasks share no data.
func Always(work Worker) func(*Inputs) (Worker, error) {
	return func(*Inputs) (Worker, error) { return work, nil }
}

// An Output is one table of the stage that writes it.
type Output struct {
	Stage *Stage
	Table schema.Table
}

// Output returns the stage's output for a table.
func (s *Stage) Output(t schema.Table) Output { return Output{s, t} }

// String returns the name of the stage in messages.
func (s *Stage) String() string {
	if s.Pass > 0 {
		return fmt.Sprintf("%s %d", s.Name, s.Pass)
	}
	return s.Name
}

// StatePath returns the lake-relative path of a state file of the stage.
func (s *Stage) StatePath(elem ...string) string {
	return s.Place.StatePath(append([]string{s.Name}, elem...)...)
}

func recordName(n int) string { return fmt.Sprintf("task-%05d.json", n) }

// A Plan is the list of stages of an estimate. Each stage comes after the stages whose tables it reads.
type Plan []*Stage

// Find returns the stage with the given name and pass. For pass 0, it returns the last stage with the name.
// If there is none, it returns nil.
func (p Plan) Find(name string, pass int) (found *Stage) {
	for _, s := range p {
		if s.Name == name && (pass == 0 || s.Pass == pass) {
			found = s
		}
	}
	return found
}

// Writer returns the last stage that writes a table, or nil if there is none.
func (p Plan) Writer(t schema.Table) (writer *Stage) {
	for _, s := range p {
		if s.WritesTable(t) {
			writer = s
		}
	}
	return writer
}

// WritesTable reports whether the stage writes a table.
func (s *Stage) WritesTable(t schema.Table) bool {
	return slices.ContainsFunc(s.Writes, func(w schema.Table) bool { return w.Name == t.Name })
}

// reads reports whether the stage reads any of a stage's tables.
func (s *Stage) reads(o Output) bool {
	for _, r := range s.Reads {
		if same(r.Stage, o.Stage) && r.Table.Name == o.Table.Name {
			return true
		}
	}
	return false
}

// same reports whether two stages, possibly of different plans, have the same state.
func same(a, b *Stage) bool { return a.Name == b.Name && a.Place == b.Place }

// Begun reports whether the stage has recorded tasks, complete or not.
func (s *Stage) Begun(l *lake.Lake) bool { return l.Exists(s.StatePath("plan.json")) }

// Inputs are the records of the stages that a stage reads from. They are read and verified once, when the
// stage begins.
type Inputs struct {
	lake   *lake.Lake
	stages map[*Stage]Records
}

// inputs reads the records of all stages that s reads from.
func (e *Executor) inputs(s *Stage) (*Inputs, error) {
	in := &Inputs{lake: e.lake, stages: map[*Stage]Records{}}
	for _, o := range s.Reads {
		if _, ok := in.stages[o.Stage]; ok {
			continue
		}
		r, err := e.Records(o.Stage)
		if err != nil {
			return nil, err
		}
		in.stages[o.Stage] = r
	}
	return in, nil
}

// check returns an error if an older program ran a stage without one of the tables that a stage reads.
func (in *Inputs) check(s *Stage) error {
	for _, o := range s.Reads {
		lacks := func(rec *Record) bool { return rec.lacks(o.Table) }
		if slices.ContainsFunc(in.stages[o.Stage].Done, lacks) {
			return &IncompleteError{Stage: o.Stage, Why: "an older version ran it, without table " + o.Table.Name}
		}
	}
	return nil
}

// Records returns the records of a stage that the stage reads from.
func (in *Inputs) Records(s *Stage) Records {
	r, ok := in.stages[s]
	if !ok {
		panic(fmt.Sprintf("engine: stage %s is not declared as an input", s))
	}
	return r
}

// Files returns the data files of a table, in the order of the tasks that wrote them.
func (in *Inputs) Files(o Output) []lake.DataFile { return in.Records(o.Stage).Files(o.Table) }

// Read streams a table; see lake.Lake.Read. The caller closes the stream.
func (in *Inputs) Read(o Output, keep *lake.Range) schema.Batches {
	return in.lake.Read(o.Table, in.Files(o), keep)
}
