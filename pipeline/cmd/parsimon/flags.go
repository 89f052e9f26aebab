package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/cache"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/whatif"
	"parsimon/schema/units"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
)

// A parsed is the value of a flag that is read where it is given: what cannot be read is a usageError.
type parsed struct {
	text, kind string
	read       func(string) error
}

func (p *parsed) String() string { return p.text }
func (p *parsed) Type() string   { return p.kind }

// Set reads the text of the flag.
func (p *parsed) Set(text string) error {
	if text == "" {
		return errors.New("it is empty: is a variable not set?")
	}
	err := p.read(text)
	p.text = text
	return err
}

// parse declares a flag that read reads. byDefault is the text of its default; empty: to as it is.
func parse[T any](f *pflag.FlagSet, to *T, kind string, read func(string) (T, error), name, byDefault, usage string) {
	p := &parsed{kind: kind, read: func(text string) (err error) {
		*to, err = read(text)
		return err
	}}
	if byDefault != "" {
		if err := p.Set(byDefault); err != nil {
			panic("parsimon: --" + name + ": " + err.Error()) // ours
		}
	}
	f.Var(p, name, usage)
}

// parseEach declares a flag that may be repeated.
func parseEach[T any](f *pflag.FlagSet, to *[]T, read func(string) (T, error), name, usage string) {
	f.Var(&parsed{kind: "stringArray", read: func(text string) error {
		one, err := read(text)
		*to = append(*to, one)
		return err
	}}, name, usage)
}

// choose declares a flag that is one of some names, the first of them by default.
func choose(f *pflag.FlagSet, to *string, name, usage string, names ...string) {
	last := len(names) - 1
	list := strings.Join(names[:last], ", ") + " or " + names[last]
	parse(f, to, "string", func(text string) (string, error) {
		if !slices.Contains(names, text) {
			return "", errors.New("must be " + list)
		}
		return text, nil
	}, name, names[0], fmt.Sprintf(usage, list))
}

// intVar declares a flag of a whole number from lo to hi.
func intVar(f *pflag.FlagSet, to *int, lo, hi int, name string, usage string) {
	text := strconv.Itoa(*to)
	if *to == 0 {
		text = ""
	}
	parse(f, to, "int", func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < lo || n > hi {
			err = fmt.Errorf("must be a whole number from %d to %d", lo, hi)
		}
		return n, err
	}, name, text, usage)
}

// durationVar declares a flag of a time that is not negative.
func durationVar(f *pflag.FlagSet, to *time.Duration, name, byDefault, usage string) {
	parse(f, to, "duration", func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err == nil && d < 0 {
			err = errors.New("must be 0 or more")
		}
		return d, err
	}, name, byDefault, usage)
}

// shareOf reads a share from lo to hi.
func shareOf(lo, hi float64) func(string) (float64, error) {
	return func(text string) (float64, error) {
		share, err := units.ParseShare(text)
		if err == nil && !(share >= lo && share <= hi) {
			err = fmt.Errorf("must be %g%% to %g%%", 100*lo, 100*hi)
		}
		return share, err
	}
}

// needsKey is the annotation of a flag with the flag that it goes with.
const needsKey = "needs"

// needs says that flags do nothing without another one.
func needs(f *pflag.FlagSet, other string, names ...string) {
	for _, name := range names {
		_ = f.SetAnnotation(name, needsKey, []string{other}) // the flags are declared
	}
}

// checkGiven refuses flags without those that they need, and arguments and values of flags that are given and empty, as
// those of a script are where a variable is not set: "parsimon rm ”" must not mean another scenario.
func checkGiven(f *pflag.FlagSet) (err error) {
	if slices.Contains(f.Args(), "") {
		return errors.New("an argument is empty: is a variable not set?")
	}
	f.Visit(func(one *pflag.Flag) {
		several, isList := one.Value.(pflag.SliceValue)
		if one.Value.Type() == "string" && one.Value.String() == "" || isList && slices.Contains(several.GetSlice(), "") {
			err = fmt.Errorf("--%s is empty: is a variable not set?", one.Name)
		}
		if other := one.Annotations[needsKey]; other != nil && !f.Changed(other[0]) {
			err = fmt.Errorf("--%s goes with --%s", one.Name, other[0])
		}
	})
	return err
}

// declareLake declares --lake.
func (e *env) declareLake(f *pflag.FlagSet) {
	f.StringVar(&e.lake, "lake", "", "directory of the lake (required)")
}

// openLake opens the lake, which exists, with lake.Open or another function.
func (e *env) openLake(open func(dir string, create bool) (*lake.Lake, error)) (*lake.Lake, error) {
	if e.lake == "" {
		return nil, usagef("--lake is required")
	}
	return open(e.lake, false)
}

// runFlags are the flags of every command that works on a scenario. Each command declares the flags that do something
// there.
type runFlags struct {
	how              whatif.Settings // but for Lake
	scenario         string
	estimator, cache string
	cached           bool // the command uses a cache
	chooses          bool // the command knows --estimator auto
}

// declareLake is for every command that works on a lake.
func (r *runFlags) declareLake(e *env, f *pflag.FlagSet) {
	e.declareLake(f)
	durationVar(f, &r.how.Wait, "wait", "", "how long to wait while another process works on the scenario or workload")
}

// declareEstimator declares what names a variant, but for clustering; see variant.
func (r *runFlags) declareEstimator(f *pflag.FlagSet) {
	f.StringVar(&r.estimator, "estimator", estimators.Flow.String(), "how slowdowns are found: flow (link cases that follow each flow's packets, in two passes), independent (link cases as in the paper) or exact (every packet in the whole network)")
	parse(f, &r.how.Variant.Passes, "int", func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > pipeline.MaxPasses {
			err = errors.New("must be 1 or 2; where two passes do not suffice, use --estimator exact")
		}
		return n, err
	}, "passes", "", "passes of estimator flow over all link cases: "+
		"2, or 1 to see what feedback is worth (default 2); where two do not suffice, use --estimator exact")
}

// defaultAuto is for commands that choose the estimator unless it is given. how says how.
func (r *runFlags) defaultAuto(f *pflag.FlagSet, how string) {
	r.estimator, r.chooses = auto, true
	flag := f.Lookup("estimator")
	flag.DefValue, flag.Usage = auto, flag.Usage+"; auto: "+how
	group(f, "Estimator", func() {
		parse(f, &r.how.ExactLimit, "string", func(text string) (int64, error) {
			n, err := units.Parse(text, units.Count)
			if err != nil || n < 1 {
				err = errors.New("want a number of packet-hops such as 10G")
			}
			return n, err
		}, "exact-limit", "10G",
			"packet-hops (packets times links of their paths) up to which --estimator auto simulates the whole network")
	})
}

// auto as --estimator leaves the choice to the estimate.
const auto = "auto"

func (r *runFlags) declareWorkers(f *pflag.FlagSet) {
	intVar(f, &r.how.Workers, 0, 4096, "workers", "goroutines that work at once; 0: one per core")
}

// declareCluster declares --cluster, whose value may be left out: --cluster alone is --cluster=DefaultClusteringError.
func (r *runFlags) declareCluster(f *pflag.FlagSet) {
	parse(f, &r.how.Variant.Cluster, "string", linksim.ParseClustering, "cluster", "", "with --estimator independent, "+
		"which it implies: simulate one link of each cluster of similar links, at which a flow's expected slowdowns differ "+
		"by at most this error, e.g. 5%")
	f.Lookup("cluster").NoOptDefVal = linksim.DefaultClusteringError
}

// machineGroup are flags that say how an estimate is worked on.
const machineGroup = "Machine (changes no results)"

// declareEstimate declares the flags of the commands that run all stages of an estimate.
func (r *runFlags) declareEstimate(f *pflag.FlagSet) {
	group(f, "Estimator", func() {
		r.declareEstimator(f)
		r.declareCluster(f)
	})
	group(f, machineGroup, func() {
		r.cached = true
		f.StringVar(&r.cache, "cache", "", "directory of link-case results found by earlier runs, which this one uses and "+
			"adds to; at most 10 GB of those last used stay; off: none; default: _cache in the lake")
		r.declareWorkers(f)
		intVar(f, &r.how.Partitions, 0, 99_999, "partitions", "tasks that the links are divided into; 0: by size")
		r.declareMemory(f)
	})
}

// declareKeep is for commands after which temporary tables are removed.
func (r *runFlags) declareKeep(f *pflag.FlagSet) {
	f.BoolVar(&r.how.Keep, "keep", false, "keep the temporary tables hop_observations, feedback and sender_feedback, "+
		"most of the bytes that a run writes; default: they are removed as soon as no stage needs them (by a single "+
		"stage only with --shard)")
}

func (r *runFlags) declareMemory(f *pflag.FlagSet) {
	declareMemory(f, &r.how.MemoryBytes, autoMemory, "memory limit ("+autoMemoryDoc+"): DuckDB spills beyond it, "+
		"and fewer tasks run at once where they are large")
}

// declareScenario is for commands that work on a scenario that the lake holds.
func (r *runFlags) declareScenario(f *pflag.FlagSet) {
	f.StringVar(&r.scenario, "scenario", "", "scenario id, or the beginning of it; default: the one last worked on")
}

// variant is how the estimate is made.
func (r *runFlags) variant() (v pipeline.Variant, err error) {
	v = r.how.Variant
	switch {
	case r.estimator != auto || !r.chooses:
		if v.Estimator, err = estimators.Parse(cmp.Or(r.estimator, estimators.Flow.String())); err != nil {
			return v, usagef("--estimator: %v", err)
		}
	case v.Cluster != nil:
		v.Estimator = estimators.Independent
	default:
		v.Estimator, v.Auto = estimators.Flow, v.Passes == 0
	}
	switch {
	case v.Passes > 0 && v.Estimator != estimators.Flow:
		return v, usagef("--passes is about estimator flow")
	case v.Cluster != nil && v.Estimator != estimators.Independent:
		return v, usagef("--cluster goes with --estimator independent, not %s", v.Estimator)
	}
	return v, nil
}

// settings say where and how the command estimates. What they hold open is closed when the command ends.
func (r *runFlags) settings(e *env) (o whatif.Settings, err error) {
	o = r.how
	if o.Lake = e.lake; e.lake == "" {
		return o, usagef("--lake is required")
	}
	if o.Variant, err = r.variant(); err != nil {
		return o, err
	}
	if o.Log, err = e.logger(); err != nil {
		return o, err
	}
	if !e.quiet {
		o.Progress = engine.NewProgress(e.stderr, e.terminal, o.Log)
	}
	e.atEnd = append(e.atEnd, pipeline.LimitHeap(cmp.Or(o.MemoryBytes, pipeline.DefaultMemory)))
	if !r.cached || r.cache == "off" {
		return o, nil
	}
	if _, none := os.Stat(o.Lake); none != nil { // a command that fails its checks leaves no empty lake
		e.atEnd = append(e.atEnd, func() { _, _ = os.Remove(lake.CachePath(o.Lake)), os.Remove(o.Lake) })
	}
	if o.Cache, err = cache.Open(cmp.Or(r.cache, lake.CachePath(o.Lake)), o.Log); err == nil {
		e.atEnd = append(e.atEnd, o.Cache.Close)
	}
	return o, err
}

// minMemory is the least --memory-limit: below it DuckDB does not work.
const minMemory = 128 << 20

// autoMemory as --memory-limit is defaultMemory.
const autoMemory = "auto"

const autoMemoryDoc = "auto: 4GiB, or less where the control group (container) or ulimit -v leaves less"

// declareMemory declares --memory-limit.
func declareMemory(f *pflag.FlagSet, to *int64, byDefault, usage string) {
	parse(f, to, "string", func(text string) (int64, error) {
		if text == autoMemory {
			return defaultMemory(memlimit.FromCgroup), nil
		}
		bytes, err := units.Parse(text, units.Bytes)
		if err != nil || bytes < minMemory {
			err = errors.New("want a size of at least 128MiB, such as 2GB")
		}
		return bytes, err
	}, "memory-limit", byDefault, usage)
}

// defaultMemory is the memory limit of a command without --memory. groups is the limit of the control groups.
func defaultMemory(groups memlimit.Provider) int64 {
	limit := int64(pipeline.DefaultMemory)
	if allowed, err := groups(); err == nil && allowed < math.MaxInt64 { // else there is no limit
		limit = min(limit, int64(allowed)/4*3)
	}
	var space syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &space); err == nil && space.Cur < math.MaxInt64 {
		limit = min(limit, memoryWithin(int64(space.Cur), runtime.NumCPU()))
	}
	return max(limit, minMemory)
}

// memoryWithin is what a command may use of an address space. What it reserves at rest, 2.0 GB on two cores in "run
// small", is not available. Of the rest it may use half: the stages' heap stays reserved when DuckDB begins.
func memoryWithin(addressSpace int64, cores int) int64 {
	return (addressSpace - 1<<30 - int64(cores)*(512<<20)) / 2
}
