package pipeline

import (
	"context"
	"fmt"
	"io"
	"time"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/pipeline/units"
	"parsimon/schema"
	"parsimon/simkernel"
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
	// Workers share the simulation. They meet once every microsecond of simulated time: more than one pays only on cores
	// that are idle.
	Workers int
	// Buffer is what switches have to hold packets in; its zero value: without limit.
	Buffer simkernel.BufferParams
}

// Names of variants of whole-network simulations: "exact" or, of a window, "exact-FROM-TO", with the switch buffers.
const exactName = "exact"

// Variant is the name under which the results are stored in the lake.
func (x Exact) Variant() string {
	name := exactName
	if x.Window != (Window{}) {
		name += fmt.Sprintf("-%d-%d", x.FromNS, x.ToNS)
	}
	if b := x.Buffer; b != (simkernel.BufferParams{}) {
		name += fmt.Sprintf("-buffer-%d-alpha-%g", b.SwitchBytes, b.Alpha)
		if b.RetransmitNS > 0 {
			name += fmt.Sprintf("-retransmit-%d", b.RetransmitNS)
		}
	}
	return name
}

// exactStage simulates the whole network packet by packet, every flow of the window over every hop of the path that
// route gave it. It is one task: a network can be divided in space only, which is what its workers do.
func (m *method) exactStage(x Exact) *engine.Stage {
	generate := m.generateStage()
	m.route = m.routeStage(generate)
	flows := generate.Output(schema.Flows)
	s := &engine.Stage{
		Name: exactName, Place: lake.Place{Scenario: m.ID(), Variant: x.Variant()}, Unit: "packet-hops",
		Command: fmt.Sprintf("parsimon validate --lake %s --scenario %s --truth exact", m.Lake.Path(), m.ID()),
		Reads:   []engine.Output{flows, m.route.Output(schema.LinkLoads)},
		Writes:  []schema.Table{schema.ExactFCTs, schema.ExactHops},
		Cut: func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
			routed, err := RouteStats(in.Records(m.route))
			return []engine.Task{{Lo: x.FromNS, Hi: x.ToNS, Cost: routed.PacketHops}}, err
		},
	}
	s.Open = func(context.Context, *engine.Inputs) (engine.NewWorker, error) {
		work := func(ctx context.Context, t *engine.Attempt) error {
			stats, err := stages.Exact(ctx, m.Network, m.Router, m.Spec.Params, t.Read(flows, nil, nil), stages.ExactOptions{
				Domains: max(1, x.Workers), FromNS: x.FromNS, ToNS: x.ToNS, WarmupNS: x.WarmupNS,
				AllowUnreachable: m.Spec.AllowUnreachable,
				Buffer:           x.Buffer,
			}, t.Sink(schema.ExactFCTs), t.Sink(schema.ExactHops), t.Add)
			t.SetStats(stats)
			return err
		}
		return func() (engine.Worker, error) { return work, nil }, nil
	}
	return s
}

// Exact simulates the whole network packet by packet.
func (e *Estimation) Exact(ctx context.Context, x Exact) error {
	if err := e.exec.RunStage(ctx, nil, e.exactStage(x)); err != nil {
		return err
	}
	return e.Publish()
}

// ExactRecords are the records of a complete whole-network simulation.
func (e *Estimation) ExactRecords(x Exact) (engine.Records, error) {
	return e.exec.Records(e.exactStage(x))
}

// WriteExactSummary writes what the whole-network simulation did and cost.
func (e *Estimation) WriteExactSummary(w io.Writer, x Exact) error {
	r, err := e.ExactRecords(x)
	if err != nil {
		return err
	}
	all, err := engine.Stats[stages.ExactStats](r)
	if err != nil {
		return err
	}
	s, seconds := all[0], r.Done[0].Seconds
	workers, buffered := max(1, x.Workers), x.Buffer != simkernel.BufferParams{}
	if buffered {
		workers = 1
	}
	p := text.Printer{W: w}
	p.Linef("whole network: %d flows reported, %d of warm-up; %s packet-hops in %s, %.0f ns each (%d workers)", s.Flows, s.Warmup,
		units.Human(float64(s.PacketHops)), time.Duration(seconds*1e9).Round(time.Millisecond),
		seconds*1e9/float64(max(1, s.PacketHops)), workers)
	p.Linef("no switch held more than %d bytes (switch %d)", s.DeepestSwitchBytes, s.DeepestSwitch)
	if l := s.Losses; buffered {
		p.Linef("switch buffers of %d bytes, alpha %g: %d of %d packets dropped, %d discarded out of order, %d sent again; %d NACKs, %d timeouts",
			x.Buffer.SwitchBytes, x.Buffer.Alpha, l.Dropped, l.Sent, l.Discarded, l.Again, l.NACKs, l.Timeouts)
		if l.Dropped > 0 {
			p.Linef("most drops, %d, before %s (link %d); link cases have unlimited buffers: the estimate does not model drops", s.MostDropped, e.Network.LinkName(s.MostDroppedLink), s.MostDroppedLink)
		}
	}
	p.Linef("")
	return p.Err
}

// SampleWindow is a window of that length in the middle of the workload, with a warm-up of the same length unless
// another is given; all of the workload for a length of 0, or of the workload or more.
func (e *Estimation) SampleWindow(length, warmup time.Duration) (Window, error) {
	g, err := e.Generated()
	if err != nil {
		return Window{}, err
	}
	if length == 0 || int64(length) > g.LastStartNS-g.FirstStartNS {
		return Window{}, nil
	}
	if warmup == 0 {
		warmup = length
	}
	from := g.FirstStartNS + (g.LastStartNS-g.FirstStartNS-int64(length))/2
	return Window{FromNS: from, ToNS: from + int64(length), WarmupNS: int64(warmup)}, nil
}

// Generated are the statistics of the scenario's flows.
func (e *Estimation) Generated() (GenerateStats, error) {
	r, err := e.exec.Records(e.generateStage())
	if err != nil {
		return GenerateStats{}, err
	}
	return generateStats(r)
}

// Routed are the statistics of routing.
func (e *Estimation) Routed() (stages.RouteStats, error) {
	r, err := e.exec.Records(e.plan().Find("route", 0))
	if err != nil {
		return stages.RouteStats{}, err
	}
	return RouteStats(r)
}
