package pipeline

import (
	"context"
	"sync"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/stages/route"
	"parsimon/stages/step"
)

// stage converts a step of the method to a stage of the engine, with its place in the lake, its files and its
// tasks.
func (p *planner) stage(of *step.Step) *engine.Stage {
	v := p.variantOf(of)
	s := &engine.Stage{
		Name: of.Name, Pass: of.Pass, Place: v.place(p.ID()), Unit: of.Unit, Command: p.command(of.Name, v),
		Writes:      of.Writes,
		BytesPerRow: of.BytesPerRow,
	}
	if of.Sharing == step.ByScenario {
		s.Place, s.Command = p.base(), p.baseCommand(of.Name)
	}
	p.stages[of] = s
	s.Reads = names.Of(of.Reads, p.output)
	s.Cut = func(in *engine.Inputs, prior []engine.Task) ([]engine.Task, error) {
		return p.cut(of, &inputs{p, in}, prior)
	}
	s.Open = func(in *engine.Inputs) (engine.Worker, error) {
		work, err := of.Open(&inputs{p, in})
		return func(ctx context.Context, t *engine.Attempt) error {
			return work(ctx, &task{inputs: inputs{p, t.Inputs()}, attempt: t})
		}, err
	}
	if of.Costs != nil {
		s.Work = func(in *engine.Inputs, tasks []engine.Task) ([]int64, error) {
			return of.Costs(&inputs{p, in}, rangesOf(tasks))
		}
	}
	return s
}

// variantOf returns the variant in which the tables of a step are stored. This is the variant of the step's
// estimator. For a step of a pass, it is the variant with that number of passes.
func (p *planner) variantOf(s *step.Step) Variant {
	v := p.variant
	if s.Owner.Estimator != v.Estimator.String() {
		v = variantOf(s.Owner)
	}
	if s.Pass > 0 {
		v = v.pass(s.Pass)
	}
	return v
}

// output returns the engine's output for one of a step's tables.
func (p *planner) output(o step.Output) engine.Output { return p.stages[o.Step].Output(o.Table) }

// cut divides a step into tasks.
func (p *planner) cut(s *step.Step, in *inputs, prior []engine.Task) ([]engine.Task, error) {
	switch s.Cut.By {
	case step.ByFlows:
		return chunkTasks(in.files(p.flows.Output(schema.Flows))), nil
	case step.LikeStep:
		like := in.records(s.Cut.Of.Step).Tasks
		files := in.files(s.Cut.Of)
		tasks := make([]engine.Task, len(like))
		for n, t := range like {
			tasks[n] = engine.Task{Lo: t.Lo, Hi: t.Hi, Cost: files[n].Rows, Rows: t.Rows}
		}
		return tasks, nil
	case step.ByLinks:
		return p.cutLinks(s, in, prior)
	}
	if s.Cut.Size == nil {
		return oneTask(nil, nil)
	}
	rows, cost, err := s.Cut.Size(in)
	return []engine.Task{{Lo: rows.Lo, Hi: rows.Hi, Cost: cost}}, err
}

// cutLinks divides a step by links. If the step was begun before, it keeps its ranges unless a number of
// partitions is requested.
func (p *planner) cutLinks(s *step.Step, in *inputs, prior []engine.Task) ([]engine.Task, error) {
	loads, err := route.ReadLoads(p.Network, in.Read(step.All, s.Cut.Of))
	if err != nil {
		return nil, err
	}
	wants := route.EveryLink
	if s.Cut.Wants != nil {
		if wants, err = s.Cut.Wants(in); err != nil {
			return nil, err
		}
	}
	var ranges []route.LinkRange
	if p.Partitions > 0 || len(prior) == 0 {
		partitions := p.Partitions
		if p.Ephemeral && partitions == 0 { // no run with other settings finds the results
			partitions = max(p.Workers, loads.FewestRanges(wants))
		}
		ranges = loads.Cut(wants, partitions)
	} else {
		ranges = names.Of(rangesOf(prior), func(r step.Range) route.LinkRange { return loads.Range(r, wants) })
	}
	return names.Of(ranges, func(r route.LinkRange) engine.Task {
		t := engine.Task{Lo: r.Lo, Hi: r.Hi, Rows: r.Flows, Cost: r.Packets}
		if s.Cut.Cost == step.Flows {
			t.Cost = r.Flows
		}
		return t
	}), nil
}

func rangesOf(tasks []engine.Task) []step.Range {
	return names.Of(tasks, func(t engine.Task) step.Range { return step.Range{Lo: t.Lo, Hi: t.Hi} })
}

// inputs gives a step access to the files that it reads. It implements step.Inputs.
type inputs struct {
	planner *planner
	in      *engine.Inputs
}

func (i *inputs) records(s *step.Step) engine.Records { return i.in.Records(i.planner.stages[s]) }

func (i *inputs) files(o step.Output) []lake.DataFile { return i.in.Files(i.planner.output(o)) }

// Read implements step.Inputs.
func (i *inputs) Read(keep step.Selection, of ...step.Output) schema.Batches {
	var files []lake.DataFile
	for _, o := range of {
		files = append(files, i.files(o)...)
	}
	return i.planner.Lake.Read(of[0].Table, files, rangeOf(keep))
}

// rangeOf converts a selection to a range of the lake. Nil stands for all rows.
func rangeOf(s step.Selection) *lake.Range {
	if s == step.All {
		return nil
	}
	return &lake.Range{Column: s.Column, Lo: s.Lo, Hi: s.Hi}
}

// Part implements step.Inputs.
func (i *inputs) Part(o step.Output, n int) schema.Batches {
	return i.planner.Lake.Read(o.Table, i.files(o)[n:n+1], nil)
}

// Tasks implements step.Inputs.
func (i *inputs) Tasks(s *step.Step) []step.Range { return rangesOf(i.records(s).Tasks) }

// Workload implements step.Inputs.
func (i *inputs) Workload() (step.Workload, error) {
	g, err := readGenerated(i.planner.Lake, i.records(i.planner.flows))
	return step.Workload{
		Flows: g.Flows, FirstStartNS: g.FirstStartNS, LastStartNS: g.LastStartNS, Closed: g.Closed(),
		Notes: g.Notes,
	}, err
}

// A task is one attempt of the engine at a task of a step. It implements step.Task. Its open streams are
// closed when the attempt ends.
type task struct {
	inputs
	attempt *engine.Attempt
	mu      sync.Mutex // guards Read, which Parallel may call from several goroutines
}

func (t *task) Number() int                     { return t.attempt.N }
func (t *task) Range() step.Range               { return step.Range{Lo: t.attempt.Lo, Hi: t.attempt.Hi} }
func (t *task) Sink(s schema.Table) schema.Sink { return t.attempt.Sink(s) }
func (t *task) Add(n int64)                     { t.attempt.Add(n) }
func (t *task) Workers() int                    { return t.planner.Workers }
func (t *task) Warn(text string)                { t.planner.Log.Warn().Msg(text) }

// Read implements step.Inputs.
func (t *task) Read(keep step.Selection, of ...step.Output) schema.Batches {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attempt.ReadAll(names.Of(of, t.planner.output), rangeOf(keep))
}

// Note implements step.Task.
func (t *task) Note(stats any, criticalNS int64) {
	t.attempt.SetStats(stats)
	if criticalNS >= 0 {
		t.attempt.SetCritical(criticalNS)
	}
}

// Parallel implements step.Task.
func (t *task) Parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	return engine.Parallel(ctx, t.planner.Workers, n, do)
}

// chunkTasks returns one task for each data file of table flows.
func chunkTasks(files []lake.DataFile) []engine.Task {
	tasks := make([]engine.Task, len(files))
	var row int64
	for n, f := range files {
		tasks[n] = engine.Task{Lo: row, Hi: row + f.Rows, Cost: f.Rows, Rows: f.Rows}
		row += f.Rows
	}
	return tasks
}

// oneTask is the Cut of a stage that is not divided into tasks.
func oneTask(*engine.Inputs, []engine.Task) ([]engine.Task, error) { return []engine.Task{{}}, nil }
