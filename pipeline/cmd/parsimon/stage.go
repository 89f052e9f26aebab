package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
)

// A stageDoc says what a stage reads and writes, after the estimators that have it. stageDocs has all stages of the
// plans, in the order of the method.
type stageDoc struct{ name, doc string }

var stageDocs = []stageDoc{
	{generate, "all: the scenario's topology and flows to scenarios, nodes, links, flows and rejects"},
	{"route", "all: flows to hops, one row for each link of each flow's path (ECMP), and link_loads"},
	{"cluster", "independent with --cluster: link_loads to link_clusters, the link that stands for each link"},
	{"simulate", "flow: pass --passes of all link cases to hop_observations and link_stats; independent: to hop_delays"},
	{"feedback", "flow: hop_observations of pass 1 (--passes 1) to feedback, which pass 2 reads"},
	{"sender-feedback", "flow: hop_observations to sender_feedback, which replay reads"},
	{"replay", "flow: the hosts' uplinks with complete feedback to sender_fcts"},
	{"bucket", "independent: hop_delays to delay_buckets and, without --cluster, hop_contributions"},
	{"draw", "independent with --cluster: delay_buckets and link_clusters to hop_contributions"},
	{"exact", "exact: every packet in the whole network to exact_fcts, exact_delays and exact_links"},
	{"sample", "all: the FCT and slowdown of each flow to slowdowns, and hop_contributions (not independent)"},
	{"intervals", "all: slowdowns to intervals, of the percentiles, and warnings"},
}

const generate = "generate"

func stageHelp() string {
	var b strings.Builder
	b.WriteString(`
Runs one stage of an estimate on what the lake holds, for jobs that divide an estimate over machines:
"parsimon run" runs all of them. "stage generate" takes what "run" takes, a scenario file or --topology,
--flows, --workload and so on, and prints the scenario's id. The other stages take --scenario ID. All take
the flags of the estimate, those that matter to one stage alone too.

  id=$(parsimon stage generate small --lake lake)
  parsimon stage route --lake lake --scenario "$id" --shard 0/4

Stages, with the estimators that have them:
`)
	for _, s := range stageDocs {
		fmt.Fprintf(&b, "  %-16s %s\n", s.name, s.doc)
	}
	return b.String()
}

var stageCommand = command{
	name: "stage", args: "NAME --lake DIR [--scenario ID]", least: 1, most: 2,
	writes:  true,
	summary: "one stage of an estimate, or a shard of it",
	help:    stageHelp(),
	first: []string{"lake", "scenario", "shard", "estimator", "passes", "partitions", "workers",
		"memory-limit", "keep", "wait"},
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var s scenarioFlags
		var r runFlags
		r.declareLake(f)
		s.declare(f)
		group(f, "Stages after it", func() {
			f.StringVar(&r.scenario, "scenario", "", "scenario id, or the beginning of it; default: the one last worked on")
			r.declareShard(f)
			r.declareKeep(f)
		})
		r.declareEstimate(f)
		return func(ctx context.Context, args []string) error {
			name := args[0]
			run, done, err := openStage(ctx, e, f, &s, &r, name, args[1:])
			if err != nil {
				return err
			}
			defer done()
			if name == generate {
				err = run.Generate(ctx)
			} else {
				err = run.RunStage(ctx, name)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.stdout, run.ID())
			return err
		}
	},
}

// openStage opens the scenario of a stage: a new one for stage generate, else one of the lake.
func openStage(ctx context.Context, e *env, f *pflag.FlagSet, s *scenarioFlags, r *runFlags, name string, args []string,
) (run *pipeline.Estimation, done func(), err error) {
	if !slices.ContainsFunc(stageDocs, func(s stageDoc) bool { return s.name == name }) {
		return nil, nil, usagef("no stage %q; \"parsimon help stage\" lists them", name)
	}
	if name == generate {
		if f.Changed("scenario") || f.Changed("shard") {
			return nil, nil, usagef("stage generate makes a scenario, whole: it takes neither --scenario nor --shard")
		}
		return begin(ctx, e, s, r, args)
	}
	f.Visit(func(flag *pflag.Flag) {
		if of := groupOf(flag); of == scenarioGroup || of == topologyGroup {
			err = usagef("--%s goes with stage generate", flag.Name)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if len(args) > 0 {
		return nil, nil, usagef("unexpected arguments %q", args)
	}
	return resume(ctx, e, r)
}
