package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
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

// Limits of the windows in which message sizes are varied.
const (
	// sizeCost bounds the packets that are simulated with all factors, as a share of those of the workload,
	// after estimator exact. Other estimators are cheaper; see sizeShare.
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
// sizes, with a third of them and with three times them. at is the variant that the table describes. Without
// assumed sizes, or if the lake has the table, it does nothing. If the windows cannot be simulated, it logs a
// warning: the estimate is complete without them.
//
// The windows are those of a first round of an estimate from windows (see draw), but longer. They take at
// most sizeCost of the packets of the workload, unless it is small. The rows depend on the scenario and on
// the estimator only. The windows' scenarios are removed.
func VaryMessageSizes(ctx context.Context, base *pipeline.Estimation, at variant.Variant) error {
	sizes, err := base.AssumedSizes()
	if err != nil || len(sizes) == 0 {
		return err
	}
	stage := pipeline.MessageSizesStage(base.ID(), at)
	if err := base.Executor().Repair(engine.Plan{stage}); err != nil {
		return err
	}
	if _, err := engine.Complete(base.Lake, stage, pipeline.MethodVersion); err == nil {
		return nil
	}
	err = varySizes(ctx, base, stage, sizes)
	if err != nil && ctx.Err() == nil {
		base.Log.Warn().Msgf("how much the assumed message sizes matter is not known: %v; --traffic states them",
			err)
		return nil
	}
	return err
}

// varySizes simulates the windows with each factor, and writes table message_sizes.
func varySizes(
	ctx context.Context, base *pipeline.Estimation, stage *engine.Stage, sizes map[string]int64,
) (err error) {
	if err := base.CheckWindows(); err != nil {
		return err
	}
	s := &sampler{base: base, ask: Ask{Of: []float64{0.99}, Confidence: 0.95}}
	s.forget()
	if s.index, err = readIndex(ctx, base); err != nil {
		return err
	}
	if err := s.sizeWindows(); err != nil {
		return err
	}
	largest := int64(0)
	for _, bytes := range sizes {
		largest = max(largest, traffic.FactoredSize(bytes, slices.Max(sizeFactors)))
	}
	s.index.longestBytes = max(s.index.longestBytes, largest)
	found := make([]map[int]histograms, len(sizeFactors))
	for i, factor := range sizeFactors {
		found[i], err = s.withSizes(ctx, factor)
		if err != nil {
			return fmt.Errorf("message sizes times %.3g: %w", factor, err)
		}
	}
	stage.Open = engine.Always(func(_ context.Context, t *engine.Attempt) error {
		rows := s.sizesRecord(sizes, found)
		defer rows.Release()
		return t.Sink(schema.MessageSizes).Write(rows)
	})
	if err := base.Executor().RunStage(ctx, nil, stage); err != nil {
		return err
	}
	s.addCost()
	return base.Publish()
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
// windows and too large to be simulated as a whole.
func (s *sampler) sizeWindows() error {
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
	if bytes <= smallSizeBytes {
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

// withSizes simulates the windows with message sizes times a factor, and returns the slowdowns by slot. It
// removes the scenario of the windows, unless it is interrupted: the next run then goes on with it.
func (s *sampler) withSizes(ctx context.Context, factor float64) (_ map[int]histograms, err error) {
	slots := s.design.Drawn(s.drawn)
	selection := s.selection(slots, s.warmup.NS)
	selection.SizeFactor = factor
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

// sizesRecord returns the rows of table message_sizes. found has the slowdowns by slot, for each factor.
func (s *sampler) sizesRecord(sizes map[string]int64, found []map[int]histograms) arrow.Record {
	var rows []sizesRow
	for _, k := range s.index.order {
		if k != all && (k.By != confidence.ByService || k.Bin != sizebin.Count) {
			continue
		}
		base := s.sampleFrom(k, found[0])
		for i, factor := range sizeFactors {
			other := s.sampleFrom(k, found[i])
			value, some := other.value(0.99)
			change, ok := compareSamples(base, other, 0.99, s.ask.Confidence)
			if !some || !ok {
				continue
			}
			if math.IsNaN(change.Lo + change.Hi) { // all slots are drawn
				change.Lo = change.Change
				change.Hi = change.Change
			}
			rows = append(rows, sizesRow{k, factor, other.Flows(), value, change})
		}
	}
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
