package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parsimon/pipeline/lake"
	"parsimon/schema/names"
)

// A TaskRunner runs single tasks of a plan while other runners, in this or another process, run other tasks.
// Its memory use does not grow with the number of flows. Its methods are safe for concurrent use. It is
// intended for engines that assign tasks to processes on many machines, such as Apache Beam runners. Such
// engines pass only steps and task numbers. All other data is in the lake.
type TaskRunner struct {
	lake     *lake.Lake
	place    lake.Place
	plan     Plan
	settings Settings
}

// NewTaskRunner returns a task runner for a plan on a scenario whose flows are in the lake. Settings.Shard
// must be zero.
func NewTaskRunner(l *lake.Lake, p lake.Place, plan Plan, s Settings) *TaskRunner {
	return &TaskRunner{l, p, plan, s}
}

// Steps returns the names of the plan's stages, in order. A step needs all tasks of the previous steps.
func (r *TaskRunner) Steps() []string { return names.Of(r.plan, (*Stage).String) }

// Plan divides a step into tasks, unless this was done before, and returns the numbers of the incomplete
// tasks. A task whose files were collected is complete. The previous steps must be complete.
func (r *TaskRunner) Plan(ctx context.Context, step string) (todo []int, err error) {
	err = r.step(ctx, step, everyTask, func(e *Executor, stage *Stage) error {
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

// Complete reports whether all tasks of all steps are complete. If not, it invalidates tasks whose collected
// files other tasks need, so that Plan returns them.
func (r *TaskRunner) Complete(ctx context.Context) (done bool, err error) {
	err = r.with(ctx, everyTask, func(e *Executor) error {
		err := e.Repair(r.plan)
		done = !slices.ContainsFunc(r.plan, func(s *Stage) bool { return !e.isComplete(s) })
		return err
	})
	return done, err
}

// Do runs task n of a planned step, unless the task is complete. It may be called repeatedly and
// concurrently.
func (r *TaskRunner) Do(ctx context.Context, step string, n int) error {
	only := func(tasks []Task) []bool {
		mine := noTask(tasks)
		if n >= 0 && n < len(mine) {
			mine[n] = true
		}
		return mine
	}
	return r.step(ctx, step, only, func(e *Executor, stage *Stage) error { return e.runStage(ctx, stage) })
}

// Finish is called once all tasks of a step are complete. It returns an error if the settings reject the
// results. Unless Settings.Keep is set, it collects temporary tables. It may be called repeatedly and
// concurrently.
func (r *TaskRunner) Finish(ctx context.Context, step string) error {
	return r.step(ctx, step, noTask, func(e *Executor, stage *Stage) error {
		if err := e.accept(stage); err != nil {
			return err
		}
		return e.Collect(r.plan)
	})
}

// Hold prevents processes that work alone from opening the scenario until release is called.
func (r *TaskRunner) Hold(ctx context.Context) (release func(), err error) {
	s, err := r.lake.LockShared(ctx, r.place)
	if err != nil {
		return nil, err
	}
	return s.Close, nil
}

// step calls with for one step of the plan.
func (r *TaskRunner) step(ctx context.Context, step string, choose choice,
	do func(*Executor, *Stage) error) error {
	at := slices.IndexFunc(r.plan, func(s *Stage) bool { return s.String() == step })
	if at < 0 {
		return fmt.Errorf("the plan has no step %s", step)
	}
	return r.with(ctx, choose, func(e *Executor) error { return do(e, r.plan[at]) })
}

// with calls do with an executor that has its own session.
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

// Several processes, on one machine or many, divide the tasks of a stage among themselves. They communicate
// only through files of the lake, to which all of them have access.
//
// They hold a shared lock of the scenario, so that no other process begins a stage again in the meantime.
// They hold a shared lock of the stage while they work on its layout. The first process takes the exclusive
// lock of the stage and writes the layout. The other processes read the layout and refuse to work if it
// differs from their own.
//
// Several processes may run the same task at once, by mistake or because an engine does not wait for a slow
// process. Each process writes separate files. If it finds a record of the task when it has finished, it
// discards its files. If two processes finish at the same moment, the last record is used. The rows of all
// attempts are the same. Files that no record names are removed by the next process that works alone, or
// together with their temporary table.
//
// If an attempt fails but the task is complete, this is not an error, because its inputs may have been
// collected since (records.go). If the attempt still installs a file, the next collection removes the file.

// A Shard selects the tasks of a stage that a process runs when Count processes divide them among themselves.
// Index is between 0 and Count - 1. With the zero Shard, a process runs all tasks and excludes other
// processes.
type Shard struct{ Index, Count int }

// maxShards is the maximum of Shard.Count.
const maxShards = 99_999

// shardsState is the name of the state file of a stage that records the number of shards of its last run.
const shardsState = "shards.json"

// ParseShard parses a shard in the form "I/N".
func ParseShard(text string) (Shard, error) {
	i, n, ok := strings.Cut(text, "/")
	index, err := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err != nil || err2 != nil || index < 0 || index >= count || count > maxShards {
		return Shard{}, fmt.Errorf("%q: want I/N, shard I (0 to N - 1) of N (1 to %d)", text, maxShards)
	}
	return Shard{index, count}, nil
}

// String is the inverse of ParseShard.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// assign returns the shard of each task. It assigns the costliest task first, each to the shard with the
// least work so far. The result depends only on the tasks and the number of shards.
func assign(tasks []Task, count int) []int {
	order := make([]int, len(tasks))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tasks[b].Cost, tasks[a].Cost) })
	type load struct{ cost, tasks int64 }
	// If there are more shards than tasks, the remaining shards have none.
	loads := make([]load, min(count, len(tasks)))
	of := make([]int, len(tasks))
	for _, n := range order {
		least := 0
		for i, l := range loads {
			if l.cost < loads[least].cost || l.cost == loads[least].cost && l.tasks < loads[least].tasks {
				least = i
			}
		}
		of[n] = least
		loads[least].cost += tasks[n].Cost
		loads[least].tasks++
	}
	return of
}

// A choice selects the tasks that a process runs. Nil means that this process runs all tasks and no other
// process runs any.
type choice func(tasks []Task) []bool

func (s Shard) choice() choice {
	if s.Count == 0 {
		return nil
	}
	return func(tasks []Task) []bool {
		return names.Of(assign(tasks, s.Count), func(of int) bool { return of == s.Index })
	}
}

func everyTask(tasks []Task) []bool { return slices.Repeat([]bool{true}, len(tasks)) }

func noTask(tasks []Task) []bool { return make([]bool, len(tasks)) }

// shared reports whether other processes may work on the scenario at the same time.
func (e *Executor) shared() bool { return e.choose != nil }

func (e *Executor) chosen(tasks []Task) []bool {
	if e.choose != nil {
		return e.choose(tasks)
	}
	return everyTask(tasks)
}

// settleShared is settle for one of several processes.
func (e *Executor) settleShared(j *job) (err error) {
	s := j.Stage
	lock, err := e.lake.LockStage(s.Place.StatePath(s.Name+".lock"),
		func() error { return e.begin(s, j.layout) })
	if err != nil {
		return err
	}
	j.release = lock.Close
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	if now, found, err := readLayout(e.lake, s); err != nil {
		return err
	} else if !found || !now.equal(j.layout) {
		return otherLayout(s, now, j.layout)
	}
	if e.Shard.Count > 0 {
		if err := e.session.WriteState(s.StatePath(shardsState), e.Shard.Count); err != nil {
			return err
		}
	}
	return e.resume(j)
}

// otherLayout returns the error of a process that would divide the stage into different tasks than the other
// processes.
func otherLayout(s *Stage, now, want layout) error {
	return fmt.Errorf("stage %s of scenario %s was begun with another plan (%d tasks; this would be %d): every "+
		"process needs the same --partitions and the same program; without --shard the stage begins again",
		s.Name, s.Place.Scenario, len(now.Tasks), len(want.Tasks))
}

// endShard logs, at the end of a shard, how many tasks of the stage remain for other shards. The last shard
// collects temporary tables.
func (e *Executor) endShard(p Plan, s *Stage) error {
	r, _, err := ReadRecords(e.lake, s)
	if err != nil {
		return nil // the stage that reads it reports this
	}
	for n, rec := range r.Done {
		if rec != nil && rec.lacksAny(s.Writes) {
			r.Done[n] = nil
		}
	}
	log := e.Log.Info().Str("stage", s.Name).Str("shard", e.Shard.String())
	if slices.Contains(r.Done, nil) {
		left, shards := missing(e.lake, r)
		log.Msg("shard done; so far " + left + ", those of --shard " + shards)
		return nil
	}
	log.Msg("shard done; the stage is complete")
	return e.Collect(p)
}

// taken returns the record of a task that another process has completed, if its files exist or were
// collected. Otherwise, or if an older program ran the task without one of the tables, it returns nil.
func (e *Executor) taken(s *Stage, n int) *Record {
	if !e.shared() {
		return nil
	}
	rec, err := readRecord(e.lake, s, n)
	if err != nil || rec == nil || rec.lacksAny(s.Writes) {
		return nil
	}
	for _, f := range rec.Files {
		if err := e.lake.CheckSize(f); err != nil && !lake.IsCollected(err) {
			return nil
		}
	}
	return rec
}
