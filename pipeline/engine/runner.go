package engine

import (
	"context"
	"fmt"
	"slices"

	"parsimon/pipeline/lake"
)

// Steps are the names of a plan's stages, in order, for engines that assign tasks to processes on many machines, such
// as the runners of Apache Beam. They pass on steps and task numbers; all else is in the lake. A step needs all tasks
// of the steps before it.
func (p Plan) Steps() (steps []string) {
	for _, s := range p {
		steps = append(steps, s.String())
	}
	return steps
}

// A TaskRunner does single tasks of a plan while other runners, in this process or another, do others. Its memory does
// not grow with the number of flows. Its methods are safe for any number of goroutines.
type TaskRunner struct {
	lake     *lake.Lake
	place    lake.Place
	plan     Plan
	settings Settings
}

// NewTaskRunner makes a task runner for a plan on a scenario whose flows the lake holds. Settings.Shard must be zero.
func NewTaskRunner(l *lake.Lake, p lake.Place, plan Plan, s Settings) *TaskRunner {
	return &TaskRunner{l, p, plan, s}
}

// Steps are the steps of the plan, in order.
func (r *TaskRunner) Steps() []string { return r.plan.Steps() }

// Plan cuts a step into tasks, unless that is done, and returns the numbers of those that are not done. A task whose
// files were collected is done. The steps before it must be complete.
func (r *TaskRunner) Plan(ctx context.Context, step string) (todo []int, err error) {
	err = r.with(ctx, everyTask, func(e *Executor) error {
		stage, err := r.stage(step)
		if err != nil {
			return err
		}
		job, err := e.prepare(stage)
		if err != nil {
			return err
		}
		defer job.release()
		todo, _ = job.todo()
		return nil
	})
	return todo, err
}

// Complete reports whether all tasks of all steps are done. If not, tasks whose collected files other tasks need are
// made to run again: Plan will name them.
func (r *TaskRunner) Complete(ctx context.Context) (done bool, err error) {
	err = r.with(ctx, everyTask, func(e *Executor) error {
		err := e.Repair(r.plan)
		done = !slices.ContainsFunc(r.plan, func(s *Stage) bool { return !e.isComplete(s) })
		return err
	})
	return done, err
}

// Do does task n of a step that is planned, or finds it done. It may be repeated, also at the same time.
func (r *TaskRunner) Do(ctx context.Context, step string, n int) error {
	only := func(tasks []Task) []bool {
		mine := noTask(tasks)
		if n >= 0 && n < len(mine) {
			mine[n] = true
		}
		return mine
	}
	return r.with(ctx, only, func(e *Executor) error {
		stage, err := r.stage(step)
		if err != nil {
			return err
		}
		return e.runStage(ctx, stage)
	})
}

// Finish does what is to be done once when all tasks of a step are done: it reports results that the settings refuse,
// and collects, unless Settings.Keep. It may be repeated, also at the same time.
func (r *TaskRunner) Finish(ctx context.Context, step string) error {
	return r.with(ctx, noTask, func(e *Executor) error {
		stage, err := r.stage(step)
		if err != nil {
			return err
		}
		if err := e.accept(stage); err != nil {
			return err
		}
		return e.Collect(r.plan)
	})
}

// Hold keeps processes that work alone out of the scenario until release.
func (r *TaskRunner) Hold(ctx context.Context) (release func(), err error) {
	s, err := r.lake.LockShared(ctx, r.place)
	if err != nil {
		return nil, err
	}
	return s.Close, nil
}

func (r *TaskRunner) stage(step string) (*Stage, error) {
	for _, stage := range r.plan {
		if stage.String() == step {
			return stage, nil
		}
	}
	return nil, fmt.Errorf("the plan has no step %s", step)
}

// with gives do an executor with a session of its own.
func (r *TaskRunner) with(ctx context.Context, choose choice, do func(e *Executor) error) error {
	session, err := r.lake.LockShared(ctx, r.place)
	if err != nil {
		return err
	}
	defer session.Close()
	e := New(session, r.settings)
	e.choose = choose
	return do(e)
}
