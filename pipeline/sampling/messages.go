package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/summary"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/schema/variant"
	"parsimon/stages/confidence"
	"parsimon/stages/estimators"
	"parsimon/stages/traffic"
)

// sizeFactors are the factors of the assumed message sizes. The first one is 1.
var sizeFactors = []float64{1, 1. / 3, 3}

// variedBurst is the number of messages that begin at a time in the last simulation. A log does not show
// bursts.
const variedBurst = 8

// Limits of the windows in which message sizes are varied.
const (
	// sizeCost bounds the packets that are simulated with all factors, as a share of those of the workload,
	// after estimator exact. Other estimators are cheaper; see sizeShare. Bursts add a third.
	sizeCost = 0.25
	// mostSizeFlows bounds the flows of the windows: enough for p99 of a service that has 1% of them.
	mostSizeFlows = 200_000
	// If a workload has at most smallSizeBytes, all of it is simulated, which takes seconds.
	smallSizeBytes = int64(500e6)
)

// sizeShare is the share of the time that is simulated with each factor. In 2026, estimator flow took about
// half of the processor time of a simulation of all packets, and independent a fifth.
func sizeShare(v pipeline.Variant) float64 {
	share := sizeCost / float64(len(sizeFactors))
	switch {
	case v.Auto || v.Estimator == estimators.Exact:
		return share
	case v.Estimator == estimators.Flow:
		return share / 2
	}
	return share / 5
}

// VaryMessageSizes shows how much p99 of slowdown depends on message sizes that no rule states, in a run of a
// flow log (table message_sizes). It simulates the same windows of time, packet by packet, with the assumed
// sizes, with a third of them, with three times them, and with bursts of messages. at is the variant that the
// table describes. Without assumed sizes, or if the lake has the table, it does nothing. If the windows
// cannot be simulated, it logs a warning: the estimate is complete without them.
//
// The windows are those of a first round of an estimate from windows (see draw), but longer. They take at
// most sizeCost of the packets of the workload, unless it is small. The rows depend on the scenario and on
// the estimator only. The windows' scenarios are removed.
func VaryMessageSizes(ctx context.Context, base *pipeline.Estimation, at variant.Variant) error {
	return makeSizes(ctx, base, at, func(v *sizeVariation) error {
		var err error
		if v.sampler, err = newSizeSampler(ctx, base, smallSizeBytes); err != nil {
			return err
		}
		if err := v.vary(ctx, sizeFactors, nil); err != nil {
			return err
		}
		v.addCost()
		return nil
	})
}

// sizeAsk is the request for the windows in which message sizes vary.
func sizeAsk() Ask { return Ask{Of: []float64{0.99}, Confidence: 0.95} }

// newSizeSampler returns the sampler of the windows in which message sizes are varied. A workload of at most
// smallBytes is simulated as a whole.
func newSizeSampler(ctx context.Context, base *pipeline.Estimation, smallBytes int64) (*sampler, error) {
	if err := base.CheckWindows(); err != nil {
		return nil, err
	}
	s := &sampler{base: base, ask: sizeAsk()}
	s.forget()
	var err error
	if s.index, err = readIndex(ctx, base); err != nil {
		return nil, err
	}
	return s, s.sizeWindows(smallBytes)
}

// varyDrawn makes table message_sizes for an estimate from windows. It takes the eight windows of the reduced
// first round, which have been simulated with the assumed sizes, and simulates them three times: with a third
// of the sizes, with three times these sizes, and with bursts. The whole first round has 32 windows. A budget
// applies to this, too.
func (s *sampler) varyDrawn(ctx context.Context, r *Result) error {
	limited := ctx
	if s.ask.Budget > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, s.began.Add(s.ask.Budget))
		defer cancel()
	}
	err := makeSizes(ctx, s.base, r.Made, func(v *sizeVariation) error {
		own := *s
		own.stages = nil
		own.ask = sizeAsk()
		own.design = s.full.Merged(4)
		own.drawn = own.design.First()
		v.sampler = &own
		found := map[int]histograms{}
		for _, n := range own.design.Drawn(own.drawn) {
			if s.counts[n] == nil {
				return fmt.Errorf("window %d was not simulated", n)
			}
			found[n] = s.counts[n]
		}
		err := v.vary(limited, sizeFactors[1:], []map[int]histograms{found})
		if limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("--budget %v is over", s.ask.Budget)
		}
		r.Stages = append(r.Stages, own.stages...)
		return err
	})
	if err != nil {
		return err
	}
	r.Sizes, err = summary.ReadSizes(ctx, s.base, r.Made)
	r.Seconds = time.Since(s.began).Seconds()
	return err
}

// A sizeVariation makes table message_sizes.
type sizeVariation struct {
	*sampler
	stage *engine.Stage
	sizes map[string]int64 // that are assumed, by service
}

// makeSizes calls do unless there is nothing to do. If it fails, makeSizes logs a warning.
func makeSizes(
	ctx context.Context, base *pipeline.Estimation, at variant.Variant, do func(v *sizeVariation) error,
) error {
	sizes, err := base.AssumedSizes()
	if err != nil || len(sizes) == 0 {
		return err
	}
	v := &sizeVariation{stage: pipeline.MessageSizesStage(base.ID(), at), sizes: sizes}
	if err := base.Executor().Repair(engine.Plan{v.stage}); err != nil {
		return err
	}
	if _, err := engine.Complete(base.Lake, v.stage, pipeline.MethodVersion); err == nil {
		return nil
	}
	err = do(v)
	if err != nil && ctx.Err() == nil {
		base.Log.Warn().Msgf("how much the assumed message sizes matter is not known: %v; --traffic states them",
			err)
		return nil
	}
	return err
}

// vary simulates the windows with factors, and writes table message_sizes. found has the slowdowns with the
// factors before them.
func (s *sizeVariation) vary(
	ctx context.Context, factors []float64, found []map[int]histograms,
) error {
	largest := int64(0)
	for _, bytes := range s.sizes {
		largest = max(largest, traffic.FactoredSize(bytes, slices.Max(sizeFactors)))
	}
	s.index.longestBytes = max(s.index.longestBytes, largest)
	for _, factor := range factors {
		of, err := s.with(ctx, traffic.Variation{SizeFactor: factor})
		if err != nil {
			return fmt.Errorf("message sizes times %.3g: %w", factor, err)
		}
		found = append(found, of)
	}
	bursts, err := s.with(ctx, traffic.Variation{Burst: variedBurst})
	if err != nil {
		return fmt.Errorf("bursts of messages: %w", err)
	}
	s.stage.Open = engine.Always(func(_ context.Context, t *engine.Attempt) error {
		t.SetStats(s.burstEffects(found[0], bursts))
		rows := s.sizesRecord(s.sizes, found)
		defer rows.Release()
		return t.Sink(schema.MessageSizes).Write(rows)
	})
	if err := s.base.Executor().RunStage(ctx, nil, s.stage); err != nil {
		return err
	}
	return s.base.Publish()
}

// addCost adds the cost of the windows to that of the last stage of the estimate.
func (s *sampler) addCost() {
	all := s.base.Executor().Reports
	last := &all[len(all)-1]
	for _, r := range s.stages {
		last.Seconds += r.Seconds
		last.CPUSeconds += r.CPUSeconds
		last.CriticalSeconds += r.CriticalSeconds
	}
}

// sizeWindows chooses the warm-up and the windows. It returns an error if the workload is too short for
// windows and has more than smallBytes, up to which all of it is simulated.
func (s *sampler) sizeWindows(smallBytes int64) error {
	g, err := s.base.Generated()
	if err != nil {
		return err
	}
	slowest, _ := s.base.Network.HostBps()
	s.warmup.NS = s.index.firstWarmupNS(slowest)
	bytes := int64(0)
	for _, x := range s.index.fine {
		bytes += x.Bytes
	}
	timeNS := g.LastStartNS - g.FirstStartNS + 1
	if bytes <= smallBytes {
		s.index.cut((g.Flows + 7) / 8)
		s.design = newDesign(s.index.slots, s.base.Spec.Seed, loadWarmups*s.warmup.NS)
		s.drawn = nil
		for _, stratum := range s.design.Strata {
			s.drawn = append(s.drawn, len(stratum))
		}
		return nil
	}
	share := sizeShare(s.base.Variant())
	flowNS := float64(timeNS) / float64(g.Flows) // between two flows, on average
	for _, merged := range []int{1, 2, 4} {
		windows := int64(firstRound * loadClasses * timePieces / merged)
		lengthNS := int64(share*float64(timeNS))/windows - (1+cooldown)*s.warmup.NS
		if lengthNS < s.warmup.NS {
			continue
		}
		flows := min(int64(float64(lengthNS)/flowNS), mostSizeFlows/windows)
		s.index.cut(max(1, flows))
		s.design = newDesign(s.index.slots, s.base.Spec.Seed, loadWarmups*s.warmup.NS).Merged(merged)
		s.drawn = s.design.First()
		return nil
	}
	least := firstRound * timePieces * (2 + cooldown) * float64(s.warmup.NS) / share
	return fmt.Errorf("windows of time need %.3g s or more of the log, and the run has %.3g s", least/1e9,
		float64(timeNS)/1e9)
}

// with simulates the windows with other messages, and returns the slowdowns by slot. It removes the scenario
// of the windows, unless it is interrupted: the next run then goes on with it.
func (s *sampler) with(ctx context.Context, v traffic.Variation) (_ map[int]histograms, err error) {
	slots := s.design.Drawn(s.drawn)
	selection := s.selection(slots, s.warmup.NS)
	selection.SizeFactor = v.SizeFactor
	selection.Burst = v.Burst
	run, err := s.derive(ctx, selection)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, run.Executor().Session().RemoveUncommitted(lake.Of(run.ID())))
		}
	}()
	r, err := s.simulate(ctx, slots, selection, run)
	if err != nil {
		return nil, err
	}
	x, err := s.read(ctx, r)
	if err != nil {
		return nil, err
	}
	return x.found, nil
}

// A sizesRow is a group of flows with a factor.
type sizesRow struct {
	key    Key
	factor float64
	flows  int64
	value  float64
	quantileChange
}

// eachGroup calls do for each group of table message_sizes: all flows, and services.
func (s *sampler) eachGroup(do func(k Key)) {
	for _, k := range s.index.order {
		if k == all || k.By == confidence.ByService && k.Bin == sizebin.Count {
			do(k)
		}
	}
}

// change compares p99 of two simulations of the same windows.
func (s *sampler) change(base, other sample) (change quantileChange, ok bool) {
	change, ok = compareSamples(base, other, 0.99, s.ask.Confidence)
	if math.IsNaN(change.Lo + change.Hi) { // all slots are drawn
		change.Lo = change.Change
		change.Hi = change.Change
	}
	return change, ok
}

// burstEffects returns the effects of bursts. base has the slowdowns by slot without bursts.
func (s *sampler) burstEffects(base, bursts map[int]histograms) (effects []pipeline.BurstEffect) {
	s.eachGroup(func(k Key) {
		change, ok := s.change(s.sampleFrom(k, base), s.sampleFrom(k, bursts))
		if !ok {
			return
		}
		e := pipeline.BurstEffect{Burst: variedBurst, Change: change.Change, Lo: change.Lo, Hi: change.Hi}
		if k.By == confidence.ByService {
			e.Service = &k.Label
		}
		effects = append(effects, e)
	})
	return effects
}

// sizesRecord returns the rows of table message_sizes. found has the slowdowns by slot, for each factor.
func (s *sampler) sizesRecord(sizes map[string]int64, found []map[int]histograms) arrow.Record {
	var rows []sizesRow
	s.eachGroup(func(k Key) {
		base := s.sampleFrom(k, found[0])
		for i, factor := range sizeFactors {
			other := s.sampleFrom(k, found[i])
			value, some := other.value(0.99)
			change, ok := s.change(base, other)
			if some && ok {
				rows = append(rows, sizesRow{k, factor, other.Flows(), value, change})
			}
		}
	})
	slices.SortStableFunc(rows, func(a, b sizesRow) int { return cmp.Compare(a.key.Label, b.key.Label) })
	share := s.sampledShare(found[0])
	return columns.RecordOf(schema.MessageSizes, rows, func(r sizesRow) columns.Row {
		row := columns.Row{
			"factor": r.factor, "windows": int32(len(found[0])), "windows_share": share, "flows": r.flows,
			"p99_windows": r.value, "change": r.Change, "change_lo": r.Lo, "change_hi": r.Hi,
		}
		if r.key.By == confidence.ByService {
			row["service"] = r.key.Label
			if bytes, assumed := sizes[r.key.Label]; assumed {
				row["message_bytes"] = traffic.FactoredSize(bytes, r.factor)
			}
		}
		return row
	})
}
