package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"parsimon/schema"
)

// methodVersion changes whenever the same scenario would get other numbers than before: what an
// older program left half done is then done again.
const methodVersion = 4

// A task is the unit of work of a stage: of a worker, of a retry, of a resumed run. Lo and Hi say
// what it covers: rows of table flows, or links.
type task struct {
	Lo   int64 `json:"lo"`
	Hi   int64 `json:"hi"`
	Cost int64 `json:"cost"` // in the stage's unit of progress
}

// A stagePlan is how a stage is cut into tasks. A re-run that would cut it otherwise starts the
// stage again.
type stagePlan struct {
	Stage  string `json:"stage"`
	Method int    `json:"method"`
	Tasks  []task `json:"tasks"`
	// Program is what else than this one's link kernel ran the link cases that the stage's tables come of.
	Program string `json:"program,omitempty"`
}

func (p stagePlan) equal(q stagePlan) bool {
	return p.Stage == q.Stage && p.Method == q.Method && p.Program == q.Program && slices.Equal(p.Tasks, q.Tasks)
}

// A taskRecord says that a task is done: it is written after the task's files are in place.
type taskRecord struct {
	Parts      []part          `json:"parts"`
	Seconds    float64         `json:"seconds"`
	CriticalNS int64           `json:"critical_ns"` // the longest piece that cannot be cut further
	Stats      json.RawMessage `json:"stats,omitempty"`
	Key        string          `json:"key,omitempty"` // digest of the task's whole input, where it is known
}

// work does one task on one worker's scratch memory.
type work func(ctx context.Context, n int, t task) (parts []part, criticalNS int64, stats any, err error)

// StageReport says what a stage did in this run.
type StageReport struct {
	Stage    string
	Tasks    int
	Reused   int     // tasks found done
	Seconds  float64 // wall-clock time
	CPU      float64 // processor seconds of all cores; of the whole process, which does nothing else meanwhile
	Critical float64 // seconds it would take with unlimited cores
	// PeakBytes is the most memory the process has had so far, when the stage was done.
	PeakBytes int64
}

// A stage is one step of the method on one scenario, and the tables it writes.
type stage struct {
	name   string
	place  place
	tables []schema.Table
}

func (s stage) path(l *Lake, elem string) string {
	return l.statePath(s.place, s.name, elem)
}

func recordName(n int) string { return fmt.Sprintf("task-%05d.json", n) }

// records reads the plan of a stage and the records of its tasks that are done; nil records are of
// tasks that are not. found is false if the stage was never begun.
func (s stage) records(l *Lake) (plan stagePlan, done []*taskRecord, found bool, err error) {
	found, err = l.readState(s.path(l, "plan.json"), &plan)
	if err != nil || !found {
		return plan, nil, false, err
	}
	done = make([]*taskRecord, len(plan.Tasks))
	for n := range plan.Tasks {
		var rec taskRecord
		ok, err := l.readState(s.path(l, recordName(n)), &rec)
		if err == nil && ok { // a damaged record is a task to do again
			done[n] = &rec
		}
	}
	return plan, done, true, nil
}

// complete reads the plan and records of a stage that must be done, and says what to run if not.
func (s stage) complete(l *Lake) (stagePlan, []*taskRecord, error) {
	plan, done, found, err := s.records(l)
	if err != nil {
		return plan, nil, err
	}
	if !found || slices.Contains(done, nil) || plan.Method != methodVersion {
		why, shares := "", ""
		if found && plan.Method == methodVersion {
			why, shares = s.missing(l, plan, done)
		}
		return plan, nil, s.incomplete(l, why, shares)
	}
	return plan, done, nil
}

// incomplete is the error of a stage that is needed and not done, with the command that does it; why
// says what is missing, if it was begun, and shares which shares of it, if it was begun in shares.
func (s stage) incomplete(l *Lake, why, shares string) error {
	what := fmt.Sprintf("stage %s of scenario %s is not complete: ", s.name, s.place.scenario)
	if why != "" {
		what += why + ": "
	}
	switch s.name {
	case "generate":
		return errors.New(what + "run the scenario again (parsimon run, or parsimon generate)")
	case "exact":
		return fmt.Errorf("%srun \"parsimon validate --lake %s --scenario %s --truth exact\"", what, l.root, s.place.scenario)
	}
	command := fmt.Sprintf("parsimon %s --lake %s --scenario %s", s.name, l.root, s.place.scenario)
	if s.place.variant != "" {
		command += " " + variantFlags(s.place.variant)
	}
	if shares != "" {
		return fmt.Errorf("%srun \"%s --shard %s\" first, and with the --partitions of the others", what, command, shares)
	}
	return fmt.Errorf("%srun \"%s\" first", what, command)
}

// inputs reads the plan and records of a stage that another one needs, and makes sure, once a run,
// that what they say is there is there.
func (r *Run) inputs(s stage) (stagePlan, []*taskRecord, error) {
	plan, done, err := s.complete(r.lake)
	if err != nil {
		return plan, nil, err
	}
	check := r.lake.check
	if r.shared() { // not every process reads every byte: what is damaged shows where it is used
		check = r.lake.checkSize
	}
	for n, rec := range done {
		for _, p := range rec.Parts {
			if p.Gone || r.sound[p.Path] { // who reads what is gone is told then
				continue
			}
			if err := check(p); err != nil {
				if now, ok := r.goneSince(s, n); ok {
					done[n] = now
					break
				}
				return plan, nil, fmt.Errorf("stage %s of scenario %s is damaged: %w: run the scenario again to mend it", s.name, s.place.scenario, err)
			}
			r.sound[p.Path] = true
		}
	}
	return plan, done, nil
}

// partsOf collects the parts of one table from the records of a stage, in task order.
func partsOf(records []*taskRecord, t schema.Table) []part {
	var parts []part
	for _, rec := range records {
		for _, p := range rec.Parts {
			if strings.HasPrefix(p.Path, t.Name+"/") {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// perform does the tasks of a stage that are not done yet, on the run's workers, costliest first.
// Each worker has its own work, made by newWork. A failed task stops the others at their next
// chance; what was committed stays.
func (r *Run) perform(ctx context.Context, s stage, tasks []task, unit string, newWork func() (work, error)) error {
	return r.performKeyed(ctx, s, tasks, nil, unit, newWork)
}

// performKeyed is perform for tasks whose whole input has a digest each (or nil): a scenario made from
// another shares what the base has made of the same.
func (r *Run) performKeyed(ctx context.Context, s stage, tasks []task, keys []string, unit string, newWork func() (work, error)) error {
	began, cpu := time.Now(), processorSeconds()
	plan := stagePlan{Stage: s.name, Method: methodVersion, Tasks: tasks, Program: r.programOf(s)}
	mine := r.chosen(tasks)
	done, release, err := r.settle(s, plan, mine)
	if err != nil {
		return err
	}
	defer release()
	if err := r.inherit(s, plan, keys, mine, done); err != nil {
		return err
	}
	var todo []int
	var total int64
	others := 0
	for n, rec := range done {
		if !mine[n] {
			others++
		} else if rec == nil {
			todo = append(todo, n)
			total += tasks[n].Cost
		}
	}
	if r.planning {
		r.todo = todo
		return errPlanned
	}
	slices.SortStableFunc(todo, func(a, b int) int { return int(min(1, max(-1, tasks[b].Cost-tasks[a].Cost))) })
	report := StageReport{Stage: s.name, Tasks: len(tasks) - others, Reused: len(tasks) - others - len(todo)}
	r.progress.begin(s.name, unit, total)

	ctx = pprof.WithLabels(ctx, pprof.Labels("stage", s.name)) // for --cpu-profile
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan int, len(todo))
	for _, n := range todo {
		queue <- n
	}
	close(queue)
	memory := newRoom(r.memory)
	var wg sync.WaitGroup
	for range min(r.workers, len(todo)) {
		wg.Go(func() {
			pprof.SetGoroutineLabels(ctx)
			do, err := newWork()
			if err != nil {
				cancel(err)
				return
			}
			for n := range queue {
				if ctx.Err() != nil {
					return
				}
				key := ""
				if keys != nil {
					key = keys[n]
				}
				needs := r.taskBytes(s, tasks[n])
				memory.enter(needs)
				rec, err := r.performTask(ctx, s, n, tasks[n], key, do)
				memory.leave(needs)
				if err != nil {
					cancel(fmt.Errorf("stage %s, task %d of %d: %w", s.name, n+1, len(tasks), err))
					return
				}
				done[n] = rec
			}
		})
	}
	wg.Wait()
	r.progress.end()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, rec := range done {
		if rec == nil { // another process's
			continue
		}
		report.Critical = max(report.Critical, float64(rec.CriticalNS)/1e9)
		for _, p := range rec.Parts {
			r.sound[p.Path] = true
		}
	}
	if len(todo) == 0 && r.reported[s.path(r.lake, "")] {
		return nil // found complete once more
	}
	report.Seconds, report.CPU, report.PeakBytes = time.Since(began).Seconds(), processorSeconds()-cpu, peakBytes()
	if r.reported == nil {
		r.reported = map[string]bool{}
	}
	r.reported[s.path(r.lake, "")] = true
	r.report(report)
	return r.endShare(s)
}

// performTask does one task and records it.
func (r *Run) performTask(ctx context.Context, s stage, n int, t task, key string, do work) (*taskRecord, error) {
	began := time.Now()
	parts, criticalNS, stats, err := do(ctx, n, t)
	for err != nil && r.shared() {
		if rec, ok := r.taken(s, n); ok { // whatever else went wrong: what it read may be gone, since all is done
			return rec, nil
		}
		if !errors.Is(err, errTaken) {
			break
		}
		// Of two others that finished at the same moment one's file stands and the other's record, just now.
		parts, criticalNS, stats, err = do(ctx, n, t)
	}
	if err != nil {
		return nil, err
	}
	rec := &taskRecord{Parts: parts, Seconds: time.Since(began).Seconds(), CriticalNS: criticalNS, Key: key}
	if criticalNS == 0 {
		rec.CriticalNS = time.Since(began).Nanoseconds()
	}
	if rec.Stats, err = json.Marshal(stats); err != nil {
		return nil, err
	}
	return rec, r.record(s, n, rec)
}

// resume finds what a former run left of the same plan, of the tasks that are mine.
func (r *Run) resume(s stage, plan stagePlan, mine []bool) ([]*taskRecord, error) {
	done := make([]*taskRecord, len(plan.Tasks))
	for n := range done {
		if !mine[n] {
			continue
		}
		path := s.path(r.lake, recordName(n))
		var rec taskRecord
		if ok, err := r.lake.readState(path, &rec); err != nil || !ok { // a damaged record is a task to do again
			continue
		}
		if rec.gone() && !r.estimating && !r.shared() { // asked for by itself: its files are wanted
			continue
		}
		done[n] = &rec
		for _, p := range rec.Parts {
			if p.Gone {
				continue
			}
			if err := r.lake.check(p); err != nil {
				if now, ok := r.goneSince(s, n); ok {
					done[n] = now
					break
				}
				r.log.Warn().Err(err).Str("stage", s.name).Int("task", n).Msg("damaged: the task is done again")
				done[n] = nil
				if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					return nil, err
				}
				break
			}
		}
	}
	return done, nil
}

// plan makes a plan the one in force. What was done by another is cleared away.
func (r *Run) plan(s stage, plan stagePlan) error {
	var old stagePlan
	found, err := r.lake.readState(s.path(r.lake, "plan.json"), &old)
	if err != nil {
		r.log.Warn().Err(err).Str("stage", s.name).Msg("plan is damaged: the stage starts again")
	}
	if found && old.equal(plan) {
		return nil
	}
	if found && old.Method == plan.Method && r.shared() { // not for one of many to undo what others have done
		return s.otherPlan(old, plan)
	}
	if err := os.RemoveAll(s.path(r.lake, "")); err != nil {
		return err
	}
	for _, t := range s.tables {
		if err := r.lake.removeTable(t, s.place); err != nil {
			return err
		}
	}
	return r.lake.writeState(s.path(r.lake, "plan.json"), plan)
}

// produce does one task that writes part n of each of the stage's tables. do writes them, one
// writer a table; if it succeeds they are committed, if not nothing of them is left.
func (r *Run) produce(s stage, n int, do func(out []*partWriter) (criticalNS int64, stats any, err error)) (parts []part, criticalNS int64, stats any, err error) {
	var out []*partWriter
	defer func() {
		for _, w := range out {
			w.abandon()
		}
	}()
	for _, t := range s.tables {
		w, err := r.lake.create(t, s.place.file(t, n))
		if err != nil {
			return nil, 0, nil, err
		}
		out = append(out, w)
	}
	if criticalNS, stats, err = do(out); err != nil {
		return nil, 0, nil, err
	}
	if r.shared() {
		if _, ok := r.taken(s, n); ok {
			return nil, 0, nil, errTaken
		}
	}
	for _, w := range out {
		p, err := w.commit()
		if err != nil {
			return nil, 0, nil, err
		}
		parts = append(parts, p)
	}
	return parts, criticalNS, stats, nil
}

// inParallel does n things on the run's workers, in any order. Each worker has its own way of doing them, made
// by newDo. The first error stops the others at their next chance.
func (r *Run) inParallel(ctx context.Context, n int, newDo func() (func(i int) error, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan int, n)
	for i := range n {
		queue <- i
	}
	close(queue)
	var wg sync.WaitGroup
	for range min(r.workers, n) {
		wg.Go(func() {
			do, err := newDo()
			for i := range queue {
				if err == nil && ctx.Err() == nil {
					err = do(i)
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
