package pipeline

import (
	"context"
	"fmt"
	"time"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/simkernel/network"
	"parsimon/stages"
)

// A Window is a part of the workload to simulate whole, in ns of flow starts; the zero Window is all of it. Flows that
// start up to WarmupNS before it are simulated too, but not reported.
type Window struct {
	FromNS, ToNS, WarmupNS int64
}

// An Exact says what to simulate packet by packet.
type Exact struct {
	Window
	// Buffer is what switches have to hold packets in; its zero value: what the scenario's have (Spec.Switches).
	Buffer network.BufferParams
}

// Names of variants of whole-network simulations: "exact" or, of a window, "exact-FROM-TO", with the switch buffers.
// "exact" is also the estimator's name (stages.WholeNetwork): its estimates have the simulation's tables beside their
// own.
const exactName = "exact"

// isEstimate reports whether an estimate follows from the simulation: it has all flows, and the scenario's switches.
func (x Exact) isEstimate() bool { return x.Variant() == exactName }

// Variant is the name under which the results are stored in the lake.
func (x Exact) Variant() string {
	name := exactName
	if x.Window != (Window{}) {
		name += fmt.Sprintf("-%d-%d", x.FromNS, x.ToNS)
	}
	if b := x.Buffer; !b.IsZero() {
		name += fmt.Sprintf("-buffer-%d-alpha-%g", b.SwitchBytes, b.Alpha)
		if b.PFC {
			name += "-pfc"
		}
		if b.RetransmitNS > 0 {
			name += fmt.Sprintf("-retransmit-%d", b.RetransmitNS)
		}
	}
	return name
}

// BufferOf is what the switches of a simulation have.
func (m *Model) BufferOf(x Exact) network.BufferParams {
	if x.Buffer.IsZero() {
		return m.Spec.Switches
	}
	return x.Buffer
}

// exactStage simulates the whole network packet by packet, every flow of the window over every hop of the path that
// stage route gave it. It is one task: a network can be divided in space only, which is what its
// workers do.
func (m *method) exactStage(x Exact) *engine.Stage {
	flows, waits := m.generate.Output(schema.Flows), m.generate.Output(schema.Dependencies)
	s := &engine.Stage{
		Name: exactName, Place: lake.Place{Scenario: m.ID(), Variant: x.Variant()}, Unit: "packet-hops",
		Command: fmt.Sprintf("parsimon validate --lake %s --scenario %s --truth exact", m.Lake.Path(), m.ID()),
		Reads:   []engine.Output{m.route.Output(schema.LinkLoads), flows, waits},
		Writes:  []schema.Table{schema.ExactFCTs, schema.ExactHops},
		Cut: func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
			routed, err := RouteStats(in.Records(m.route))
			return []engine.Task{{Lo: x.FromNS, Hi: x.ToNS, Cost: routed.PacketHops}}, err
		},
	}
	if x.isEstimate() {
		s.Writes = append(s.Writes, schema.LinkStats)
	}
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		loads, err := m.readLoads(in)
		if err != nil {
			return nil, err
		}
		work := func(ctx context.Context, t *engine.Attempt) error {
			out := stages.ExactTables{FCTs: t.Sink(schema.ExactFCTs), Hops: t.Sink(schema.ExactHops)}
			if x.isEstimate() {
				out.Links = t.Sink(schema.LinkStats)
			}
			o := stages.ExactOptions{
				Workers: m.Workers, FromNS: x.FromNS, ToNS: x.ToNS, WarmupNS: x.WarmupNS,
				AllowUnreachable: m.Spec.AllowUnreachable,
				Buffer:           m.BufferOf(x),
				Loads:            loads,
				Moves:            m.Spec.Moves, Seed: m.Spec.Seed,
			}
			if err := m.dependencies(t, &o); err != nil {
				return err
			}
			stats, err := stages.Exact(ctx, m.Network, m.Router, m.Spec.Params, t.Read(flows, nil, nil), o, out, t.Add)
			t.SetStats(stats)
			return err
		}
		return func() (engine.Worker, error) { return work, nil }, nil
	}
	return s
}

// Exact simulates the whole network packet by packet, or finds that it was. The estimate need not exist, but stage
// route must be complete. The results are tables exact_fcts and exact_hops of variant x.Variant().
func (e *Estimation) Exact(ctx context.Context, x Exact) error {
	if x.Window != (Window{}) {
		if err := e.Refuse(Variant{Estimator: stages.WholeNetwork}, stretch); err != nil {
			return err
		}
	}
	if err := e.exec.RunStage(ctx, nil, e.exactStage(x)); err != nil {
		return err
	}
	return e.Publish()
}

func (e *Estimation) exactStage(x Exact) *engine.Stage {
	return e.method(Variant{Estimator: stages.WholeNetwork}).exactStage(x)
}

// ExactRecords are the records of a complete whole-network simulation.
func (e *Estimation) ExactRecords(x Exact) (engine.Records, error) {
	return e.exec.Records(e.exactStage(x))
}

// Middle is a window of that length in the middle of the workload, with a warm-up of the same length unless another is
// given; all of the workload for a length of 0, or of the workload or more.
func (g *GenerateStats) Middle(length, warmup time.Duration) Window {
	if length == 0 || int64(length) > g.LastStartNS-g.FirstStartNS {
		return Window{}
	}
	if warmup == 0 {
		warmup = length
	}
	from := g.FirstStartNS + (g.LastStartNS-g.FirstStartNS-int64(length))/2
	return Window{FromNS: from, ToNS: from + int64(length), WarmupNS: int64(warmup)}
}
