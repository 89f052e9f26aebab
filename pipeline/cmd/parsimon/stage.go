package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
)

// stageNames returns the stages of the plans of all estimators, in the order of the method.
func stageNames() []string {
	return []string{generate, "route", "cluster", "simulate", "feedback", "sender-feedback", "replay", "draw",
		"exact", "sample", "intervals"}
}

const generate = "generate"

// completeStages completes the names of stages.
func completeStages(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return stageNames(), cobra.ShellCompDirectiveDefault
}

// A stageVerb runs one stage of an estimate, or a shard of it.
type stageVerb struct {
	*env
	flags *pflag.FlagSet
	input scenarioFlags
	how   runFlags
}

func (v *stageVerb) declare(f *pflag.FlagSet) {
	v.flags = f
	v.how.declareLake(v.env, f)
	v.input.declare(f)
	group(f, "Stages after generate", func() {
		v.how.declareScenario(f)
		parse(f, &v.how.how.Shard, engine.ParseShard,
			flagSpec{name: "shard", usage: "run shard I/N of the tasks of the stage, I from 0 to N - 1, while " +
				"other processes run the others on the same lake; the next stage needs all shards"})
		v.how.declareKeep(f)
	})
	v.how.declareEstimate(f)
}

func (v *stageVerb) run(ctx context.Context, args []string) error {
	name := args[0]
	run, err := v.openScenario(ctx, name, args[1:])
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
	_, err = fmt.Fprintln(v.stdout, run.ID())
	return err
}

// openScenario opens the scenario of a stage: a new one for stage generate, else one of the lake.
func (v *stageVerb) openScenario(ctx context.Context, stage string, args []string) (*pipeline.Estimation,
	error) {
	if !slices.Contains(stageNames(), stage) {
		return nil, usagef("no stage %q; \"parsimon help stage\" lists them", stage)
	}
	if stage == generate {
		if v.flags.Changed("scenario") || v.flags.Changed("shard") {
			return nil, usagef("stage generate makes a whole scenario: it takes neither --scenario nor --shard")
		}
		return begin(ctx, v.env, &v.input, &v.how, args)
	}
	var wrong error
	v.flags.Visit(func(flag *pflag.Flag) {
		if slices.Contains([]string{scenarioGroup, topologyGroup, pathsGroup, settingsGroup}, groupOf(flag)) {
			wrong = usagef("--%s goes with stage generate", flag.Name)
		}
	})
	if wrong != nil {
		return nil, wrong
	}
	if len(args) > 0 {
		return nil, usagef("unexpected arguments %q", args)
	}
	return resume(ctx, v.env, &v.how)
}
