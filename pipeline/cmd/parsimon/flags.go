package main

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/cache"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema/units"
	"parsimon/stages"
	"parsimon/stages/ns3"
)

// runFlags are the flags of every command that works on a scenario.
type runFlags struct {
	lake, scenario, estimator, memory string
	exactLimit                        string
	passes                            string
	cache, cluster, shard             string
	linkBackend, ns3                  string
	ns3Timeout                        time.Duration
	workers, partitions               int
	wait                              time.Duration
	keep, cached                      bool // cached: the command uses a cache
	chooses                           bool // the command knows --estimator auto
}

// Each command declares the flags that do something there.

// declareLake is for every command that works on a lake. Whether --lake was given is checked by lakePath.
func (r *runFlags) declareLake(f *pflag.FlagSet) {
	f.StringVar(&r.lake, "lake", "", "directory of the lake (required)")
	f.DurationVar(&r.wait, "wait", 0, "how long to wait while another process works on the scenario or workload")
}

// declareEstimator declares what names a variant, but for clustering; see variant.
func (r *runFlags) declareEstimator(f *pflag.FlagSet) {
	f.StringVar(&r.estimator, "estimator", stages.Flow.String(), "how slowdowns are found: flow (link cases that follow each flow's packets, in two passes), independent (link cases as in the paper) or exact (every packet in the whole network)")
	f.StringVar(&r.passes, "passes", "", "passes of estimator flow over all link cases: 2, or 1 to see what feedback is worth (default 2)")
	f.StringVar(&r.linkBackend, "link-backend", stages.Kernel.String(), "what runs the link cases: kernel, or ns3: the paper's ns-3, a process a case (estimator independent)")
}

// defaultAuto is for commands that choose the estimator unless it is given. how says how.
func (r *runFlags) defaultAuto(f *pflag.FlagSet, how string) {
	r.estimator, r.chooses = auto, true
	flag := f.Lookup("estimator")
	flag.DefValue, flag.Usage = auto, flag.Usage+"; auto: "+how
	group(f, "Estimator", func() {
		f.StringVar(&r.exactLimit, "exact-limit", "10G", "packet-hops (packets times links of their paths) up to which --estimator auto simulates the whole network")
	})
}

// auto as --estimator leaves the choice to the estimate.
const auto = "auto"

// declareCache is for commands that run link cases and may find their results in a cache.
func (r *runFlags) declareCache(f *pflag.FlagSet) {
	r.cached = true
	f.StringVar(&r.cache, "cache", "", "directory of link-case results found by earlier runs, which this one uses and adds to; off: none; default: _cache in the lake. Does not change the results")
	f.StringVar(&r.ns3, "ns3", "", "with --link-backend ns3: the program, the HPCC simulator's branch parsimon")
	f.DurationVar(&r.ns3Timeout, "ns3-timeout", time.Hour, "with --link-backend ns3: the longest that one link case may take; 0: no limit")
}

func (r *runFlags) declareWorkers(f *pflag.FlagSet) {
	f.IntVar(&r.workers, "workers", 0, "goroutines that work at once; 0: one per core. Does not change the results")
}

// declareCluster declares --cluster, whose value may be left out: --cluster alone is --cluster=DefaultClusteringError.
func (r *runFlags) declareCluster(f *pflag.FlagSet) {
	f.StringVar(&r.cluster, "cluster", "", "with --estimator independent, which it implies: simulate one link of each cluster of similar links: paper or code, the thresholds of the paper and of its public code, or the accepted error of a flow's slowdown at a link, e.g. 5%")
	f.Lookup("cluster").NoOptDefVal = stages.DefaultClusteringError
}

// declareEstimate declares the flags of the commands that run all stages of an estimate.
func (r *runFlags) declareEstimate(f *pflag.FlagSet) {
	group(f, "Estimator", func() {
		r.declareEstimator(f)
		r.declareCluster(f)
	})
	group(f, "Machine", func() {
		r.declareCache(f)
		r.declareWorkers(f)
		f.IntVar(&r.partitions, "partitions", 0, "tasks that the links are divided into; 0: by size. Does not change the results")
		r.declareMemory(f)
	})
}

// declareShard is for stages of many tasks.
func (r *runFlags) declareShard(f *pflag.FlagSet) {
	f.StringVar(&r.shard, "shard", "", "do shard I (0 to N - 1) of N of the stage's tasks, I/N, while other processes do the others on the same lake; the next stage needs all of them. Does not change the results")
}

// declareKeep is for commands after which temporary tables are removed.
func (r *runFlags) declareKeep(f *pflag.FlagSet) {
	f.BoolVar(&r.keep, "keep", false, "keep the temporary tables hop_observations, feedback and sender_feedback, most of what a run writes; without it they are removed as soon as no stage needs them (by stages that run alone: with --shard). Does not change the results")
}

func (r *runFlags) declareMemory(f *pflag.FlagSet) {
	f.StringVar(&r.memory, "memory-limit", autoMemory, "memory limit ("+autoMemoryDoc+"): DuckDB spills beyond it, "+
		"and fewer tasks run at once where they are large. Does not change the results")
}

// declareScenario is for commands that work on a scenario that the lake holds.
func (r *runFlags) declareScenario(f *pflag.FlagSet) {
	f.StringVar(&r.scenario, "scenario", "", "scenario id, or the beginning of it; default: the one last worked on")
}

// parseRejects reads --max-rejects.
func parseRejects(text string) (float64, error) {
	share, err := units.ParseShare(text)
	if err == nil && !(share >= 0 && share <= 1) {
		err = errors.New("must be 0% to 100%")
	}
	if err != nil {
		return 0, usagef("--max-rejects %q: %v", text, err)
	}
	return share, nil
}

// lakePath is the lake's directory.
func (r *runFlags) lakePath() (string, error) {
	if r.lake == "" {
		return "", usagef("--lake is required")
	}
	return r.lake, nil
}

// variant is how the estimate is made.
func (r *runFlags) variant() (v pipeline.Variant, err error) {
	switch {
	case r.estimator == auto && r.chooses:
		v.Estimator, v.Auto = stages.Flow, r.passes == ""
		if r.cluster != "" {
			v.Estimator, v.Auto = stages.Independent, false
		}
	case r.estimator != "":
		if v.Estimator, err = stages.ParseEstimator(r.estimator); err != nil {
			return v, usagef("--estimator: %v", err)
		}
	}
	if r.passes != "" {
		v.Passes, err = strconv.Atoi(r.passes)
		switch {
		case err != nil || v.Passes < 1 || v.Passes > pipeline.MaxPasses:
			return v, usagef("--passes %q: must be 1 or 2; where two passes do not suffice, use --estimator exact", r.passes)
		case v.Estimator != stages.Flow:
			return v, usagef("--passes is about estimator flow")
		}
	}
	if r.cluster != "" {
		if v.Cluster, err = stages.ParseClustering(r.cluster); err != nil {
			return v, usagef("--cluster: %v", err)
		}
		if v.Estimator != stages.Independent {
			return v, usagef("--cluster goes with --estimator independent, not %s", v.Estimator)
		}
	}
	if r.linkBackend != "" {
		if v.Backend, err = stages.ParseBackend(r.linkBackend); err != nil {
			return v, usagef("--link-backend: %v", err)
		}
		if err := stages.CheckBackend(v.Backend, v.Estimator); err != nil {
			return v, usagef("%v", err)
		}
	}
	return v, nil
}

// memoryBytes reads --memory-limit; 0 if the command has no such flag.
func (r *runFlags) memoryBytes() (int64, error) {
	if r.memory == "" {
		return 0, nil
	}
	return parseMemory(r.memory)
}

// settings say how the command works. done closes what they hold open.
func (r *runFlags) settings(e *env) (o pipeline.Settings, done func(), err error) {
	done = func() {}
	switch {
	case r.workers < 0 || r.workers > 4096:
		return o, done, usagef("--workers %d: must be 0 to 4096", r.workers)
	case r.partitions < 0 || r.partitions > 99_999:
		return o, done, usagef("--partitions %d: must be 0 to 99,999", r.partitions)
	case r.ns3Timeout < 0:
		return o, done, usagef("--ns3-timeout %v: must be 0 or more", r.ns3Timeout)
	case r.ns3 != "" && r.linkBackend != stages.NS3Backend.String():
		return o, done, usagef("--ns3 goes with --link-backend ns3")
	}
	o.Workers, o.Partitions, o.Keep, o.Wait = r.workers, r.partitions, r.keep, r.wait
	if r.exactLimit != "" {
		if o.ExactLimit, err = units.Parse(r.exactLimit, units.Count); err != nil || o.ExactLimit < 1 {
			return o, done, usagef("--exact-limit %q: want a number of packet-hops such as 10G", r.exactLimit)
		}
	}
	o.NS3 = &ns3.Simulator{Path: r.ns3, Timeout: r.ns3Timeout}
	if r.shard != "" {
		if o.Shard, err = engine.ParseShard(r.shard); err != nil {
			return o, done, usagef("--shard %v", err)
		}
	}
	if o.MemoryBytes, err = r.memoryBytes(); err != nil {
		return o, done, err
	}
	if o.Log, err = e.logger(); err != nil {
		return o, done, err
	}
	if !e.quiet {
		o.Progress = engine.NewProgress(e.stderr, e.terminal, o.Log)
	}
	undo := pipeline.LimitHeap(cmp.Or(o.MemoryBytes, pipeline.DefaultMemory))
	done = undo
	if dir := r.cachePath(); dir != "" {
		if o.Cache, err = cache.Open(dir, o.Log); err != nil {
			undo()
			return o, func() {}, err
		}
		done = func() {
			o.Cache.Close()
			undo()
		}
	}
	return o, done, nil
}

// cachePath is the directory of the cache; empty: none.
func (r *runFlags) cachePath() string {
	switch {
	case !r.cached || r.cache == "off":
		return ""
	case r.cache == "":
		return lake.CachePath(r.lake)
	}
	return r.cache
}
