// Package engine runs the stages of a plan on a lake and records which tasks are complete.
//
// A plan is a list of stages in order. A stage declares the tables that it reads, by the stage that writes
// them, the tables that it writes, how it is divided into tasks, and the function that runs one task:
//
//	             Reads                      Cut, Open                    Writes
//	stage A ──► table of A ──►  tasks of B on workers, shards or Beam ──► tables of B ──► stage C
//
// The engine derives everything else from these declarations: the order of work, where a killed run
// continues, which shard runs which task, how many tasks fit in memory at once, and when a temporary table
// can be removed. It also derives which stages must run again if a removed or damaged file is needed
// (records.go).
//
// A task is the unit of work and of retries. Its files are installed first. The task is complete once they
// are named by its record:
//
//	_state/scenario=<id>[/variant=<name>]/<stage>/task-NNNNN.json
//
// A record whose files are damaged is ignored. plan.json, beside the records, lists the tasks. If a stage
// would be divided differently, it begins again.
//
// If a task fails, the run of its process ends. Complete tasks stay complete, and the next run of the same
// plan runs the others. If another process has completed the task in the meantime, the task has not failed
// (runTask). Beam repeats failed tasks by itself, so TaskRunner.Do may be called again for the same task.
package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/together"
)

// Settings control how an Executor works. None of them changes the rows of a table.
type Settings struct {
	Workers     int   // goroutines; 0: one per core
	MemoryBytes int64 // memory limit of all running tasks together
	Keep        bool  // keep temporary tables
	Method      int   // version of the method: records of other versions are ignored
	Shard       Shard
	Log         zerolog.Logger
	Progress    Progress // nil: none
}

// An Executor runs stages on a lake. Only one goroutine at a time may use it.
type Executor struct {
	Settings
	lake    *lake.Lake
	session *lake.Session // nil: the executor only reads
	choose  choice        // nil: this process runs all tasks, and no other process works on the scenario

	Reports  []Report
	reported map[string]bool    // stages that were reported, by state path
	known    map[string]Records // complete stages, by state path
	verified map[string]bool    // data files written or checked by this executor, by path
	whole    bool               // a whole plan runs: collected tables may be missing
}

// Reader returns an executor that only reads records.
func Reader(l *lake.Lake, s Settings) *Executor {
	if s.Workers <= 0 {
		s.Workers = runtime.GOMAXPROCS(0)
	}
	s.Progress = cmp.Or[Progress](s.Progress, Silent{})
	return &Executor{Settings: s, lake: l, reported: map[string]bool{}, known: map[string]Records{},
		verified: map[string]bool{}}
}

// New returns an executor that runs stages in a session.
func New(session *lake.Session, s Settings) *Executor {
	e := Reader(session.Lake, s)
	e.session, e.choose = session, s.Shard.choice()
	return e
}

// Session returns the executor's session, or nil if the executor only reads.
func (e *Executor) Session() *lake.Session { return e.session }

// Records returns the records of a complete stage. It verifies the stage's data files once, except collected
// ones.
func (e *Executor) Records(s *Stage) (Records, error) {
	if r, ok := e.known[s.StatePath()]; ok {
		return r, nil
	}
	r, err := Complete(e.lake, s, e.Method)
	if err != nil {
		return r, err
	}
	check := e.lake.Check
	if e.shared() { // one of several processes does not read every byte: damage is found where a file is used
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

// Run runs all stages of a plan in order. Before that, it repairs the stages that the plan needs. It removes
// temporary tables as soon as no stage of the plan needs them.
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

// runStages runs the stages of a plan in order, and collects temporary tables after each stage.
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

// RunStage runs one stage of a plan. The stages that it reads from must be complete. Tasks
// that an older program ran without one of the tables run again. Without shards, so do tasks whose files were
// collected. With shards, the process that completes the stage collects the tables
// that no stage of the plan needs any longer.
func (e *Executor) RunStage(ctx context.Context, p Plan, s *Stage) error {
	if err := e.runStage(ctx, s); err != nil {
		return err
	}
	if e.Shard.Count == 0 {
		return nil
	}
	return e.endShard(p, s)
}

// runStage runs the incomplete tasks of a stage, the longest first. If a task fails, the other workers stop
// before their next task. Committed files stay.
func (e *Executor) runStage(ctx context.Context, s *Stage) error {
	began := time.Now()
	cpu := ProcessorSeconds()
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
		if rec == nil { // a task of another process
			continue
		}
		critical = max(critical, float64(rec.CriticalNS)/1e9)
		for _, f := range rec.Files {
			e.verified[f.Path] = true
		}
	}
	if len(todo) > 0 || !e.reported[s.StatePath()] {
		e.reported[s.StatePath()] = true
		r := Report{
			Stage: s.Name, Pass: s.Pass, Tasks: job.own, Reused: job.own - len(todo),
			Seconds: time.Since(began).Seconds(), CPUSeconds: ProcessorSeconds() - cpu,
			CriticalSeconds: critical, PeakBytes: PeakBytes(),
		}
		e.Reports = append(e.Reports, r)
		e.Log.Info().Str("stage", r.Stage).Int("tasks", r.Tasks).Int("reused", r.Reused).
			Float64("seconds", math.Round(r.Seconds*1e3)/1e3).
			Float64("cpu_seconds", math.Round(r.CPUSeconds*1e3)/1e3).Msg("stage done")
	}
	return e.accept(s)
}

// accept checks a complete stage against the settings of this run, which can reject results that an earlier
// run accepted.
func (e *Executor) accept(s *Stage) error {
	if s.Check == nil {
		return nil
	}
	r, err := e.Records(s)
	var incomplete *IncompleteError
	if e.shared() && errors.As(err, &incomplete) { // other processes are still working
		return nil
	}
	if err != nil {
		return err
	}
	return s.Check(r)
}

// A job is a stage whose division into tasks is fixed.
type job struct {
	Records
	in      *Inputs
	work    []int64 // relative duration of each task
	mine    []bool  // the tasks that this process runs
	own     int     // the number of those tasks
	release func()  // releases the stage's lock
}

// prepare divides a stage into tasks and finds the complete ones.
func (e *Executor) prepare(s *Stage) (j *job, err error) {
	j = &job{Records: Records{Stage: s, layout: layout{Stage: s.Name, Method: e.Method}}}
	if j.in, err = e.inputs(s); err != nil {
		return nil, err
	}
	prior, _, err := readLayout(e.lake, s)
	if err != nil || prior.Method != e.Method {
		prior.Tasks = nil
	}
	err = guard(s, func() (err error) {
		if j.Tasks, err = s.Cut(j.in, prior.Tasks); err == nil {
			j.work, err = work(s, j.in, j.Tasks)
		}
		return err
	})
	if err != nil {
		return nil, stageError(s, err)
	}
	j.mine = e.chosen(j.Tasks)
	for _, mine := range j.mine {
		if mine {
			j.own++
		}
	}
	return j, e.settle(j)
}

// stageError adds the name of a stage to a panic outside its tasks. Other errors of the preparation describe
// themselves.
func stageError(s *Stage, err error) error {
	if errors.As(err, new(*PanicError)) {
		return fmt.Errorf("stage %s: %w", s.Name, err)
	}
	return err
}

// work returns the relative duration of each task of a stage.
func work(s *Stage, in *Inputs, tasks []Task) ([]int64, error) {
	if s.Work != nil {
		return s.Work(in, tasks)
	}
	return names.Of(tasks, func(t Task) int64 { return t.Cost }), nil
}

// todo returns the incomplete tasks of this process, the longest first, and their total cost.
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

// runTasks runs tasks on the executor's workers. It runs as many tasks at once as fit in memory together.
func (e *Executor) runTasks(ctx context.Context, j *job, todo []int) error {
	if len(todo) == 0 {
		return nil
	}
	if err := j.in.check(j.Stage); err != nil {
		return err
	}
	ctx = pprof.WithLabels(ctx, pprof.Labels("stage", j.Stage.Name)) // for --cpu-profile
	var worker Worker
	err := guard(j.Stage, func() (err error) {
		worker, err = j.Stage.Open(j.in)
		return err
	})
	if err != nil {
		return stageError(j.Stage, err)
	}
	budget := semaphore.NewWeighted(e.MemoryBytes)
	return Parallel(ctx, e.Workers, len(todo), func(ctx context.Context, i int) error {
		n := todo[i]
		bytes := e.MemoryBytes // a task that exceeds the limit runs alone
		rows := max(0, j.Tasks[n].Rows)
		if rows < e.MemoryBytes/max(1, j.Stage.BytesPerRow) {
			bytes = rows * j.Stage.BytesPerRow
		}
		if err := budget.Acquire(ctx, bytes); err != nil {
			return err
		}
		defer budget.Release(bytes)
		rec, err := e.runTask(ctx, j, n, worker)
		panicked := (*PanicError)(nil)
		if errors.As(err, &panicked) {
			e.Log.Debug().Bytes("stack", panicked.Stack).Msg("panic of a task")
		}
		if err != nil {
			return fmt.Errorf("stage %s, task %d of %d: %w", j.Stage.Name, n+1, len(j.Tasks), err)
		}
		j.Done[n] = rec
		return nil
	})
}

// settle makes a job's layout the current one and finds the complete tasks. Until release is called, no other
// process begins the stage again.
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

// begin makes a layout the current one. It removes the records of another layout. The committed data files of
// that layout stay until the new ones are committed.
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
	// One of several processes must not remove the results of the others.
	if found && old.Method == l.Method && e.shared() {
		return otherLayout(s, old, l)
	}
	if err := removeStage(e.session, s); err != nil {
		return err
	}
	return e.session.WriteState(s.StatePath("plan.json"), l)
}

// resume finds the records of an earlier run for the tasks of this process. A task with damaged files counts
// as incomplete. If the stage runs alone or in shards, a task that an older program ran without one of the
// tables also counts as incomplete, because its files are the purpose of the run. If the stage runs alone, so
// does a task whose files were collected.
func (e *Executor) resume(j *job) (err error) {
	j.Done = make([]*Record, len(j.Tasks))
	for n, mine := range j.mine {
		if !mine {
			continue
		}
		if j.Done[n], err = readRecord(e.lake, j.Stage, n); err != nil {
			return err
		}
		rec := j.Done[n]
		if rec == nil || e.whole || e.shared() && e.Shard.Count == 0 {
			continue
		}
		if rec.lacksAny(j.Stage.Writes) ||
			!e.shared() && slices.ContainsFunc(rec.Files, e.lake.Collected) {
			j.Done[n] = nil
		}
	}
	return e.dropDamaged(j.Records)
}

// removeStage removes the records and the temporary tables of a stage. Its other data files stay until a
// commit no longer names them.
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

// Parallel calls do for each of n items, in order, on at most the given number of workers. The first error
// stops the other workers before their next item. A panic is an error, too.
func Parallel(ctx context.Context, workers, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, workers))
	for i := range n {
		g.Go(func() error {
			pprof.SetGoroutineLabels(ctx) // those of the context, for --cpu-profile
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return together.Do(func() error { return do(ctx, i) })
		})
	}
	return g.Wait()
}

// An Attempt is one attempt to run a task. It is the interface of a Worker to the engine.
type Attempt struct {
	Task
	N int // index of the task

	in       *Inputs
	session  *lake.Session
	stage    *Stage
	progress Progress
	open     []schema.Batches
	out      []*lake.Writer
	sinks    map[string]*lake.Writer // by table
	files    []lake.DataFile         // committed by the worker itself
	stats    any
	critical int64
	added    atomic.Bool // progress was reported
	err      error       // error of creating a file
}

// Read streams a table that the stage declares; see lake.Lake.Read. The engine closes the stream.
func (t *Attempt) Read(o Output, keep *lake.Range) schema.Batches {
	return t.ReadAll([]Output{o}, keep)
}

// ReadAll is Read for a table that several stages write. It reads their files one after the other.
func (t *Attempt) ReadAll(of []Output, keep *lake.Range) schema.Batches {
	var files []lake.DataFile
	for _, o := range of {
		files = append(files, t.in.Files(o)...)
	}
	return t.read(of[0], files, keep)
}

func (t *Attempt) read(o Output, files []lake.DataFile, keep *lake.Range) schema.Batches {
	in := t.session.Read(o.Table, files, keep)
	t.open = append(t.open, in)
	return in
}

// ReadChunk reads only the file that was written by the task with the same index.
func (t *Attempt) ReadChunk(o Output) schema.Batches {
	return t.read(o, t.in.Files(o)[t.N:t.N+1], nil)
}

// Inputs returns the records of the stages that the stage reads from.
func (t *Attempt) Inputs() *Inputs { return t.in }

// Range selects the task's rows of a column.
func (t *Attempt) Range(column string) *lake.Range {
	return &lake.Range{Column: column, Lo: t.Lo, Hi: t.Hi}
}

// Sink returns the sink for the task's rows of a table, or nil if the stage does not write the table. The
// engine commits the file if the worker succeeds.
func (t *Attempt) Sink(table schema.Table) schema.Sink {
	if w, ok := t.sinks[table.Name]; ok {
		return w
	}
	if !t.stage.WritesTable(table) {
		return nil
	}
	w, err := t.session.Create(table, t.stage.Place, t.stage.Place.File(table, t.N))
	if err != nil {
		t.err = err
		return failedSink{err}
	}
	if t.sinks == nil {
		t.sinks = map[string]*lake.Writer{}
	}
	t.sinks[table.Name] = w
	t.out = append(t.out, w)
	return w
}

// Session returns the session, for files that Sink cannot write: several files of one table, or shared files.
// The worker commits these files and passes them to Adopt.
func (t *Attempt) Session() *lake.Session { return t.session }

// Adopt adds files that the worker has committed to the task's record.
func (t *Attempt) Adopt(files ...lake.DataFile) { t.files = append(t.files, files...) }

// Add reports progress in the stage's unit. If a task never calls it, the task's cost is added when the task
// is complete.
func (t *Attempt) Add(n int64) {
	t.added.Store(true)
	t.progress.Add(n)
}

// SetStats sets the statistics that are stored in the task's record. v must be encodable as JSON.
func (t *Attempt) SetStats(v any) { t.stats = v }

// SetCritical sets the duration, in ns, of the longest part of the task that cannot be divided further. By
// default, the whole task is one such part.
func (t *Attempt) SetCritical(ns int64) { t.critical = max(1, ns) }

// runTask runs one task and records it. If the attempt fails, the run ends and the next run repeats the task.
// There is one exception: if another process has completed the task in the meantime, the attempt has not
// failed, because its inputs may have been collected since.
func (e *Executor) runTask(ctx context.Context, j *job, n int, worker Worker) (rec *Record, err error) {
	t := &Attempt{Task: j.Tasks[n], N: n, in: j.in, session: e.session, stage: j.Stage, progress: e.Progress}
	defer func() {
		for _, w := range t.out {
			w.Abandon() // unfinished files
		}
	}()
	began := time.Now()
	err = t.work(ctx, worker)
	if rec := e.taken(j.Stage, n); rec != nil {
		return rec, nil
	}
	if err == nil {
		if rec, err = t.commit(time.Since(began)); err == nil {
			err = e.session.WriteState(j.Stage.StatePath(recordName(n)), rec)
		}
	}
	if err != nil {
		rec := e.taken(j.Stage, n)
		if rec != nil {
			return rec, nil
		}
	}
	return rec, err
}

// work runs the worker and closes the streams that it opened.
func (t *Attempt) work(ctx context.Context, worker Worker) error {
	err := guard(t.stage, func() error { return worker(ctx, t) })
	for _, in := range t.open {
		_ = in.Close() // it was read to its end, or an error is reported
	}
	if err == nil && !t.added.Load() {
		t.Add(t.Cost)
	}
	return errors.Join(err, t.err)
}

// A PanicError is a panic in the code of a stage, converted to an error. The most likely cause is a lake from
// an untrusted source with values that this program cannot have written.
type PanicError struct {
	Value  any
	Tables []string // tables that the task was reading
	Stack  []byte
}

// Error describes the panic without its stack trace.
func (e *PanicError) Error() string {
	return fmt.Sprintf("impossible values in table %s, or a defect of the program: panic: %v",
		strings.Join(e.Tables, " or "), e.Value)
}

// guard calls do, which reads the tables that a stage declares, and converts a panic to an error. It also
// recognizes the panic of a goroutine that do has waited for.
func guard(s *Stage, do func() error) (err error) {
	fault := together.Catch(func() { err = do() })
	if fault == nil && !errors.As(err, &fault) {
		return err
	}
	tables := names.Of(s.Reads, func(o Output) string { return o.Table.Name })
	slices.Sort(tables)
	return &PanicError{fault.Value, slices.Compact(tables), fault.Stack}
}

// commit installs the files of the attempt. It does not write the task's record.
func (t *Attempt) commit(took time.Duration) (rec *Record, err error) {
	rec = &Record{Task: t.N + 1, Files: t.files, Seconds: took.Seconds(),
		CriticalNS: cmp.Or(t.critical, took.Nanoseconds())}
	for _, w := range t.out {
		d, err := w.Commit()
		if err != nil {
			return nil, err
		}
		rec.Files = append(rec.Files, d)
	}
	rec.Stats, err = json.Marshal(t.stats)
	return rec, err
}

type failedSink struct{ err error }

func (f failedSink) Write(arrow.Record) error { return f.err }
