// Command parsimon-beam estimates a scenario on many machines, by Apache Beam: the stages of
// "parsimon run", the same rows, the same lake.
//
// Flows are generated where the command runs; they are one stream. Then one Beam pipeline does the rest.
// Its elements are numbers of tasks and nothing else: data stays in the lake, on a path that all workers
// share. For each step of the estimate (engine.Step; a pass of estimator flow has two) it has
//
//	group ─► plan ─► reshuffle ─► do ─┬─► group ─► plan ─► …
//	            └── "none" ───────────┘
//
// plan cuts the step into tasks and emits those that are not done, the costliest first; do does them,
// wherever the runner likes; and group, a GroupByKey on a single key, runners on nothing before all of
// them are done, which is the barrier that the method needs between any two steps. What do emits is the
// task's number; plan emits one element that is no task too, so that a step with nothing left to do is
// still followed by the next.
//
// One pipeline and not one a step, because then the job goes on when the machine that submitted it
// goes, the binary is staged once, and runners restart it from the point it had come to: whatever is
// done again finds its record in the lake. A failed task, a lost worker and a runner that tries twice
// at once are one and the same to the lake, which knows what is done (engine.TaskRunner).
//
// A module of its own, because Beam brings 58 modules with it and would raise 14 that the everyday binary
// builds on, its compressors among them. Compiling it took 2.6 minutes of processor time (0.9 of them
// for what the raised versions have compiled again), which whoever builds parsimon alone does not spend.
package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/stages"
)

// A Job is what a worker has to know of an estimate. It travels with the pipeline, as JSON.
type Job struct {
	Lake       string // a path that all workers share
	Scenario   string // the id of a scenario whose flows the lake holds
	Estimator  string
	Passes     int
	Ablation   string
	Cluster    string // empty: none
	Workers    int    // goroutines of steps of a single task
	Partitions int
	Keep       bool // all tables, also when nobody needs them any more
}

// variant is how the estimate is made.
func (j Job) variant() (v pipeline.Variant, err error) {
	v.Passes = j.Passes
	if v.Estimator, err = stages.ParseEstimator(j.Estimator); err != nil {
		return v, err
	}
	if v.Ablation, err = stages.ParseAblation(j.Ablation); err != nil {
		return v, err
	}
	if j.Cluster != "" {
		v.Cluster, err = stages.ParseClustering(j.Cluster)
	}
	return v, err
}

// settings say how the job is worked on.
func (j Job) settings() (o pipeline.Settings) {
	o.Workers, o.Partitions, o.Keep = j.Workers, j.Partitions, j.Keep
	return o
}

// runners are the jobs that this process has taken up: a worker's process has many bundles at once.
var runners = struct {
	sync.Mutex
	of map[Job]*engine.TaskRunner
}{of: map[Job]*engine.TaskRunner{}}

// runner takes up a job, or finds that this process has.
func (j Job) runner() (*engine.TaskRunner, error) {
	runners.Lock()
	defer runners.Unlock()
	if h, ok := runners.of[j]; ok {
		return h, nil
	}
	v, err := j.variant()
	if err != nil {
		return nil, err
	}
	h, err := pipeline.NewTaskRunner(j.Lake, j.Scenario, v, j.settings())
	if err != nil {
		return nil, fmt.Errorf("lake %s, which every worker must see under this path: %w", j.Lake, err)
	}
	runners.of[j] = h
	return h, nil
}

// noTask is the element that is no task.
const noTask = -1

func init() {
	register.Function1x2(beginJob)
	register.DoFn4x1[context.Context, int, func(*int) bool, func(int), error](&planStep{})
	register.DoFn2x3[context.Context, int, int, int, error](&doTask{})
	register.DoFn3x1[context.Context, int, func(*int) bool, error](&endJob{})
	register.Emitter1[int]()
	register.Iter1[int]()
}

func beginJob([]byte) (int, int) { return 0, noTask }

// planStep begins a step, once all tasks of the one before are done.
type planStep struct {
	Job    Job
	Before *engine.Step // nil for the first
	Step   engine.Step
}

// ProcessElement is called once, or again by a runner that tries again.
func (p *planStep) ProcessElement(ctx context.Context, _ int, _ func(*int) bool, emit func(int)) error {
	h, err := p.Job.runner()
	if err != nil {
		return err
	}
	if p.Before != nil {
		if err := h.Finish(ctx, *p.Before); err != nil {
			return err
		}
	}
	todo, err := h.Plan(ctx, p.Step)
	if err != nil {
		return err
	}
	emit(noTask)
	for _, n := range todo {
		emit(n)
	}
	return nil
}

// doTask does the tasks of a step.
type doTask struct {
	Job  Job
	Step engine.Step
}

// ProcessElement does one, and runners on its number under the one key there is.
func (d *doTask) ProcessElement(ctx context.Context, n int) (int, int, error) {
	if n == noTask {
		return 0, n, nil
	}
	h, err := d.Job.runner()
	if err != nil {
		return 0, n, err
	}
	return 0, n, h.Do(ctx, d.Step, n)
}

// endJob follows the last step.
type endJob struct {
	Job  Job
	Last engine.Step
}

// ProcessElement does what is to be done once all is done.
func (e *endJob) ProcessElement(ctx context.Context, _ int, _ func(*int) bool) error {
	h, err := e.Job.runner()
	if err != nil {
		return err
	}
	return h.Finish(ctx, e.Last)
}

// build makes the Beam pipeline of a job.
func build(j Job, steps []engine.Step) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	barrier := beam.GroupByKey(s, beam.ParDo(s, beginJob, beam.Impulse(s)))
	for i, step := range steps {
		plan := &planStep{Job: j, Step: step}
		if i > 0 {
			plan.Before = &steps[i-1]
		}
		in := s.Scope(step.String())
		tasks := beam.Reshuffle(in, beam.ParDo(in, plan, barrier))
		barrier = beam.GroupByKey(in, beam.ParDo(in, &doTask{j, step}, tasks))
	}
	beam.ParDo0(s, &endJob{j, steps[len(steps)-1]}, barrier)
	return p
}
