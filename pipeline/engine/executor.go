// Package engine runs the stages of a plan on a lake and records which tasks are complete.
//
// A plan is a list of stages in order. A stage declares the tables that it reads, by the stage that writes them,
// the tables that it writes, how it is cut into tasks, and the function that does one task:
//
//	             Reads                      Cut, Open                    Writes
//	stage A ──► table of A ──►  tasks of B on workers, shards or Beam ──► tables of B ──► stage C
//
// Everything else follows from these declarations: the order of work, what a killed run continues with, which shard
// does which task, how many tasks fit in memory at once, when a temporary table can be removed, and
// which stages run again when a removed or damaged file is needed (repair.go).
//
// A task is the unit of work and of retry. Its files are installed first; the task is done when its record
//
//	_state/scenario=<id>[/variant=<name>]/<stage>/task-NNNNN.json
//
// names them. A record whose files are damaged does not count. plan.json beside the records holds the tasks; a stage
// that would be cut into other tasks begins again.
//
// Retry: a task that fails ends the run of its process, and tasks that are done stay done. The next run of the same
// plan does the others. A task that another process has done meanwhile has not failed (runTask in
// job.go). Beam repeats failed tasks by itself: TaskRunner.Do may be called again.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/rs/zerolog"

	"parsimon/pipeline/lake"
)

// Settings say how an Executor works. None of them changes the rows of a table.
type Settings struct {
	Workers     int   // goroutines; 0: one per core
	MemoryBytes int64 // limit of all running tasks together
	Keep        bool  // temporary tables stay
	Method      int   // version of the method: records of another one do not count
	Shard       Shard
	Log         zerolog.Logger
	Progress    Progress // nil: none
}

// An Executor runs stages on a lake. It is used by one goroutine at a time.
type Executor struct {
	Settings
	lake    *lake.Lake
	session *lake.Session // nil: the executor only reads
	choose  choice        // nil: this process does all tasks, and no other process works on the scenario

	Reports  []Report
	reported map[string]bool    // stages with a report, by state path
	known    map[string]Records // complete stages, by state path
	verified map[string]bool    // data files written or checked by this executor, by path
	whole    bool               // a whole plan runs: tables that no stage needs any more may be missing
}

// Reader makes an executor that only reads records.
func Reader(l *lake.Lake, s Settings) *Executor {
	if s.Workers <= 0 {
		s.Workers = runtime.GOMAXPROCS(0)
	}
	s.Progress = cmp.Or[Progress](s.Progress, Silent{})
	return &Executor{Settings: s, lake: l, reported: map[string]bool{}, known: map[string]Records{},
		verified: map[string]bool{}}
}

// New makes an executor that runs stages in a session.
func New(session *lake.Session, s Settings) *Executor {
	e := Reader(session.Lake, s)
	e.session, e.choose = session, s.Shard.choice()
	return e
}

// Session is the executor's session, nil if it only reads.
func (e *Executor) Session() *lake.Session { return e.session }

// Records are the records of a stage that must be complete. Its data files, except collected ones, are verified once.
func (e *Executor) Records(s *Stage) (Records, error) {
	if r, ok := e.known[s.StatePath()]; ok {
		return r, nil
	}
	r, err := Complete(e.lake, s, e.Method)
	if err != nil {
		return r, err
	}
	check := e.lake.Check
	if e.shared() { // not every process reads every byte: damage shows where a file is used
		check = e.lake.CheckSize
	}
	for _, rec := range r.Done {
		if err := e.verify(rec, check); err != nil {
			return r, fmt.Errorf("stage %s of scenario %s is damaged: %w: run the scenario again to repair it", s.Name,
				s.Place.Scenario, err)
		}
	}
	if !e.shared() {
		e.known[s.StatePath()] = r
	}
	return r, nil
}

// Run runs all stages of a plan in order, first repairing what it needs, and removes temporary tables as soon as no
// stage of the plan needs them.
func (e *Executor) Run(ctx context.Context, p Plan) error {
	e.whole = true
	defer func() { e.whole = false }()
	if err := e.Repair(p); err != nil {
		return err
	}
	for {
		err := e.runStages(ctx, p)
		again, rerr := e.restore(p, err)
		if rerr != nil || !again {
			return errors.Join(rerr, err)
		}
	}
}

// runStages runs the stages of a plan in order, and collects after each.
func (e *Executor) runStages(ctx context.Context, p Plan) error {
	for _, s := range p {
		if err := e.runStage(ctx, s); err != nil {
			return err
		}
		if err := e.Collect(p); err != nil {
			return err
		}
	}
	return nil
}

// RunStage runs one stage of a plan. The stages that it reads from must be complete. Without shards, tasks whose files
// were collected run again; with shards, the process that completes the stage collects what no stage of the plan needs
// any more.
func (e *Executor) RunStage(ctx context.Context, p Plan, s *Stage) error {
	if err := e.runStage(ctx, s); err != nil {
		return err
	}
	if e.Shard.Count == 0 {
		return nil
	}
	return e.endShard(p, s)
}

// runStage does the tasks of a stage that are not done, the longest first. A failed task stops the others before
// their next task; committed files stay.
func (e *Executor) runStage(ctx context.Context, s *Stage) error {
	began, cpu := time.Now(), ProcessorSeconds()
	job, err := e.prepare(s)
	if err != nil {
		return err
	}
	defer job.release()
	todo, total := job.todo()
	e.Progress.Begin(s.Name, s.Unit, total)
	err = e.runTasks(ctx, job, todo)
	e.Progress.End()
	if err != nil {
		return err
	}
	delete(e.known, s.StatePath())
	if !e.shared() && job.Complete(e.Method) {
		e.known[s.StatePath()] = job.Records
	}
	critical := 0.0
	for _, rec := range job.Done {
		if rec == nil { // another process's task
			continue
		}
		critical = max(critical, float64(rec.CriticalNS)/1e9)
		for _, f := range rec.Files {
			e.verified[f.Path] = true
		}
	}
	if len(todo) > 0 || !e.reported[s.StatePath()] {
		e.reported[s.StatePath()] = true
		r := Report{Stage: s.Name, Tasks: job.own, Reused: job.own - len(todo), Seconds: time.Since(began).Seconds(),
			CPUSeconds: ProcessorSeconds() - cpu, CriticalSeconds: critical, PeakBytes: PeakBytes()}
		e.Reports = append(e.Reports, r)
		e.Log.Info().Str("stage", r.Stage).Int("tasks", r.Tasks).Int("reused", r.Reused).
			Float64("seconds", math.Round(r.Seconds*1e3)/1e3).
			Float64("cpu_seconds", math.Round(r.CPUSeconds*1e3)/1e3).Msg("stage done")
	}
	return e.accept(s)
}

// accept checks a complete stage against the settings of this run, which may refuse results that a former run accepted.
func (e *Executor) accept(s *Stage) error {
	if s.Check == nil {
		return nil
	}
	r, err := e.Records(s)
	var incomplete *IncompleteError
	if e.shared() && errors.As(err, &incomplete) { // other processes are still at work
		return nil
	}
	if err != nil {
		return err
	}
	return s.Check(r)
}
