package engine

import (
	"errors"
	"slices"
	"syscall"

	"parsimon/schema"
)

// Temporary tables are most of what an estimate writes, and no question reads them. They are removed as soon as every
// stage that reads them is complete. The records of the tasks say so before the files are removed: a killed process
// leaves files that no record counts on. A stage whose files were collected is complete for as long as no stage needs
// them.

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

// collect removes a stage's files of a table.
func (e *Executor) collect(s *Stage, t schema.Table) error {
	for again := true; again; {
		r, ok := e.known[s.StatePath()]
		if !ok {
			var err error
			if r, err = Complete(e.lake, s, e.Method); err != nil {
				return err
			}
		}
		marked, err := e.markCollected(s, t, r)
		if err != nil {
			return err
		}
		if !marked && !e.shared() {
			return nil
		}
		err = e.session.RemoveTable(t, s.Place)
		if err != nil && (!e.shared() || !errors.Is(err, syscall.ENOTEMPTY)) { // a late attempt has installed a file
			return err
		}
		again = marked && e.shared() // a late attempt may have written its record meanwhile
	}
	return nil
}

// markCollected notes in the records of a stage that its files of a table are collected. marked is false if all of them
// say so already.
func (e *Executor) markCollected(s *Stage, t schema.Table, r Records) (marked bool, err error) {
	for n, rec := range r.Done {
		changed := false
		for i := range rec.Files {
			f := &rec.Files[i]
			if !f.Collected && f.Of(t) {
				f.Collected, changed = true, true
			}
		}
		if !changed {
			continue
		}
		if err := e.session.WriteState(s.StatePath(recordName(n)), rec); err != nil {
			return marked, err
		}
		marked = true
	}
	return marked, nil
}
