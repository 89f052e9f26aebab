package engine

import "parsimon/pipeline/lake"

// settle makes a job's layout the one in force and finds the tasks that are done. Until release, no process begins the
// stage again.
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

// begin makes a layout the one in force. The records of another layout are removed; its committed data files stay until
// the new ones are committed.
func (e *Executor) begin(s *Stage, l layout) error {
	old, found, err := readLayout(e.lake, s)
	if err != nil && !isDamage(err) {
		return err
	}
	if err != nil {
		e.Log.Warn().Err(err).Str("stage", s.Name).Msg("the plan is damaged: the stage begins again")
	}
	if found && old.equal(l) {
		return nil
	}
	if found && old.Method == l.Method && e.shared() { // one of several processes must not remove what others have done
		return otherLayout(s, old, l)
	}
	if err := RemoveStage(e.session, s); err != nil {
		return err
	}
	return e.session.WriteState(s.StatePath("plan.json"), l)
}

// resume finds the records of a former run, of the tasks of this process. A task whose files are damaged is not done,
// nor, where the stage runs alone, one whose files were collected: they are wanted.
func (e *Executor) resume(j *job) (err error) {
	j.Done = make([]*Record, len(j.Tasks))
	for n, mine := range j.mine {
		if !mine {
			continue
		}
		if j.Done[n], err = readRecord(e.lake, j.Stage, n); err != nil {
			return err
		}
		if rec := j.Done[n]; rec != nil && !e.whole && !e.shared() && e.collected(rec) {
			j.Done[n] = nil
		}
	}
	return e.dropDamaged(j.Records)
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
