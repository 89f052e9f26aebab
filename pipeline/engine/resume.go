package engine

import "parsimon/pipeline/lake"

// settle makes a layout the one in force and finds the tasks that are done. Until release, no process begins the
// stage again. first is the number of the data files of task 0.
func (e *Executor) settle(s *Stage, l layout, mine []bool) (done []*Record, first int, release func(), err error) {
	if e.shared() {
		return e.settleShared(s, l, mine)
	}
	if first, err = e.begin(s, l); err != nil {
		return nil, 0, nil, err
	}
	done, err = e.resume(s, l, mine)
	return done, first, func() {}, err
}

// begin makes a layout the one in force. The records of another layout are removed; its committed data files stay until
// the new ones are committed.
func (e *Executor) begin(s *Stage, l layout) (first int, err error) {
	var old layout
	found, err := e.lake.ReadState(s.StatePath("plan.json"), &old)
	if err != nil && !isDamage(err) {
		return 0, err
	}
	if err != nil {
		e.Log.Warn().Err(err).Str("stage", s.Name).Msg("the plan is damaged: the stage begins again")
	}
	if found && old.equal(l) {
		return old.First, nil
	}
	if found && old.Method == l.Method && e.shared() { // one of several processes must not remove what others have done
		return 0, otherLayout(s, old, l)
	}
	if err := RemoveStage(e.session, s); err != nil {
		return 0, err
	}
	if l.First, err = e.lake.NextNumber(s.Place, s.Writes); err != nil {
		return 0, err
	}
	return l.First, e.session.WriteState(s.StatePath("plan.json"), l)
}

// resume finds the records of a former run, of the tasks of this process. A task whose files are damaged is not done.
func (e *Executor) resume(s *Stage, l layout, mine []bool) ([]*Record, error) {
	done := make([]*Record, len(l.Tasks))
	for n := range done {
		if !mine[n] {
			continue
		}
		rec, err := readRecord(e.lake, s, n)
		if err != nil {
			return nil, err
		}
		if rec == nil {
			continue
		}
		if rec.collected() && !e.whole && !e.shared() { // the stage runs alone: its files are wanted
			continue
		}
		done[n] = rec
		for _, f := range rec.Files {
			if f.Collected || e.verified[f.Path] {
				continue
			}
			err := e.lake.Check(f)
			if err == nil {
				e.verified[f.Path] = true
				continue
			}
			if now, ok := e.collectedSince(s, n); ok {
				done[n] = now
				break
			}
			if !isDamage(err) {
				return nil, err
			}
			e.Log.Warn().Err(err).Str("stage", s.Name).Int("task", n).Msg("damaged: the task runs again")
			done[n] = nil
			if err := e.session.RemoveState(s.StatePath(recordName(n))); err != nil {
				return nil, err
			}
			break
		}
	}
	return done, nil
}

// RemoveStage removes the records of a stage and its temporary tables. Its other data files stay until a commit does
// not name them.
func RemoveStage(session *lake.Session, s *Stage) error {
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
