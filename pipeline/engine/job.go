package engine

import (
	"cmp"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"

	"golang.org/x/sync/semaphore"
)

// A job is a stage whose tasks are settled.
type job struct {
	Records
	in      *Inputs
	work    []int64 // by task: about how long it takes, in any unit
	mine    []bool  // tasks that this process does
	own     int     // how many those are
	release func()  // gives up the stage's lock
}

// prepare cuts a stage into tasks and finds those that are done.
func (e *Executor) prepare(s *Stage) (j *job, err error) {
	j = &job{Records: Records{Stage: s, layout: layout{Stage: s.Name, Method: e.Method}}}
	if j.in, err = e.inputs(s); err != nil {
		return nil, err
	}
	prior, _, err := readLayout(e.lake, s)
	if err != nil || prior.Method != e.Method {
		prior.Tasks = nil
	}
	if j.Tasks, err = s.Cut(j.in, prior.Tasks); err != nil {
		return nil, err
	}
	if j.work, err = work(s, j.in, j.Tasks); err != nil {
		return nil, err
	}
	j.mine = e.chosen(j.Tasks)
	for _, mine := range j.mine {
		if mine {
			j.own++
		}
	}
	return j, e.settle(j)
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

// todo are the tasks that are left to this process, the longest first, and their cost.
func (j *job) todo() (todo []int, total int64) {
	for n, rec := range j.Done {
		if j.mine[n] && rec == nil {
			todo = append(todo, n)
			total += j.Tasks[n].Cost
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
	ctx = pprof.WithLabels(ctx, pprof.Labels("stage", j.Stage.Name)) // for --cpu-profile
	newWorker, err := j.Stage.Open(ctx, j.in)
	if err != nil {
		return err
	}
	budget := semaphore.NewWeighted(e.MemoryBytes)
	return Parallel(ctx, e.Workers, len(todo), func() (func(context.Context, int) error, error) {
		worker, err := newWorker()
		return func(ctx context.Context, i int) error {
			n := todo[i]
			bytes := min(j.Tasks[n].Rows*j.Stage.BytesPerRow, e.MemoryBytes) // one that never fits is done alone
			if err := budget.Acquire(ctx, bytes); err != nil {
				return err
			}
			defer budget.Release(bytes)
			rec, err := e.runTask(ctx, j, n, worker)
			if err != nil {
				return fmt.Errorf("stage %s, task %d of %d: %w", j.Stage.Name, n+1, len(j.Tasks), err)
			}
			j.Done[n] = rec
			return nil
		}, err
	})
}
