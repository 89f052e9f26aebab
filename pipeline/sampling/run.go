package sampling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/sampling/windows"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
	"parsimon/stages/confidence"
	"parsimon/stages/route"
	"parsimon/stages/workload"
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
	design              *Design
	full                *Design // the design that rounds end with
	warmup              Warmup
	drawn               []int // slots of each stratum
	rounds              []*round
	counts, least, most map[int]counts // by slot: see reading

	windowError float64 // 0 if the whole is estimated
	stages      []engine.Report

	other      *sampler       // of a comparison: the other side, by the same windows; else nil
	here, over map[int]counts // by slot: slowdowns of the flows of both scenarios, here and on the other side
}

// Run estimates a scenario, whose flows are generated if they are not, from windows. The variant is that of the whole
// network.
func Run(ctx context.Context, base *pipeline.Estimation, ask Ask) (*Result, error) {
	s, stopped, err := sample(ctx, base, nil, ask)
	if err != nil {
		return nil, err
	}
	return s.combine(ctx, stopped)
}

// sample estimates windows of a scenario, or of two, until the asked intervals are narrow or the budget is spent, and
// says why it ended.
func sample(ctx context.Context, base, other *pipeline.Estimation, ask Ask) (s *sampler, stopped string, err error) {
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
	s.rounds, s.counts, s.least, s.most = nil, map[int]counts{}, map[int]counts{}, map[int]counts{}
	s.here, s.over = map[int]counts{}, map[int]counts{}
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
		return k.By == confidence.ByService && k.Bin == sizebin.Count && (!one || k.Label == name)
	case "vnet":
		return k.By == confidence.ByVNet && (!one || k.Label == name)
	case "size_bin":
		return k.By == confidence.ByNothing && (one && k.binName() == name || !one && k.Bin != sizebin.Count)
	}
	return k == all
}

// Compare estimates two scenarios from the same windows, round by round, until the interval of every asked change is
// within ask.Within, or the time is spent. Windows, warm-up and strata are the base's, so that what a window does to
// both sides cancels in the difference. The flows of other are those of base, or made from them. Both estimates go to
// the lake, as those of Run do.
func Compare(ctx context.Context, base, other *pipeline.Estimation, ask Ask) (*Comparison, error) {
	s, stopped, err := sample(ctx, base, other, ask)
	if err != nil {
		return nil, err
	}
	return s.comparison(ctx, stopped)
}

// compareWith makes another scenario the other side, with the flows that it has in the slots.
func (s *sampler) compareWith(ctx context.Context, other *pipeline.Estimation) (err error) {
	if err := other.Generate(ctx); err != nil {
		return err
	}
	o := *s
	o.base, o.stages = other, nil
	o.forget()
	s.other = &o
	o.index, err = readCut(ctx, other, Recount(s.index.slots))
	return err
}

// pair adds the flows of the last round that are on both sides: of the same id and size.
func (s *sampler) pair(ctx context.Context) error {
	here, there := s.rounds[len(s.rounds)-1], s.other.rounds[len(s.rounds)-1]
	cells := map[[2]int64]int32{} // by id and size
	err := s.other.each(ctx, there, func(_ int, f *estimatedFlow) {
		cells[[2]int64{f.ID, f.SizeBytes}] = CellOf(f.Slowdown)
	})
	if err != nil {
		return err
	}
	for _, n := range here.slots {
		s.here[n], s.over[n] = counts{}, counts{}
	}
	err = s.each(ctx, here, func(slot int, f *estimatedFlow) {
		other, found := cells[[2]int64{f.ID, f.SizeBytes}]
		if !found {
			return
		}
		cell := CellOf(f.Slowdown)
		for _, k := range s.index.groups(f.Service, f.VNet, f.SizeBytes) {
			s.here[slot].add(k, cell)
			s.over[slot].add(k, other)
		}
	})
	for _, n := range here.slots {
		s.here[n].seal()
		s.over[n].seal()
	}
	return err
}

// changes are the changes of some percentiles of a group.
func (s *sampler) changes(k Key, quantiles []float64) (all []Change) {
	a, b := s.sampleFrom(k, s.here), s.sampleFrom(k, s.over)
	for _, q := range quantiles {
		d, ok := compareSamples(a, b, q, s.ask.Confidence)
		if !ok {
			break
		}
		e, _ := a.Quantile(q, s.ask.Confidence)
		x := Change{Goal: Goal{Group: k.String(), SizeBin: k.binName(), Quantile: q, Sampled: a.Flows(),
			HalfWidth: (d.Hi - d.Lo) / 2, Known: e.Beyond >= fewBeyond || len(s.here) == len(s.index.slots)},
			Base: d.Base, Other: d.Other, Change: d.Change, Lo: d.Lo, Hi: d.Hi}
		x.Reached = x.Known && x.HalfWidth <= s.ask.Within
		all = append(all, x)
	}
	return all
}

// A Comparison is two scenarios held against each other by the same windows, for scripts.
type Comparison struct {
	Base         Side           `json:"base"`
	Other        Side           `json:"other"`
	SampledShare float64        `json:"sampled_share"` // of the base's flows
	Windows      int            `json:"windows"`
	Stopped      string         `json:"stopped"` // Precise, Spent or Whole
	Confidence   float64        `json:"confidence"`
	Within       float64        `json:"within"`
	Goals        []Change       `json:"goals"`
	Changes      []Change       `json:"percentiles"` // of all groups
	Warnings     []string       `json:"warnings"`    // about the base's flows
	Gates        []gate.Verdict `json:"gates,omitempty"`
	Seconds      float64        `json:"seconds"`
}

// A Side is one of the scenarios of a Comparison.
type Side struct {
	ScenarioID string `json:"scenario_id"`
	Name       string `json:"name"`
	Variant    string `json:"variant"`
	Flows      int64  `json:"flows"`
}

// A Change is the change of a percentile of the flows that are in both scenarios, with its interval.
type Change struct {
	Goal           // Sampled: flows of both sides, in windows
	Base   float64 `json:"base"`
	Other  float64 `json:"other"`
	Change float64 `json:"change"` // other / base - 1
	Lo     float64 `json:"change_lo"`
	Hi     float64 `json:"change_hi"`
}

func (s *sampler) comparison(ctx context.Context, stopped string) (*Comparison, error) {
	r := &Comparison{SampledShare: s.sampledShare(), Windows: len(s.here), Stopped: stopped,
		Confidence: s.ask.Confidence, Within: s.ask.Within, Warnings: s.index.remarks}
	for i, s := range []*sampler{s, s.other} {
		if _, err := s.combine(ctx, stopped); err != nil {
			return nil, err
		}
		*[]*Side{&r.Base, &r.Other}[i] = Side{string(s.base.ID()), s.base.Spec.Name, s.variant(), s.index.totals[all]}
	}
	for _, k := range s.asked() {
		r.Goals = append(r.Goals, s.changes(k, s.ask.Of)...)
	}
	for _, k := range s.index.order {
		r.Changes = append(r.Changes, s.changes(k, pipeline.Quantiles)...)
	}
	r.Seconds = time.Since(s.began).Seconds()
	return r, nil
}

// Text is the comparison for people.
func (r *Comparison) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("base   %s (%s), variant %s, %d flows", r.Base.ScenarioID, r.Base.Name, r.Base.Variant, r.Base.Flows)
	a.Linef("other  %s (%s), variant %s, %d flows", r.Other.ScenarioID, r.Other.Name, r.Other.Variant, r.Other.Flows)
	sampled := fmt.Sprintf("sampled, the same %d windows of both, %.3g%% of flows", r.Windows, 100*r.SampledShare)
	if r.Stopped == Whole {
		sampled = "not sampled: all of both was estimated; without --within, the answer has FCTs and links, too"
	}
	a.Linef("\nSlowdown of the flows of both, over the ideal FCT in each, with %g%% intervals of the change (%s)", 100*r.Confidence, sampled)
	table := a.Table("flows of", "size_bin", "quantile", "base", "other", "change", "from", "to", "few flows")
	for _, x := range r.Changes {
		if x.SizeBin == sizebin.All || x.Group == all.String() {
			table.Add(x.Group, x.SizeBin, x.Quantile, x.Base, x.Other, text.Percent(x.Change), text.Percent(x.Lo),
				text.Percent(x.Hi), !x.Known)
		}
	}
	a.Linef("\nAsked: changes within ±%g%%", 100*r.Within)
	for _, x := range r.Goals {
		a.Linef("  %s: %+.2f%% (%+.2f%% to %+.2f%%)  %s", x, 100*x.Change, 100*x.Lo, 100*x.Hi,
			map[bool]string{true: "reached", false: "not reached"}[x.Reached])
	}
	for _, line := range r.Warnings {
		a.Linef("warning: %s", line)
	}
	a.Linef("\n%.1f s", r.Seconds)
	return a
}

// Judge holds gates against the changes, and keeps the verdicts. Slowdowns are those of the other scenario, without an
// interval.
func (r *Comparison) Judge(gates []gate.Gate) (err error) {
	groups := names.Of(r.Changes, func(c Change) string { return c.Group })
	r.Gates, err = judge(gates, groups, func(g gate.Gate, group, bin string) (x gate.Interval, found bool) {
		for _, c := range r.Changes {
			switch {
			case c.Group != group || c.SizeBin != bin || c.Quantile != g.Quantile:
			case g.Change:
				return gate.Interval{Value: c.Change, Lo: c.Lo, Hi: c.Hi}, true
			default:
				return gate.Exactly(c.Other), true
			}
		}
		return x, false
	})
	return err
}

// A round is the estimate of some slots as one hidden scenario. run is closed and serves reading.
type round struct {
	slots []int // numbers, ascending
	run   *pipeline.Estimation
	parts [][2]int64 // that are simulated; nil: all of the time
	error float64    // of the rate of flows in the fluid that follows a part, relative
}

// counts are the slowdowns of a slot, by group.
type counts map[Key]*Counts

// estimate estimates slots, or finds them estimated.
func (s *sampler) estimate(ctx context.Context, slots []int, warmupNS int64) (*round, error) {
	spans := names.Of(slots, func(n int) [2]int64 { return [2]int64{s.index.slots[n].FromNS, s.index.slots[n].ToNS} })
	w := windows.Selection{Spans: spans, WarmupNS: warmupNS, CooldownNS: cooldown * warmupNS,
		LongestBytes: s.index.longestBytes}
	how := s.base.Settings
	how.Log = how.Log.Level(zerolog.WarnLevel)
	run, err := pipeline.DeriveWindows(ctx, s.base, w, how)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if err := run.Estimate(ctx); err != nil {
		return nil, fmt.Errorf("%d windows from %d ns on: %w", len(slots), s.index.slots[slots[0]].FromNS, err)
	}
	s.stages = append(s.stages, run.Executor().Reports...)
	g, err := s.base.Generated()
	if err != nil {
		return nil, err
	}
	fluid, err := run.FluidError()
	return &round{slots, run, w.Parts(g.FirstStartNS, g.LastStartNS), fluid}, err
}

// slotOf is the drawn slot in which a flow starts; false for a flow of a warm-up, a cool-down or an earlier time.
func (s *sampler) slotOf(startNS int64, slots []int) (int, bool) {
	i := sort.Search(len(slots), func(i int) bool { return s.index.slots[slots[i]].ToNS > startNS })
	if i == len(slots) || s.index.slots[slots[i]].FromNS > startNS {
		return 0, false
	}
	return slots[i], true
}

// A flow of the workload.
type flow struct {
	route.Flow
	workload.Labels
}

// An estimatedFlow is one of a slot.
type estimatedFlow struct {
	flow
	FCTNS    int64   `col:"fct_ns"`
	Slowdown float64 `col:"slowdown"`
}

func (s *sampler) each(ctx context.Context, r *round, do func(slot int, f *estimatedFlow)) error {
	in, err := r.run.Read(schema.Slowdowns)
	if err != nil {
		return err
	}
	return columns.Each(in, func(f *estimatedFlow) error {
		if slot, counted := s.slotOf(f.StartNS, r.slots); counted {
			do(slot, f)
		}
		return ctx.Err()
	})
}

func (c counts) add(k Key, cell int32) {
	of := c[k]
	if of == nil {
		of = &Counts{}
		c[k] = of
	}
	of.Add(cell)
}

func (c counts) seal() {
	for _, of := range c {
		of.Seal()
	}
}

// A reading is the slowdowns of a round's slots, by slot, and what they would be at the least and at the most.
type reading struct{ found, least, most map[int]counts }

func (s *sampler) read(ctx context.Context, r *round) (*reading, error) {
	x := &reading{map[int]counts{}, map[int]counts{}, map[int]counts{}}
	all := []map[int]counts{x.found, x.least, x.most}
	for _, of := range all {
		for _, n := range r.slots {
			of[n] = counts{}
		}
	}
	err := s.each(ctx, r, func(slot int, f *estimatedFlow) {
		least, most := r.bounds(f)
		cells := []int32{CellOf(f.Slowdown), CellOf(least), CellOf(most)}
		for _, k := range s.index.groups(f.Service, f.VNet, f.SizeBytes) {
			for i, of := range all {
				of[slot].add(k, cells[i])
			}
		}
	})
	for _, of := range all {
		for _, c := range of {
			c.seal()
		}
	}
	return x, err
}

// bounds are the slowdowns of a flow if the fluid that follows its part, if the flow outlasts it, errs as much as it
// does in parts, in one direction or the other.
func (r *round) bounds(f *estimatedFlow) (least, most float64) {
	after := f.Slowdown * max(0, 1-float64(r.endOf(f.StartNS)-f.StartNS)/float64(f.FCTNS))
	return f.Slowdown - after + after/(1+r.error), f.Slowdown + after*r.error
}

// endOf is the end of the part in which a flow starts.
func (r *round) endOf(startNS int64) int64 {
	i := sort.Search(len(r.parts), func(i int) bool { return r.parts[i][1] > startNS })
	if i == len(r.parts) {
		return math.MaxInt64
	}
	return r.parts[i][1]
}

// sampleFrom is the sample of a group from counts of the drawn slots.
func (s *sampler) sampleFrom(k Key, of map[int]counts) Sample {
	sample := make(Sample, len(s.design.Strata))
	for h, slots := range s.design.Strata {
		drawn := names.Of(slots[:s.drawn[h]], func(n int) *Counts { return of[n][k] })
		sample[h].Slots, sample[h].Drawn = len(slots), drawn
	}
	return sample
}
