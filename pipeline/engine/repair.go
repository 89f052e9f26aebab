package engine

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"parsimon/pipeline/lake"
	"parsimon/schema"
)

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
