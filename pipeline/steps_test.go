package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"parsimon/schema"
	"parsimon/stages"
)

// An engine that tries every task twice at once, the last of each step once more when the step after it has begun, and
// begins again from the first step in the middle, as Flink does after a failure: the rows of a run on its
// own, and along the way nothing lies about that only passes needed. A task that is lost when all has been let go
// is found to need what was let go.
func TestHand(t *testing.T) {
	topology, flows := trace(t, 3000)
	for _, cluster := range []bool{false, true} {
		alone, lake := t.TempDir(), t.TempDir()
		o := Options{Estimator: stages.Flow, Passes: 3, Workers: 2, Partitions: 4, Log: zerolog.Nop()}
		if cluster {
			c, err := stages.ParseClustering("5%")
			if err != nil {
				t.Fatal(err)
			}
			o.Cluster = c
		}
		o.Lake = alone
		estimate(t, topology, flows, o)
		want := digestOf(t, alone, stages.Flow)
		o.Lake = lake
		s, err := TraceScenario(topology, flows)
		if err != nil {
			t.Fatal(err)
		}
		run, err := Begin(s, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Generate(context.Background()); err != nil {
			t.Fatal(err)
		}
		run.Close()
		h, err := NewHand(run.ScenarioID(), o)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := h.Steps()
		if err != nil {
			t.Fatal(err)
		}
		// passing says how many passes have files of a table.
		passing := func(table schema.Table) int {
			dirs, err := filepath.Glob(filepath.Join(lake, table.Name, "*", "*"))
			if err != nil {
				t.Fatal(err)
			}
			return len(dirs)
		}
		type attempt struct {
			step Step
			n    int
		}
		engine := func(steps []Step) (did int) {
			var late []attempt
			for at, step := range steps {
				if at > 0 {
					if err := h.Finish(context.Background(), steps[at-1]); err != nil {
						t.Fatalf("after %s: %v", steps[at-1], err)
					}
				}
				todo, err := h.Plan(context.Background(), step)
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
					wg.Go(func() { errs[i] = h.Do(context.Background(), try.step, try.n) })
				}
				wg.Wait()
				if err := errors.Join(errs...); err != nil {
					t.Fatalf("%s: %v", step, err)
				}
				for _, table := range []schema.Table{schema.HopObservations, schema.ImputedObservations, schema.Feedback, schema.SenderFeedback} {
					if n := passing(table); n > 2 {
						t.Errorf("after %s there is %s of %d passes", step, table.Name, n)
					}
				}
			}
			if err := h.Finish(context.Background(), steps[len(steps)-1]); err != nil {
				t.Fatal(err)
			}
			return did
		}
		engine(steps[:len(steps)-4]) // up to the last pass's simulate or lend
		if passing(schema.Feedback) != 1 {
			t.Errorf("%d passes have files of elsewhere before the last pass ends", passing(schema.Feedback))
		}
		if did := engine(steps[:len(steps)-4]); did != 0 {
			t.Errorf("begun again: %d tasks done again", did)
		}
		if done, err := h.Done(context.Background()); err != nil || done {
			t.Errorf("half done is done: %v, %v", done, err)
		}
		engine(steps)
		check := func(when string) {
			t.Helper()
			if have := digestOf(t, lake, stages.Flow); have != want {
				t.Errorf("%s: %s, on its own %s", when, have, want)
			}
			for _, table := range []schema.Table{schema.HopObservations, schema.ImputedObservations, schema.Feedback, schema.SenderFeedback} {
				if passing(table) > 0 {
					t.Errorf("%s: %s is left", when, table.Name)
				}
			}
			if done, err := h.Done(context.Background()); err != nil || !done {
				t.Errorf("%s: done %v, %v", when, done, err)
			}
		}
		check("done")
		variant := filepath.Join(lake, "_state", "scenario="+run.ScenarioID(), "variant="+run.Variant())
		for _, lost := range []string{filepath.Join("simulate", "task-00001.json"), filepath.Join("sample", "task-00000.json"), filepath.Join("replay", "task-00002.json")} {
			if err := os.Remove(filepath.Join(variant, lost)); err != nil {
				t.Fatal(err)
			}
			if done, err := h.Done(context.Background()); err != nil || done {
				t.Errorf("without %s: done %v, %v", lost, done, err)
			}
			engine(steps)
			check("again, " + lost)
		}
	}
}
