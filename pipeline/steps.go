package pipeline

import (
	"context"
	"errors"
	"fmt"

	"parsimon/stages"
)

// This file is for engines that hand out tasks to processes on many machines, such as Apache Beam's
// runners. All they need to pass on is which step and which task; the rest stands in the lake.

// A Step is one stage of an estimate; where estimator Flow goes through a stage once a pass, of one
// pass (from 1 on), else Pass is 0.
type Step struct {
	Stage string
	Pass  int
}

// String names the step as messages do.
func (s Step) String() string {
	if s.Pass > 0 {
		return fmt.Sprintf("%s %d", s.Stage, s.Pass)
	}
	return s.Stage
}

// Steps are the steps of the run's estimate that come after Generate, in order. A step needs all
// tasks of the steps before it: each is a barrier to the next. With AutoPasses they are not known.
func (r *Run) Steps() ([]Step, error) {
	if r.estimator != stages.Flow {
		if r.cluster != nil {
			return []Step{{"route", 0}, {"cluster", 0}, {"simulate", 0}, {"bucket", 0}, {"draw", 0}, {"sample", 0}, {"intervals", 0}}, nil
		}
		return []Step{{"route", 0}, {"simulate", 0}, {"bucket", 0}, {"sample", 0}, {"intervals", 0}}, nil
	}
	if r.passes == AutoPasses {
		return nil, errors.New("with passes made until the percentiles stop moving, the steps are not known before: ask for a number of passes")
	}
	steps := []Step{{"route", 0}}
	if r.cluster != nil {
		steps = append(steps, Step{"cluster", 0})
	}
	for n := 1; n <= r.passes; n++ {
		steps = append(steps, Step{"simulate", n})
		if r.cluster != nil {
			steps = append(steps, Step{"impute", n})
		}
		if n < r.passes {
			steps = append(steps, Step{"feedback", n})
		}
	}
	return append(steps, Step{"sender-feedback", 0}, Step{"replay", 0}, Step{"sample", 0}, Step{"intervals", 0}), nil
}

// Step does one of the run's Steps.
func (r *Run) Step(ctx context.Context, s Step) error {
	switch s.Stage {
	case "route":
		return r.Route(ctx)
	case "cluster":
		return r.Cluster(ctx)
	case "simulate":
		if s.Pass > 0 {
			return r.simulatePass(ctx, s.Pass)
		}
		return r.Simulate(ctx)
	case "impute":
		return r.imputePass(ctx, s.Pass)
	case "feedback":
		return r.relaxPass(ctx, s.Pass)
	case "sender-feedback":
		return r.SenderFeedbackOf(ctx)
	case "replay":
		return r.Replay(ctx)
	case "bucket":
		return r.Bucket(ctx)
	case "draw":
		return r.Draw(ctx)
	case "sample":
		return r.Sample(ctx)
	case "intervals":
		return r.Intervals(ctx)
	}
	return fmt.Errorf("an estimate has no step %s", s)
}

// Tidy lets go of what only the passes of a complete estimate tell each other, as Estimate and the last step's
// Finish do, also of what late attempts have left since, unless the run is to keep everything.
func (r *Run) Tidy() error {
	if r.estimator != stages.Flow {
		return nil
	}
	for n := 1; n < r.passes; n++ {
		if err := r.tidyAfter(r.relaxStage(n)); err != nil {
			return err
		}
	}
	if err := r.tidyAfter(r.sampleStage()); err != nil {
		return err
	}
	return r.writeCatalog(r.sampleStage())
}

// A Hand does single tasks of a scenario's estimate, while others, in this process or elsewhere, do
// others. It holds the scenario's topology, and nothing that grows with its flows. Safe for any number
// of goroutines.
type Hand struct{ run *Run }

// NewHand takes up a scenario that the lake holds, flows included. Options.Workers is for steps of a
// single task; there is no cache of link-case results.
func NewHand(scenario string, o Options) (*Hand, error) {
	o.ReadOnly = true // no lock: each task takes its own
	r, err := Resume(scenario, o)
	if err != nil {
		return nil, err
	}
	return &Hand{r}, nil
}

// Steps are those of Run.Steps.
func (h *Hand) Steps() ([]Step, error) { return h.run.Steps() }

// errPlanned ends a step that is only planned.
var errPlanned = errors.New("planned")

// Plan cuts a step into tasks, unless that is done, and answers the numbers of those that are not done. What
// was let go because nobody needs it any more is done. The steps before it must be complete.
func (h *Hand) Plan(ctx context.Context, s Step) (todo []int, err error) {
	err = h.with(func(r *Run) error {
		r.choose, r.planning = everyTask, true
		err := r.Step(ctx, s)
		todo = r.todo
		return err
	})
	if errors.Is(err, errPlanned) {
		err = nil
	}
	return todo, err
}

// Done says whether all tasks of all steps are done, so that there is nothing to hand out. If not, tasks
// whose files were let go and are now needed by others, because these are damaged or more are asked for,
// are to be done again: Plan will name them.
func (h *Hand) Done(ctx context.Context) (bool, error) {
	steps, err := h.Steps()
	if err != nil {
		return false, err
	}
	done := true
	for _, s := range steps {
		err := h.with(func(r *Run) error {
			r.choose, r.planning = everyTask, true
			err := r.Step(ctx, s)
			done = done && len(r.todo) == 0
			return err
		})
		if !errors.Is(err, errPlanned) {
			return false, err
		}
		if !done {
			return false, h.with((*Run).mend)
		}
	}
	return true, nil
}

// Do does task n of a step that is planned, or sees that it is done. It may be tried again, and be
// tried twice at the same time.
func (h *Hand) Do(ctx context.Context, s Step, n int) error {
	return h.with(func(r *Run) error {
		r.choose = func(tasks []task) []bool {
			mine := noTask(tasks)
			if n >= 0 && n < len(mine) {
				mine[n] = true
			}
			return mine
		}
		return r.Step(ctx, s)
	})
}

// Finish does what is to be done once when all tasks of a step are done, such as to say what is wrong
// with the whole of it, and to let go of what nobody needs from then on, unless Options.Keep. It may be
// done again, and twice at the same time; and tasks that are done may still be tried.
func (h *Hand) Finish(ctx context.Context, s Step) error {
	return h.with(func(r *Run) error {
		r.choose = noTask
		if err := r.Step(ctx, s); err != nil {
			return err
		}
		switch {
		case s.Stage == "feedback" && r.whole(r.relaxStage(s.Pass)):
			return r.tidyAfter(r.relaxStage(s.Pass))
		case s.Stage == "sample" && r.whole(r.sampleStage()):
			return r.tidyAfter(r.sampleStage())
		}
		return nil
	})
}

func noTask(tasks []task) []bool { return make([]bool, len(tasks)) }

func everyTask(tasks []task) []bool {
	all := make([]bool, len(tasks))
	for n := range all {
		all[n] = true
	}
	return all
}

// Hold keeps runs on their own out of the scenario until release; tasks come and go meanwhile.
func (h *Hand) Hold() (release func(), err error) {
	return h.run.lake.fork().lockShared(h.run.spec.ScenarioID)
}

// with lends do a run of its own, which shares with the others what does not change.
func (h *Hand) with(do func(r *Run) error) error {
	r := *h.run
	r.lake, r.sound, r.reports = r.lake.fork(), map[string]bool{}, nil
	unlock, err := r.lake.lockShared(r.spec.ScenarioID)
	if err != nil {
		return err
	}
	defer unlock()
	return do(&r)
}
