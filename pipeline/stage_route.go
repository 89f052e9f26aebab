package pipeline

import (
	"context"
	"fmt"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

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
				err = fmt.Errorf("%d flows have no path, among them one %w (--allow-unreachable counts them instead)", routed.Unreachable, routed.UnreachableExamples[0])
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
