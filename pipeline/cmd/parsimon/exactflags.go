package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/scenario"
)

// exactFlags are the switches of a whole-network simulation.
type exactFlags struct {
	switchBuffer string
	switchAlpha  float64
	pfc          bool
	retransmit   time.Duration
}

func (x *exactFlags) declare(f *pflag.FlagSet) {
	f.StringVar(&x.switchBuffer, "switch-buffer", "", "buffer that the ports of a switch share, e.g. 12MB, or "+
		"topology: as the SONiC configurations of the topology state it; switches then drop packets, and senders recover; "+
		"only the whole-network simulation knows it (scenario file: switches.buffer); default: unlimited")
	f.Float64Var(&x.switchAlpha, "switch-alpha", 0, "with --switch-buffer: how much of what is free in a switch one "+
		"port may hold (dynamic threshold); 0: 1, and with --pfc 1/8")
	f.BoolVar(&x.pfc, "pfc", false, "with --switch-buffer: switches pause the senders of a link whose packets hold "+
		"too much, instead of dropping packets (priority flow control, one class; scenario file: switches.pfc)")
	f.DurationVar(&x.retransmit, "retransmit-timeout", 0, "with --switch-buffer: how long senders wait for an ACK before they send again; 0: as long as the slowest packet can take")
}

// switches are those of the flags; the zero value without --switch-buffer.
func (x *exactFlags) switches() (w scenario.Switches, err error) {
	if x.switchBuffer == "" {
		if x.retransmit != 0 || x.switchAlpha != 0 || x.pfc {
			return w, usagef("--switch-alpha, --pfc and --retransmit-timeout go with --switch-buffer")
		}
		return w, nil
	}
	switch err := w.ParseBuffer(x.switchBuffer); {
	case err != nil:
		return w, usagef("--switch-buffer %q: want a size such as 12MB, or topology", x.switchBuffer)
	case x.retransmit < 0:
		return w, usagef("--retransmit-timeout %v: must be 0 or more", x.retransmit)
	case x.switchAlpha != 0 && !(x.switchAlpha >= 1.0/1024 && x.switchAlpha <= 1024):
		return w, usagef("--switch-alpha %v: must be 1/1024 to 1024", x.switchAlpha)
	}
	w.PFC, w.Alpha, w.RetransmitNS = x.pfc, x.switchAlpha, x.retransmit.Nanoseconds()
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
