// Command parsimon-beam estimates a scenario on many machines with Apache Beam: the stages of "parsimon run", with
// equal rows, in the same lake.
//
// Flows are generated where the command runs, since they are one stream. One Beam pipeline then does all other stages.
// Its elements are task numbers only: data stays in the lake, on a path that all workers share. Each step of the
// estimate (engine.TaskRunner.Steps; a pass of estimator flow has two) adds to it
//
//	group ─► plan ─► reshuffle ─► do ─┬─► group ─► plan ─► …
//	            └── noTask ───────────┘
//
// plan cuts the step into tasks and emits the numbers of those that are not done, the costliest first. do does one task
// on any worker and emits its number. group, a GroupByKey on a single key, emits nothing before all tasks of the step
// are done: it is the barrier that the method needs between two steps. plan also emits noTask, so that a step without
// tasks left is followed by the next.
//
// All steps are in one pipeline, so that the job continues without the machine that submitted it, the binary is staged
// once, and a runner that restarts the job continues where it stopped: a task that is done has its record in the lake.
// A failed task, a lost worker and a task that two workers do at once need no code here (engine.TaskRunner).
//
// The command is a module of its own, because Beam adds 58 modules and would raise 14 that parsimon uses.
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

// A Job is what workers need of an estimate. Beam serialises it as JSON with the pipeline.
type Job struct {
	Lake       string // a path that all workers share
	Scenario   string // the id of a scenario whose flows the lake holds
	Estimator  string
	Passes     int
	Cluster    string // empty: none
	Workers    int    // goroutines of steps of a single task
	Partitions int
	Keep       bool // keep temporary tables
}

// variant parses how the estimate is made.
func (j Job) variant() (v pipeline.Variant, err error) {
	v.Passes = j.Passes
	if v.Estimator, err = stages.ParseEstimator(j.Estimator); err != nil {
		return v, err
	}
	if j.Cluster != "" {
		v.Cluster, err = stages.ParseClustering(j.Cluster)
	}
	return v, err
}

// settings returns what does not change the rows.
func (j Job) settings() (o pipeline.Settings) {
	o.Workers, o.Partitions, o.Keep = j.Workers, j.Partitions, j.Keep
	return o
}

// runners holds the task runner of every job of this process, which many bundles use at once.
var runners = struct {
	sync.Mutex
	of map[Job]*engine.TaskRunner
}{of: map[Job]*engine.TaskRunner{}}

// runner returns the job's task runner.
func (j Job) runner() (*engine.TaskRunner, error) {
	runners.Lock()
	defer runners.Unlock()
	if r, ok := runners.of[j]; ok {
		return r, nil
	}
	v, err := j.variant()
	if err != nil {
		return nil, err
	}
	r, err := pipeline.NewTaskRunner(j.Lake, j.Scenario, v, j.settings())
	if err != nil {
		return nil, fmt.Errorf("lake %s, which every worker must see under this path: %w", j.Lake, err)
	}
	runners.of[j] = r
	return r, nil
}

// noTask is an element that is not the number of a task.
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

// planStep begins a step when all tasks of the one before are done.
type planStep struct {
	Job    Job
	Before string // empty for the first
	Step   string
}

// ProcessElement finishes the step before and emits the tasks of this one. A runner that retries calls it again.
func (p *planStep) ProcessElement(ctx context.Context, _ int, _ func(*int) bool, emit func(int)) error {
	r, err := p.Job.runner()
	if err != nil {
		return err
	}
	if p.Before != "" {
		if err := r.Finish(ctx, p.Before); err != nil {
			return err
		}
	}
	todo, err := r.Plan(ctx, p.Step)
	if err != nil {
		return err
	}
	emit(noTask)
	for _, n := range todo {
		emit(n)
	}
	return nil
}

// doTask does tasks of a step.
type doTask struct {
	Job  Job
	Step string
}

// ProcessElement does the task n and returns its number under the key 0, the only one.
func (d *doTask) ProcessElement(ctx context.Context, n int) (int, int, error) {
	if n == noTask {
		return 0, n, nil
	}
	r, err := d.Job.runner()
	if err != nil {
		return 0, n, err
	}
	return 0, n, r.Do(ctx, d.Step, n)
}

// endJob runs when all tasks of the last step are done.
type endJob struct {
	Job  Job
	Last string
}

// ProcessElement finishes the last step.
func (e *endJob) ProcessElement(ctx context.Context, _ int, _ func(*int) bool) error {
	r, err := e.Job.runner()
	if err != nil {
		return err
	}
	return r.Finish(ctx, e.Last)
}

// build makes the Beam pipeline of a job.
func build(j Job, steps []string) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	barrier := beam.GroupByKey(s, beam.ParDo(s, beginJob, beam.Impulse(s)))
	for i, step := range steps {
		plan := &planStep{Job: j, Step: step}
		if i > 0 {
			plan.Before = steps[i-1]
		}
		in := s.Scope(step)
		tasks := beam.Reshuffle(in, beam.ParDo(in, plan, barrier))
		barrier = beam.GroupByKey(in, beam.ParDo(in, &doTask{j, step}, tasks))
	}
	beam.ParDo0(s, &endJob{j, steps[len(steps)-1]}, barrier)
	return p
}
