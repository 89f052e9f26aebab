package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/simkernel"
	"parsimon/stages"
)

// runFlags are the flags of every command that works on a scenario.
type runFlags struct {
	lake, scenario, estimator, memory string
	switchBuffer, passes, ablation    string
	switchAlpha                       float64
	retransmit                        time.Duration
	cache, cluster, share             string
	linkBackend, ns3                  string
	ns3Timeout                        time.Duration
	workers, partitions, exactWorkers int
	keep                              bool
}

// Each command declares the flags that do something there.

func (r *runFlags) declareLake(f *pflag.FlagSet) {
	f.StringVar(&r.lake, "lake", "", "directory of the lake (required)")
}

func (r *runFlags) declareEstimator(f *pflag.FlagSet) {
	f.StringVar(&r.estimator, "estimator", stages.Flow.String(), "how link cases become slowdowns: flow (each flow's own packets, in passes) or independent (the paper's)")
	f.StringVar(&r.passes, "passes", strconv.Itoa(pipeline.DefaultPasses), "passes of estimator flow over all link cases: a number, or auto: until the percentiles stop moving")
	f.StringVar(&r.ablation, "ablate", "", "ingredients of estimator flow to leave out, to see what they are worth: "+strings.Join(stages.AblationNames(), ", ")+"; several joined by +")
	r.declareLinkBackend(f)
}

// declareIndependent is for commands that know the paper's estimator only.
func (r *runFlags) declareIndependent(f *pflag.FlagSet) {
	r.estimator = stages.Independent.String()
	r.declareLinkBackend(f)
}

func (r *runFlags) declareLinkBackend(f *pflag.FlagSet) {
	f.StringVar(&r.linkBackend, "link-backend", stages.Kernel.String(), "what runs the link cases: kernel, or ns3: the paper's ns-3, a process a case (estimator independent)")
}

// declareNS3 is for commands that run link cases.
func (r *runFlags) declareNS3(f *pflag.FlagSet) {
	f.StringVar(&r.ns3, "ns3", "", "with --link-backend ns3: the program, the HPCC simulator's branch parsimon")
	f.DurationVar(&r.ns3Timeout, "ns3-timeout", time.Hour, "with --link-backend ns3: the longest that one link case may take; 0: without end")
}

func (r *runFlags) declareWorkers(f *pflag.FlagSet) {
	f.IntVar(&r.workers, "workers", 0, "goroutines that work at once; 0: one per core. Does not change the results")
}

func (r *runFlags) declareCluster(f *pflag.FlagSet) {
	f.StringVar(&r.cluster, "cluster", "", "simulate one link for all that are alike: paper or code, the thresholds of the paper and of its public code, or the error of a flow's slowdown at a link that is accepted, e.g. 5%")
	f.Lookup("cluster").NoOptDefVal = stages.DefaultClusteringError
}

func (r *runFlags) declareCache(f *pflag.FlagSet) {
	f.StringVar(&r.cache, "cache", "", "directory of link-case results found by earlier runs, which this one uses and adds to; off: none; default: _cache in the lake. Does not change the results")
	r.declareNS3(f)
}

func (r *runFlags) declarePartitions(f *pflag.FlagSet) {
	f.IntVar(&r.partitions, "partitions", 0, "ranges the links are cut into; 0: by size. Does not change the results")
}

// declareShare is for stages of many tasks.
func (r *runFlags) declareShare(f *pflag.FlagSet) {
	f.StringVar(&r.share, "shard", "", "do share I (0 to N - 1) of N of the stage's tasks, I/N, while other processes do the others on the same lake; the next stage needs all of them. Does not change the results")
}

// declareShareKeep is for the stages after which, done in shares, something goes.
func (r *runFlags) declareShareKeep(f *pflag.FlagSet) {
	r.declareShare(f)
	f.BoolVar(&r.keep, "keep", false, "with --shard: keep what nobody needs once the stage is complete (tables hop_observations, elsewhere and sender_feedback, as far as it was the last to read them). Does not change the results")
}

func (r *runFlags) declareMemory(f *pflag.FlagSet) {
	f.StringVar(&r.memory, "memory-limit", "4GiB", "memory to keep to: DuckDB spills beyond it, and fewer tasks run at once where they are large. Does not change the results")
}

// declareExact declares the flag of the commands that can simulate the whole network.
func (r *runFlags) declareExact(f *pflag.FlagSet) {
	f.IntVar(&r.exactWorkers, "exact-workers", 1, "goroutines that share the whole-network simulation; more than 1 pays only on cores that are idle. Does not change the results")
	f.StringVar(&r.switchBuffer, "switch-buffer", "", "buffer that the ports of a switch share, e.g. 12MB, in the whole-network simulation, which then drops packets and recovers (go-back-N) on one core; estimates cannot follow; default: without end")
	f.Float64Var(&r.switchAlpha, "switch-alpha", simkernel.DefaultAlpha, "with --switch-buffer: how much of what is free in a switch one port may hold (dynamic threshold)")
	f.DurationVar(&r.retransmit, "retransmit-timeout", 0, "with --switch-buffer: how long senders wait for an ACK before they send again; 0: as long as the slowest packet can take")
}

func (r *runFlags) declareScenario(f *pflag.FlagSet) {
	f.StringVar(&r.scenario, "scenario", "", "scenario id, or the first letters of it; default: the one last worked on")
}

func (r *runFlags) options(e *env) (pipeline.Options, error) {
	o := pipeline.Options{Lake: r.lake, Workers: r.workers, Partitions: r.partitions, ExactWorkers: r.exactWorkers, Keep: r.keep}
	if r.lake == "" {
		return o, usagef("--lake is required")
	}
	if r.workers < 0 || r.workers > 4096 {
		return o, usagef("--workers %d: must be 0 to 4096", r.workers)
	}
	if r.exactWorkers < 0 || r.exactWorkers > 1024 {
		return o, usagef("--exact-workers %d: must be 0 to 1024", r.exactWorkers)
	}
	if r.partitions < 0 || r.partitions > 99_999 {
		return o, usagef("--partitions %d: must be 0 to 99,999", r.partitions)
	}
	var err error
	if r.estimator != "" {
		if o.Estimator, err = stages.ParseEstimator(r.estimator); err != nil {
			return o, usagef("--estimator: %v", err)
		}
	}
	if r.passes == "auto" {
		o.Passes = pipeline.AutoPasses
	} else if r.passes != "" {
		if o.Passes, err = strconv.Atoi(r.passes); err != nil || o.Passes < 1 || o.Passes > pipeline.MaxPasses {
			return o, usagef("--passes %q: must be 1 to %d, or auto", r.passes, pipeline.MaxPasses)
		}
	}
	if r.share != "" {
		if o.Share, err = pipeline.ParseShare(r.share); err != nil {
			return o, usagef("--shard %v", err)
		}
	}
	if o.Ablation, err = stages.ParseAblation(r.ablation); err != nil {
		return o, usagef("--ablate: %v", err)
	}
	if o.Ablation != 0 && o.Estimator != stages.Flow {
		return o, usagef("--ablate is about estimator flow")
	}
	if r.switchBuffer != "" {
		bytes, err := parseBytes(r.switchBuffer)
		if err != nil {
			return o, usagef("--switch-buffer %q: %v", r.switchBuffer, err)
		}
		if r.retransmit < 0 {
			return o, usagef("--retransmit-timeout %v: must be 0 or more", r.retransmit)
		}
		if !(r.switchAlpha >= 1.0/1024 && r.switchAlpha <= 1024) {
			return o, usagef("--switch-alpha %v: must be 1/1024 to 1024", r.switchAlpha)
		}
		o.SwitchBuffer = simkernel.BufferParams{SwitchBytes: bytes, Alpha: r.switchAlpha, RetransmitNS: r.retransmit.Nanoseconds()}
	} else if r.retransmit != 0 {
		return o, usagef("--retransmit-timeout goes with --switch-buffer")
	}
	if r.memory != "" {
		if o.MemoryBytes, err = parseBytes(r.memory); err != nil {
			return o, usagef("--memory-limit %q: %v", r.memory, err)
		}
	}
	if r.cluster != "" {
		if o.Cluster, err = stages.ParseClustering(r.cluster); err != nil {
			return o, usagef("--cluster: %v", err)
		}
	}
	if r.linkBackend != "" {
		if o.LinkBackend, err = stages.ParseBackend(r.linkBackend); err != nil {
			return o, usagef("--link-backend: %v", err)
		}
		if err := stages.CheckBackend(o.LinkBackend, o.Estimator); err != nil {
			return o, usagef("%v", err)
		}
	}
	switch {
	case r.ns3Timeout < 0:
		return o, usagef("--ns3-timeout %v: must be 0 or more", r.ns3Timeout)
	case r.ns3 != "" && o.LinkBackend != stages.NS3Backend:
		return o, usagef("--ns3 goes with --link-backend ns3")
	}
	o.NS3, o.NS3Timeout = r.ns3, r.ns3Timeout
	switch r.cache {
	case "off":
	case "":
		o.Cache = pipeline.LakeCache(r.lake)
	default:
		o.Cache = r.cache
	}
	if o.Log, err = e.logger(); err != nil {
		return o, err
	}
	if !e.quiet {
		o.Progress = pipeline.NewProgress(e.stderr, e.terminal, o.Log)
	}
	return o, nil
}

// parseBytes reads a size such as 512MiB or 2GB.
func parseBytes(text string) (int64, error) {
	units := []struct {
		suffix string
		bytes  float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1}}
	for _, u := range units {
		number, ok := strings.CutSuffix(strings.TrimSpace(text), u.suffix)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(x*u.bytes >= 1 && x*u.bytes < 1<<60) {
			return 0, fmt.Errorf("not a size such as 512MiB or 2GB")
		}
		return int64(x * u.bytes), nil
	}
	return 0, fmt.Errorf("not a size such as 512MiB or 2GB")
}

// scenarioFlags say what scenario a run begins with: a file, or a topology and a flow file, and
// what to change in it.
type scenarioFlags struct {
	topology, flows, name string
	workload, from, to    string
	seed                  uint64
	duration              string
	maxLoad, transport    string
	fail                  []string
	allowUnreachable      bool
	maxRejects            string
	flagSet               *pflag.FlagSet
}

func (s *scenarioFlags) declare(f *pflag.FlagSet) {
	s.flagSet = f
	f.StringVar(&s.topology, "topology", "", "topology file (.json, or a directory with nodes and links as .csv or .parquet), instead of a scenario file")
	f.StringVar(&s.flows, "flows", "", "flow file (.parquet, .jsonl or CSV with src, dst, size_bytes, start_ns and, if there, flow_id, service, vnet), with --topology; other formats: parsimon ingest")
	f.StringVar(&s.workload, "workload", "", "workload that was ingested into the lake (parsimon ingest), with --topology")
	f.StringVar(&s.from, "from", "", "of a workload, flows that start from then on: ns, or a time such as 2026-01-31T09:00:00Z")
	f.StringVar(&s.to, "to", "", "of a workload, flows that start before then")
	f.StringVar(&s.name, "name", "", "name of the scenario in the lake")
	f.Uint64Var(&s.seed, "seed", 1, "seed of every random choice")
	f.StringVar(&s.duration, "duration", "", "simulated time to generate, e.g. 500ms, instead of the scenario file's")
	f.StringVar(&s.maxLoad, "max-load", "", "expected load of the most loaded link, e.g. 50%, instead of the scenario file's")
	f.StringVar(&s.transport, "transport", "", "congestion control of all senders, with its default constants: "+strings.Join(simkernel.Transports(), ", ")+"; default: the scenario file's, or dctcp")
	f.StringArrayVar(&s.fail, "fail", nil, "take the cable between two nodes down, A:B (ids or names); may be repeated")
	f.BoolVar(&s.allowUnreachable, "allow-unreachable", false, "count flows without a path instead of refusing them")
	f.StringVar(&s.maxRejects, "max-rejects", "1%", "share of the flow file's rows that may be rejected before the run fails")
}

// load makes the scenario.
func (s *scenarioFlags) load(lake string, args []string) (*pipeline.Scenario, error) {
	changed := s.flagSet.Changed
	var sc *pipeline.Scenario
	var err error
	switch {
	case s.workload != "":
		sc, err = s.loadWorkload(lake, args)
	case s.from != "" || s.to != "":
		return nil, usagef("--from and --to go with --workload")
	case len(args) > 1:
		return nil, usagef("one scenario file at a time, not %q", args)
	case len(args) == 1 && (s.topology != "" || s.flows != ""):
		return nil, usagef("--topology and --flows stand in place of a scenario file")
	case len(args) == 1:
		sc, err = pipeline.LoadScenario(args[0])
	case s.topology == "" || s.flows == "":
		return nil, usagef("a scenario file, or --topology and --flows, is required")
	default:
		sc, err = pipeline.TraceScenario(s.topology, s.flows)
	}
	if err != nil {
		return nil, err
	}
	if changed("name") {
		sc.Name = s.name
	}
	if changed("seed") {
		sc.Seed = s.seed
	}
	if changed("duration") {
		if err := sc.SetDuration(s.duration); err != nil {
			return nil, usagef("--duration: %v", err)
		}
	}
	if changed("max-load") {
		load, err := parseShare(s.maxLoad)
		if err == nil {
			err = sc.SetMaxLoad(load)
		}
		if err != nil {
			return nil, usagef("--max-load %q: %v", s.maxLoad, err)
		}
	}
	if changed("transport") {
		if err := sc.SetTransport(s.transport); err != nil {
			return nil, usagef("--transport: %v", err)
		}
	}
	if changed("max-rejects") {
		if sc.MaxRejects, err = parseShare(s.maxRejects); err != nil {
			return nil, usagef("--max-rejects %q: %v", s.maxRejects, err)
		}
	}
	sc.Fail = append(sc.Fail, s.fail...)
	sc.AllowUnreachable = sc.AllowUnreachable || s.allowUnreachable
	return sc, nil
}

// parseShare reads 0.01 or 1%.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x <= 1) {
		return 0, fmt.Errorf("must be a share such as 0.01 or 1%%")
	}
	return x, nil
}

var runCommand = command{
	name: "run", args: "[SCENARIO.yaml] --lake DIR",
	summary: "estimate a scenario: all stages, then a summary",
	help: `
Runs all stages in order on one scenario, and writes a summary:
slowdown percentiles by flow size, the most loaded links, and what each stage took.

A scenario is a YAML file (or the name of one that ships: small, mixed, failed-cable, large), a
topology and a flow file, or a topology and a workload of the lake (parsimon ingest):

  parsimon run small --lake lake
  parsimon run --topology T.json --flows F.parquet --lake lake --fail 288:292
  parsimon run --workload ID --topology T.json --lake lake --from 2026-01-31T09:00:00Z --to 2026-01-31T09:10:00Z

What is done stays done: a run that was interrupted or killed continues where it was when the same
command is given again, and a scenario that is complete is only summarized. What only passes tell
each other is let go when nobody needs it any more (--keep keeps it); where more passes are asked for
later, or a table is found damaged, it is made again, from the cache. Stages that are run one by one
let go of nothing, unless they are run in shares (--shard). The scenario's id is a hash of
everything the results depend on. Rows of a flow file that cannot be simulated go to the lake's table
rejects.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var s scenarioFlags
		var r runFlags
		var exact bool
		r.declareLake(f)
		s.declare(f)
		r.declareEstimator(f)
		r.declareCluster(f)
		r.declareCache(f)
		r.declareWorkers(f)
		r.declarePartitions(f)
		r.declareMemory(f)
		r.declareExact(f)
		f.BoolVar(&r.keep, "keep", false, "keep what only passes tell each other (tables hop_observations, elsewhere and sender_feedback), most of what a run writes; without it, it goes as soon as nobody needs it any more. Does not change the results")
		f.BoolVar(&exact, "exact", false, "also simulate the whole network, packet by packet, and hold the estimate against it (slow)")
		return func(ctx context.Context, args []string) error {
			if r.switchBuffer != "" && !exact {
				return usagef("--switch-buffer goes with --exact: link cases have buffers without end and cannot follow drops")
			}
			run, err := begin(e, &s, &r, args)
			if err != nil {
				return err
			}
			defer run.Close()
			if err := run.Estimate(ctx); err != nil {
				return err
			}
			if exact {
				if err := run.Exact(ctx, pipeline.Window{}); err != nil {
					return err
				}
			}
			if err := run.WriteSummary(ctx, e.stdout); err != nil || !exact {
				return err
			}
			if _, err := fmt.Fprintln(e.stdout); err != nil {
				return err
			}
			return validate(ctx, e, run, "", pipeline.Window{})
		}
	},
}

func begin(e *env, s *scenarioFlags, r *runFlags, args []string) (*pipeline.Run, error) {
	o, err := r.options(e)
	if err != nil {
		return nil, err
	}
	sc, err := s.load(r.lake, args)
	if err != nil {
		return nil, err
	}
	return pipeline.Begin(sc, o)
}

var generateCommand = command{
	name: "generate", args: "[SCENARIO.yaml] --lake DIR",
	summary: "stage 1: put a scenario's topology and flows into the lake",
	help: `
Generates the flows of a scenario from its traffic matrices, or reads its flow file, and writes the
tables scenarios, nodes, links, flows and rejects. Prints the scenario's id.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var s scenarioFlags
		var r runFlags
		r.declareLake(f)
		s.declare(f)
		r.declareWorkers(f)
		r.declareMemory(f)
		return func(ctx context.Context, args []string) error {
			run, err := begin(e, &s, &r, args)
			if err != nil {
				return err
			}
			defer run.Close()
			if err := run.Generate(ctx); err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.stdout, run.ScenarioID())
			return err
		}
	},
}

// stageCommand is a command that runs one stage on what the lake holds.
func stageCommand(name, summary, help string, step func(*pipeline.Run, context.Context) error, more ...func(*runFlags, *pflag.FlagSet)) command {
	return command{
		name: name, args: "--lake DIR [--scenario ID]", summary: summary, help: help,
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
				run, err := resume(e, &r, args)
				if err != nil {
					return err
				}
				defer run.Close()
				if err := step(run, ctx); err != nil {
					return err
				}
				_, err = fmt.Fprintln(e.stdout, run.ScenarioID())
				return err
			}
		},
	}
}

func resume(e *env, r *runFlags, args []string) (*pipeline.Run, error) {
	if len(args) > 0 {
		return nil, usagef("unexpected arguments %q", args)
	}
	o, err := r.options(e)
	if err != nil {
		return nil, err
	}
	return pipeline.Resume(r.scenario, o)
}

var routeCommand = stageCommand("route", "stage 2: choose each flow's path and explode flows to hops", `
Reads flows, chooses each flow's shortest path by ECMP (seeded, salted per node, consistent under
failures), and writes hops, one row per flow and link, sorted by link, and link_loads.`,
	(*pipeline.Run).Route, (*runFlags).declareShare)

var clusterCommand = stageCommand("cluster", "before stage 3, with --cluster: find links that are alike", `
Reads hops and link_loads, works out what each link's delays depend on, and writes link_clusters: for
each link the one whose case will answer for it, in all passes of estimator flow.`,
	(*pipeline.Run).Cluster, (*runFlags).declareEstimator, (*runFlags).declareCluster)

var lendCommand = stageCommand("impute", "after stage 3 of estimator flow, with --cluster: what flows met where another link's case answers", `
Estimator flow with --cluster. Reads hops, link_clusters and the hop_observations of the pass that --passes
names and writes imputed_observations: for each flow at each link that was not simulated, what a flow of its size
in the same company met on the link that answers for it.`,
	(*pipeline.Run).Impute, (*runFlags).declareEstimator, (*runFlags).declareCluster, (*runFlags).declarePartitions, (*runFlags).declareShare)

var drawCommand = stageCommand("draw", "after stage 4, with --cluster: contributions from representatives", `
Estimator independent with --cluster. Reads hops, link_clusters and delay_buckets and writes
hop_contributions: what each hop adds to each flow, ordered by flow, drawn from the buckets of the link
that answers for the hop's.`,
	(*pipeline.Run).Draw, (*runFlags).declareIndependent, (*runFlags).declareCluster, (*runFlags).declareShare)

var simulateCommand = stageCommand("simulate", "stage 3: simulate every link on its own", `
Reads hops and link_loads, runs the link case of every link that carries flows, costliest ranges
first, and writes link_stats and hop_delays (estimator independent) or hop_observations (flow). For flow it
is one pass, the one that --passes names; from the second on it reads what stage relax of the pass
before has made of it.`,
	(*pipeline.Run).Simulate, (*runFlags).declareEstimator, (*runFlags).declareCluster, (*runFlags).declarePartitions, (*runFlags).declareCache, (*runFlags).declareShare)

var relaxCommand = stageCommand("feedback", "between passes: tell every link what packets met elsewhere", `
Estimator flow. Reads hop_observations (and, with --cluster, imputed_observations) of the pass that --passes names and
writes elsewhere: for each flow at each link, what its packets met at the other links of its path. The
next pass reads it.`,
	(*pipeline.Run).HopFeedback, (*runFlags).declareEstimator, (*runFlags).declareCluster, (*runFlags).declareShareKeep)

var tellCommand = stageCommand("sender-feedback", "after the last pass: tell every host's own link what packets met elsewhere", `
Estimator flow. Reads hop_observations (and, with --cluster, imputed_observations) of the pass that --passes names, the last,
and writes sender_feedback: for each flow what its packets met behind its host's own link. Stage senders
reads it.`,
	(*pipeline.Run).SenderFeedbackOf, (*runFlags).declareEstimator, (*runFlags).declareCluster, (*runFlags).declareShare)

var sendersCommand = stageCommand("replay", "stage 4 of estimator flow: play each flow's whole journey", `
Estimator flow. Runs the link cases of the hosts' own links, told all that the pass named by --passes
found, and writes sender_fcts, each flow's FCT.`,
	(*pipeline.Run).Replay, (*runFlags).declareEstimator, (*runFlags).declareCluster, (*runFlags).declarePartitions, (*runFlags).declareCache, (*runFlags).declareShare)

var bucketCommand = stageCommand("bucket", "stage 4 of estimator independent: delay distributions by link and flow size", `
Reads hop_delays, groups each link's packet-normalised delays into buckets of flow sizes, and writes
delay_buckets and hop_contributions: what each hop adds to each flow, ordered by flow.`,
	(*pipeline.Run).Bucket, (*runFlags).declareIndependent, (*runFlags).declareCluster, (*runFlags).declareShare)

var sampleCommand = stageCommand("sample", "stage 5: put the hops of each flow together", `
Reads flows and what the stages before found about their hops, and writes slowdowns, one row per flow
(estimator flow: and hop_contributions, what each hop adds to each flow). Brings the views in
LAKE/parsimon.duckdb up to date.`,
	(*pipeline.Run).Sample, (*runFlags).declareEstimator, (*runFlags).declareCluster, (*runFlags).declareShareKeep)

var intervalsCommand = stageCommand("intervals", "stage 6: how far the estimate can be trusted", `
Reads slowdowns, hop_contributions and link_stats, and writes confidence, 95% intervals of the
percentiles of slowdown, and warnings, where the method is known to be weak. The intervals come from a
bootstrap over stretches of time: they say what other flows of the same kind might have given, and
nothing of the method's own error.`,
	(*pipeline.Run).Intervals, (*runFlags).declareEstimator, (*runFlags).declareCluster)
