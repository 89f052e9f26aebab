package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"parsimon/pipeline/lake"
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

// settle makes a job's layout the one in force and finds the tasks that are done. Until release, no process begins the
// stage again.
func (e *Executor) settle(j *job) error {
	if e.shared() {
		return e.settleShared(j)
	}
	j.release = func() {}
	if err := e.begin(j.Stage, j.layout); err != nil {
		return err
	}
	return e.resume(j)
}

// begin makes a layout the one in force. The records of another layout are removed; its committed data files stay until
// the new ones are committed.
func (e *Executor) begin(s *Stage, l layout) error {
	old, found, err := readLayout(e.lake, s)
	if err != nil && !errors.As(err, new(*lake.DamageError)) {
		return err
	}
	if err != nil {
		e.Log.Warn().Err(err).Str("stage", s.Name).Msg("the plan is damaged: the stage begins again")
	}
	if found && old.equal(l) {
		return nil
	}
	if found && old.Method == l.Method && e.shared() { // one of several processes must not remove what others have done
		return otherLayout(s, old, l)
	}
	if err := removeStage(e.session, s); err != nil {
		return err
	}
	return e.session.WriteState(s.StatePath("plan.json"), l)
}

// resume finds the records of a former run, of the tasks of this process. A task whose files are damaged is not done,
// nor, where the stage runs alone, one whose files were collected: they are wanted.
func (e *Executor) resume(j *job) (err error) {
	j.Done = make([]*Record, len(j.Tasks))
	for n, mine := range j.mine {
		if !mine {
			continue
		}
		if j.Done[n], err = readRecord(e.lake, j.Stage, n); err != nil {
			return err
		}
		if rec := j.Done[n]; rec != nil && !e.whole && !e.shared() && e.collected(rec) {
			j.Done[n] = nil
		}
	}
	return e.dropDamaged(j.Records)
}

// removeStage removes the records of a stage and its temporary tables. Its other data files stay until a commit does
// not name them.
func removeStage(session *lake.Session, s *Stage) error {
	if err := session.RemoveState(s.StatePath()); err != nil {
		return err
	}
	for _, t := range s.Writes {
		if !t.Temporary {
			continue
		}
		if err := session.RemoveTable(t, s.Place); err != nil {
			return err
		}
	}
	return nil
}

// Parallel does n things on up to so many workers, in any order. Each worker does them with a function of its own, made
// by newWorker. The first error stops the others before their next thing.
func Parallel(ctx context.Context, workers, n int,
	newWorker func() (func(ctx context.Context, i int) error, error)) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(workers, n) {
		g.Go(func() error {
			pprof.SetGoroutineLabels(ctx) // of the context: --cpu-profile
			do, err := newWorker()
			for err == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err = context.Cause(ctx); err == nil {
					err = do(ctx, i)
				}
			}
			return err
		})
	}
	return g.Wait()
}
