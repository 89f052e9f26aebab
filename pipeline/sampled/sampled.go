package sampled

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/sampling"
	"parsimon/stages"
)

// wholeShare is the share of the workload, warm-ups included, from which on the whole is estimated instead of windows.
const wholeShare = 0.6

// Reasons why an estimate from windows ends.
const (
	Precise = "precise" // all intervals that were asked for are narrow enough
	Spent   = "budget"  // the next round would take longer than what is left of the budget
	Whole   = "whole"   // windows would be most of the workload: all of it was estimated
)

// sampler is an estimate from windows at work. It keeps the base's scenario locked.
type sampler struct {
	base  *pipeline.Estimation
	ask   Ask
	began time.Time

	index   *index
	design  *sampling.Design
	warmup  Warmup
	drawn   []int // slots of each stratum
	rounds  []*round
	counts  map[int]counts // by slot
	longer  map[int]counts // by slot, if cut flows were sustained
	outlast map[Key]int64  // cut flows

	windowError float64 // 0 if the whole is estimated
	cases       stages.SimulateStats
	stages      []engine.Report

	prepared *[]string // ids of windows' scenarios that are not estimated, if they are not to be
	execute  Execute   // nil: this process estimates windows
}

// Run estimates a scenario, whose flows are generated if they are not, from windows. The variant has a number of
// passes.
func Run(ctx context.Context, base *pipeline.Estimation, ask Ask) (*Result, error) {
	return RunOn(ctx, base, ask, nil)
}

// RunOn is Run with windows that execute estimates, unless it is nil. The error is ErrWhole if execute should estimate
// the base, which this process holds: RunOn may then be called again and takes that estimate over.
func RunOn(ctx context.Context, base *pipeline.Estimation, ask Ask, execute Execute) (*Result, error) {
	s, err := start(ctx, base, ask, execute)
	if err != nil {
		return nil, err
	}
	stopped, err := s.draw(ctx)
	if err != nil {
		return nil, err
	}
	return s.combine(ctx, stopped)
}

// start generates and reads the workload and finds its warm-up.
func start(ctx context.Context, base *pipeline.Estimation, ask Ask, execute Execute) (*sampler, error) {
	s, err := newSampler(ctx, base, ask)
	if err != nil {
		return nil, err
	}
	s.execute = execute
	return s, s.measureWarmup(ctx)
}

// newSampler generates and reads the workload.
func newSampler(ctx context.Context, base *pipeline.Estimation, ask Ask) (*sampler, error) {
	if err := ask.Validate(); err != nil {
		return nil, err
	}
	base.ChooseForWindows()
	s := &sampler{base: base, ask: ask, began: time.Now(), counts: map[int]counts{}, longer: map[int]counts{},
		outlast: map[Key]int64{}, windowError: windowError}
	err := base.Generate(ctx)
	if err == nil {
		err = base.RefuseClosed("an estimate from windows of time")
	}
	if err != nil {
		return nil, err
	}
	if s.index, err = readIndex(ctx, base); err != nil {
		return nil, err
	}
	if len(s.asked()) == 0 {
		return nil, fmt.Errorf("no flow is of %s", ask.By)
	}
	return s, nil
}

// draw estimates round after round until the intervals are narrow, and says why it ended.
func (s *sampler) draw(ctx context.Context) (stopped string, err error) {
	next := s.design.First()
	s.drawn = make([]int, len(next))
	for {
		if s.share(s.design.Drawn(next), s.warmup.NS) > wholeShare {
			return Whole, s.whole(ctx)
		}
		known := s.design.Drawn(s.drawn)
		s.drawn = next
		slots := without(s.design.Drawn(next), known)
		began := time.Now()
		r, err := s.estimate(ctx, slots, s.warmup.NS)
		if err != nil {
			return "", err
		}
		if err := s.take(ctx, r); err != nil {
			return "", err
		}
		took := time.Since(began) / time.Duration(len(slots))
		if s.progress() {
			return Precise, nil
		}
		next = s.design.Next(s.drawn)
		if s.overBudget(s.design.Drawn(next), took) {
			return Spent, nil
		}
	}
}

// overBudget reports whether more slots, each of which takes so long, would take longer than what is left of the
// budget.
func (s *sampler) overBudget(drawn []int, took time.Duration) bool {
	more := time.Duration(len(drawn) - len(s.counts))
	if s.share(drawn, s.warmup.NS) > wholeShare {
		more = time.Duration(len(s.index.slots))
	}
	return s.ask.Budget > 0 && time.Since(s.began)+more*took > s.ask.Budget
}

// progress logs how narrow the intervals are, and reports whether all that were asked for are narrow enough.
func (s *sampler) progress() (precise bool) {
	goals := s.goals()
	worst, reached := widest(goals)
	log := s.base.Log.Info().Int("round", len(s.rounds)).Int("windows", len(s.counts)).
		Float64("sampled_share", round4(s.sampledShare())).Str("reached", fmt.Sprintf("%d of %d", reached, len(goals))).
		Str("widest", worst.row.String())
	if worst.Known {
		log = log.Float64("half_width", round4(worst.HalfWidth))
	}
	log.Float64("within", s.ask.Within).Msg("interval")
	return reached == len(goals)
}

// take reads a round's slots.
func (s *sampler) take(ctx context.Context, r *round) error {
	x, err := s.read(ctx, r)
	if err != nil {
		return err
	}
	for n, c := range x.found {
		s.counts[n], s.longer[n] = c, x.sustained[n]
	}
	for _, c := range x.cuts {
		for _, k := range c.groups {
			s.outlast[k]++
		}
	}
	s.rounds = append(s.rounds, r)
	return nil
}

// whole estimates the whole workload: every slot is drawn.
func (s *sampler) whole(ctx context.Context) error {
	if s.prepared != nil {
		return errors.New("windows would be most of the workload: share the stages of its whole estimate among processes " +
			"instead")
	}
	if s.execute != nil && !estimated(s.base) {
		return ErrWhole
	}
	if err := s.base.Estimate(ctx); err != nil {
		return err
	}
	every := make([]int, len(s.index.slots))
	for i := range every {
		every[i] = i
	}
	for h, stratum := range s.design.Strata {
		s.drawn[h] = len(stratum)
	}
	s.rounds, s.counts, s.longer, s.outlast = nil, map[int]counts{}, map[int]counts{}, map[Key]int64{}
	s.warmup.Effect, s.windowError = nil, 0
	return s.take(ctx, &round{slots: every, run: s.base})
}

// share is the share of the workload's flows that an estimate of slots simulates, about: warm-ups and cool-downs have
// the rate of their window.
func (s *sampler) share(slots []int, warmupNS int64) float64 {
	flows, total := 0.0, int64(0)
	for _, x := range s.index.slots {
		total += x.Flows
	}
	for _, n := range slots {
		x := s.index.slots[n]
		flows += float64(x.Flows) * (1 + (1+cooldown)*float64(warmupNS)/float64(x.ToNS-x.FromNS))
	}
	return flows / float64(total)
}

// sampledShare is the share of the flows that count.
func (s *sampler) sampledShare() float64 {
	flows, total := int64(0), int64(0)
	for n, x := range s.index.slots {
		total += x.Flows
		if _, ok := s.counts[n]; ok {
			flows += x.Flows
		}
	}
	return float64(flows) / float64(total)
}

func ns(n int64) time.Duration { return time.Duration(n) }

func round4(x float64) float64 { return float64(int64(x*1e4+0.5)) / 1e4 }
