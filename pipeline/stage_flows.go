package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
	"parsimon/stages/ingest"
)

// GenerateStats are the statistics of stage generate: what is known of a workload once its flows are in the lake.
type GenerateStats struct {
	Flows           int64                `json:"flows"`
	Rejects         int64                `json:"rejects"`
	Merged          int64                `json:"merged"`           // rows of a trace that were merged into flows
	SetAside        int64                `json:"set_aside"`        // rejects that are no flows by their own account
	SyntheticStarts int64                `json:"synthetic_starts"` // flows whose start was not measured
	RejectReasons   []ingest.RejectCount `json:"reject_reasons,omitempty"`
	Notes           []string             `json:"notes,omitempty"` // what a user should know of the flow file
	Dependencies    int64                `json:"dependencies,omitempty"`
	ComputeSteps    int64                `json:"compute_steps,omitempty"`
	FirstStartNS    int64                `json:"first_start_ns"`
	LastStartNS     int64                `json:"last_start_ns"`
	ExpectedMaxLoad float64              `json:"expected_max_load"` // of the most loaded link, from the matrices; 0 for traces
	ExpectedMaxLink int32                `json:"expected_max_link"`
}

// generateStage writes the topology and the flows of the scenario. It is one task: the flows are one stream in start
// order.
func (m *method) generateStage() *engine.Stage {
	s := &engine.Stage{
		Name: "generate", Place: m.base(), Unit: "flows", Command: "parsimon run --lake " + m.Lake.Path() + " SCENARIO",
		Writes: []schema.Table{schema.Scenarios, schema.Nodes, schema.Links, schema.Flows, schema.Dependencies,
			schema.JobFlows, schema.Rejects},
		Cut: oneTask,
	}
	if m.source != nil {
		s.Reads = m.source.reads()
	}
	s.Open = func(context.Context, *engine.Inputs) (engine.NewWorker, error) {
		if m.source == nil {
			return nil, &engine.IncompleteError{Stage: s}
		}
		return func() (engine.Worker, error) { return m.writeScenario, nil }, nil
	}
	s.Check = func(r engine.Records) error {
		g, err := engine.Stats[GenerateStats](r)
		if err == nil && len(g) > 0 {
			err = m.refuseFlows(&g[0])
		}
		if file, ok := m.source.(*flowFile); ok && err == nil {
			err = file.accept(g[0])
		}
		return err
	}
	return s
}

// writeScenario writes nodes, links and the flows of the source, and the scenario's row.
func (m *method) writeScenario(ctx context.Context, t *engine.Attempt) error {
	nodes, links := m.Network.NodesRecord(), m.Network.LinksRecord()
	defer nodes.Release()
	defer links.Release()
	if err := errors.Join(t.Sink(schema.Nodes).Write(nodes), t.Sink(schema.Links).Write(links)); err != nil {
		return err
	}
	chunks := lake.NewFlowWriter(t.Session(), m.base(), t.Add)
	defer chunks.Abandon()
	stats, err := m.source.flows(ctx, t, chunks)
	if err == nil {
		err = m.refuseFlows(stats)
	}
	if err != nil {
		return err
	}
	flows, err := chunks.Finish()
	if err != nil {
		return err
	}
	t.Adopt(flows...)
	if stats.Flows == 0 {
		return errors.New("the workload has no flow that can be simulated")
	}
	row := m.scenarioRecord(stats)
	defer row.Release()
	t.SetStats(stats)
	return t.Sink(schema.Scenarios).Write(row)
}

// scenarioRecord is the scenario's row of table scenarios.
func (m *method) scenarioRecord(g *GenerateStats) arrow.Record {
	row := columns.Row{
		"scenario_id": string(m.ID()), "name": m.Spec.Name, "seed": int64(m.Spec.Seed), "spec": string(m.Spec.Canonical),
		"flows": g.Flows, "rejects": g.Rejects, "first_start_ns": g.FirstStartNS, "last_start_ns": g.LastStartNS,
	}
	if m.Base != "" {
		row["base_id"] = string(m.Base)
	}
	if m.Spec.MaxLoad > 0 {
		row["max_load"] = m.Spec.MaxLoad
	}
	rows := columns.NewRows(schema.Scenarios)
	rows.Add(row)
	return rows.Record()
}

// generateStats are the statistics of a complete stage generate.
func generateStats(r engine.Records) (GenerateStats, error) {
	all, err := engine.Stats[GenerateStats](r)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("stage generate has %d tasks, want 1", len(all))
	}
	if err != nil {
		return GenerateStats{}, err
	}
	return all[0], nil
}

// routeStage chooses each flow's path and explodes flows to hops, a chunk of flows a task.
func (m *method) routeStage() *engine.Stage {
	flows := m.generate.Output(schema.Flows)
	s := &engine.Stage{
		Name: "route", Place: m.base(), Unit: "flows", Command: m.baseCommand("route"),
		Reads:       []engine.Output{flows},
		Writes:      []schema.Table{schema.Hops, schema.LinkLoads},
		BytesPerRow: 250,
		Cut:         m.byChunk,
		Check: func(r engine.Records) error {
			routed, err := RouteStats(r)
			if err == nil && routed.Unreachable > 0 && !m.Spec.AllowUnreachable {
				err = fmt.Errorf("%d flows have no path, among them one %w (--allow-unreachable counts them instead)",
					routed.Unreachable, routed.UnreachableExamples[0])
			}
			return err
		},
	}
	s.Open = always(func(ctx context.Context, t *engine.Attempt) error {
		in := t.ReadChunk(flows, stages.RouteColumns())
		stats, err := stages.Route(ctx, m.Router, &m.Spec.Params, in, int32(t.N), t.Lo, t.Sink(schema.Hops),
			t.Sink(schema.LinkLoads), stages.RouteOptions{AllowUnreachable: m.Spec.AllowUnreachable})
		t.SetStats(stats)
		t.Add(t.Cost)
		return err
	})
	return s
}

// RouteStats adds up the statistics of stage route.
func RouteStats(r engine.Records) (all stages.RouteStats, err error) {
	tasks, err := engine.Stats[stages.RouteStats](r)
	for _, s := range tasks {
		all.Add(s)
	}
	return all, err
}
