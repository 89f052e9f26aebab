package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
)

// What only passes tell each other (tables hop_waits, lent_waits, elsewhere and
// sender_elsewhere) is most of what a run writes, and
// nobody asks for it afterwards. So Estimate lets go of a table as soon as the stages that read it are
// complete, unless the run is to keep everything. The records of the tasks say what is gone: a stage whose
// files are gone is complete for as long as no other stage wants to read them. If one does, because its own
// files are damaged, or because more passes are asked for, the stage is done again; its link cases are in
// the cache. A stage that is asked for by itself is done again too: then its files are wanted.

// errTidied is wrapped by the error of who reads a file that was let go.
var errTidied = errors.New("was let go when it was not needed any more")

// A tidiedError says which stage has to be done again, and of which scenario.
type tidiedError struct{ path string }

func (e *tidiedError) Error() string {
	return fmt.Sprintf("%s %v: run the stage that makes it again, or the scenario with --keep in a lake of its own", e.path, errTidied)
}
func (e *tidiedError) Unwrap() error { return errTidied }

// goneBatches is the stream of files some of which were let go.
type goneBatches struct{ path string }

func (g goneBatches) Next() (arrow.Record, error) { return nil, &tidiedError{g.path} }
func (g goneBatches) Close() error                { return nil }

// tidy lets go of a table of a stage that is complete. The records say so before the files go, so that a
// run that is killed in between leaves files that nobody counts on.
func (r *Run) tidy(s stage, t schema.Table) error {
	if r.keep {
		return nil
	}
	_, done, err := s.complete(r.lake)
	if err != nil {
		return err
	}
	for n, rec := range done {
		changed := false
		for i := range rec.Parts {
			p := &rec.Parts[i]
			if !p.Gone && strings.HasPrefix(p.Path, t.Name+"/") {
				p.Gone, changed = true, true
			}
		}
		if changed {
			if err := r.lake.writeState(s.path(r.lake, recordName(n)), rec); err != nil {
				return err
			}
		}
	}
	return r.lake.removeTable(t, s.place)
}

// untidy makes a stage do those of its tasks again whose files were let go.
func (r *Run) untidy(s stage) error {
	_, done, _, err := s.records(r.lake)
	if err != nil {
		return err
	}
	for n, rec := range done {
		if rec == nil || !rec.gone() {
			continue
		}
		if err := os.Remove(s.path(r.lake, recordName(n))); err != nil {
			return err
		}
	}
	return nil
}

// gone says whether files of the task were let go.
func (rec *taskRecord) gone() bool {
	for _, p := range rec.Parts {
		if p.Gone {
			return true
		}
	}
	return false
}

// restoring does all the steps of an estimate, and where one of them wants files that were let go, has
// the stage that makes them done again and starts over: what is complete is passed over.
func (r *Run) restoring(steps func() error) error {
	for {
		err := steps()
		var want *tidiedError
		if !errors.As(err, &want) {
			return err
		}
		s, ok := r.makerOf(want.path)
		if !ok {
			return err
		}
		r.log.Info().Str("table", filepath.Dir(filepath.FromSlash(want.path))).Msg("was let go and is needed again: it is made again")
		if err := r.untidy(s); err != nil {
			return err
		}
	}
}

// makerOf is the stage of the run's scenario that makes a file that can be let go.
func (r *Run) makerOf(path string) (stage, bool) {
	for n := 1; n <= max(r.passes, autoPasses); n++ {
		for _, s := range []stage{r.passStage(n), r.lendStage(n), r.relaxStage(n), r.tellStageOf(n)} {
			for _, t := range s.tables {
				if strings.HasPrefix(path, s.place.dir(t)+"/") {
					return s, true
				}
			}
		}
	}
	return stage{}, false
}
