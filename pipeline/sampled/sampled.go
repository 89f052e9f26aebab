// Package sampled estimates a scenario from windows of time. It draws windows in rounds (package sampling), estimates
// the windows of a round as one hidden scenario (pipeline.DeriveWindows), and combines the rounds until the intervals
// of the asked percentiles are narrow enough or the time is spent.
//
//	table flows ─► index: slots, flows by group ─► warm-up, measured ─► round 1 ─► round 2 ─► … ─► combine
//	                                                                       │          │               │
//	                                                   hidden scenarios: slowdowns of windows      windows, intervals,
//	                                                                                               sampled_slowdowns
//
// Rounds do not depend on the precision that is asked for, unless it needs a longer warm-up: a more precise run takes
// over the rounds of a less precise one, and the answer depends on the scenario, the variant, the warm-up and the
// number of rounds only. A round that was interrupted continues.
//
// # Warm-up
//
// The first warm-up is a quarter of the time in which a flow of the size that divides the workload's bytes in halves
// is sent. It is then measured: the first window of every other stratum is estimated again with half of the warm-up.
// If that changes an asked percentile of all these flows significantly (jackknife over windows, 95%) and by more than
// a quarter of the asked precision, the warm-up is doubled and the workload is cut again. A significant change that is
// left widens the intervals. Flows that began before the warm-up and are still active in a fluid model of the
// links begin in the first eighth of it, each at a time of its own, with the bytes that they have left then.
//
// Windows are short, a warm-up on average: most of the variance is between windows. A cool-down as long as a warm-up
// follows. Flows that outlast it are alone in the end and too fast: intervals reach to what they would be at the mean
// rate of such flows in windows, and percentiles of groups with many have a warning.
package sampled

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/sampling"
	"parsimon/schema/sizebin"
	"parsimon/stages"
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

	index   *index
	design  *sampling.Design
	warmup  Warmup
	drawn   []int // slots of each stratum
	rounds  []*round
	counts  map[int]counts // by slot
	longer  map[int]counts // by slot, if cut flows were sustained
	outlast map[Key]int64  // cut flows

	windowError float64 // 0 if the whole is estimated
	stages      []engine.Report

	other      *sampler       // of a comparison: the other side, by the same windows; else nil
	here, over map[int]counts // by slot: slowdowns of the flows of both scenarios, here and on the other side
}

// Run estimates a scenario, whose flows are generated if they are not, from windows. The variant is that of the whole
// network.
func Run(ctx context.Context, base *pipeline.Estimation, ask Ask) (*Result, error) {
	s, err := start(ctx, base, ask)
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
func start(ctx context.Context, base *pipeline.Estimation, ask Ask) (*sampler, error) {
	if err := ask.Validate(); err != nil {
		return nil, err
	}
	s := &sampler{base: base, ask: ask, began: time.Now(), windowError: windowError}
	s.forget()
	var err error
	if err = base.Generate(ctx); err != nil {
		return nil, err
	}
	if s.index, err = readIndex(ctx, base); err != nil {
		return nil, err
	}
	if len(s.asked()) == 0 {
		return nil, fmt.Errorf("no flow is of %s", ask.By)
	}
	return s, s.measureWarmup(ctx)
}

func (s *sampler) forget() {
	s.rounds, s.counts, s.longer, s.outlast = nil, map[int]counts{}, map[int]counts{}, map[Key]int64{}
	s.here, s.over = map[int]counts{}, map[int]counts{}
}

// draw estimates windows, round after round until the asked intervals are narrow, or the whole, and says why it ended.
func (s *sampler) draw(ctx context.Context) (stopped string, err error) {
	next := s.design.First()
	s.drawn = make([]int, len(next))
	for {
		if s.share(s.design.Drawn(next), s.warmup.NS) > wholeShare {
			return Whole, s.whole(ctx)
		}
		before := s.design.Drawn(s.drawn)
		slots := slices.DeleteFunc(s.design.Drawn(next), func(n int) bool {
			_, drawn := slices.BinarySearch(before, n)
			return drawn
		})
		s.drawn = next
		began := time.Now()
		if err := s.round(ctx, slots); err != nil {
			return "", err
		}
		took := time.Since(began) / time.Duration(len(slots))
		if s.precise() {
			return Precise, nil
		}
		next = s.design.Next(s.drawn)
		more := time.Duration(len(s.design.Drawn(next)) - len(s.counts))
		if s.share(s.design.Drawn(next), s.warmup.NS) > wholeShare {
			more = time.Duration(len(s.index.slots))
		}
		if s.ask.Budget > 0 && time.Since(s.began)+more*took > s.ask.Budget {
			return Spent, nil
		}
	}
}

// precise logs how narrow the asked intervals are, and reports whether all are narrow enough. There is at least one.
func (s *sampler) precise() bool {
	goals := s.goals()
	width := func(g Goal) float64 {
		if !g.Known {
			return math.Inf(1)
		}
		return g.HalfWidth
	}
	widest := slices.MaxFunc(goals, func(a, b Goal) int { return cmp.Compare(width(a), width(b)) })
	reached := len(goals) - len(slices.DeleteFunc(slices.Clone(goals), func(g Goal) bool { return g.Reached }))
	s.base.Log.Info().Int("round", len(s.rounds)).Int("windows", len(s.counts)).
		Float64("sampled_share", round4(s.sampledShare())).Str("reached", fmt.Sprintf("%d of %d", reached, len(goals))).
		Str("widest", widest.String()).Float64("half_width", round4(widest.HalfWidth)).
		Float64("within", s.ask.Within).Msg("interval")
	return reached == len(goals)
}

func (s *sampler) round(ctx context.Context, slots []int) error {
	r, err := s.estimate(ctx, slots, s.warmup.NS)
	if err == nil {
		err = s.take(ctx, r)
	}
	if err != nil || s.other == nil {
		return err
	}
	s.other.drawn = s.drawn
	if err := s.other.round(ctx, slots); err != nil {
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
	if err := s.base.Estimate(ctx); err != nil {
		return err
	}
	s.drawn = make([]int, len(s.design.Strata))
	for h, stratum := range s.design.Strata {
		s.drawn[h] = len(stratum)
	}
	s.forget()
	s.warmup.Effect, s.windowError = nil, 0
	err := s.take(ctx, &round{slots: s.design.Drawn(s.drawn), run: s.base})
	if err != nil || s.other == nil {
		return err
	}
	if err := s.other.whole(ctx); err != nil {
		return err
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

func round4(x float64) float64 { return float64(int64(x*1e4+0.5)) / 1e4 }

// An Ask says which percentiles are wanted, and how precisely.
type Ask struct {
	Within     float64   // half of the width of an interval, relative to the percentile
	Of         []float64 // quantiles of pipeline.Quantiles
	By         string    // "", service, vnet or size_bin; with "=NAME" of one group only
	Confidence float64   // of the intervals, such as 0.95
	Budget     time.Duration
}

// Validate reports an Ask that cannot be answered.
func (a Ask) Validate() error {
	switch name, _, _ := strings.Cut(a.By, "="); {
	case !(a.Within > 0 && a.Within < 1):
		return fmt.Errorf("precision %v: must be above 0 and below 100%%", a.Within)
	case !(a.Confidence >= 0.5 && a.Confidence <= 0.999):
		return fmt.Errorf("confidence %v: must be 50%% to 99.9%%", a.Confidence)
	case name != "" && !slices.Contains([]string{"service", "vnet", "size_bin"}, name):
		return fmt.Errorf("group %q: must be service, vnet or size_bin, or one of these with =NAME", a.By)
	}
	return nil
}

// wants reports whether the intervals of a group have to be narrow.
func (a Ask) wants(k Key) bool {
	column, name, one := strings.Cut(a.By, "=")
	switch column {
	case "service":
		return k.By == stages.ByService && k.Bin == sizebin.Count && (!one || k.Label == name)
	case "vnet":
		return k.By == stages.ByVNet && (!one || k.Label == name)
	case "size_bin":
		return k.By == stages.ByNothing && (one && k.binName() == name || !one && k.Bin != sizebin.Count)
	}
	return k == all
}
