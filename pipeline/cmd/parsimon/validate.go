package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
)

var validateCommand = command{
	name:   "validate",
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var whole exactFlags
		var truth string
		var sample, warmup time.Duration
		r.declareLake(e, f)
		r.declareScenario(f)
		r.declareEstimator(f)
		r.defaultAuto(f, "the answer of the last run")
		r.declareCluster(f)
		whole.declare(f)
		r.declareWorkers(f)
		f.StringVar(&truth, "truth", "exact", "exact, or a Parquet file with flow_id and fct_ns")
		durationVar(f, &sample, "sample", "", "length of the stretch to simulate whole, e.g. 20ms; 0: all of the trace")
		durationVar(f, &warmup, "warmup", "", "simulated before the stretch but not compared; 0: as long as the stretch")
		needs(f, "sample", "warmup")
		e.declareForm(f, forms...)
		return func(ctx context.Context, _ []string) error {
			if truth != "exact" && (f.Changed("switch-buffer") || sample > 0) {
				return usagef("--switch-buffer and --sample go with --truth exact")
			}
			switches, err := whole.switches()
			if err != nil {
				return err
			}
			run, err := resume(ctx, e, &r)
			if err != nil {
				return err
			}
			x, err := exactOf(run, switches)
			if err != nil {
				return err
			}
			if truth == "exact" {
				g, err := run.Generated()
				if err != nil {
					return err
				}
				x.Window, truth = g.Middle(sample, warmup), ""
				if err := run.Exact(ctx, x); err != nil {
					return err
				}
			}
			a := &text.Answer{}
			v, err := validate(ctx, e, run, truth, x, a)
			if err != nil {
				return err
			}
			return e.write(v, a)
		}
	},
}

// validate holds an estimate against a truth file or, without one, against a whole-network simulation, and adds the
// comparison to an answer for people.
func validate(ctx context.Context, e *env, run *pipeline.Estimation, truthFile string, x pipeline.Exact,
	a *text.Answer) (*whatif.Validation, error) {
	v, err := whatif.Validate(ctx, run, truthFile, x)
	if err != nil {
		return nil, err
	}
	if truthFile == "" {
		if err := summary.AddExact(a, run, x); err != nil {
			return nil, err
		}
	}
	v.AddTo(a)
	return v, nil
}

// exactFlags are the switches of a whole-network simulation.
type exactFlags struct {
	given      scenario.Switches // the zero value without --switch-buffer
	retransmit time.Duration
}

func (x *exactFlags) declare(f *pflag.FlagSet) {
	parse(f, &x.given, "string", func(text string) (w scenario.Switches, err error) {
		if w = x.given; w.ParseBuffer(text) != nil {
			err = errors.New("want a size such as 12MB, or topology")
		}
		return w, err
	}, "switch-buffer", "", "buffer that the ports of a switch share, e.g. 12MB, or topology: as the SONiC "+
		"configurations of the topology state it; switches then drop packets, and senders recover; only the "+
		"whole-network simulation knows it (scenario file: switches.buffer); default: unlimited")
	f.Float64Var(&x.given.Alpha, "switch-alpha", 0, "with --switch-buffer: how much of what is free in a switch one "+
		"port may hold (dynamic threshold); 0: 1, and with --pfc 1/8")
	f.BoolVar(&x.given.PFC, "pfc", false, "with --switch-buffer: switches pause the senders of a link whose packets hold "+
		"too much, instead of dropping packets (priority flow control, one class; scenario file: switches.pfc)")
	durationVar(f, &x.retransmit, "retransmit-timeout", "", "with --switch-buffer: how long senders wait for an ACK "+
		"before they send again; 0: as long as the slowest packet can take")
	needs(f, "switch-buffer", "switch-alpha", "pfc", "retransmit-timeout")
}

// switches are those of the flags; the zero value without --switch-buffer.
func (x *exactFlags) switches() (scenario.Switches, error) {
	w := x.given
	if w == (scenario.Switches{}) {
		return w, nil
	}
	if w.Alpha != 0 && !(w.Alpha >= 1.0/1024 && w.Alpha <= 1024) {
		return w, usagef("--switch-alpha %v: must be 1/1024 to 1024", w.Alpha)
	}
	w.RetransmitNS = x.retransmit.Nanoseconds()
	w.SetDefaults()
	return w, nil
}

// exactOf is what to simulate packet by packet beside the estimate, with these switches and without its window.
func exactOf(run *pipeline.Estimation, w scenario.Switches) (x pipeline.Exact, err error) {
	x.Buffer = w.BufferParams
	if w.OfTopology {
		b := run.Spec.Buffer
		if b == nil {
			return x, fmt.Errorf("--switch-buffer topology: the topology of scenario %s has no SONiC configurations "+
				"with a BUFFER_POOL", run.Spec.Name)
		}
		x.Buffer = w.With(b)
	}
	return x, nil
}
