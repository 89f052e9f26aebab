package pipeline

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"parsimon/schema"
	"parsimon/stages"
)

// Passes of estimator Flow.
const (
	// DefaultPasses is where more stop paying: README, "How accurate".
	DefaultPasses = 3
	// AutoPasses makes passes until p50, p90 and p99 of slowdown move by less than autoShare, or than a
	// workload of so few flows can tell.
	AutoPasses = -1
	// MaxPasses is the most that can be asked for.
	MaxPasses = 99

	autoShare  = 0.01
	autoPasses = 8 // at most
)

// Variants of estimator Flow are named after it and the number of passes: what N passes found is the
// same whatever comes after them, so that a run with more passes begins where one with fewer ended.
// Those of either estimator whose links were clustered end in how.
//
// Those of estimator Independent are named after it and what else than the link kernel ran the link
// cases.
const (
	flowVariant        = "flow-"
	ablationVariant    = "-ablate-"
	independentVariant = "independent"
	clusteredVariant   = "-cluster-"
)

func (r *Run) pass(n int) place {
	name := flowVariant + strconv.Itoa(n)
	if r.ablation != 0 {
		name += ablationVariant + r.ablation.String()
	}
	return r.clustered(name)
}

// clustered is where the tables of a variant stand, as the run clusters links.
func (r *Run) clustered(name string) place {
	if r.cluster != nil {
		name += clusteredVariant + r.cluster.String()
	}
	return place{r.spec.ScenarioID, name}
}

// A variant, taken apart.
type variant struct {
	estimator stages.Estimator
	passes    int
	ablation  stages.Ablation
	cluster   *stages.Clustering
	backend   stages.Backend
}

// parseVariant is the inverse of Run.Variant.
func parseVariant(name string) (v variant, err error) {
	whole, setting, clustered := strings.Cut(name, clusteredVariant)
	if clustered {
		if v.cluster, err = stages.ParseClustering(setting); err != nil {
			return v, err
		}
	}
	rest, ok := strings.CutPrefix(whole, flowVariant)
	if !ok {
		switch whole {
		case independentVariant:
		case independentVariant + "-" + stages.NS3Backend.String():
			v.backend = stages.NS3Backend
		default:
			err = fmt.Errorf("no variant %q", name)
		}
		return v, err
	}
	number, ablation, _ := strings.Cut(rest, ablationVariant)
	v.estimator = stages.Flow
	if v.passes, err = strconv.Atoi(number); err != nil || v.passes < 1 || v.passes > MaxPasses {
		return v, fmt.Errorf("no variant %q", name)
	}
	v.ablation, err = stages.ParseAblation(ablation)
	return v, err
}

// variantFlags are the flags of the command line that name a variant.
func variantFlags(name string) string {
	v, err := parseVariant(name)
	if err != nil {
		return "--estimator " + name
	}
	flags := "--estimator " + v.estimator.String()
	if v.estimator == stages.Flow {
		flags += fmt.Sprintf(" --passes %d", v.passes)
	}
	if v.ablation != 0 {
		flags += " --ablate " + v.ablation.String()
	}
	if v.backend != stages.Kernel {
		flags += " --link-backend " + v.backend.String()
	}
	if v.cluster != nil {
		flags += " --cluster=" + v.cluster.String()
	}
	return flags
}

func (r *Run) passStage(n int) stage {
	return stage{"simulate", r.pass(n), []schema.Table{schema.HopObservations, schema.LinkStats}}
}
func (r *Run) relaxStage(n int) stage {
	return stage{"feedback", r.pass(n), []schema.Table{schema.Feedback}}
}
func (r *Run) tellStage() stage { return r.tellStageOf(r.passes) }
func (r *Run) tellStageOf(n int) stage {
	return stage{"sender-feedback", r.pass(n), []schema.Table{schema.SenderFeedback}}
}
func (r *Run) sendersStage() stage {
	return stage{"replay", r.variant(), []schema.Table{schema.SenderFCTs}}
}

// caseStages are the stages that ran link cases for the run's estimate.
func (r *Run) caseStages() []stage {
	if r.estimator == stages.Independent {
		return []stage{r.simulateStage()}
	}
	var all []stage
	for n := 1; n <= r.passes; n++ {
		all = append(all, r.passStage(n))
	}
	return append(all, r.sendersStage())
}

// passesUntilDone makes the passes, each over both barriers, and the estimate after the last; with
// AutoPasses an estimate after each, until it stops moving.
func (r *Run) passesUntilDone(ctx context.Context) error {
	if r.passes != AutoPasses {
		for n := 1; n <= r.passes; n++ {
			if err := r.onePass(ctx, n); err != nil {
				return err
			}
		}
		return r.replays(ctx, true)
	}
	var before []float64
	for n := 1; ; n++ {
		if err := r.onePass(ctx, n); err != nil {
			return err
		}
		r.passes = n
		if err := r.replays(ctx, false); err != nil {
			return err
		}
		now, widths, err := r.percentiles()
		if err != nil {
			return err
		}
		settled := before != nil
		for i := range before {
			settled = settled && math.Abs(now[i]/before[i]-1) < max(autoShare, widths[i])
		}
		r.log.Info().Int("passes", n).Floats64("p50_p90_p99", now).Msg("estimate")
		if settled || n == autoPasses {
			if err := r.tidyAfter(r.sampleStage()); err != nil {
				return err
			}
			return r.writeCatalog(r.sampleStage())
		}
		before = now
	}
}

func (r *Run) onePass(ctx context.Context, n int) error {
	if n > 1 {
		if err := r.relaxPass(ctx, n-1); err != nil { // waits and marks of a flow's hops → what each hop is told of the others
			return err
		}
		if err := r.tidyAfter(r.relaxStage(n - 1)); err != nil {
			return err
		}
	}
	if err := r.simulatePass(ctx, n); err != nil { // link cases, told what pass n - 1 found → waits and marks
		return err
	}
	return r.imputePass(ctx, n) // with clustering: representatives' waits and marks → the others'
}

// journeys makes the estimate after the run's last pass, or the last so far.
func (r *Run) replays(ctx context.Context, last bool) error {
	if err := r.SenderFeedbackOf(ctx); err != nil { // waits and marks of a flow's hops → what its host's own link is told
		return err
	}
	if err := r.Replay(ctx); err != nil { // the hosts' own cases, told everything → each flow's journey
		return err
	}
	if err := r.Sample(ctx); err != nil { // → its FCT and slowdown, and what each hop contributed
		return err
	}
	if last {
		if err := r.tidyAfter(r.sampleStage()); err != nil {
			return err
		}
	}
	return r.Intervals(ctx) // → intervals of the percentiles, and what to beware of
}

// told are what the link cases of pass n are told; none in the first.
func (r *Run) given(n int) ([]part, error) {
	if n == 1 {
		return nil, nil
	}
	_, relaxed, err := r.inputs(r.relaxStage(n - 1))
	if err != nil {
		return nil, err
	}
	return partsOf(relaxed, schema.Feedback), nil
}

// readTold streams what is told, by table elsewhere or sender_feedback; nil for nothing.
func (r *Run) readTold(t schema.Table, given []part) func(keep *keyRange) schema.Batches {
	if given == nil {
		return nil
	}
	return func(keep *keyRange) schema.Batches { return r.lake.read(t, given, stages.FeedbackColumns(), keep) }
}

// simulatePass runs every link case of pass n, a range of links a task.
func (r *Run) simulatePass(ctx context.Context, n int) error {
	hops, loads, err := r.routed()
	if err != nil {
		return err
	}
	given, err := r.given(n)
	if err != nil {
		return err
	}
	of, err := r.representatives()
	if err != nil {
		return err
	}
	s := r.passStage(n)
	tasks := r.linkTasks(s, loads, simulated(of))
	var keys []string
	if n == 1 { // later ones depend on what packets met all over the network
		if keys, err = r.caseKeys(tasks, loads); err != nil {
			return err
		}
	}
	return r.performKeyed(ctx, s, tasks, keys, "packet-hops", r.cases(s, loads, hops, r.readTold(schema.Feedback, given),
		func(ctx context.Context, sim *stages.Simulator, t task, in, feedback schema.Batches, out []*partWriter) (stages.SimulateStats, error) {
			sim.Represent(of)
			return sim.Simulate(ctx, int32(t.Lo), int32(t.Hi), in, feedback, out[0], out[1], r.progress.add)
		}))
}

// cases makes the work of a stage that runs link cases, a range of links a task: do is given the
// range's hops and what they are told (nil for nothing).
func (r *Run) cases(s stage, loads *stages.Loads, hops []part, given func(keep *keyRange) schema.Batches, do func(ctx context.Context, sim *stages.Simulator, t task, hops, given schema.Batches, out []*partWriter) (stages.SimulateStats, error)) func() (work, error) {
	return func() (work, error) {
		sim, err := r.simulator(loads)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, n int, t task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				keep := &keyRange{"link_id", t.Lo, t.Hi}
				in := r.lake.read(schema.Hops, hops, stages.HopColumns(r.estimator), keep)
				defer closeQuietly(in)
				var feedback schema.Batches
				if given != nil {
					feedback = given(keep)
					defer closeQuietly(feedback)
				}
				stats, err := do(ctx, sim, t, in, feedback, out)
				return max(1, stats.LongestCaseNS), stats, err
			})
		}, nil
	}
}

// Relax turns what the packets of each flow met in the pass that the run is set to into what its hops are told
// of each other in the next.
func (r *Run) HopFeedback(ctx context.Context) error { return r.relaxPass(ctx, r.passes) }

func (r *Run) relaxPass(ctx context.Context, n int) error {
	flows, err := r.flowParts()
	if err != nil {
		return err
	}
	waits, err := r.waits(n)
	if err != nil {
		return err
	}
	given, err := r.given(n)
	if err != nil {
		return err
	}
	of, err := r.representatives()
	if err != nil {
		return err
	}
	s := r.relaxStage(n)
	return r.perform(ctx, s, chunkTasks(flows), "flows", func() (work, error) {
		builder := stages.NewFeedbackBuilder(r.net, r.spec.Params.Transport, r.spec.Seed, n, r.ablation)
		builder.Represent(r.net, of)
		return func(ctx context.Context, n int, t task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				in := waits(&keyRange{"flow_row", t.Lo, t.Hi})
				defer closeQuietly(in)
				var before schema.Batches
				if given != nil {
					before = r.readTold(schema.Feedback, given[n:n+1])(nil)
					defer closeQuietly(before)
				}
				err := builder.Build(ctx, stages.EveryHop, t.Lo, t.Hi-t.Lo, in, before, out[0])
				r.progress.add(t.Cost)
				return 0, nil, err
			})
		}, nil
	})
}

// Tell turns what the packets of each flow met in the run's last pass into what its host's own link is told.
func (r *Run) SenderFeedbackOf(ctx context.Context) error {
	if r.estimator != stages.Flow {
		return fmt.Errorf("estimator %s has no stage tell", r.estimator)
	}
	flows, err := r.flowParts()
	if err != nil {
		return err
	}
	waits, err := r.waits(r.passes)
	if err != nil {
		return err
	}
	s := r.tellStage()
	return r.perform(ctx, s, chunkTasks(flows), "flows", func() (work, error) {
		builder := stages.NewFeedbackBuilder(r.net, r.spec.Params.Transport, r.spec.Seed, r.passes, r.ablation)
		return func(ctx context.Context, n int, t task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				in := waits(&keyRange{"flow_row", t.Lo, t.Hi})
				defer closeQuietly(in)
				err := builder.Build(ctx, stages.SenderHop, t.Lo, t.Hi-t.Lo, in, nil, out[0])
				r.progress.add(t.Cost)
				return 0, nil, err
			})
		}, nil
	})
}

// Senders runs the link cases of the hosts' own links, told all that the run's last pass found.
func (r *Run) Replay(ctx context.Context) error {
	if r.estimator != stages.Flow {
		return fmt.Errorf("estimator %s has no stage senders", r.estimator)
	}
	hops, loads, err := r.routed()
	if err != nil {
		return err
	}
	_, tells, err := r.inputs(r.tellStage())
	if err != nil {
		return err
	}
	s := r.sendersStage()
	return r.perform(ctx, s, r.linkTasks(s, loads, r.net.FromHost), "packet-hops", r.cases(s, loads, hops, r.readTold(schema.SenderFeedback, partsOf(tells, schema.SenderFeedback)),
		func(ctx context.Context, sim *stages.Simulator, t task, in, feedback schema.Batches, out []*partWriter) (stages.SimulateStats, error) {
			return sim.Replay(ctx, int32(t.Lo), int32(t.Hi), in, feedback, out[0], r.progress.add)
		}))
}

// percentiles are p50, p90 and p99 of the run's slowdowns, each to within spreadStep, and half of
// the relative width of their 95% intervals, as if flows were independent: the order statistics at
// q ± 1.96 √(q (1 − q) / n) (Conover, Practical Nonparametric Statistics, §3.2).
func (r *Run) percentiles() (values, widths []float64, err error) {
	var all spread
	err = r.eachSlowdown(func(_ int64, _ string, _, _ int64, slowdown float64) { all.add(slowdown, 1) })
	if err != nil {
		return nil, nil, err
	}
	for _, q := range []float64{0.5, 0.9, 0.99} {
		half := 1.96 * math.Sqrt(q*(1-q)/float64(max(1, all.flows)))
		at := all.quantiles([]float64{max(0, q-half), q, min(1, q+half)})
		values = append(values, at[1])
		widths = append(widths, (at[2]/at[0]-1)/2)
	}
	return values, widths, nil
}
