package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/names"
)

// A Record says that a task is done.
type Record struct {
	Task       int             `json:"task"` // its number, from 1
	Files      []lake.DataFile `json:"files"`
	Seconds    float64         `json:"seconds"`
	CriticalNS int64           `json:"critical_ns"` // the longest piece that cannot be divided further
	Stats      json.RawMessage `json:"stats,omitempty"`
}

// layout is the content of plan.json: how a stage is cut into tasks.
type layout struct {
	Stage  string `json:"stage"`
	Method int    `json:"method"`
	Tasks  []Task `json:"tasks"`
}

func (l layout) equal(m layout) bool {
	return l.Stage == m.Stage && l.Method == m.Method && slices.Equal(l.Tasks, m.Tasks)
}

// Records are the tasks of a stage with their records: nil for a task that is not done.
type Records struct {
	Stage *Stage
	layout
	Done []*Record
}

// Files are the data files of one table, in the order of the tasks.
func (r Records) Files(t schema.Table) []lake.DataFile { return lake.FilesOf(r.AllFiles(), t) }

// AllFiles are the data files of all tables, by task.
func (r Records) AllFiles() (files []lake.DataFile) {
	for _, rec := range r.Done {
		if rec != nil {
			files = append(files, rec.Files...)
		}
	}
	return files
}

// Complete reports whether all tasks are done, by this version of the method.
func (r Records) Complete(method int) bool {
	return len(r.Tasks) > 0 && r.Method == method && !slices.Contains(r.Done, nil)
}

// Stats decodes the statistics of each task that is done.
func Stats[T any](r Records) ([]T, error) {
	var all []T
	for n, rec := range r.Done {
		if rec == nil {
			continue
		}
		var x T
		if err := json.Unmarshal(rec.Stats, &x); err != nil {
			return nil, fmt.Errorf("statistics of stage %s, task %d: %w", r.Stage, n+1, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// ReadRecords reads the records of a stage. found is false for a stage that was never begun. A damaged record
// counts as a task that is not done; an error of the disk does not.
func ReadRecords(l *lake.Lake, s *Stage) (r Records, found bool, err error) {
	r.Stage = s
	if r.layout, found, err = readLayout(l, s); err != nil || !found {
		return r, false, err
	}
	there, err := l.StateFiles(s.StatePath()) // one listing: a plan may name millions of tasks that never ran
	if err != nil {
		return r, true, err
	}
	r.Done = make([]*Record, len(r.Tasks))
	for n := range r.Tasks {
		if !there[recordName(n)] {
			continue
		}
		if r.Done[n], err = readRecord(l, s, n); err != nil {
			return r, true, err
		}
	}
	return r, true, nil
}

// readLayout reads how a stage is cut into tasks.
func readLayout(l *lake.Lake, s *Stage) (now layout, found bool, err error) {
	found, err = l.ReadState(s.StatePath("plan.json"), &now)
	return now, found, err
}

// readRecord reads the record of a task; nil if there is none, it is damaged, or it is that of another task.
func readRecord(l *lake.Lake, s *Stage, n int) (*Record, error) {
	var rec Record
	ok, err := l.ReadState(s.StatePath(recordName(n)), &rec)
	if lake.IsReadError(err) {
		return nil, err
	}
	if err != nil || !ok || rec.Task != n+1 {
		return nil, nil
	}
	return &rec, nil
}

// An IncompleteError is the error of reading from a stage whose tasks are not all done.
type IncompleteError struct {
	Stage  *Stage
	Why    string // what is missing, if the stage was begun
	Shards string // which shards are missing, if it was begun in shards
}

// Error names the missing stage and the command that runs it.
func (e *IncompleteError) Error() string {
	text := fmt.Sprintf("stage %s of scenario %s is not complete: ", e.Stage.Name, e.Stage.Place.Scenario)
	if e.Why != "" {
		text += e.Why + ": "
	}
	if e.Shards != "" {
		return fmt.Sprintf("%srun \"%s --shard %s\" first, with the --partitions of the others", text, e.Stage.Command, e.Shards)
	}
	return fmt.Sprintf("%srun \"%s\" first", text, e.Stage.Command)
}

// Complete reads the records of a stage that must be complete.
func Complete(l *lake.Lake, s *Stage, method int) (Records, error) {
	r, found, err := ReadRecords(l, s)
	if err != nil {
		return r, err
	}
	if found && r.Complete(method) {
		return r, nil
	}
	incomplete := &IncompleteError{Stage: s}
	switch {
	case found && r.Method == method:
		incomplete.Why, incomplete.Shards = missing(l, r)
	case found:
		incomplete.Why = fmt.Sprintf("it was made by version %d of the method, and this program has version %d", r.Method,
			method)
	}
	return r, incomplete
}

// missing describes the tasks that are not done, and the shards they belong to ("1, 3/4") if the stage was last run
// in shards.
func missing(l *lake.Lake, r Records) (text, shards string) {
	var tasks []int
	for n, rec := range r.Done {
		if rec == nil {
			tasks = append(tasks, n+1)
		}
	}
	const most = 12 // tasks, or shards, that are named
	text = fmt.Sprintf("%d of %d tasks are not done (%s)", len(tasks), len(r.Done),
		names.Listed(names.Of(tasks, strconv.Itoa), most))
	var count int
	ok, err := l.ReadState(r.Stage.StatePath(shardsState), &count)
	if err != nil || !ok || count < 1 || count > maxShards {
		return text, ""
	}
	shard := assign(r.Tasks, count)
	of := slices.Sorted(slices.Values(names.Of(tasks, func(n int) int { return shard[n-1] })))
	return text, fmt.Sprintf("%s/%d", names.Listed(names.Of(slices.Compact(of), strconv.Itoa), most), count)
}

// Repair makes those stages of a plan run again whose collected files a stage needs that is not complete, or whose own
// files are damaged. It removes the records of damaged tasks: Collect must not take a stage for complete that will read
// again.
func (e *Executor) Repair(p Plan) error {
	for i := len(p) - 1; i >= 0; i-- { // a writer that runs again is itself a reader of earlier stages
		r, _, err := ReadRecords(e.lake, p[i])
		if lake.IsReadError(err) {
			return err
		}
		if rerr := e.dropDamaged(r); rerr != nil {
			return rerr
		}
		if err == nil && r.Complete(e.Method) {
			continue
		}
		delete(e.known, p[i].StatePath())
		for _, o := range p[i].Reads {
			if !slices.ContainsFunc(p, func(s *Stage) bool { return same(s, o.Stage) }) {
				continue // of another scenario, which this session does not own
			}
			if err := e.invalidate(o.Stage, o.Table); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropDamaged removes the records of tasks whose files are not those that were committed, which are to run again. An
// error, such as that of a disk, is no damage: the records are right.
func (e *Executor) dropDamaged(r Records) error {
	for n, rec := range r.Done {
		if rec == nil {
			continue
		}
		err := e.verify(rec, e.lake.Check)
		if err == nil {
			continue
		}
		if !errors.As(err, new(*lake.DamageError)) {
			return err
		}
		e.Log.Warn().Err(err).Str("stage", r.Stage.String()).Int("task", n).Msg("damaged: the task runs again")
		if err := e.session.RemoveState(r.Stage.StatePath(recordName(n))); err != nil {
			return err
		}
		r.Done[n] = nil
	}
	return nil
}

// verify reports damage of a task's files, by check, unless they are verified or collected.
func (e *Executor) verify(rec *Record, check func(lake.DataFile) error) error {
	for _, f := range rec.Files {
		if e.verified[f.Path] {
			continue
		}
		if err := check(f); err != nil && !lake.IsCollected(err) {
			return err
		}
		e.verified[f.Path] = true
	}
	return nil
}

// invalidate makes a stage do those of its tasks again whose files of a table were collected.
func (e *Executor) invalidate(s *Stage, t schema.Table) error {
	r, found, err := ReadRecords(e.lake, s)
	if lake.IsReadError(err) {
		return err
	}
	if err != nil || !found {
		return nil // it runs again in any case
	}
	logged := false
	for n, rec := range r.Done {
		if rec == nil || !slices.ContainsFunc(lake.FilesOf(rec.Files, t), e.lake.Collected) {
			continue
		}
		if !logged {
			e.Log.Info().Str("stage", s.String()).Str("table", t.Name).
				Msg("a removed temporary table is needed again: the stage runs again")
			logged = true
		}
		if err := e.session.RemoveState(s.StatePath(recordName(n))); err != nil {
			return err
		}
	}
	delete(e.known, s.StatePath())
	return nil
}

// restore makes the stage that writes a collected file run again if a stage failed because it needs the file: one that
// was cut into other tasks than before. again is true if the plan is to be run once more.
func (e *Executor) restore(p Plan, failed error) (again bool, err error) {
	var want *lake.CollectedError
	if !errors.As(failed, &want) {
		return false, nil
	}
	for _, s := range p {
		for _, t := range s.Writes {
			if strings.HasPrefix(want.Path, s.Place.Dir(t)+"/") {
				return true, e.invalidate(s, t)
			}
		}
	}
	return false, nil
}

// Temporary tables are most of what an estimate writes, and no question reads them. They are removed as soon as every
// stage that reads them is complete. A file of a temporary table that a record names and that is not there was
// collected: its task is done for as long as no stage needs the file.

// Collect removes the temporary tables of a plan that no stage of it still needs, unless Settings.Keep.
func (e *Executor) Collect(p Plan) error {
	if e.Keep {
		return nil
	}
	for _, s := range p {
		for _, t := range s.Writes {
			o := s.Output(t)
			if !t.Temporary || !e.unneeded(o, p) {
				continue
			}
			if err := e.collect(s, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// unneeded reports whether a table is complete, has readers, and all of them are complete. A table that only a longer
// plan reads is needed until all stages that read any temporary table are complete.
func (e *Executor) unneeded(o Output, p Plan) bool {
	var readers, others []*Stage
	for _, s := range p {
		switch {
		case s.reads(o):
			readers = append(readers, s)
		case slices.ContainsFunc(s.Reads, func(r Output) bool { return r.Table.Temporary }):
			others = append(others, s)
		}
	}
	if len(readers) == 0 {
		readers = others
	}
	for _, s := range readers {
		if !e.isComplete(s) {
			return false
		}
	}
	return len(readers) > 0 && e.isComplete(o.Stage)
}

// isComplete reports whether all tasks of a stage are done.
func (e *Executor) isComplete(s *Stage) bool {
	if _, ok := e.known[s.StatePath()]; ok {
		return true
	}
	_, err := Complete(e.lake, s, e.Method)
	return err == nil
}

// collect removes a stage's files of a table. A late attempt may install a file meanwhile: a later call removes it.
func (e *Executor) collect(s *Stage, t schema.Table) error {
	if !e.lake.Exists(s.Place.Dir(t)) {
		return nil
	}
	err := e.session.RemoveTable(t, s.Place)
	if e.shared() && errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return err
}
