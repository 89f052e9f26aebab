package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/stages"
)

// What only passes tell each other (tables hop_observations, imputed_observations, elsewhere and sender_feedback) is most of
// what a run writes, and nobody asks for it afterwards. So Estimate lets go of a table as soon as the stages that read it are
// complete, unless the run is to keep everything. The records of the tasks say what is gone: a stage whose
// files are gone is complete for as long as no other stage wants to read them. If one does, because its own
// files are damaged, or because more passes are asked for, the stage is done again; its link cases are in
// the cache. A stage that a process on its own is asked for by itself is done again too: then its files are
// wanted.
//
// Of several processes (share.go), who finds a stage complete lets go of what it was the last to read. Two may do
// so at once.

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

// canGo says whether a path is that of a file that is ever let go.
func canGo(path string) bool {
	for _, t := range []schema.Table{schema.HopObservations, schema.ImputedObservations, schema.Feedback, schema.SenderFeedback} {
		if strings.HasPrefix(path, t.Name+"/") {
			return true
		}
	}
	return false
}

// tidy lets go of a table of a stage that is complete. The records say so before the files go, so that a
// run that is killed in between leaves files that nobody counts on.
func (r *Run) tidy(s stage, t schema.Table) error {
	for again := !r.keep; again; {
		_, done, err := s.complete(r.lake)
		if err != nil {
			return err
		}
		said, err := r.sayGone(s, t, done)
		if err != nil {
			return err
		}
		err = r.lake.removeTable(t, s.place)
		if err != nil && (!r.shared() || !errors.Is(err, syscall.ENOTEMPTY)) { // a late attempt has put a file there
			return err
		}
		again = said && r.shared() // a late attempt may have written its record just then
	}
	return nil
}

// sayGone notes in the records of a stage that its files of a table are gone, unless they all say so.
func (r *Run) sayGone(s stage, t schema.Table, done []*taskRecord) (said bool, err error) {
	for n, rec := range done {
		changed := false
		for i := range rec.Parts {
			p := &rec.Parts[i]
			if !p.Gone && strings.HasPrefix(p.Path, t.Name+"/") {
				p.Gone, changed = true, true
			}
		}
		if !changed {
			continue
		}
		if err := r.lake.writeState(s.path(r.lake, recordName(n)), rec); err != nil {
			return said, err
		}
		said = true
	}
	return said, nil
}

// tidyAfter lets go of what nobody needs any more once a stage of estimator flow is complete, as Estimate does
// along the way.
func (r *Run) tidyAfter(s stage) error {
	if r.estimator != stages.Flow || r.keep {
		return nil
	}
	switch s.name {
	case "feedback": // the next pass is told
		v, err := parseVariant(s.place.variant)
		if err != nil {
			return err
		}
		return r.tidyPass(v.passes)
	case "sample": // the estimate is made
		if err := r.tidy(r.tellStage(), schema.SenderFeedback); err != nil {
			return err
		}
		return r.tidyPass(r.passes)
	}
	return nil
}

// tidyPass lets go of what a pass was told and of what it has found.
func (r *Run) tidyPass(n int) error {
	if n > 1 {
		if err := r.tidy(r.relaxStage(n-1), schema.Feedback); err != nil {
			return err
		}
	}
	if err := r.tidy(r.passStage(n), schema.HopObservations); err != nil {
		return err
	}
	if r.cluster == nil {
		return nil
	}
	return r.tidy(r.imputeStage(n), schema.ImputedObservations)
}

// mend has those stages done again whose files were let go and are wanted by a stage of the estimate that is
// not complete: what restoring finds out on the way, for who hands out the tasks of all stages at once.
func (r *Run) mend() error {
	if r.estimator != stages.Flow {
		return nil
	}
	type need struct {
		reader stage
		makers []stage
	}
	var needs []need
	var given, observed []stage // what the pass before has told the next, and what packets met in this one
	for n := 1; n <= r.passes; n++ {
		needs = append(needs, need{r.passStage(n), given})
		observed = []stage{r.passStage(n)}
		if r.cluster != nil {
			needs = append(needs, need{r.imputeStage(n), observed})
			observed = []stage{r.passStage(n), r.imputeStage(n)}
		}
		if n < r.passes {
			needs = append(needs, need{r.relaxStage(n), slices.Concat(observed, given)})
			given = []stage{r.relaxStage(n)}
		}
	}
	needs = append(needs, need{r.tellStage(), observed}, need{r.sendersStage(), []stage{r.tellStage()}}, need{r.sampleStage(), observed})
	for _, n := range slices.Backward(needs) { // a maker that is to be done again is itself a reader
		if r.isSound(n.reader) {
			continue
		}
		for _, maker := range n.makers {
			if err := r.untidy(maker); err != nil {
				return err
			}
		}
	}
	return nil
}

// isSound says whether a stage is complete and its files, but those that were let go, are undamaged.
func (r *Run) isSound(s stage) bool {
	_, done, err := s.complete(r.lake)
	if err != nil {
		return false
	}
	for _, rec := range done {
		for _, p := range rec.Parts {
			if !p.Gone && r.lake.check(p) != nil {
				return false
			}
		}
	}
	return true
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
		for _, s := range []stage{r.passStage(n), r.imputeStage(n), r.relaxStage(n), r.tellStageOf(n)} {
			for _, t := range s.tables {
				if strings.HasPrefix(path, s.place.dir(t)+"/") {
					return s, true
				}
			}
		}
	}
	return stage{}, false
}
