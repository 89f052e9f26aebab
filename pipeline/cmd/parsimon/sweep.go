package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/report"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/stages/estimators"
)

// A sweepVerb estimates a scenario many times: with each cable of a tier down, or with every combination of
// parameters.
type sweepVerb struct {
	*env
	answerFlags
	flags      *pflag.FlagSet
	how        runFlags
	cables     whatif.SweepPlan
	parameters whatif.ParameterPlan
	seeds      int
	confirm    int
	show       int
	forecast   bool // --dry-run
	cores      int
	budget     time.Duration
}

func (v *sweepVerb) declare(f *pflag.FlagSet) {
	v.flags = f
	v.show = 20
	v.how.declareLake(v.env, f)
	group(f, "Cables", func() { v.declareCables(f) })
	group(f, "Parameters", func() { v.declareParameters(f) })
	group(f, "Answer", func() {
		intVar(f, &v.show, intRange{0, math.MaxInt32}, "show", "number of cables to show")
		v.declareForm(f, tableForms()...)
	})
	v.how.declareEstimate(f)
	v.how.defaultAuto(f, "as run chooses; with --exact: flow")
	group(f, machineGroup, func() {
		f.BoolVar(&v.forecast, "dry-run", false, "with --set and a scenario file: only predict what the sweep "+
			"takes; this draws and routes the flows of every combination, the first million of a generated workload "+
			"without jobs, and writes nothing into the lake")
		durationVar(f, &v.budget, "budget", "", "begin no run after this time, e.g. 30m: runs that have begun "+
			"end, and the answer has those that are complete; the same command continues; 0: no limit")
		intVar(f, &v.cores, intRange{1, 4096}, "cores", "with --dry-run: number of cores to predict the time "+
			"for; default: those of this machine")
		needs(f, "dry-run", "cores")
	})
}

// declareCables declares the flags of a sweep over the cables of a tier.
func (v *sweepVerb) declareCables(f *pflag.FlagSet) {
	parse(f, &v.cables.Tier, func(text string) (string, error) {
		tier, each := strings.CutPrefix(text, "each:")
		if !each || tier == "" {
			return "", errors.New("want each:TIER")
		}
		return tier, nil
	}, flagSpec{name: "fail", usage: "each:TIER, such as each:fabric-spine, or each:TIER,TIER: take down each " +
		"cable of the tier, one at a time"})
	v.declareFault(f, "loss", "instead, each cable loses this share of its packets, e.g. 1e-4")
	v.declareFault(f, "bandwidth", "instead, each cable has this bandwidth, e.g. 1G or 50%")
	v.declareFault(f, "delay", "instead, each cable has this propagation delay, e.g. 50us")
	intVar(f, &v.confirm, intRange{0, math.MaxInt32}, "confirm",
		"number of the worst cables by link cases (--estimator flow or independent) for which the whole "+
			"network is simulated too")
	v.cables.Quantile = 0.99
	f.Float64Var(&v.cables.Quantile, "quantile", v.cables.Quantile,
		"quantile of slowdown to rank by: 0.5, 0.9, 0.99 or 0.999")
	f.StringVar(&v.cables.Service, "service", "", "rank by the flows of this `service`; default: all flows")
	needs(f, "fail", "confirm", "loss", "bandwidth", "delay")
}

// declareFault declares a flag of what happens to each cable.
func (v *sweepVerb) declareFault(f *pflag.FlagSet, kind, usage string) {
	parse(f, &v.cables.Each, func(text string) (string, error) {
		if v.cables.Each != "" {
			return "", errors.New("--loss, --bandwidth and --delay exclude each other")
		}
		each := whatif.SweepPlan{Each: kind + " " + text}
		_, err := each.Changes([2]int32{})
		return each.Each, err
	}, flagSpec{name: kind, usage: usage})
}

// declareParameters declares the flags of a sweep over parameters.
func (v *sweepVerb) declareParameters(f *pflag.FlagSet) {
	p := &v.parameters
	parseEach(f, &p.Axes, whatif.ParseAxis, "set", "key of the scenario file, or change of the scenario of the "+
		"lake, and its values, KEY=V,V; may be repeated: every combination is run")
	parse(f, &p.Until, func(text string) (*gate.Gate, error) {
		g, err := gate.Parse(text)
		return &g, err
	}, flagSpec{name: "until", usage: "with one --set: find by bisection the first value for which this " +
		"condition is true, such as 'service=db p99_slowdown < 4'"})
	needs(f, "set", "until")
	intVar(f, &v.seeds, intRange{0, 10_000}, "seeds", "with --set: also vary the seed from 1 to this number")
	f.BoolVar(&p.Exact, "exact", false,
		"with --set: also simulate the whole network for each combination (slow)")
	p.MaxRuns = 100
	intVar(f, &p.MaxRuns, intRange{1, math.MaxInt32}, "max-runs",
		"with --set: fail if there are more combinations")
}

func (v *sweepVerb) run(ctx context.Context, args []string) error {
	if v.seeds > 0 {
		axis := whatif.Axis{Key: "seed"}
		for n := range v.seeds {
			axis.Values = append(axis.Values, strconv.Itoa(n+1))
		}
		v.parameters.Axes = append(v.parameters.Axes, axis)
	}
	if err := v.check(); err != nil {
		return err
	}
	if v.parameters.Exact && !v.flags.Changed("estimator") { // to see the error of link cases
		v.how.estimator = estimators.Flow.String()
	}
	if v.forecast {
		return v.predict(ctx, args[0])
	}
	o, err := v.how.settings(v.env)
	if err != nil {
		return err
	}
	o.Budget = v.budget
	if len(v.parameters.Axes) > 0 {
		return v.sweepParameters(ctx, args[0], o)
	}
	return v.sweepCables(ctx, args[0], o)
}

// check returns an error for flags that exclude each other.
func (v *sweepVerb) check() error {
	set := len(v.parameters.Axes) > 0
	switch {
	case !set && (v.cables.Tier == "" || v.parameters.Exact):
		return usagef("want --fail each:TIER or --set KEY=V,V (--exact goes with --set)")
	case v.forecast && (!set || v.parameters.Until != nil):
		return usagef("--dry-run predicts a sweep with --set and without --until")
	case v.budget > 0 && v.parameters.Until != nil:
		return usagef("--budget does not go with --until, whose runs depend on each other")
	case set && v.cables.Tier != "":
		return usagef("--fail each:TIER does not go with --set, where fail=[A:B],[C:D] and events=[...] are keys")
	case set && (v.flags.Changed("service") || v.flags.Changed("quantile")):
		return usagef("--service and --quantile rank the cables of --fail; with --set, --until judges a service, " +
			"and query slowdown_by_service has its percentiles")
	case !slices.Contains(pipeline.Quantiles, v.cables.Quantile):
		return usagef("--quantile %v: must be one of %v", v.cables.Quantile, pipeline.Quantiles)
	}
	return nil
}

// sweepParameters runs every combination of parameters of a scenario file or, if there is no such file, of a
// scenario of the lake.
func (v *sweepVerb) sweepParameters(ctx context.Context, base string, o whatif.Settings) error {
	v.parameters.Scenario = base
	p, err := whatif.SweepParameters(ctx, v.parameters, o)
	if errors.Is(err, scenario.ErrNoFile) {
		v.parameters.Change = changesOf
		_, none := v.base(base)
		if none == nil {
			p, err = whatif.SweepParameters(ctx, v.parameters, o)
		} else {
			err = fmt.Errorf("%w; %w", err, none)
		}
	}
	if err != nil {
		return err
	}
	show := p.Slowest().ScenarioID
	if p.Found != nil {
		show = p.Found.ScenarioID
	}
	return v.write(v.stdout, p, nextReport(p.Text(), show, v.lake))
}

// predict writes what a sweep over the parameters of a scenario file is expected to take. It generates and
// routes the flows in a temporary lake, which is removed.
func (v *sweepVerb) predict(ctx context.Context, file string) error {
	v.dryRun = true
	dir, err := v.closers.makeTemporary("parsimon-dry-run-*")
	if err != nil {
		return err
	}
	v.env.lake = dir
	v.how.cache = "off"
	o, err := v.how.settings(v.env)
	if err != nil {
		return err
	}
	o.Budget = v.budget
	v.parameters.Scenario = file
	f, err := whatif.ForecastParameters(ctx, v.parameters, o, cmp.Or(v.cores, runtime.NumCPU()))
	if errors.Is(err, scenario.ErrNoFile) {
		err = usagef("--dry-run predicts sweeps of a scenario file: %v", err)
	}
	if err != nil {
		return err
	}
	return v.write(v.stdout, f, f.Text())
}

// sweepCables takes each cable of a tier down, and ranks the cables.
func (v *sweepVerb) sweepCables(ctx context.Context, name string, o whatif.Settings) error {
	base, err := v.base(name)
	if err != nil {
		return err
	}
	s, err := whatif.RunSweep(ctx, base, v.cables, o)
	if err == nil {
		err = s.Confirm(ctx, v.confirm, o)
	}
	if err != nil {
		return err
	}
	shown := s.Base + "@" + s.Variant // --confirm has estimated another variant after it
	a := nextReport(s.Text(v.show), shown, v.lake)
	a.Linef("  parsimon query worst_failures --lake %s --param scenario=%s --param service=%s",
		report.ShellQuote(v.lake), shown, report.ShellQuote(s.Plan.Service))
	return v.write(v.stdout, s, a)
}

// changesOf returns what settings change in a scenario of the lake. The key bandwidth.CABLES with the value
// 40G stands for --bandwidth CABLES=40G of what-if.
func changesOf(settings []scenario.Setting) (c scenario.Changes, err error) {
	for _, s := range settings {
		if scenario.IsSetting(s.Key) {
			c.Settings = append(c.Settings, s)
			continue
		}
		kind, of, has := strings.Cut(s.Key, ".")
		value := s.Value
		if has {
			value = of + "=" + value
		}
		change, err := scenario.ParseChange(kind, value)
		if err != nil {
			return c, usagef("--set %s: %v", s, err)
		}
		c.Do = append(c.Do, change)
	}
	return c, nil
}

// nextReport adds the command that draws a sweep.
func nextReport(a *text.Answer, scenario, lake string) *text.Answer {
	a.Linef("\nNext:\n  parsimon report %s --lake %s", scenario, report.ShellQuote(lake))
	return a
}
