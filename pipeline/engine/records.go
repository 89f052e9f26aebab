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

// A Record records that a task is complete.
type Record struct {
	Task    int             `json:"task"` // number of the task, starting from 1
	Files   []lake.DataFile `json:"files"`
	Seconds float64         `json:"seconds"`
	// Duration of the longest part that cannot be divided further.
	CriticalNS int64           `json:"critical_ns"`
	Stats      json.RawMessage `json:"stats,omitempty"`
}

// layout is the content of plan.json: how a stage is divided into tasks.
type layout struct {
	Stage  string `json:"stage"`
	Method int    `json:"method"`
	Tasks  []Task `json:"tasks"`
}

func (l layout) equal(m layout) bool {
	return l.Stage == m.Stage && l.Method == m.Method && slices.Equal(l.Tasks, m.Tasks)
}

// lacks reports whether the task lacks a required table because an older version ran it.
func (r *Record) lacks(t schema.Table) bool {
	return slices.Contains(schema.Required, t.Name) && len(lake.FilesOf(r.Files, t)) == 0
}

func (r *Record) lacksAny(of []schema.Table) bool { return slices.ContainsFunc(of, r.lacks) }

// Records are the tasks of a stage with their records. The record of an incomplete task is nil.
type Records struct {
	Stage *Stage
	layout
	Done []*Record
}

// Files returns the data files of one table, in the order of the tasks.
func (r Records) Files(t schema.Table) []lake.DataFile { return lake.FilesOf(r.AllFiles(), t) }

// AllFiles returns the data files of all tables, in the order of the tasks.
func (r Records) AllFiles() (files []lake.DataFile) {
	for _, rec := range r.Done {
		if rec != nil {
			files = append(files, rec.Files...)
		}
	}
	return files
}

// Complete reports whether all tasks were completed by this version of the method.
func (r Records) Complete(method int) bool {
	return len(r.Tasks) > 0 && r.Method == method && !slices.Contains(r.Done, nil)
}

// Stats decodes the statistics of each complete task.
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

// ReadRecords reads the records of a stage. If the stage was never begun, found is false. If a record is
// damaged, its task counts as incomplete. I/O errors are returned.
func ReadRecords(l *lake.Lake, s *Stage) (r Records, found bool, err error) {
	r.Stage = s
	if r.layout, found, err = readLayout(l, s); err != nil || !found {
		return r, false, err
	}
	// List the directory once, because a plan may have millions of tasks that never ran.
	there, err := l.StateFiles(s.StatePath())
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

// readLayout reads how a stage is divided into tasks.
func readLayout(l *lake.Lake, s *Stage) (now layout, found bool, err error) {
	found, err = l.ReadState(s.StatePath("plan.json"), &now)
	return now, found, err
}

// readRecord reads the record of a task. It returns nil if the record is missing, is damaged, belongs to
// another task, or names a file of a table that this program no longer has.
func readRecord(l *lake.Lake, s *Stage, n int) (*Record, error) {
	var rec Record
	ok, err := l.ReadState(s.StatePath(recordName(n)), &rec)
	if lake.IsReadError(err) {
		return nil, err
	}
	if err != nil || !ok || rec.Task != n+1 || slices.ContainsFunc(rec.Files, lake.DataFile.Removed) {
		return nil, nil
	}
	return &rec, nil
}

// An IncompleteError is the error of reading from a stage with incomplete tasks.
type IncompleteError struct {
	Stage  *Stage
	Why    string // what is missing, if the stage was begun
	Shards string // the missing shards, if the stage was begun in shards
}

// Error names the missing stage and the command that runs it.
func (e *IncompleteError) Error() string {
	text := fmt.Sprintf("stage %s of scenario %s is not complete: ", e.Stage.Name, e.Stage.Place.Scenario)
	if e.Why != "" {
		text += e.Why + ": "
	}
	if e.Shards != "" {
		return fmt.Sprintf("%srun \"%s --shard %s\" first, with the --partitions of the others", text,
			e.Stage.Command, e.Shards)
	}
	return fmt.Sprintf("%srun \"%s\" first", text, e.Stage.Command)
}

// Complete reads the records of a stage. It returns an error if the stage is not complete.
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
		incomplete.Why = fmt.Sprintf("it was made by version %d of the method, and this program has version %d",
			r.Method, method)
	}
	return r, incomplete
}

// missing describes the incomplete tasks and, if the stage was last run in shards, their shards ("1, 3/4").
func missing(l *lake.Lake, r Records) (text, shards string) {
	var tasks []int
	for n, rec := range r.Done {
		if rec == nil {
			tasks = append(tasks, n+1)
		}
	}
	const most = 12 // maximum number of tasks or shards to list
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

// Repair prepares a plan to run again. If a stage is incomplete or its own files are damaged, the stages
// whose collected or missing files it needs will run again. Repair removes the records of damaged tasks,
// because Collect must not treat a stage as complete while it may still read a table.
func (e *Executor) Repair(p Plan) error {
	for i := len(p) - 1; i >= 0; i-- { // a writer that runs again itself reads from earlier stages
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
				continue // belongs to another scenario, for which this session holds no lock
			}
			if err := e.invalidate(o.Stage, o.Table); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropDamaged removes the records of tasks whose files differ from what was committed, so that the tasks run
// again. Other errors, such as I/O errors, are not damage. They are returned and the records stay.
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

// verify calls check for each of a task's files that was neither verified before nor collected.
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

// invalidate makes those tasks of a stage run again whose files of a table were collected, or that an older
// program ran without the table.
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
		if rec == nil || !rec.lacks(t) && !slices.ContainsFunc(lake.FilesOf(rec.Files, t), e.lake.Collected) {
			continue
		}
		if !logged {
			e.Log.Info().Str("stage", s.String()).Str("table", t.Name).
				Msg("a missing table is needed: the stage runs again")
			logged = true
		}
		if err := e.session.RemoveState(s.StatePath(recordName(n))); err != nil {
			return err
		}
	}
	delete(e.known, s.StatePath())
	return nil
}

// restore handles the failure of a stage that needs a collected file, such as a stage that is divided into
// different tasks than before. It makes the stage that writes the file run again. again is true if the plan
// must run once more.
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

// Temporary tables are most of the data that an estimate writes, and no query reads them. They are removed as
// soon as every stage that reads them is complete. If a record names a missing file of a temporary table, the
// file was collected. Its task counts as complete as long as no stage needs the file.

// Collect removes the temporary tables of a plan that none of its stages still needs. With Settings.Keep, it
// does nothing.
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

// unneeded reports whether a table is complete, has readers, and all of its readers are complete. If only a
// longer plan reads the table, it is needed until all stages that read any temporary table are complete.
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

// isComplete reports whether all tasks of a stage are complete.
func (e *Executor) isComplete(s *Stage) bool {
	if _, ok := e.known[s.StatePath()]; ok {
		return true
	}
	_, err := Complete(e.lake, s, e.Method)
	return err == nil
}

// collect removes a stage's files of a table. If a late attempt installs a file in the meantime, a later call
// removes it.
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
