package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/schema/units"
	"parsimon/simkernel/network"
)

// exactFlags say how the whole network is simulated.
type exactFlags struct {
	switchBuffer string
	switchAlpha  float64
	retransmit   time.Duration
}

func (x *exactFlags) declare(f *pflag.FlagSet) {
	f.StringVar(&x.switchBuffer, "switch-buffer", "", "buffer that the ports of a switch share, e.g. 12MB, or topology: as the SONiC configurations of the topology state it; in the whole-network simulation, which then drops packets and recovers (go-back-N); the estimate does not model this; default: unlimited")
	f.Float64Var(&x.switchAlpha, "switch-alpha", network.DefaultAlpha, "with --switch-buffer: how much of what is free in a switch one port may hold (dynamic threshold)")
	f.DurationVar(&x.retransmit, "retransmit-timeout", 0, "with --switch-buffer: how long senders wait for an ACK before they send again; 0: as long as the slowest packet can take")
}

// exact is what to simulate packet by packet, without its window.
func (x *exactFlags) exact() (e pipeline.Exact, err error) {
	if x.switchBuffer == "" {
		if x.retransmit != 0 {
			return e, usagef("--retransmit-timeout goes with --switch-buffer")
		}
		return e, nil
	}
	bytes, err := units.Parse(x.switchBuffer, units.Bytes)
	if x.switchBuffer == topologyBuffer {
		bytes, err = 1, nil // bufferOf replaces it
	}
	switch {
	case err != nil || bytes < 1:
		return e, usagef("--switch-buffer %q: want a size such as 12MB, or topology", x.switchBuffer)
	case x.retransmit < 0:
		return e, usagef("--retransmit-timeout %v: must be 0 or more", x.retransmit)
	case !(x.switchAlpha >= 1.0/1024 && x.switchAlpha <= 1024):
		return e, usagef("--switch-alpha %v: must be 1/1024 to 1024", x.switchAlpha)
	}
	e.Buffer = network.BufferParams{SwitchBytes: bytes, Alpha: x.switchAlpha, RetransmitNS: x.retransmit.Nanoseconds()}
	return e, nil
}

// topologyBuffer as --switch-buffer is what the configurations of the switches state.
const topologyBuffer = "topology"

// bufferOf completes the buffers of the whole-network simulation by what is known of the scenario's switches.
func (x *exactFlags) bufferOf(run *pipeline.Estimation, e *pipeline.Exact) error {
	if x.switchBuffer != topologyBuffer {
		return nil
	}
	b := run.Spec.Buffer
	if b == nil {
		return fmt.Errorf("--switch-buffer topology: the topology of scenario %s has no SONiC configurations with a BUFFER_POOL", run.Spec.Name)
	}
	e.Buffer.SwitchBytes, e.Buffer.Alpha = b.Bytes, b.Alpha
	return nil
}
