package method

import (
	"context"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// Tables holds the tables that the steps of an estimate wrote. It implements step.Inputs.
type Tables struct {
	partitions int
	workload   step.Workload
	tasks      map[*step.Step][]step.Range
	parts      map[*step.Step]map[string][]*tables.Memory // by step and table: of each task
	order      []*step.Step
}

// newTables returns tables that hold the flows, in chunks, and the step that counts as their writer.
func newTables(flows []workload.Row, chunks int) (*Tables, *step.Step, error) {
	source := &step.Step{Name: "generate", Writes: []schema.Table{schema.Flows, schema.Dependencies}}
	t := &Tables{
		partitions: chunks,
		workload:   step.Workload{Flows: int64(len(flows))},
		tasks:      map[*step.Step][]step.Range{},
		parts:      map[*step.Step]map[string][]*tables.Memory{},
	}
	var all []step.Range
	for i := range chunks {
		all = append(all, step.Range{Lo: int64(i * len(flows) / chunks), Hi: int64((i + 1) * len(flows) / chunks)})
	}
	t.addStep(source, all)
	for i, c := range all {
		part := flows[c.Lo:c.Hi]
		if err := workload.RowTable.Write(t.sink(source, schema.Flows, i), part); err != nil {
			return nil, nil, err
		}
	}
	if len(flows) > 0 {
		t.workload.FirstStartNS = flows[0].StartNS
		t.workload.LastStartNS = flows[len(flows)-1].StartNS
	}
	return t, source, nil
}

// addStep adds a step, which is divided into the given tasks, and empty tables for the output of each task.
func (t *Tables) addStep(s *step.Step, tasks []step.Range) {
	t.tasks[s] = tasks
	t.parts[s] = map[string][]*tables.Memory{}
	t.order = append(t.order, s)
	for _, table := range s.Writes {
		for range tasks {
			t.parts[s][table.Name] = append(t.parts[s][table.Name], &tables.Memory{})
		}
	}
}

func (t *Tables) sink(s *step.Step, table schema.Table, task int) *tables.Memory {
	return t.parts[s][table.Name][task]
}

// cut divides a step into tasks, as its Cut says, and adds it.
func (t *Tables) cut(m *Model, s *step.Step) ([]step.Range, error) {
	tasks := []step.Range{{}}
	switch s.Cut.By {
	case step.ByFlows:
		tasks = t.tasks[t.order[0]]
	case step.LikeStep:
		tasks = t.tasks[s.Cut.Of.Step]
	case step.ByLinks:
		loads, err := route.ReadLoads(m.Network, t.Read(step.All, s.Cut.Of))
		if err != nil {
			return nil, err
		}
		tasks = nil
		for _, r := range loads.Cut(route.EveryLink, t.partitions) {
			tasks = append(tasks, r.Range)
		}
	case step.Whole:
		if s.Cut.Size != nil {
			rows, _, err := s.Cut.Size(t)
			if err != nil {
				return nil, err
			}
			tasks[0] = rows
		}
	}
	t.addStep(s, tasks)
	return tasks, nil
}

// Writer returns the last step that writes a table, or nil if there is none.
func (t *Tables) Writer(table schema.Table) *step.Step {
	for _, s := range slices.Backward(t.order) {
		if s.WritesTable(table) {
			return s
		}
	}
	return nil
}

// Table returns a table as its last writer wrote it, or nil if there is none.
func (t *Tables) Table(table schema.Table) *tables.Memory {
	writer := t.Writer(table)
	if writer == nil {
		return nil
	}
	all := &tables.Memory{}
	for _, part := range t.parts[writer][table.Name] {
		all.Records = append(all.Records, part.Records...)
	}
	return all
}

// Slowdowns returns the rows of table slowdowns, in the order of the flows.
func (t *Tables) Slowdowns() ([]tables.SlowdownRow, error) {
	var all []tables.SlowdownRow
	err := columns.Each(t.Table(schema.Slowdowns).Read(), func(r *tables.SlowdownRow) error {
		all = append(all, *r)
		return nil
	})
	return all, err
}

// Read streams the outputs one after another. It ignores the selection and streams all rows.
func (t *Tables) Read(_ step.Selection, of ...step.Output) schema.Batches {
	var all []schema.Batches
	for _, o := range of {
		for _, part := range t.parts[o.Step][o.Table.Name] {
			all = append(all, part.Read())
		}
	}
	return columns.Concat(all...)
}

// Part streams the output of task n of a step.
func (t *Tables) Part(o step.Output, n int) schema.Batches { return t.sink(o.Step, o.Table, n).Read() }

// Tasks returns the tasks of a step.
func (t *Tables) Tasks(s *step.Step) []step.Range { return t.tasks[s] }

// Workload returns the number of flows and the times of the first and the last start.
func (t *Tables) Workload() (step.Workload, error) { return t.workload, nil }

// A task is a task in memory. It implements step.Task.
type task struct {
	*Tables
	step   *step.Step
	number int
	rows   step.Range
}

func (t *task) Number() int       { return t.number }
func (t *task) Range() step.Range { return t.rows }
func (t *task) Add(int64)         {}
func (t *task) Note(any, int64)   {}
func (t *task) Warn(string)       {}
func (t *task) Workers() int      { return 1 }

func (t *task) Sink(table schema.Table) schema.Sink {
	if !t.step.WritesTable(table) {
		return nil
	}
	return t.sink(t.step, table, t.number)
}

func (t *task) Parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	for i := range n {
		if err := do(ctx, i); err != nil {
			return err
		}
	}
	return nil
}
