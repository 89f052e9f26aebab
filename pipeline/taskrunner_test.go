package pipeline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
)

// A distributed job represents a program, such as a Beam runner, that runs the tasks of an estimate.
type distributedJob struct {
	*testing.T
	lake   string
	runner *engine.TaskRunner
}

// passesWith counts the passes that have files of a table.
func (t *distributedJob) passesWith(table schema.Table) int {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(t.lake, table.Name, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(dirs)
}

type attempt struct {
	step string
	n    int
}

// do runs the tasks of some steps. Each task runs twice at once. The last task of each step runs once more
// after the next step has begun. do returns the number of tasks that were not complete before.
func (t *distributedJob) do(steps []string) (did int) {
	t.Helper()
	var late []attempt
	for at, step := range steps {
		if at > 0 {
			if err := t.runner.Finish(t.Context(), steps[at-1]); err != nil {
				t.Fatalf("after %s: %v", steps[at-1], err)
			}
		}
		todo, err := t.runner.Plan(t.Context(), step)
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		did += len(todo)
		tries := late
		late = nil
		for i, n := range todo {
			tries = append(tries, attempt{step, n}, attempt{step, n})
			if i == len(todo)-1 {
				late = append(late, attempt{step, n})
			}
		}
		var wg sync.WaitGroup
		errs := make([]error, len(tries))
		for i, try := range tries {
			wg.Go(func() { errs[i] = t.runner.Do(t.Context(), try.step, try.n) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		for _, table := range []schema.Table{schema.Feedback, schema.SenderFeedback} {
			n := t.passesWith(table)
			if n > 2 {
				t.Errorf("after %s there is %s of %d passes", step, table.Name, n)
			}
		}
	}
	if err := t.runner.Finish(t.Context(), steps[len(steps)-1]); err != nil {
		t.Fatal(err)
	}
	return did
}

// complete checks whether the runner reports that all tasks are complete.
func (t *distributedJob) complete(when string, want bool) {
	t.Helper()
	if done, err := t.runner.Complete(t.Context()); err != nil || done != want {
		t.Errorf("%s: complete %v, %v", when, done, err)
	}
}

// An engine runs every task twice at once. It repeats the last task of each step after the next step has
// begun. Halfway it starts again from the first step, like Flink after a failure. The rows are those of an
// undivided run, and temporary tables are collected along the way. If a task is lost after a collection, its
// inputs are recomputed. In the short form, a task of one stage is lost each day.
func TestTaskRunner(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	testTaskRunner(t, topology, flows)
}

func testTaskRunner(tt *testing.T, topology, flows string) {
	o := options{Lake: tt.TempDir(), Variant: flowOf(2), Workers: 2, Partitions: 3}
	estimate(tt, topology, flows, o)
	want := digestOf(tt, o.Lake, estimators.Flow)

	t := &distributedJob{T: tt, lake: tt.TempDir()}
	o.Lake = t.lake
	run := begin(t, topology, flows, o)
	if err := run.Generate(t.Context()); err != nil {
		t.Fatal(err)
	}
	run.Close()
	var err error
	if t.runner, err = NewTaskRunner(t.Context(), o.Lake, string(run.ID()), o.Variant, o.must(t)); err != nil {
		t.Fatal(err)
	}
	steps := t.runner.Steps()
	half := steps[:len(steps)-4] // up to stage simulate of the last pass
	t.do(half)
	n := t.passesWith(schema.Feedback)
	if n != 0 {
		t.Errorf("%d passes have files of feedback after the last pass", n)
	}
	if t.passesWith(schema.HopObservations) == 0 {
		t.Error("the observations of the last pass are collected before sender-feedback")
	}
	did := t.do(half)
	if did != 0 {
		t.Errorf("begun again: %d tasks done again", did)
	}
	t.complete("half done", false)
	t.do(steps)
	check := func(when string) {
		t.Helper()
		publish(t, o)
		have := digestOf(t, t.lake, estimators.Flow)
		if have != want {
			t.Errorf("%s: %s, undivided %s", when, have, want)
		}
		for _, table := range temporaryTables {
			if t.passesWith(table) > 0 {
				t.Errorf("%s: %s is left", when, table.Name)
			}
		}
		t.complete(when, true)
	}
	check("done")
	for i, lost := range []string{"simulate/task-00001.json", "sample/task-00000.json",
		"replay/task-00002.json"} {
		if daily.Skips(i, 3) {
			continue
		}
		if err := os.Remove(filepath.Join(t.lake, "_state", "scenario="+string(run.ID()),
			"variant="+o.Variant.String(), filepath.FromSlash(lost))); err != nil {
			t.Fatal(err)
		}
		t.complete("without "+lost, false)
		t.do(steps)
		check("again, " + lost)
	}
}

// publish commits the results of a job, as the job does at its end.
func publish(t testing.TB, o options) {
	t.Helper()
	run := resume(t, o)
	defer run.Close()
	if err := run.Collect(); err != nil {
		t.Fatal(err)
	}
}

// A task runner refuses variants whose steps are not known in advance.
func TestTaskRunnerNeedsSteps(t *testing.T) {
	if _, err := NewTaskRunner(t.Context(), t.TempDir(), "", choose, Settings{}); err == nil ||
		!strings.Contains(err.Error(), "name one") {
		t.Error(err)
	}
}
