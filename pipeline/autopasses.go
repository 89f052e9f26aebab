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
	hops, loads, err := route(ctx, e)
	if err != nil {
		return err
	}
	params := &e.Spec.Params
	morePasses := stages.FewestPasses(params.Transport) > autoPasses[0] || loads.Overloaded(e.Network, params)
	switch unable := stages.CheckWholeNetwork(e.Network, *params); {
	case unable != nil:
		e.Log.Info().Err(unable).Msg("link cases only: the whole network cannot be simulated")
	case hops <= directHops, hops <= wholeNetworkHops && morePasses:
		return e.run(ctx)
	case hops <= wholeNetworkHops:
		return estimateUntilSettled(ctx, e, flow, &whole)
	}
	return estimateUntilSettled(ctx, e, flow, nil)
}

// route runs the first stages of the plan, up to route, and returns the packet-hops of the workload and what each link
// carries.
func route(ctx context.Context, e *Estimation) (packetHops int64, loads *stages.Loads, err error) {
	plan := e.Plan()
	last := plan.Writer(schema.LinkLoads)
	if err := e.exec.Run(ctx, plan[:slices.Index(plan, last)+1]); err != nil {
		return 0, nil, e.forgetUnborn(err)
	}
	if loads, err = Loads(e); err != nil {
		return 0, nil, err
	}
	for _, l := range loads.Links {
		packetHops += l.Packets
	}
	return packetHops, loads, nil
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
