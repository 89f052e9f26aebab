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

// A TaskRunner does single tasks of a plan while other runners, in this process or another, do others. Its memory does
// not grow with the number of flows. Its methods are safe for any number of goroutines. It is for engines that assign
// tasks to processes on many machines, such as the runners of Apache Beam: they pass on steps and task numbers, and all
// else is in the lake.
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

// Steps are the names of the plan's stages, in order. A step needs all tasks of the steps before it.
func (r *TaskRunner) Steps() []string { return names.Of(r.plan, (*Stage).String) }

// Plan cuts a step into tasks, unless that is done, and returns the numbers of those that are not done. A task whose
// files were collected is done. The steps before it must be complete.
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
	return r.step(ctx, step, only, func(e *Executor, stage *Stage) error { return e.runStage(ctx, stage) })
}

// Finish runs once, when all tasks of a step are done: it reports results that the settings refuse,
// and collects, unless Settings.Keep. It may be repeated, also at the same time.
func (r *TaskRunner) Finish(ctx context.Context, step string) error {
	return r.step(ctx, step, noTask, func(e *Executor, stage *Stage) error {
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

// step is with for a step.
func (r *TaskRunner) step(ctx context.Context, step string, choose choice, do func(*Executor, *Stage) error) error {
	at := slices.IndexFunc(r.plan, func(s *Stage) bool { return s.String() == step })
	if at < 0 {
		return fmt.Errorf("the plan has no step %s", step)
	}
	return r.with(ctx, choose, func(e *Executor) error { return do(e, r.plan[at]) })
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

// Several processes, on one machine or many, divide the tasks of a stage among themselves. Nothing passes between
// them but files of the lake, which all of them see.
//
// They hold the scenario's lock shared, so that no process that would begin a stage again comes between, and the
// stage's lock shared while they work on its layout. The first to come takes the stage's lock alone and writes the
// layout. The others find it and refuse to work if it is not the one that they would have made.
//
// A task may be done by several processes at once, by mistake or because an engine does not wait for a slow one. Each
// writes files of its own. One that finds a record when its work is done drops them. Where two finish in the same
// moment the last record stands; the rows of all are the same, and files that no record names are removed
// by the next process that works alone, or with their temporary table.
//
// An attempt that fails while its task is done has not failed: tables may have been collected since (records.go). A
// file that it installs all the same is removed by the next collection.

// A Shard says which tasks of a stage a process does when Count processes divide them among themselves: those of number
// Index, from 0 to Count - 1. The zero Shard is that of a process that does all tasks and keeps others out.
type Shard struct{ Index, Count int }

// maxShards bounds Shard.Count.
const maxShards = 99_999

// shardsState records, in the state of a stage, into how many shards it was last divided.
const shardsState = "shards.json"

// ParseShard reads "I/N".
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

// assign returns the shard of each task: the costliest first, each to the shard that has least so far. It depends on
// nothing but the tasks and the number of shards.
func assign(tasks []Task, count int) []int {
	order := make([]int, len(tasks))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tasks[b].Cost, tasks[a].Cost) })
	type load struct{ cost, tasks int64 }
	loads := make([]load, min(count, len(tasks))) // shards beyond the number of tasks get none
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

// A choice picks the tasks that a process does. nil picks all of them, and no other process does any.
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
	lock, err := e.lake.LockStage(s.Place.StatePath(s.Name+".lock"), func() error { return e.begin(s, j.layout) })
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

// otherLayout is the error of one of several processes that would cut the stage into other tasks than the others.
func otherLayout(s *Stage, now, want layout) error {
	return fmt.Errorf("stage %s of scenario %s was begun with another plan (%d tasks; this would be %d): every process needs the same --partitions and the same program; without --shard the stage begins again",
		s.Name, s.Place.Scenario, len(now.Tasks), len(want.Tasks))
}

// endShard logs, at the end of a shard, how much of the stage is left to others. The last shard collects.
func (e *Executor) endShard(p Plan, s *Stage) error {
	r, _, err := ReadRecords(e.lake, s)
	if err != nil {
		return nil // the stage that reads it reports this
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

// taken returns the record of a task that another process has done, its files there or collected; nil if there is none.
func (e *Executor) taken(s *Stage, n int) *Record {
	if !e.shared() {
		return nil
	}
	rec, err := readRecord(e.lake, s, n)
	if err != nil || rec == nil {
		return nil
	}
	for _, f := range rec.Files {
		if err := e.lake.CheckSize(f); err != nil && !lake.IsCollected(err) {
			return nil
		}
	}
	return rec
}
