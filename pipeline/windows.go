package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampling/windows"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/stages/estimators"
	"parsimon/stages/tables"
)

// DeriveWindows opens the scenario that consists of some windows of a scenario of the lake, for an estimate.
// Commands do not list it, and it is removed together with the scenario that it was made from. Its packets
// are simulated for every variant of base.
func DeriveWindows(
	ctx context.Context, base *Estimation, w windows.Selection, o Settings,
) (*Estimation, error) {
	g, err := base.Generated()
	if err != nil {
		return nil, err
	}
	spec := base.Spec
	spec.Canonical, err = json.Marshal(struct {
		WindowsOf lake.ScenarioID   `json:"windows_of"`
		Windows   windows.Selection `json:"windows"`
		Fluid     int               `json:"fluid"`
	}{base.ID(), w, windows.Version})
	if err != nil {
		return nil, err
	}
	spec.ScenarioID = lake.WindowsID(scenario.IDOf(spec.Canonical))
	spec.Name = fmt.Sprintf("%s, %d windows", base.Spec.Name, len(w.Spans))
	spec.Aliases = nil
	spec.Named = nil
	spec.Windows = &windows.Spec{
		Of: base.ID(), Parts: w.Parts(g.FirstStartNS, g.LastStartNS), Spans: w.Spans, LastStartNS: g.LastStartNS,
	}
	model := &Model{base.Lake, spec, base.Network, base.Router, base.waits}
	model.limit(0)
	packets := Variant{Estimator: estimators.Exact}
	if err := model.check(packets, o); err != nil {
		return nil, err
	}
	o.Base = base.ID()
	o.Ephemeral = true
	e, err := newEstimation(ctx, model, packets, o)
	if err != nil {
		return nil, err
	}
	e.source = model.windowFlows(base.ID(), w)
	if w.SizeFactor > 0 && w.SizeFactor != 1 || w.Burst > 0 {
		e.source = base.source.ingested.windowFlows(base, model, w)
	}
	return e, nil
}

// windowsScenario converts the model to the scenario type of package windows.
func (m *Model) windowsScenario() windows.Scenario {
	return windows.Scenario{Model: m.method(), Spec: m.Spec.Windows}
}

// windowFlows returns the source of the flows of a base scenario within windows.
func (m *Model) windowFlows(from lake.ScenarioID, w windows.Selection) *source {
	base := generated(m.Lake, from)
	s := &source{reads: []engine.Output{base.Output(schema.Flows)}}
	s.write = func(ctx context.Context, _ *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
		r, err := engine.Complete(m.Lake, base, MethodVersion)
		if err != nil {
			return nil, err
		}
		read := func(fromNS, toNS int64) schema.Batches {
			starts := &lake.Range{Column: "start_ns", Lo: fromNS, Hi: toNS}
			return m.Lake.Read(schema.Flows, r.Files(schema.Flows), starts)
		}
		return &Generated{}, m.windowsScenario().WriteFlows(ctx, w, read, out)
	}
	return s
}

// windowsStage simulates the whole network packet by packet in windows of time. Each part of the time is a
// task for one worker. Table slowdowns has the flows that start in spans. Its flow_row counts within the
// part.
func (p *planner) windowsStage() *engine.Stage {
	flows := p.generate.Output(schema.Flows)
	all := generated(p.Lake, p.Spec.Windows.Of).Output(schema.Flows)
	return &engine.Stage{
		Name: exactName, Place: p.variant.place(p.ID()), Unit: "simulated ns",
		Command: p.command(exactName, p.variant),
		Reads:   []engine.Output{flows, all}, Writes: []schema.Table{schema.Slowdowns},
		Cut: func(*engine.Inputs, []engine.Task) ([]engine.Task, error) {
			return names.Of(p.Spec.Windows.Parts, func(part [2]int64) engine.Task {
				return engine.Task{Lo: part[0], Hi: part[1], Cost: part[1] - part[0]}
			}), nil
		},
		Open: engine.Always(func(ctx context.Context, t *engine.Attempt) error {
			reader := func(from engine.Output) windows.FlowReader {
				return func(fromNS, toNS int64) schema.Batches {
					return t.Read(from, &lake.Range{Column: "start_ns", Lo: fromNS, Hi: toNS})
				}
			}
			part := [2]int64{t.Lo, t.Hi}
			rows, stats, err := p.windowsScenario().Simulate(ctx, part, reader(flows), reader(all))
			t.SetStats(stats)
			if err != nil {
				return err
			}
			return tables.Slowdowns.Write(t.Sink(schema.Slowdowns), rows)
		}),
	}
}

// FluidError returns the mean relative error, per byte, of the fluid model that continues flows after the
// windows, compared with the packets within them.
func (e *Estimation) FluidError() (float64, error) {
	r, err := e.exec.Records(e.planner(e.variant).windowsStage())
	if err != nil {
		return 0, err
	}
	parts, err := engine.Stats[windows.FluidError](r)
	if err != nil {
		return 0, err
	}
	return windows.MeanError(parts), nil
}
