package engine

import (
	"errors"
	"slices"
	"strings"

	"parsimon/pipeline/lake"
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
		damaged, derr := e.damaged(p[i], r)
		if derr != nil {
			return derr
		}
		if err == nil && r.Complete(e.Method) && len(damaged) == 0 {
			continue
		}
		for _, n := range damaged {
			e.Log.Warn().Str("stage", p[i].String()).Int("task", n).Msg("damaged: the task runs again")
			if err := e.session.RemoveState(p[i].StatePath(recordName(n))); err != nil {
				return err
			}
		}
		delete(e.known, p[i].StatePath())
		for _, o := range p[i].Reads {
			if !slices.ContainsFunc(p, func(s *Stage) bool { return same(s, o.Stage) }) {
				continue // of another scenario, which this session does not own
			}
			if err := e.invalidate(o.Stage, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// intact reports whether a stage is complete and its files, except collected ones, are undamaged.
func (e *Executor) intact(s *Stage) bool {
	r, err := Complete(e.lake, s, e.Method)
	if err != nil {
		return false
	}
	damaged, err := e.damaged(s, r)
	return err == nil && len(damaged) == 0
}

// damaged lists the tasks that are recorded but whose files, except collected ones, are not those that were committed.
// An error, such as that of a disk, is no damage: the records are right.
func (e *Executor) damaged(s *Stage, r Records) (tasks []int, err error) {
	for n, rec := range r.Done {
		if rec == nil {
			continue
		}
		err := e.undamaged(rec)
		if err == nil {
			continue
		}
		if _, ok := e.collectedSince(s, n); ok {
			continue
		}
		if !isDamage(err) {
			return nil, err
		}
		tasks = append(tasks, n)
	}
	return tasks, nil
}

// undamaged reports whether a task's files, except collected ones, are those that were committed.
func (e *Executor) undamaged(rec *Record) error {
	for _, f := range rec.Files {
		if f.Collected || e.verified[f.Path] {
			continue
		}
		if err := e.lake.Check(f); err != nil {
			return err
		}
		e.verified[f.Path] = true
	}
	return nil
}

func isDamage(err error) bool {
	var damage *lake.DamageError
	return errors.As(err, &damage)
}

// invalidate makes a stage do those of its tasks again whose files of a table were collected.
func (e *Executor) invalidate(s *Stage, o Output) error {
	r, found, err := ReadRecords(e.lake, s)
	if lake.IsReadError(err) {
		return err
	}
	if err != nil || !found {
		return nil // it runs again in any case
	}
	logged := false
	for n, rec := range r.Done {
		if rec == nil || !rec.collectedOf(o) {
			continue
		}
		if !logged {
			e.Log.Info().Str("stage", s.String()).Str("table", o.Table.Name).Msg("a removed temporary table is needed again: the stage runs again")
			logged = true
		}
		if err := e.session.RemoveState(s.StatePath(recordName(n))); err != nil {
			return err
		}
	}
	delete(e.known, s.StatePath())
	return nil
}

func (r *Record) collectedOf(o Output) bool {
	for _, f := range r.Files {
		if f.Collected && f.Of(o.Table) {
			return true
		}
	}
	return false
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
				return true, e.invalidate(s, s.Output(t))
			}
		}
	}
	return false, nil
}
