package pipeline

import (
	"context"
	"slices"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// autoPasses are the numbers of passes that AutoPasses tries in turn. Where two do not suffice, a third alone halves
// the error at best, and the fourth and fifth cost half of a pass each: they simulate only links that matter to
// others. From there on the numbers are odd: waits that react to each other swing, so what an odd number of passes
// finds is compared with an odd one. Where bursts meet on long paths, and with transports that react to delay, waits
// take up to eleven passes to settle.
var autoPasses = []int{2, 5, 7, 9, 11}

// Packet-hops of a workload (packets × links of their paths) up to which an estimate that may (Variant.Auto) simulates
// the whole network: wholeNetworkHops where two passes do not suffice, and directHops instead of any pass.
//
// One core simulates 94 M packet-hops of 256 hosts in 8 s, and 372 M of 6,144 hosts in 48 s. On two cores, five passes
// over the former take 10 s, and seven over 15 M packet-hops 4.4 s, where the whole network takes 1.5 s. So more passes
// than two pay only for what one core cannot do in a minute or two, and two passes pay from a few seconds on.
const (
	wholeNetworkHops = 1_000_000_000
	directHops       = 20_000_000
)

// estimateAuto makes the estimate of a variant that chooses: of the whole network at once where that takes no longer
// than two passes, or where more than two would be needed anyway; else of link cases, and of the whole network after
// all if these ask for more passes. The choice depends on the scenario and on the estimate only, not on the machine.
func estimateAuto(ctx context.Context, e *Estimation) error {
	flow, whole := e.variant, Variant{Estimator: stages.WholeNetwork}
	flow.Auto, e.variant = false, whole
	first, err := look(ctx, e)
	if err != nil {
		return err
	}
	switch {
	case first.unable != nil:
		e.Log.Info().Err(first.unable).Msg("link cases only: the whole network cannot be simulated")
	case first.hops <= directHops, first.hops <= wholeNetworkHops && first.morePasses:
		return e.run(ctx)
	case first.hops <= wholeNetworkHops:
		return estimateUntilSettled(ctx, e, flow, &whole)
	}
	return estimateUntilSettled(ctx, e, flow, nil)
}

// A firstLook is what is known of a workload when it is routed.
type firstLook struct {
	unable     error // why the whole network cannot be simulated; nil if it can
	hops       int64 // packet-hops, as many with longer delays as take the same time
	morePasses bool  // two passes of link cases do not suffice
}

// windowDelayNS is the shortest delay of a network in which the simulation costs what it does with longer ones. It is
// cut into windows as long as the shortest delay, and each costs some: with delays of 5 ns, 50 ns and 1 µs, 15 M
// packet-hops took 294, 157 and 100 ns each. They are taken to cost shortDelayCost times as much at most.
const (
	windowDelayNS  = 300
	shortDelayCost = 4
)

// look runs the first stages of the plan, up to route.
func look(ctx context.Context, e *Estimation) (firstLook, error) {
	plan := e.Plan()
	last := plan.Writer(schema.LinkLoads)
	if err := e.exec.Run(ctx, plan[:slices.Index(plan, last)+1]); err != nil {
		return firstLook{}, e.forgetUnborn(err)
	}
	records, err := e.exec.Records(last)
	if err != nil {
		return firstLook{}, err
	}
	routed, err := RouteStats(records)
	if err != nil {
		return firstLook{}, err
	}
	loads, err := Loads(e)
	if err != nil {
		return firstLook{}, err
	}
	params, shortestNS := &e.Spec.Params, int64(windowDelayNS)
	for _, l := range e.Network.Links {
		shortestNS = min(shortestNS, max(1, l.DelayNS))
	}
	return firstLook{
		unable:     stages.CheckWholeNetwork(e.Network, *params, routed, loads),
		hops:       routed.PacketHops * min(shortDelayCost, windowDelayNS/shortestNS),
		morePasses: stages.FewestPasses(params.Transport) > autoPasses[0] || loads.Overloaded(e.Network, params),
	}, nil
}

// CanBeWhole reports whether an estimate that may choose would be of the whole network if two passes did not suffice.
// It runs the first stages, up to route.
func (e *Estimation) CanBeWhole(ctx context.Context) (bool, error) {
	first, err := look(ctx, e)
	return err == nil && first.unable == nil && first.hops <= wholeNetworkHops, err
}

// estimateUntilSettled makes the first of autoPasses, at least Settings.LeastPasses, and more while the estimate itself
// says that more may change it (stages.PassesStats). Until that is known it keeps the temporary tables that the next
// pass reads. With instead, that variant takes the place of more passes.
func estimateUntilSettled(ctx context.Context, e *Estimation, flow Variant, instead *Variant) error {
	e.variant = flow
	tried := slices.DeleteFunc(slices.Clone(autoPasses), func(n int) bool { return n <= e.LeastPasses })
	if e.LeastPasses > 0 {
		tried = slices.Insert(tried, 0, e.LeastPasses)
	}
	for i, passes := range tried {
		e.variant.Passes = passes
		if i > 0 {
			e.tried = tried[i-1]
			if err := compareAgain(e); err != nil {
				return err
			}
		}
		if i+1 == len(tried) {
			break
		}
		longer := e.variant
		longer.Passes = tried[i+1]
		if err := e.runStages(ctx, e.method(longer).plan()); err != nil {
			return err
		}
		found, err := passesStats(e)
		if err != nil {
			return err
		}
		if !found.MorePasses(passes, e.Spec.Params.Transport) {
			return e.Collect()
		}
		if instead != nil {
			if err := e.Collect(); err != nil {
				return err
			}
			e.Log.Info().Int("passes", passes).Float64("disagreement", found.Disagreement).Bool("warned", found.Suspect).
				Stringer("variant", instead).Msg("the whole network instead of more passes")
			e.variant = *instead
			return e.run(ctx)
		}
		if err := e.Publish(); err != nil {
			return err
		}
		e.Log.Info().Int("passes", passes).Float64("disagreement", found.Disagreement).Bool("warned", found.Suspect).
			Int("next", longer.Passes).Msg("more passes")
	}
	return e.run(ctx)
}

// compareAgain makes stage intervals run again if the lake has it from an estimate that was not compared with the one
// that AutoPasses made before: it was asked for by its number of passes.
func compareAgain(e *Estimation) error {
	found, err := passesStats(e)
	if err != nil || found.Compared == e.tried {
		return nil // it has not been complete, or has been compared
	}
	return engine.RemoveStage(e.exec.Session(), e.Plan().Writer(schema.Intervals))
}

// passesStats returns what the last stage found out about passes.
func passesStats(e *Estimation) (stages.PassesStats, error) {
	records, err := e.Records(schema.Warnings)
	if err != nil {
		return stages.PassesStats{}, err
	}
	all, err := engine.Stats[stages.PassesStats](records)
	if err != nil || len(all) == 0 {
		return stages.PassesStats{}, err
	}
	return all[0], nil
}
