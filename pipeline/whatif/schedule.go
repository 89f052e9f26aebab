package whatif

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
)

// A schedule runs the estimates of a sweep side by side. If there are more estimates than cores, each has one
// worker: independent estimates use cores better than the workers of one estimate, which wait for each other.
//
//	cores    run 1   run 3 ──────  run 5
//	         run 2 ──────  run 4   run 5      the last runs share the cores that no other run needs
type schedule struct {
	of       pipeline.Settings // of the whole sweep
	runs     int
	atOnce   int       // largest number of estimates at a time
	deadline time.Time // no estimate begins after it; zero: none
	complete int       // number of estimates, the last ones, that are only read, also after the deadline
	progress *engine.SideBySide

	mu      sync.Mutex
	left    int // estimates that did not begin before the deadline
	waiting int // estimates that have not begun
	running int
	free    int // cores that no estimate uses
}

// newSchedule returns the schedule of a number of estimates, each of which needs at most needBytes of memory.
// It has no deadline.
func newSchedule(of pipeline.Settings, runs int, needBytes int64) *schedule {
	if of.Workers <= 0 {
		of.Workers = runtime.GOMAXPROCS(0)
	}
	if of.MemoryBytes <= 0 {
		of.MemoryBytes = pipeline.DefaultMemory
	}
	fit := of.MemoryBytes / max(1, needBytes)
	return &schedule{
		of: of, runs: runs, atOnce: int(max(1, min(fit, int64(of.Workers), int64(runs)))),
		progress: engine.NewSideBySide(of.Progress), waiting: runs, free: of.Workers,
	}
}

// memoryBeside returns what is left of a memory limit beside the bytes that the sweep itself keeps, but at
// least half of it. A limit of 0 is the default.
func memoryBeside(limit, kept int64) int64 {
	if limit <= 0 {
		limit = pipeline.DefaultMemory
	}
	return limit - min(kept, limit/2)
}

// cost predicts what an estimate takes in the sweep. It runs its first stages, up to and including route. If
// the sweep has no estimates, it does nothing.
func (s *schedule) cost(ctx context.Context, of *pipeline.Estimation) (c pipeline.Cost, err error) {
	if s.runs > 0 {
		c, err = of.Cost(ctx, max(1, s.of.Workers/s.atOnce))
		c.Seconds -= pipeline.ProgramSeconds
		c.CPUSeconds -= pipeline.ProgramSeconds
	}
	return c, err
}

// announce logs how long the sweep is expected to take if an estimate takes as long as the given ones on
// average, and how many estimates begin before the deadline.
func (s *schedule) announce(like ...pipeline.Cost) {
	if s.runs == 0 {
		return
	}
	one := pipeline.Cost{}
	for _, c := range like {
		one.Seconds += c.Seconds / float64(len(like))
		one.CPUSeconds += c.CPUSeconds / float64(len(like))
	}
	line := s.of.Log.Info().Int("runs", s.runs).Int("at_once", s.atOnce)
	if !s.deadline.IsZero() {
		each := slices.Repeat([]float64{one.Seconds}, s.runs)
		line = line.Int("within_budget", runsWithin(time.Until(s.deadline), each, s.atOnce))
	}
	rounds := (s.runs + s.atOnce - 1) / s.atOnce
	one.Seconds *= float64(rounds)
	one.CPUSeconds *= float64(s.runs)
	one.Announce(line)
}

// runsWithin returns how many estimates, of which each takes a number of seconds, begin within a budget.
func runsWithin(budget time.Duration, seconds []float64, atOnce int) int {
	free := make([]float64, atOnce) // when the next estimate can begin, in seconds
	for i, s := range seconds {
		at := slices.Index(free, slices.Min(free))
		if free[at] >= budget.Seconds() {
			return i
		}
		free[at] += s
	}
	return len(seconds)
}

// each calls do for each estimate, in order, with its settings: its part of the cores and of the memory.
// After the deadline, it only counts the estimates that are left, except complete ones. The first error
// cancels the context of the others.
func (s *schedule) each(
	ctx context.Context, unit string, do func(ctx context.Context, i int, o pipeline.Settings) error,
) error {
	s.progress.Begin("sweep", unit, int64(s.runs))
	defer s.progress.End()
	return engine.Parallel(ctx, s.atOnce, s.runs, func(ctx context.Context, i int) error {
		if i < s.runs-s.complete && s.over() {
			return nil
		}
		o := s.of
		o.Workers = s.take()
		defer s.give(o.Workers)
		o.MemoryBytes /= int64(s.atOnce)
		run := s.progress.Run(i + 1)
		defer run.Close()
		o.Progress = run
		if err := do(ctx, i, o); err != nil {
			return err
		}
		s.progress.Add(1)
		return nil
	})
}

// over reports whether the deadline has passed. If so, it counts an estimate that is left.
func (s *schedule) over() bool {
	if s.deadline.IsZero() || time.Now().Before(s.deadline) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left++
	return true
}

// howToContinue says how to continue a sweep whose budget was over.
const howToContinue = "repeat the command with a larger --budget or without one: it continues from what is " +
	"done"

// stoppedByBudget returns the line of an answer that lacks runs of a sweep, and says how to continue.
func stoppedByBudget(complete, left int, runs string) string {
	return fmt.Sprintf("stopped by --budget: %d of %d %s are complete, %d remain; %s", complete, complete+left,
		runs, left, howToContinue)
}

// A budgetError is the error of a sweep without complete runs.
type budgetError struct {
	budget time.Duration
	run    string // what did not begin
}

// Error implements error.
func (e *budgetError) Error() string {
	return fmt.Sprintf("--budget %v is over before the first %s began; %s", e.budget, e.run, howToContinue)
}

// take takes the cores of the next estimate: its equal part of those that are free.
func (s *schedule) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	cores := max(1, s.free/max(1, min(s.atOnce-s.running, s.waiting)))
	s.waiting--
	s.running++
	s.free -= cores
	return cores
}

// give returns the cores of an estimate that has ended.
func (s *schedule) give(cores int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.free += cores
}
