package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/stages"
)

var runCommand = command{
	name: "run", args: "[SCENARIO.yaml] --lake DIR",
	most:    1,
	writes:  true,
	summary: "estimate a scenario: all stages, then a summary",
	first: []string{"lake", "topology", "flows", "workload", "fail", "estimator", "exact", "within", "format",
		"fail-if"},
	help: `
Runs all stages in order on one scenario, and writes a summary:
slowdown percentiles by flow size, the most loaded links, and what each stage took.

Every packet of the whole network is simulated (exact) where that is affordable. Link cases, one
simulation for each link direction, are for workloads beyond that (flow, in two passes); where two passes
do not suffice, the whole network is simulated up to --exact-limit. That is --estimator auto, the default:
the summary names the variant.

A scenario is a YAML file (or the name of one that ships: small, mixed, failed-cable, large), a
topology and a flow file, or a topology and a workload of the lake (parsimon ingest):

  parsimon run small --lake lake
  parsimon run --topology T.json --flows F.parquet --lake lake --fail 288:292
  parsimon run --workload ID --topology T.json --lake lake --from 2026-01-31T09:00:00Z --to 2026-01-31T09:10:00Z

A run that was interrupted or killed continues when the same command is given again, and a complete
scenario is only summarized. Temporary tables, which only the passes exchange, are removed when no
stage needs them any more (--keep keeps them). If a table is found damaged, they are made again, from
the cache. Stages that are run one by one remove nothing, unless
they run in shards (--shard). The scenario's id is a hash of everything the results depend on. Rows of
a flow file that cannot be simulated go to table rejects.

Flows may wait for others: columns after (flow ids with spaces between) and delay_ns of a flow file, or
jobs in a scenario file (small.yaml lists their keys). The whole network is simulated then; start_ns in
slowdowns and exact_fcts is the start that came out, and the summary has the times of the jobs.

Where paths move (--balance flowlet, spray or adaptive; --event), only the whole network can be simulated.
Table slowdowns then has retransmissions and reordered packets; question slowdown_around_event divides flows
into those before, during and after an event:

  parsimon run small --lake lake --balance spray
  parsimon run small --lake lake --event 'pod0-fabric0:plane0-spine0 down 100ms..140ms' --converge 10ms

With --within, a run estimates windows of time instead of the whole workload, round by round, until the
percentiles of --of and --by are known to that precision or the --budget is spent:

  parsimon run large --lake lake --within 2% --of p99 --by service

The intervals are of the whole workload's percentiles. A more precise run continues with the windows of
earlier ones. The windows are listed in table windows, their flows in table sampled_slowdowns.`,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var s scenarioFlags
		var r runFlags
		var whole exactFlags
		var exact bool
		var form string
		var gates []gate.Gate
		var within withinFlags
		var startsFrom string
		r.declareLake(f)
		s.declare(f)
		r.declareEstimate(f)
		r.defaultAuto(f, "exact where it takes a minute or at most twice as long as flow, and up to --exact-limit where two passes of flow do not suffice; else flow")
		f.StringVar(&startsFrom, "starts-from", "", "exact: of flows that wait for others; simulate the whole "+
			"network first, then estimate the scenario in which they start when it found that they do")
		group(f, "Whole-network simulation", func() {
			f.BoolVar(&exact, "exact", false, "simulate the whole network beside the estimate, too, packet by packet, "+
				"and hold the estimate against it (slow); flags of switches are then about this simulation, not about the "+
				"scenario")
			whole.declare(f)
		})
		group(f, machineGroup, func() { r.declareKeep(f) })
		group(f, "Answer", func() {
			declareForms(f, &form)
			declareGates(f, &gates, false)
		})
		group(f, "Windows of time", func() { within.declare(f) })
		return func(ctx context.Context, args []string) error {
			switches, err := whole.switches()
			if err != nil {
				return err
			}
			if !exact { // they are the scenario's
				s.switches, switches = switches, scenario.Switches{}
			}
			ask, sampling, err := within.ask()
			if err != nil {
				return err
			}
			if sampling && exact {
				return usagef("--within does not go with --exact")
			}
			if startsFrom != "" && startsFrom != stages.WholeNetwork.String() {
				return usagef("--starts-from %q: want exact", startsFrom)
			}
			open := begin
			if startsFrom != "" {
				open = beginFromExact
			}
			run, done, err := open(ctx, e, &s, &r, args)
			if err != nil {
				return err
			}
			defer done()
			x, err := exactOf(run, switches)
			if err != nil {
				return err
			}
			if sampling {
				return within.runWithin(ctx, e, run, ask, gates, form)
			}
			if err := run.Estimate(ctx); err != nil {
				return err
			}
			if err := run.MakeAnswer(); err != nil {
				return err
			}
			if exact {
				if err := run.Exact(ctx, x); err != nil {
					return err
				}
			}
			return answer(ctx, e, run, gates, form, exact, x)
		}
	},
}

// answer writes what an estimate found and holds it against the gates.
func answer(ctx context.Context, e *env, run *pipeline.Estimation, gates []gate.Gate, form string, exact bool,
	x pipeline.Exact) error {
	verdicts, failed := summary.Judge(ctx, run, gates)
	if failed != nil && verdicts == nil {
		return failed
	}
	result, people, err := &summary.Result{}, &text.Answer{}, error(nil)
	if form == "json" || e.metrics.file != "" {
		if result, err = summary.ReadResult(ctx, run); err != nil {
			return err
		}
		result.Gates = verdicts
		if err := e.metrics.estimate(run, result); err != nil {
			return err
		}
	}
	if form != "json" {
		if people, err = summary.Answer(ctx, run); err != nil {
			return err
		}
	}
	if exact {
		people.Linef("")
		if result.Validation, err = validate(ctx, e, run, "", x, people); err != nil {
			return err
		}
	}
	return e.judged(form, result, people, failed)
}

// begin opens a scenario for an estimate from its beginning.
func begin(ctx context.Context, e *env, s *scenarioFlags, r *runFlags,
	args []string) (run *pipeline.Estimation, done func(), err error) {
	sc, err := s.load(r.lake, args) // before the settings, which may make a cache
	if err != nil {
		return nil, nil, err
	}
	return r.open(e, func(o whatif.Settings) (*pipeline.Estimation, error) {
		run, err := pipeline.Begin(ctx, o.Lake, sc, o.Variant, o.Settings)
		if err == nil {
			for _, note := range sc.TopologyNotes() {
				o.Log.Info().Msg("topology: " + note)
			}
		}
		return run, err
	})
}

// beginFromExact estimates the whole network of a scenario whose flows wait for others, and opens the scenario in which
// they start when it found that they do.
func beginFromExact(ctx context.Context, e *env, s *scenarioFlags, r *runFlags,
	args []string) (run *pipeline.Estimation, done func(), err error) {
	exact := *r
	exact.estimator, exact.how.Variant = stages.WholeNetwork.String(), pipeline.Variant{}
	if run, done, err = begin(ctx, e, s, &exact, args); err != nil {
		return nil, nil, err
	}
	defer done()
	if err := run.Estimate(ctx); err != nil {
		return nil, nil, err
	}
	g, err := run.Generated()
	if err == nil && !g.Closed() {
		err = usagef("--starts-from: no flow of %s waits for others", run.Spec.Name)
	}
	if err != nil {
		return nil, nil, err
	}
	base := string(run.ID())
	return r.open(e, func(o whatif.Settings) (*pipeline.Estimation, error) {
		return pipeline.Derive(ctx, o.Lake, base, scenario.Changes{FoundStarts: true}, o.Variant, o.Settings)
	})
}

// resume opens a scenario of the lake.
func resume(ctx context.Context, e *env, r *runFlags) (run *pipeline.Estimation, done func(), err error) {
	return r.open(e, func(o whatif.Settings) (*pipeline.Estimation, error) {
		return pipeline.Resume(ctx, o.Lake, r.scenario, o.Variant, o.Settings)
	})
}

// open opens an estimation where and how the flags say. done closes it.
func (r *runFlags) open(e *env, open func(whatif.Settings) (*pipeline.Estimation, error),
) (run *pipeline.Estimation, done func(), err error) {
	o, closeSettings, err := r.settings(e)
	if err != nil {
		return nil, nil, err
	}
	if run, err = open(o); err != nil {
		closeSettings()
		return nil, nil, err
	}
	return run, func() {
		run.Close()
		closeSettings()
	}, nil
}

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
