package sampling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/schema/names"
)

// wholeShare is the share of the workload, warm-ups included, from which on the whole is estimated instead of windows.
const wholeShare = 0.6

// Reasons why an estimate from windows ends.
const (
	Precise = "precise" // all intervals that were asked for are narrow enough
	Spent   = "budget"  // the next round would take longer than the rest of the budget
	Whole   = "whole"   // windows would be most of the workload: all of it was estimated
)

// sampler is a running estimate from windows. It keeps the base's scenario locked.
type sampler struct {
	base  *pipeline.Estimation
	ask   Ask
	began time.Time

	index               *index
	design              *design
	full                *design // the design that rounds end with
	warmup              Warmup
	drawn               []int // slots of each stratum
	rounds              []*round
	counts, least, most map[int]histograms // by slot: see reading

	windowError float64 // 0 if the whole is estimated
	stages      []engine.Report

	other      *sampler           // of a comparison: the other side, by the same windows; else nil
	here, over map[int]histograms // by slot: slowdowns of the flows of both scenarios, here and on the other side
}

// Run estimates a scenario, whose flows are generated if they are not, from windows. The variant is that of the whole
// network.
func Run(ctx context.Context, base *pipeline.Estimation, ask Ask) (*Result, error) {
	s, stopped, err := estimateWindows(ctx, base, nil, ask)
	if err != nil {
		return nil, err
	}
	return s.combine(ctx, stopped)
}

// sample estimates windows of a scenario, or of two, until the asked intervals are narrow or the budget is spent, and
// says why it ended.
func estimateWindows(ctx context.Context, base, other *pipeline.Estimation, ask Ask) (s *sampler, stopped string, err error) {
	if err := ask.Validate(); err != nil {
		return nil, "", err
	}
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if ask.Budget > 0 {
		defer time.AfterFunc(ask.Budget, func() { cancel(context.DeadlineExceeded) }).Stop()
	}
	s = &sampler{base: base, ask: ask, began: time.Now(),
		windowError: errorOfWindows(base.Spec.Params.Transport)}
	s.forget()
	if err = s.start(limited); err == nil && other != nil {
		err = s.compareWith(limited, other)
	}
	if err == nil {
		stopped, err = s.draw(ctx, limited)
	}
	if errors.Is(context.Cause(limited), context.DeadlineExceeded) && err != nil {
		err = fmt.Errorf("--budget %v is over before the fewest windows that say anything were simulated; what is done is kept, "+
			"and the command continues it with a larger --budget or without one", ask.Budget)
	}
	return s, stopped, err
}

// start generates and reads the workload and finds its warm-up.
func (s *sampler) start(ctx context.Context) (err error) {
	if err = s.base.Generate(ctx); err != nil {
		return err
	}
	if s.index, err = readIndex(ctx, s.base); err != nil {
		return err
	}
	if len(s.asked()) == 0 {
		return fmt.Errorf("no flow is of %s", s.ask.By)
	}
	return s.measureWarmup(ctx)
}

func (s *sampler) forget() {
	s.rounds, s.counts, s.least, s.most = nil, map[int]histograms{}, map[int]histograms{}, map[int]histograms{}
	s.here, s.over = map[int]histograms{}, map[int]histograms{}
}

// draw estimates windows, round after round until the asked intervals are narrow, or the whole, and says why it ended.
// The first round comes in two parts. Each is an answer if limited, which ends with the budget, ends during the next
// one.
func (s *sampler) draw(ctx, limited context.Context) (stopped string, err error) {
	before, next := s.design, s.design.First()
	for {
		if s.share(s.design.Drawn(next), s.warmup.NS) > wholeShare {
			stopped, err = Whole, s.whole(ctx, limited)
		} else {
			err = s.round(ctx, limited, next)
		}
		switch {
		case errors.Is(context.Cause(limited), context.DeadlineExceeded) && err != nil && len(s.rounds) > 0:
			s.design = before
			return Spent, nil
		case err != nil || stopped == Whole:
			return stopped, err
		case s.design == s.full && s.precise():
			return Precise, nil
		}
		s.base.Log.Info().Int("windows", len(s.counts)).Msg("round done")
		if before, next = s.design, s.full.First(); s.design == s.full {
			next = s.design.Next(s.drawn)
		}
		s.design = s.full
	}
}

// precise logs and reports whether all asked intervals are narrow enough. There is at least one.
func (s *sampler) precise() bool {
	goals := s.goals()
	wide := slices.DeleteFunc(slices.Clone(goals), func(g Goal) bool { return g.Reached })
	s.base.Log.Info().Int("round", len(s.rounds)).Int("windows", len(s.counts)).Float64("within", s.ask.Within).
		Float64("sampled_share", s.sampledShare()).Int("goals", len(goals)).Int("too_wide", len(wide)).
		Any("first", wide[:min(1, len(wide))]).Msg("interval")
	return len(wide) == 0
}

// round estimates the windows of so many slots of each stratum that are not estimated.
func (s *sampler) round(ctx, limited context.Context, next []int) error {
	slots := slices.DeleteFunc(s.design.Drawn(next), func(n int) bool { return s.counts[n] != nil })
	r, err := s.estimate(limited, slots, s.warmup.NS)
	if err != nil {
		return err
	}
	var there *round
	if s.other != nil {
		if there, err = s.other.estimate(limited, slots, s.warmup.NS); err != nil {
			return err
		}
	}
	s.drawn = next
	if err := s.take(ctx, r); err != nil || s.other == nil {
		return err
	}
	s.other.design, s.other.drawn = s.design, next
	if err := s.other.take(ctx, there); err != nil {
		return err
	}
	return s.pair(ctx)
}

func (s *sampler) take(ctx context.Context, r *round) error {
	x, err := s.read(ctx, r)
	if err != nil {
		return err
	}
	for n, c := range x.found {
		s.counts[n], s.least[n], s.most[n] = c, x.least[n], x.most[n]
	}
	s.rounds = append(s.rounds, r)
	return nil
}

// whole estimates the whole workload: every slot is drawn.
func (s *sampler) whole(ctx, limited context.Context) error {
	all := []*sampler{s}
	if s.other != nil {
		all = append(all, s.other)
	}
	for _, x := range all {
		if err := x.base.Estimate(limited); err != nil {
			return err
		}
	}
	for _, x := range all {
		x.design, x.drawn = s.design, names.Of(s.design.Strata, func(stratum []int) int { return len(stratum) })
		x.forget()
		x.warmup.Effect, x.windowError = nil, 0
		if err := x.take(ctx, &round{slots: x.design.Drawn(x.drawn), run: x.base}); err != nil {
			return err
		}
	}
	if s.other == nil {
		return nil
	}
	return s.pair(ctx)
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
