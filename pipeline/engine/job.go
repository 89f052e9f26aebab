package engine

import (
	"cmp"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
)

// A job is a stage whose tasks are settled.
type job struct {
	stage   *Stage
	layout  layout
	in      *Inputs
	tasks   []Task
	work    []int64 // by task: about how long it takes, in any unit
	mine    []bool  // tasks that this process does
	others  int     // tasks that it does not
	done    []*Record
	first   int    // number of the data files of task 0
	release func() // gives up the stage's lock
}

// prepare cuts a stage into tasks and finds those that are done.
func (e *Executor) prepare(s *Stage) (j *job, err error) {
	j = &job{stage: s}
	if j.in, err = e.inputs(s); err != nil {
		return nil, err
	}
	if j.tasks, err = s.Cut(j.in, e.prior(s)); err != nil {
		return nil, err
	}
	if j.work, err = work(s, j.in, j.tasks); err != nil {
		return nil, err
	}
	l := layout{Stage: s.Name, Method: e.Method, Tasks: j.tasks}
	j.mine = e.chosen(j.tasks)
	for _, mine := range j.mine {
		if !mine {
			j.others++
		}
	}
	if j.done, j.first, j.release, err = e.settle(s, l, j.mine); err != nil {
		return nil, err
	}
	j.layout = l
	return j, nil
}

// work is about how long each task of a stage takes.
func work(s *Stage, in *Inputs, tasks []Task) ([]int64, error) {
	if s.Work != nil {
		return s.Work(in, tasks)
	}
	out := make([]int64, len(tasks))
	for n, t := range tasks {
		out[n] = t.Cost
	}
	return out, nil
}

// records are what is recorded of the stage when its tasks are done.
func (j *job) records() Records {
	return Records{Stage: j.stage, Tasks: j.tasks, Done: j.done, method: j.layout.Method, first: j.first}
}

// prior is how this version of the method cut a stage before; nil if it did not.
func (e *Executor) prior(s *Stage) []Task {
	r, found, err := ReadRecords(e.lake, s)
	if err != nil || !found || r.method != e.Method {
		return nil
	}
	return r.Tasks
}

// todo are the tasks that are left to this process, the longest first, and their cost.
func (j *job) todo() (todo []int, total int64) {
	for n, rec := range j.done {
		if j.mine[n] && rec == nil {
			todo = append(todo, n)
			total += j.tasks[n].Cost
		}
	}
	slices.SortStableFunc(todo, func(a, b int) int { return cmp.Compare(j.work[b], j.work[a]) })
	return todo, total
}

// runTasks does tasks on the executor's workers, as many at once as fit in memory together.
func (e *Executor) runTasks(ctx context.Context, j *job, todo []int) error {
	if len(todo) == 0 {
		return nil
	}
	ctx = pprof.WithLabels(ctx, pprof.Labels("stage", j.stage.Name)) // for --cpu-profile
	newWorker, err := j.stage.Open(ctx, j.in)
	if err != nil {
		return err
	}
	budget := newBudget(e.MemoryBytes)
	return Parallel(ctx, e.Workers, len(todo), func() (func(context.Context, int) error, error) {
		worker, err := newWorker()
		return func(ctx context.Context, i int) error {
			n := todo[i]
			bytes := j.tasks[n].Rows * j.stage.BytesPerRow
			budget.acquire(bytes)
			defer budget.release(bytes)
			rec, err := e.runTask(ctx, j, n, worker)
			if err != nil {
				return fmt.Errorf("stage %s, task %d of %d: %w", j.stage.Name, n+1, len(j.tasks), err)
			}
			j.done[n] = rec
			return nil
		}, err
	})
}
