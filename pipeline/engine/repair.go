package engine

import (
	"errors"
	"parsimon/pipeline/lake"
	"strings"
)

// Repair makes those stages of a plan run again whose collected files a stage needs that is not complete, or whose own
// files are damaged.
func (e *Executor) Repair(p Plan) error {
	for i := len(p) - 1; i >= 0; i-- { // a writer that runs again is itself a reader of earlier stages
		if e.intact(p[i]) {
			continue
		}
		for _, o := range p[i].Reads {
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
	for _, rec := range r.Done {
		for _, f := range rec.Files {
			if f.Collected || e.verified[f.Path] {
				continue
			}
			if e.lake.Check(f) != nil {
				return false
			}
			e.verified[f.Path] = true
		}
	}
	return true
}

// invalidate makes a stage do those of its tasks again whose files of a table were collected.
func (e *Executor) invalidate(s *Stage, o Output) error {
	r, found, err := ReadRecords(e.lake, s)
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

// restore makes the stage that writes a collected file run again if a stage failed because it needs the file: one that was
// cut into other tasks than before. again is true if the plan is to be run once more.
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
