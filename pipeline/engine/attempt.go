package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// An Attempt is one attempt at one task, as a Worker sees it.
type Attempt struct {
	Task
	N int // number of the task

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
	err      error // of creating a file
}

// Read streams columns (all if nil) of a table that the stage declares; see lake.Lake.Read. The engine closes the
// stream.
func (t *Attempt) Read(o Output, columns []string, keep *lake.Range) schema.Batches {
	return t.ReadAll([]Output{o}, columns, keep)
}

// ReadAll is Read of a table that several stages write, one after the other.
func (t *Attempt) ReadAll(of []Output, columns []string, keep *lake.Range) schema.Batches {
	var files []lake.DataFile
	for _, o := range of {
		files = append(files, t.in.Files(o)...)
	}
	return t.read(of[0], files, columns, keep)
}

func (t *Attempt) read(o Output, files []lake.DataFile, columns []string, keep *lake.Range) schema.Batches {
	in := t.session.Read(o.Table, files, columns, keep)
	t.open = append(t.open, in)
	return in
}

// ReadChunk is Read of the one file that the task of the same number wrote.
func (t *Attempt) ReadChunk(o Output) schema.Batches {
	return t.read(o, t.in.Files(o)[t.N:t.N+1], nil, nil)
}

// Inputs are the records of the stages that the stage reads from.
func (t *Attempt) Inputs() *Inputs { return t.in }

// Range selects the task's rows of a column.
func (t *Attempt) Range(column string) *lake.Range {
	return &lake.Range{Column: column, Lo: t.Lo, Hi: t.Hi}
}

// Sink is where the task's rows of one of the stage's tables go. The engine commits the file if the worker succeeds.
func (t *Attempt) Sink(table schema.Table) schema.Sink {
	if w, ok := t.sinks[table.Name]; ok {
		return w
	}
	w, err := t.session.Create(table, t.stage.Place.File(table, t.N))
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

// Session writes files that Sink does not: several of one table, or shared ones. The worker commits them and names them
// with Adopt.
func (t *Attempt) Session() *lake.Session { return t.session }

// Adopt adds files that the worker has committed to the task's record.
func (t *Attempt) Adopt(files ...lake.DataFile) { t.files = append(t.files, files...) }

// Add reports progress in the stage's unit.
func (t *Attempt) Add(n int64) { t.progress.Add(n) }

// SetStats sets the statistics that the task's record keeps: a value with JSON names.
func (t *Attempt) SetStats(v any) { t.stats = v }

// SetCritical sets the time of the task's longest piece that cannot be divided further; without it, the whole task is
// one piece.
func (t *Attempt) SetCritical(ns int64) { t.critical = max(1, ns) }

// runTask does one task and records it. A failed attempt ends the run, and the next run repeats the task. Another
// process may have done the task meanwhile, and what this attempt read may have been collected since: then it has not
// failed.
func (e *Executor) runTask(ctx context.Context, j *job, n int, worker Worker) (rec *Record, err error) {
	t := &Attempt{Task: j.Tasks[n], N: n, in: j.in, session: e.session, stage: j.Stage, progress: e.Progress}
	defer t.abandon()
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
		if rec := e.taken(j.Stage, n); rec != nil {
			return rec, nil
		}
	}
	return rec, err
}

// work runs the worker and closes what it read.
func (t *Attempt) work(ctx context.Context, worker Worker) error {
	err := worker(ctx, t)
	for _, in := range t.open {
		_ = in.Close() // read to its end, or an error is reported
	}
	return errors.Join(err, t.err)
}

// commit installs the files. The task's record is not written yet.
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

// abandon removes unfinished files.
func (t *Attempt) abandon() {
	for _, w := range t.out {
		w.Abandon()
	}
}

type failedSink struct{ err error }

func (f failedSink) Write(arrow.Record) error { return f.err }
