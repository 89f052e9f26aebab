package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampled"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/stages/estimators"
)

var runCommand = command{
	name:   "run",
	most:   1,
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var s scenarioFlags
		var r runFlags
		var exact bool
		var within withinFlags
		var startsFrom string
		r.declareLake(e, f)
		s.declare(f)
		r.declareEstimate(f)
		r.defaultAuto(f, "exact where it takes a minute or at most twice as long as flow, and up to --exact-limit where two passes of flow do not suffice; else flow")
		f.StringVar(&startsFrom, "starts-from", "", "exact: for flows that wait for others: simulate the whole "+
			"network first; the estimate then takes the starts that it found")
		group(f, "Whole-network simulation", func() {
			f.BoolVar(&exact, "exact", false, "also simulate the whole network, packet by packet, and hold the "+
				"estimate against it (slow)")
		})
		group(f, machineGroup, func() { r.declareKeep(f) })
		group(f, "Answer", func() {
			e.declareForm(f, forms...)
			e.declareGates(f, false)
		})
		group(f, "Windows of time", func() { within.declare(f) })
		return func(ctx context.Context, args []string) error {
			ask, sampling, err := within.ask()
			if sampling && exact {
				return usagef("--within does not go with --exact")
			}
			if sampling {
				err = within.simulate(&r)
			}
			if err != nil {
				return err
			}
			if startsFrom != "" && startsFrom != estimators.Exact.String() {
				return usagef("--starts-from %q: want exact", startsFrom)
			}
			open := begin
			if startsFrom != "" {
				open = beginFromExact
			}
			run, err := open(ctx, e, &s, &r, args)
			if err != nil {
				return err
			}
			if sampling {
				result, err := sampled.Run(ctx, run, ask)
				switch {
				case err != nil:
				case result.Stopped == sampled.Whole:
					err = run.MakeAnswer()
				default:
					session := run.Executor().Session()
					err = session.SetAnswer(run.ID(), result.Variant)
					if err == nil {
						result.Whole, err = completeVariants(session.Lake, run.ID(), false)
					}
				}
				if err != nil {
					return err
				}
				return writeWindows(e, result, result.Judge(e.gates))
			}
			if err := run.Estimate(ctx); err != nil {
				return err
			}
			if err := run.MakeAnswer(); err != nil {
				return err
			}
			if exact {
				if err := run.Exact(ctx); err != nil {
					return err
				}
			}
			return answer(ctx, e, run, exact)
		}
	},
}

// answer writes the results of an estimate and checks them against the gates.
func answer(ctx context.Context, e *env, run *pipeline.Estimation, exact bool) error {
	isText := e.form != "json"
	result, failed := summary.Read(ctx, run, summary.Options{Gates: e.gates, Text: isText,
		Services: !isText || e.metrics.file != ""})
	if result == nil {
		return failed
	}
	if e.metrics.file != "" {
		if err := e.metrics.estimate(run, result); err != nil {
			return err
		}
	}
	people := &text.Answer{}
	if isText {
		people = result.Text()
	}
	if exact {
		people.Linef("")
		var err error
		if result.Validation, err = validate(ctx, run, "", people); err != nil {
			return err
		}
	}
	return e.judged(result, people, failed)
}

// begin opens a scenario for an estimate from its beginning.
func begin(ctx context.Context, e *env, s *scenarioFlags, r *runFlags, args []string) (*pipeline.Estimation, error) {
	sc, err := s.load(e.lake, args)
	if err == nil {
		err = s.check(ctx, sc, r, args) // before the settings, which may make a cache
	}
	if err != nil {
		return nil, err
	}
	o, err := r.settings(e)
	if err != nil {
		return nil, err
	}
	run, err := e.open(pipeline.Begin(ctx, o.Lake, sc, o.Variant, o.Settings))
	if err == nil {
		if _, note, _ := pipeline.ResolveNoted(run.Lake, sc.Name, false); note != "" {
			o.Log.Info().Msg(note)
		}
		for _, note := range sc.TopologyNotes() {
			o.Log.Info().Msg("topology: " + note)
		}
	}
	return run, err
}

// beginFromExact estimates the whole network of a scenario whose flows wait for others, and opens the scenario in which
// they start when it found that they do.
func beginFromExact(ctx context.Context, e *env, s *scenarioFlags, r *runFlags, args []string) (
	*pipeline.Estimation, error) {
	exact := *r
	exact.estimator, exact.how.Variant, exact.how.For = estimators.Exact.String(), pipeline.Variant{}, ""
	run, err := begin(ctx, e, s, &exact, args)
	if err != nil {
		return nil, err
	}
	if err := run.Estimate(ctx); err != nil {
		return nil, err
	}
	g, err := run.Generated()
	if err == nil && !g.Closed() {
		err = usagef("--starts-from: no flow of %s waits for others", run.Spec.Name)
	}
	if err != nil {
		return nil, err
	}
	o, err := r.settings(e)
	if err != nil {
		return nil, err
	}
	return e.open(pipeline.Derive(ctx, run.Model, scenario.Changes{FoundStarts: true}, o.Variant, o.Settings))
}

// resume opens a scenario of the lake, given as SCENARIO or SCENARIO@VARIANT.
func resume(ctx context.Context, e *env, r *runFlags) (*pipeline.Estimation, error) {
	o, err := r.settings(e)
	if err != nil {
		return nil, err
	}
	l, err := e.openLake(lake.Open)
	if err != nil {
		return nil, err
	}
	var of whatif.Side
	if r.scenario != "" {
		if of, err = e.side(l, r.scenario); err != nil {
			return nil, err
		}
	}
	if of.Variant != "" {
		if o.Variant, err = pipeline.ParseVariant(of.Variant); err != nil {
			return nil, fmt.Errorf("--scenario: %w", err)
		}
	}
	return e.open(pipeline.Resume(ctx, o.Lake, of.Scenario, o.Variant, o.Settings))
}

// open has an estimation closed when the command ends.
func (e *env) open(run *pipeline.Estimation, err error) (*pipeline.Estimation, error) {
	if err == nil {
		e.atEnd = append(e.atEnd, run.Close)
	}
	return run, err
}

// stageNames are the stages of the plans of all estimators, in the order of the method.
var stageNames = []string{generate, "route", "cluster", "simulate", "feedback", "sender-feedback", "replay", "bucket",
	"draw", "exact", "sample", "intervals"}

const generate = "generate"

var stageCommand = command{
	name: "stage", least: 1, most: 2,
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var s scenarioFlags
		var r runFlags
		r.declareLake(e, f)
		s.declare(f)
		group(f, "Stages after it", func() {
			r.declareScenario(f)
			parse(f, &r.how.Shard, "string", engine.ParseShard, "shard", "", "do shard I (0 to N - 1) of N of the stage's "+
				"tasks, I/N, while other processes do the others on the same lake; the next stage needs all of them")
			r.declareKeep(f)
		})
		r.declareEstimate(f)
		return func(ctx context.Context, args []string) error {
			name := args[0]
			run, err := openStage(ctx, e, f, &s, &r, name, args[1:])
			if err != nil {
				return err
			}
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
) (run *pipeline.Estimation, err error) {
	if !slices.Contains(stageNames, name) {
		return nil, usagef("no stage %q; \"parsimon help stage\" lists them", name)
	}
	if name == generate {
		if f.Changed("scenario") || f.Changed("shard") {
			return nil, usagef("stage generate makes a scenario, whole: it takes neither --scenario nor --shard")
		}
		return begin(ctx, e, s, r, args)
	}
	f.Visit(func(flag *pflag.Flag) {
		if slices.Contains([]string{scenarioGroup, topologyGroup, movesGroup, settingsGroup}, groupOf(flag)) {
			err = usagef("--%s goes with stage generate", flag.Name)
		}
	})
	if err != nil {
		return nil, err
	}
	if len(args) > 0 {
		return nil, usagef("unexpected arguments %q", args)
	}
	return resume(ctx, e, r)
}

var validateCommand = command{
	name:   "validate",
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var truth string
		r.declareLake(e, f)
		r.declareScenario(f)
		r.declareEstimator(f)
		r.defaultAuto(f, "the answer of the last run")
		r.declareCluster(f)
		r.declareWorkers(f)
		f.StringVar(&truth, "truth", "exact", "exact, or a Parquet file with flow_id and fct_ns")
		e.declareForm(f, forms...)
		return func(ctx context.Context, _ []string) error {
			run, err := resume(ctx, e, &r)
			if err != nil {
				return err
			}
			if truth == "exact" {
				truth = ""
				if err := run.Exact(ctx); err != nil {
					return err
				}
			}
			a := &text.Answer{}
			v, err := validate(ctx, run, truth, a)
			if err != nil {
				return err
			}
			return e.write(v, a)
		}
	},
}

// validate holds an estimate against a truth file or, without one, against the simulation of the whole network, and
// adds the comparison to an answer for people.
func validate(ctx context.Context, run *pipeline.Estimation, truthFile string, a *text.Answer) (*whatif.Validation,
	error) {
	v, err := whatif.Validate(ctx, run, truthFile)
	if err != nil {
		return nil, err
	}
	if truthFile == "" {
		if err := summary.AddExact(a, run); err != nil {
			return nil, err
		}
	}
	v.AddTo(a)
	return v, nil
}
