package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
)

// A stageFlags declares the flags that do something in one stage, beside those of every stage.
type stageFlags []func(*runFlags, *pflag.FlagSet)

// stageCommands are the commands that run one stage on what the lake holds, in the order of the method.
var stageCommands = []command{
	stageCommand("route", "stage 2: choose each flow's path and explode flows to hops", `
Reads flows, chooses each flow's shortest path by ECMP (seeded, salted per node, consistent under
failures), and writes hops, one row per flow and link, sorted by link, and link_loads.`,
		stageFlags{(*runFlags).declareShard}),
	stageCommand("overlaps", "after stage 2 of estimator flow: in which part of the time both directions of each cable send", `
Estimator flow. Reads hops and link_loads and writes link_overlaps: for each link the part of the time in which it
sends, in which its reverse link sends too. The bandwidth that ACKs take follows from it. Also writes ack_delays: how
much longer each flow takes because of ACKs if it is alone on its path.`,
		stageFlags{(*runFlags).declareFlow, (*runFlags).declareShard}),
	stageCommand("cluster", "before stage 3, with --cluster: find links that are alike", `
Reads hops and link_loads, works out what each link's delays depend on, and writes link_clusters: for
each link the one whose case stands for it. Estimator independent.`,
		stageFlags{(*runFlags).declareIndependent, (*runFlags).declareCluster}),
	stageCommand("uplinks", "before stage 3 of estimator flow: simulate each host's uplink alone", `
Estimator flow. Runs the link cases of the hosts' uplinks without feedback and writes
uplink_observations: how long each flow's packets wait at its host.`,
		stageFlags{(*runFlags).declareEstimator, (*runFlags).declarePartitions,
			(*runFlags).declareCache, (*runFlags).declareShard}),
	stageCommand("uplink-feedback", "after uplinks: what the first pass is given of the hosts", `
Estimator flow. Reads uplink_observations and writes uplink_feedback: for each flow at each hop, the
waits of its packets at its host. The first pass of simulate reads it.`,
		stageFlags{(*runFlags).declareEstimator, (*runFlags).declareShardKeep}),
	stageCommand("simulate", "stage 3: simulate every link case", `
Reads hops and link_loads, runs the link case of every link that carries flows, costliest ranges
first, and writes link_stats and hop_delays (estimator independent) or hop_observations (flow). For
flow it is the pass that --passes names. It reads uplink_feedback in pass 1, and feedback in pass 2.`,
		stageFlags{(*runFlags).declareEstimator, (*runFlags).declareCluster, (*runFlags).declarePartitions,
			(*runFlags).declareCache, (*runFlags).declareShard}),
	stageCommand("feedback", "between the passes: what each hop is given of the others", `
Estimator flow, with --passes 1. Reads hop_observations of pass 1 and writes feedback: for each flow at
each hop, the observations of its packets at the other hops of its path. Pass 2 reads it.`,
		stageFlags{(*runFlags).declareEstimator, (*runFlags).declareShardKeep}),
	stageCommand("sender-feedback", "after the last pass: complete feedback for each host's uplink", `
Estimator flow. Reads hop_observations of the passes up to the one that --passes names, and writes
sender_feedback: for each flow the observations of its packets behind its host's uplink. Stage replay reads it.`,
		stageFlags{(*runFlags).declareEstimator, (*runFlags).declareShard}),
	stageCommand("replay", "stage 4 of estimator flow: simulate each host's uplink with complete feedback", `
Estimator flow. Runs the link cases of the hosts' uplinks with the feedback of all other hops, after
the pass that --passes names, and writes sender_fcts, each flow's FCT.`,
		stageFlags{(*runFlags).declareEstimator, (*runFlags).declarePartitions,
			(*runFlags).declareCache, (*runFlags).declareShard}),
	stageCommand("bucket", "stage 4 of estimator independent: delay distributions by link and flow size", `
Reads hop_delays, groups each link's packet-normalised delays into buckets of flow sizes, and writes
delay_buckets and hop_contributions: what each hop adds to each flow, ordered by flow.`,
		stageFlags{(*runFlags).declareIndependent, (*runFlags).declareCluster, (*runFlags).declareShard}),
	stageCommand("draw", "after stage 4, with --cluster: contributions from representatives", `
Estimator independent with --cluster. Reads hops, link_clusters and delay_buckets and writes
hop_contributions: what each hop adds to each flow, ordered by flow, drawn from the buckets of the link
that stands for the hop's link.`,
		stageFlags{(*runFlags).declareIndependent, (*runFlags).declareCluster, (*runFlags).declareShard}),
	stageCommand("sample", "stage 5: FCT and slowdown of each flow", `
Reads flows and what the stages before found about their hops, and writes slowdowns, one row per flow
(estimator flow: and hop_contributions, what each hop adds to each flow). Brings the views in
LAKE/parsimon.duckdb up to date.`,
		stageFlags{(*runFlags).declareEstimator, (*runFlags).declareCluster, (*runFlags).declareShardKeep}),
	stageCommand("intervals", "stage 6: intervals of the percentiles, and warnings", `
Reads slowdowns, hop_contributions and link_stats, and writes intervals, 95% intervals of the
percentiles of slowdown, and warnings, what speaks against the estimate. The intervals have two parts:
what other flows of the same kind might have given, from a bootstrap over stretches of time, and for
estimator flow the method's own error, from how far link cases disagree about the same flows.`,
		stageFlags{(*runFlags).declareEstimator, (*runFlags).declareCluster}),
}

// stageCommand is a command that runs one stage on what the lake holds.
func stageCommand(name, summary, help string, more stageFlags) command {
	return command{
		name: name, args: "--lake DIR [--scenario ID]", summary: summary, help: help, writes: true,
		setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
			var r runFlags
			r.declareLake(f)
			r.declareScenario(f)
			r.declareWorkers(f)
			r.declareMemory(f)
			for _, declare := range more {
				declare(&r, f)
			}
			return func(ctx context.Context, args []string) error {
				run, done, err := resume(ctx, e, &r, args)
				if err != nil {
					return err
				}
				defer done()
				if err := run.RunStage(ctx, name); err != nil {
					return err
				}
				_, err = fmt.Fprintln(e.stdout, run.ID())
				return err
			}
		},
	}
}

// resume opens a scenario of the lake.
func resume(ctx context.Context, e *env, r *runFlags,
	args []string) (run *pipeline.Estimation, done func(), err error) {
	if len(args) > 0 {
		return nil, nil, usagef("unexpected arguments %q", args)
	}
	return r.open(e, func(dir string, v pipeline.Variant, o pipeline.Settings) (*pipeline.Estimation, error) {
		return pipeline.Resume(ctx, dir, r.scenario, v, o)
	})
}
