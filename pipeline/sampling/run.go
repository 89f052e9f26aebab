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

// wholeShare is the share of the workload, including warm-ups, above which the whole is estimated instead of
// windows.
const wholeShare = 0.6

// Reasons why an estimate from windows ends.
const (
	Precise = "precise" // all requested intervals are narrow enough
	Spent   = "budget"  // the budget ended before the next round did
	Whole   = "whole"   // windows would have been most of the workload, so all of it was estimated
)

// A sampler is a running estimate from windows. The scenario of base stays locked.
type sampler struct {
	base  *pipeline.Estimation
	ask   Ask
	began time.Time

	index               *index
	design              *design
	full                *design // design of all rounds but the first, reduced one
	warmup              Warmup
	drawn               []int // number of drawn slots of each stratum
	rounds              []*round
	counts, least, most map[int]histograms // by slot: see reading

	windowError float64 // 0 if the whole is estimated
	stages      []engine.Report

	other      *sampler           // other side of a comparison, or nil
	here, over map[int]histograms // slowdowns here and on the other side of flows that both have, by slot
}

// Run estimates a scenario from windows. It generates the flows if the lake does not have them. The variant
// of base is that of the whole network.
func Run(ctx context.Context, base *pipeline.Estimation, ask Ask) (*Result, error) {
	s, stopped, err := estimateWindows(ctx, base, nil, ask)
	if err != nil {
		return nil, err
	}
	r, err := s.combine(ctx, stopped)
	if err == nil && stopped != Whole {
		err = s.varyDrawn(ctx, r)
	}
	return r, err
}

// estimateWindows estimates windows of a scenario, or of two, until the requested intervals are narrow enough
// or the budget is spent. stopped is the reason why it ended.
func estimateWindows(ctx context.Context, base, other *pipeline.Estimation, ask Ask) (
	s *sampler, stopped string, err error,
) {
	if err := ask.Validate(); err != nil {
		return nil, "", err
	}
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if ask.Budget > 0 {
		defer time.AfterFunc(ask.Budget, func() { cancel(context.DeadlineExceeded) }).Stop()
	}
	windowError := errorOfWindows(base.Spec.Params.Transport)
	s = &sampler{base: base, ask: ask, began: time.Now(), windowError: windowError}
	s.forget()
	err = s.start(limited)
	if err == nil && other != nil {
		err = s.compareWith(limited, other)
	}
	if err == nil {
		stopped, err = s.draw(ctx, limited)
	}
	if errors.Is(context.Cause(limited), context.DeadlineExceeded) && err != nil {
		err = fmt.Errorf("--budget %v is over before the first windows were simulated; "+
			"repeat the command with a larger --budget or without one: it continues from what is done", ask.Budget)
	}
	return s, stopped, err
}

// start generates the flows, reads them and finds the warm-up.
func (s *sampler) start(ctx context.Context) (err error) {
	err = s.base.Generate(ctx)
	if err != nil {
		return err
	}
	s.index, err = readIndex(ctx, s.base)
	if err != nil {
		return err
	}
	if len(s.asked()) == 0 {
		return fmt.Errorf("no flow belongs to %s", s.ask.By)
	}
	return s.measureWarmup(ctx)
}

// forget drops the results of all rounds.
func (s *sampler) forget() {
	s.rounds = nil
	for _, of := range []*map[int]histograms{&s.counts, &s.least, &s.most, &s.here, &s.over} {
		*of = map[int]histograms{}
	}
}

// draw estimates windows round by round until the requested intervals are narrow enough, or estimates the
// whole, and returns the reason why it ended. Context limited ends with the budget. The first round has two
// parts, a reduced one and the rest. If limited ends during a part or a round, the parts and rounds before it
// are the answer.
func (s *sampler) draw(ctx, limited context.Context) (stopped string, err error) {
	before := s.design // of the rounds that are done
	next := s.design.First()
	for {
		if s.share(s.design.Drawn(next), s.warmup.NS) > wholeShare {
			stopped = Whole
			err = s.whole(ctx, limited)
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
		before = s.design
		next = s.full.First()
		if s.design == s.full {
			next = s.full.Next(s.drawn)
		}
		s.design = s.full
	}
}

// precise logs and reports whether all requested intervals are narrow enough.
func (s *sampler) precise() bool {
	goals := s.goals()
	wide := slices.DeleteFunc(slices.Clone(goals), func(g Goal) bool { return g.Reached })
	s.base.Log.Info().Int("round", len(s.rounds)).Int("windows", len(s.counts)).Float64("within", s.ask.Within).
		Float64("sampled_share", s.sampledShare(s.counts)).Int("goals", len(goals)).Int("too_wide", len(wide)).
		Any("first", wide[:min(1, len(wide))]).Msg("interval")
	return len(wide) == 0
}

// round estimates windows until next[h] slots of each stratum h are estimated.
func (s *sampler) round(ctx, limited context.Context, next []int) error {
	slots := slices.DeleteFunc(s.design.Drawn(next), func(n int) bool { return s.counts[n] != nil })
	r, err := s.estimate(limited, slots, s.warmup.NS)
	if err != nil {
		return err
	}
	var there *round
	if s.other != nil {
		there, err = s.other.estimate(limited, slots, s.warmup.NS)
		if err != nil {
			return err
		}
	}
	s.drawn = next
	err = s.take(ctx, r)
	if err != nil || s.other == nil {
		return err
	}
	s.other.design = s.design
	s.other.drawn = next
	if err := s.other.take(ctx, there); err != nil {
		return err
	}
	return s.pair(ctx)
}

// take reads the slowdowns of a round.
func (s *sampler) take(ctx context.Context, r *round) error {
	x, err := s.read(ctx, r)
	if err != nil {
		return err
	}
	for n, c := range x.found {
		s.counts[n] = c
		s.least[n] = x.least[n]
		s.most[n] = x.most[n]
	}
	s.rounds = append(s.rounds, r)
	return nil
}

// whole estimates the whole workload, as if every slot were drawn.
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
		x.design = s.design
		x.drawn = names.Of(s.design.Strata, func(stratum []int) int { return len(stratum) })
		x.forget()
		x.warmup.Effect = nil
		x.windowError = 0
		if err := x.take(ctx, &round{slots: x.design.Drawn(x.drawn), run: x.base}); err != nil {
			return err
		}
	}
	if s.other == nil {
		return nil
	}
	return s.pair(ctx)
}

// share returns approximately the share of the workload's flows that an estimate of slots simulates. It
// assumes that warm-ups and cool-downs have the rate of flows of their window.
func (s *sampler) share(slots []int, warmupNS int64) float64 {
	flows := 0.0
	for _, n := range slots {
		x := s.index.slots[n]
		flows += float64(x.Flows) * (1 + (1+cooldown)*float64(warmupNS)/float64(x.ToNS-x.FromNS))
	}
	return flows / float64(s.index.flows())
}

// sampledShare returns the share of the workload's flows that start in slots with an estimate. estimated has
// the estimate by slot.
func (s *sampler) sampledShare(estimated map[int]histograms) float64 {
	flows := int64(0)
	for n := range estimated {
		flows += s.index.slots[n].Flows
	}
	return float64(flows) / float64(s.index.flows())
}
