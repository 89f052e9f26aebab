package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest"
	"parsimon/stages/route"
	"parsimon/stages/topology"
	"parsimon/stages/traffic"
)

// Generated describes a workload whose flows are in the lake. It is the scenario's row of table scenarios.
type Generated struct {
	lake.FlowStats
	Rejects      int64
	SetAside     int64 // rejected rows that the trace itself does not count as flows
	Merged       int64 // rows of a trace that were merged into other flows
	Dependencies int64
	ComputeSteps int64
	GenerateStats
}

// GenerateStats are the statistics of stage generate that are shown to users.
type GenerateStats struct {
	RejectReasons []ingest.RejectCount `json:"reject_reasons,omitempty"`
	Notes         []string             `json:"notes,omitempty"` // remarks about the flow file
	// Traffic describes how connections of a flow log were divided into flows.
	Traffic []traffic.Group `json:"traffic,omitempty"`
	// Of the most loaded link, from the traffic matrices; 0 for traces.
	ExpectedMaxLoad float64 `json:"expected_max_load"`
	ExpectedMaxLink int32   `json:"expected_max_link"`
}

// columns maps the names of columns of table scenarios to their values.
func (g *Generated) columns() map[string]*int64 {
	return map[string]*int64{
		"flows": &g.Flows, "rejects": &g.Rejects, "set_aside": &g.SetAside, "merged": &g.Merged,
		"synthetic_starts": &g.SyntheticStarts, "dependencies": &g.Dependencies, "compute_steps": &g.ComputeSteps,
		"first_start_ns": &g.FirstStartNS, "last_start_ns": &g.LastStartNS,
	}
}

// completeGenerated reads the results of stage generate, which must be complete.
func completeGenerated(l *lake.Lake, generate *engine.Stage) (r engine.Records, g Generated, err error) {
	if r, err = engine.Complete(l, generate, MethodVersion); err == nil {
		g, err = readGenerated(l, r)
	}
	return r, g, err
}

// readGenerated reads the counts of a complete stage generate.
func readGenerated(l *lake.Lake, r engine.Records) (g Generated, err error) {
	rows := int64(0)
	err = columns.ForEach(l.Read(schema.Scenarios, r.Files(schema.Scenarios), nil),
		func(rec arrow.Record) error {
			rows += rec.NumRows()
			for name, value := range g.columns() {
				*value = columns.Int64s(rec, name)[0]
			}
			return nil
		})
	if err == nil && rows != 1 {
		err = fmt.Errorf("table scenarios has %d rows for a scenario, want 1", rows)
	}
	if err != nil {
		return g, err
	}
	stats, err := engine.Stats[GenerateStats](r)
	if err == nil && len(stats) > 0 {
		g.GenerateStats = stats[0]
	}
	return g, err
}

// generateStage writes the topology and the flows of the scenario. It is a single task, because the flows are
// one stream in start order.
func (p *planner) generateStage() *engine.Stage {
	s := &engine.Stage{
		Name: "generate", Place: p.base(), Unit: "flows", Command: "parsimon run --lake " +
			p.Lake.Path() + " SCENARIO",
		Writes: []schema.Table{schema.Scenarios, schema.Nodes, schema.Links, schema.Flows, schema.Dependencies,
			schema.JobFlows, schema.Rejects},
		Cut: oneTask,
	}
	if p.source != nil {
		s.Reads = p.source.reads
	}
	s.Open = func(*engine.Inputs) (engine.Worker, error) {
		if p.source == nil {
			return nil, &engine.IncompleteError{Stage: s}
		}
		return p.writeScenario, nil
	}
	s.Check = func(r engine.Records) error {
		g, err := readGenerated(p.Lake, r)
		if err == nil {
			err = p.refuseFlows(&g)
		}
		if err == nil && p.source != nil && p.source.check != nil {
			err = p.source.check(&g)
		}
		return err
	}
	return s
}

// writeScenario writes the nodes and links, the flows of the source, and the scenario's row.
func (p *planner) writeScenario(ctx context.Context, t *engine.Attempt) error {
	nodes := p.Network.NodesRecord()
	links := p.Network.LinksRecord()
	defer nodes.Release()
	defer links.Release()
	if err := errors.Join(t.Sink(schema.Nodes).Write(nodes), t.Sink(schema.Links).Write(links)); err != nil {
		return err
	}
	chunks := lake.NewFlowWriter(t.Session(), p.base(), t.Add)
	defer chunks.Abandon()
	g, err := p.source.write(ctx, t, chunks)
	if err == nil {
		if chunks.Chunks != nil { // otherwise the files are shared
			g.FlowStats = chunks.Stats()
		}
		err = p.refuseFlows(g)
	}
	if err != nil {
		return err
	}
	flows, err := chunks.Finish()
	if err != nil {
		return err
	}
	t.Adopt(flows...)
	if g.Flows == 0 {
		return errors.New("the workload has no flow that can be simulated")
	}
	row := p.scenarioRecord(g)
	defer row.Release()
	t.SetStats(g.GenerateStats)
	return t.Sink(schema.Scenarios).Write(row)
}

// scenarioRecord returns the scenario's row of table scenarios.
func (p *planner) scenarioRecord(g *Generated) arrow.Record {
	row := columns.Row{
		"scenario_id": string(p.ID()), "name": p.Spec.Name, "seed": int64(p.Spec.Seed),
		"spec": string(p.Spec.Canonical),
	}
	for name, value := range g.columns() {
		row[name] = *value
	}
	if p.Base != "" {
		row["base_id"] = string(p.Base)
	}
	if p.Spec.MaxLoad > 0 {
		row["max_load"] = p.Spec.MaxLoad
	}
	return columns.RecordOf(schema.Scenarios, []columns.Row{row}, func(r columns.Row) columns.Row { return r })
}

// checkReachable returns an error if flows have no path, unless the scenario allows this.
func (p *planner) checkReachable(r engine.Records) error {
	if p.Spec.AllowUnreachable {
		return nil
	}
	generate, err := engine.Complete(p.Lake, p.generate, MethodVersion)
	if err != nil {
		return err
	}
	n, first, err := p.unreachable(generate, r)
	if err == nil && n > 0 {
		err = fmt.Errorf("%d flows have no path, among them one %w (--allow-unreachable counts them instead)", n,
			first)
	}
	return err
}

// unreachable returns the number of flows without a path, and the first of them.
func (m *Model) unreachable(generate, routed engine.Records) (n int64, first *topology.UnreachableError,
	err error) {
	g, err := readGenerated(m.Lake, generate)
	if err != nil {
		return 0, nil, err
	}
	loads, err := route.ReadLoads(m.Network, m.Lake.Read(schema.LinkLoads, routed.Files(schema.LinkLoads), nil))
	if err != nil {
		return 0, nil, err
	}
	withPath, _ := loads.Totals(m.Network)
	n = g.Flows - g.ComputeSteps - withPath
	if n <= 0 {
		return 0, nil, nil
	}
	var path []int32
	in := m.Lake.Read(schema.Flows, generate.Files(schema.Flows), nil)
	err = columns.Each(in, func(f *route.Flow) (err error) {
		if !route.ComputeStep(f.Src, f.Dst, f.SizeBytes) {
			path, err = m.Router.Path(f.Connection, f.Src, f.Dst, path[:0])
		}
		return err
	})
	if errors.As(err, &first) {
		return n, first, nil
	}
	return n, nil, cmp.Or(err, fmt.Errorf("link_loads lacks %d flows, all of which have a path", n))
}
