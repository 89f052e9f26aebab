package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/cache"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/queries/subprocess"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
)

// A parsed is the value of a flag that is parsed and checked when the command line is read.
type parsed struct {
	text, kind string
	read       func(string) error
}

func (p *parsed) String() string { return p.text }
func (p *parsed) Type() string   { return p.kind }

// Set parses the text of the flag.
func (p *parsed) Set(text string) error {
	if text == "" {
		return errors.New("it is empty: is a variable not set?")
	}
	err := p.read(text)
	p.text = text
	return err
}

// A flagSpec names and describes a flag.
type flagSpec struct {
	name      string
	kind      string // of the value, as help shows it; empty: string
	byDefault string // the text of the default; empty: none
	usage     string
}

// parse declares a flag that read parses.
func parse[T any](f *pflag.FlagSet, to *T, read func(string) (T, error), spec flagSpec) {
	p := &parsed{kind: cmp.Or(spec.kind, "string"), read: func(text string) (err error) {
		*to, err = read(text)
		return err
	}}
	if spec.byDefault != "" {
		if err := p.Set(spec.byDefault); err != nil {
			panic("parsimon: --" + spec.name + ": " + err.Error()) // the default is part of the program
		}
	}
	f.Var(p, spec.name, spec.usage)
}

// parseEach declares a flag that may be repeated.
func parseEach[T any](f *pflag.FlagSet, to *[]T, read func(string) (T, error), name, usage string) {
	f.Var(&parsed{kind: "stringArray", read: func(text string) error {
		one, err := read(text)
		*to = append(*to, one)
		return err
	}}, name, usage)
}

// choicesKey is the annotation of a flag with its possible values, which the shell completes.
const choicesKey = "choices"

// choose declares a flag with several possible values. The first one is the default.
func choose(f *pflag.FlagSet, to *string, name, usage string, choices ...string) {
	last := len(choices) - 1
	list := strings.Join(choices[:last], ", ") + " or " + choices[last]
	parse(f, to, func(text string) (string, error) {
		if !slices.Contains(choices, text) {
			return "", errors.New("must be " + list)
		}
		return text, nil
	}, flagSpec{name: name, byDefault: choices[0], usage: fmt.Sprintf(usage, list)})
	_ = f.SetAnnotation(name, choicesKey, choices) // the flag is declared
}

// An intRange is the range of values of a flag for whole numbers.
type intRange struct{ lo, hi int }

// intVar declares a flag for a whole number. Its default is the present value, which is not shown if it is 0.
func intVar(f *pflag.FlagSet, to *int, in intRange, name, usage string) {
	text := ""
	if *to != 0 {
		text = strconv.Itoa(*to)
	}
	parse(f, to, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < in.lo || n > in.hi {
			err = fmt.Errorf("must be a whole number from %d to %d", in.lo, in.hi)
		}
		return n, err
	}, flagSpec{name, "int", text, usage})
}

// durationVar declares a flag for a duration that is not negative.
func durationVar(f *pflag.FlagSet, to *time.Duration, name, byDefault, usage string) {
	parse(f, to, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err == nil && d < 0 {
			err = errors.New("must be 0 or more")
		}
		return d, err
	}, flagSpec{name, "duration", byDefault, usage})
}

// shareOf returns a function that parses a share from lo to hi.
func shareOf(lo, hi float64) func(string) (float64, error) {
	return func(text string) (float64, error) {
		share, err := units.ParseShare(text)
		if err == nil && !(share >= lo && share <= hi) {
			err = fmt.Errorf("must be from %g%% to %g%%", 100*lo, 100*hi)
		}
		return share, err
	}
}

// needsKey is the annotation of a flag that names the flag on which it depends.
const needsKey = "needs"

// needs makes it an error to give flags without another one, because they would have no effect.
func needs(f *pflag.FlagSet, other string, names ...string) {
	for _, name := range names {
		_ = f.SetAnnotation(name, needsKey, []string{other}) // the flags are declared
	}
}

// isURL reports whether a path is the URL of an object store, of a server or of a file.
var isURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+://`)

// checkGiven returns an error for a flag without the flag that it depends on, and for an empty argument or
// value. Scripts pass empty values for variables that are not set, and "parsimon rm" with an empty name must
// not remove a scenario.
func checkGiven(f *pflag.FlagSet) (err error) {
	if slices.Contains(f.Args(), "") {
		return errors.New("an argument is empty: is a variable not set?")
	}
	f.Visit(func(one *pflag.Flag) {
		several, isList := one.Value.(pflag.SliceValue)
		if one.Value.Type() == "string" && one.Value.String() == "" ||
			isList && slices.Contains(several.GetSlice(), "") {
			err = fmt.Errorf("--%s is empty: is a variable not set?", one.Name)
		}
		other := one.Annotations[needsKey]
		if other != nil && !f.Changed(other[0]) {
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
	l, err := open(e.lake, false)
	if err != nil {
		return nil, err
	}
	if !l.Begun() {
		return nil, fmt.Errorf("%s is no lake: it holds no scenario and no workload", l.Path())
	}
	if l.Old() && !subprocess.IsChild() {
		_, _ = fmt.Fprintf(e.stderr, "parsimon: %s has schema version %d, not %d: it is read as it is, and "+
			"columns that are newer are empty (parsimon upgrade)\n", text.Clean(l.Path()), l.Version(), schema.Version)
	}
	return l, nil
}

// runFlags are the flags of the commands that work on a scenario. Each command declares those that have an
// effect there.
type runFlags struct {
	how       whatif.Settings // without Lake
	scenario  string
	estimator string
	cache     string
	cached    bool // the command uses a cache
	chooses   bool // the command has --estimator auto
	ofLastRun bool // without a variant, the command takes the one of the last run (resume)
	// heapGrowth is the percentage for limitHeap. 0 is growthOfEstimates.
	heapGrowth int
}

// declareLake declares the flags of all commands that use a lake.
func (r *runFlags) declareLake(e *env, f *pflag.FlagSet) {
	e.declareLake(f)
	durationVar(f, &r.how.Wait, "wait", "", "how long to wait while another process works on the scenario or "+
		"workload")
}

// declareEstimator declares the flags that name a variant, without --cluster. See variant.
func (r *runFlags) declareEstimator(f *pflag.FlagSet) {
	f.StringVar(&r.estimator, "estimator", estimators.Flow.String(),
		"method of the estimate: "+alternatives(names.Of(estimators.All(), func(n estimators.Name) string {
			return fmt.Sprintf("%s (%s)", n, n.Estimator().Summary)
		})))
	_ = f.SetAnnotation("estimator", choicesKey, estimatorNames())
	parse(f, &r.how.Variant.Passes, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > pipeline.MaxPasses {
			err = errors.New("must be 1 or 2; where two passes do not suffice, use --estimator exact")
		}
		return n, err
	}, flagSpec{"passes", "int", "", "passes of estimator flow over all link cases: 2, or 1 to measure the " +
		"effect of feedback (default 2)"})
}

// defaultAuto makes auto the default of --estimator. how describes how the command chooses.
func (r *runFlags) defaultAuto(f *pflag.FlagSet, how string) {
	r.estimator = auto
	r.chooses = true
	flag := f.Lookup("estimator")
	flag.DefValue = auto
	flag.Usage += "; auto: " + how
	flag.Annotations[choicesKey] = append([]string{auto}, flag.Annotations[choicesKey]...)
	group(f, estimatorGroup, func() {
		parse(f, &r.how.ExactLimit, func(text string) (int64, error) {
			n, err := units.Parse(text, units.Count)
			if err != nil || n < 1 {
				err = errors.New("want a number of packet-hops such as 10G")
			}
			return n, err
		}, flagSpec{name: "exact-limit", byDefault: "10G", usage: "packet-hops (packets times links of their " +
			"paths) up to which --estimator auto simulates the whole network"})
	})
}

// estimatorNames returns the names of all estimators.
func estimatorNames() []string { return names.Of(estimators.All(), estimators.Name.String) }

// alternatives joins texts with commas, and the last one with "or".
func alternatives(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// auto, as a value of --estimator, leaves the choice to the estimate.
const auto = "auto"

func (r *runFlags) declareWorkers(f *pflag.FlagSet) {
	intVar(f, &r.how.Workers, intRange{0, 4096}, "workers", "number of tasks that run at once; 0: one for each "+
		"core")
}

// declareCluster declares --cluster, whose value is optional. The default is DefaultClusteringError.
func (r *runFlags) declareCluster(f *pflag.FlagSet) {
	parse(f, &r.how.Variant.Cluster, linksim.ParseClustering,
		flagSpec{name: "cluster", usage: "simulate one link of each cluster of similar links, on which a flow's " +
			"expected slowdowns differ by at most this error, e.g. 5%; implies --estimator independent"})
	f.Lookup("cluster").NoOptDefVal = linksim.DefaultClusteringError
}

// Groups of flags about the estimate.
const (
	estimatorGroup = "Estimator"
	machineGroup   = "Machine (no effect on results)"
)

// declareEstimate declares the flags of the commands that run all stages of an estimate.
func (r *runFlags) declareEstimate(f *pflag.FlagSet) {
	group(f, estimatorGroup, func() {
		r.declareEstimator(f)
		r.declareCluster(f)
	})
	group(f, machineGroup, func() {
		r.cached = true
		f.StringVar(&r.cache, "cache", "", "`directory` of link-case results that runs reuse, with at most 10 GB "+
			"of those last used; off: none; default: _cache in the lake")
		r.declareWorkers(f)
		intVar(f, &r.how.Partitions, intRange{0, 99_999}, "partitions",
			"number of tasks that the links are divided into; 0: by size")
		r.declareMemory(f)
	})
}

// declareKeep declares --keep for commands that remove temporary tables.
func (r *runFlags) declareKeep(f *pflag.FlagSet) {
	f.BoolVar(&r.how.Keep, "keep", false, "keep the temporary tables hop_observations, feedback and "+
		"sender_feedback, which are most of the bytes that a run writes; without it, each is removed as soon as "+
		"no stage needs it (by \"stage\" only with --shard)")
}

func (r *runFlags) declareMemory(f *pflag.FlagSet) {
	declareMemory(f, &r.how.MemoryBytes, autoMemory, "memory limit ("+autoMemoryDoc+
		"); beyond it DuckDB spills to disk, and fewer large tasks run at once")
}

// declareScenario declares the flags of commands that use a scenario of the lake.
func (r *runFlags) declareScenario(f *pflag.FlagSet) {
	f.StringVar(&r.scenario, "scenario", "", "scenario: its name, its id or the beginning of the id; default: "+
		"the one last worked on")
}

// variant returns the variant that the flags select.
func (r *runFlags) variant() (v pipeline.Variant, err error) {
	v = r.how.Variant
	switch {
	case r.estimator != auto || !r.chooses:
		if v.Estimator, err = estimators.Parse(cmp.Or(r.estimator, estimators.Flow.String())); err != nil {
			return v, r.estimatorError()
		}
	case v.Cluster != nil:
		v.Estimator = estimators.Independent
	default:
		v.Estimator = estimators.Flow
		v.Auto = v.Passes == 0
	}
	switch {
	case v.Passes > 0 && v.Estimator != estimators.Flow:
		return v, usagef("--passes applies to estimator flow")
	case v.Cluster != nil && v.Estimator != estimators.Independent:
		return v, usagef("--cluster goes with --estimator independent, not %s", v.Estimator)
	}
	return v, nil
}

// estimatorError returns the error for an unknown estimator.
func (r *runFlags) estimatorError() error {
	all := estimatorNames()
	if r.chooses {
		all = append([]string{auto}, all...)
	}
	return usagef("--estimator: no estimator %q: must be %s", r.estimator, alternatives(all))
}

// settings returns the settings of the estimate. Files and caches that it opens are closed when the command
// ends.
func (r *runFlags) settings(e *env) (o whatif.Settings, err error) {
	o = r.how
	o.Lake = e.lake
	if e.lake == "" {
		return o, usagef("--lake is required")
	}
	if o.Variant, err = r.variant(); err != nil {
		return o, err
	}
	if o.Log, err = e.logger(); err != nil {
		return o, err
	}
	if !e.logs.quiet {
		o.Progress = engine.LoggedProgress(o.Log)
		if e.logs.terminal {
			o.Progress = engine.TerminalProgress(e.stderr)
		}
	}
	e.closers.add(limitHeap(cmp.Or(o.MemoryBytes, pipeline.DefaultMemory),
		cmp.Or(r.heapGrowth, growthOfEstimates)))
	if !r.cached || r.cache == "off" {
		return o, nil
	}
	info, none := os.Stat(o.Lake)
	switch {
	case none != nil: // a command that fails its checks leaves no empty lake
		e.closers.add(func() {
			_ = os.Remove(lake.CachePath(o.Lake)) // fails if it holds results
			_ = os.Remove(o.Lake)
		})
	case !info.IsDir():
		return o, fmt.Errorf("lake %s is not a directory", o.Lake)
	}
	if o.Cache, err = cache.Open(cmp.Or(r.cache, lake.CachePath(o.Lake)), o.Log); err == nil {
		e.closers.add(o.Cache.Close)
	}
	return o, err
}
