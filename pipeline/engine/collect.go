package engine

import (
	"errors"
	"slices"
	"syscall"

	"parsimon/schema"
)

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

// collected reports whether files of a task were removed.
func (e *Executor) collected(rec *Record) bool {
	return slices.ContainsFunc(rec.Files, e.lake.Collected)
}
