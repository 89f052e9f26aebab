package pipeline

import (
	"context"
	"fmt"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// overlapsStage works out how far the two directions of each cable are busy at the same times, and what ACKs delay each
// flow by if it is alone; a range of links a task.
func (m *method) overlapsStage() *engine.Stage {
	hops, routed := m.route.Output(schema.Hops), m.route.Output(schema.LinkLoads)
	s := &engine.Stage{
		Name: "overlaps", Place: m.base(), Unit: "links", Command: m.baseCommand("overlaps"),
		Reads:       []engine.Output{hops, routed},
		Writes:      []schema.Table{schema.LinkOverlaps, schema.AckDelays},
		BytesPerRow: 150,
		Cut: func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
			loads, err := m.routedLoads(in)
			if err != nil {
				return nil, err
			}
			tasks := cutLinks(loads, everyLink, 0, minPartitions) // all variants share them, whatever their partitions
			var lo int64
			for n, t := range tasks { // both links of a cable belong together
				tasks[n] = rangeTask(loads, everyLink, lo, (t.Hi+1)&^1)
				lo = tasks[n].Hi
			}
			return tasks, nil
		},
	}
	var parts [][2]int64
	if m.Spec.Windows != nil {
		parts = m.Spec.Windows.Parts
	}
	s.Open = func(context.Context, *engine.Inputs) (engine.NewWorker, error) {
		if w := m.Spec.Windows; w != nil && len(parts) == 0 {
			return nil, fmt.Errorf("scenario %s of windows has no parts: ask for an estimate of %s again", m.ID(), w.Of)
		}
		return func() (engine.Worker, error) {
			overlaps := stages.NewOverlaps(m.Network, &m.Spec.Params, parts)
			return func(_ context.Context, t *engine.Attempt) error {
				rows := t.Read(hops, stages.OverlapColumns(), linkRange(t.Lo, t.Hi))
				defer func() { _ = rows.Close() }() // read to its end, or an error is reported
				t.Add(t.Hi - t.Lo)
				return overlaps.Write(int32(t.Lo), int32(t.Hi), rows, t.Sink(schema.LinkOverlaps), t.Sink(schema.AckDelays))
			}, nil
		}, nil
	}
	return s
}

// loadTables are the tables that readLoads reads.
func (m *method) loadTables() []engine.Output {
	tables := []engine.Output{m.route.Output(schema.LinkLoads)}
	if m.overlaps != nil {
		tables = append(tables, m.overlaps.Output(schema.LinkOverlaps))
	}
	return tables
}

// flowRoutes are the first stages of estimator flow: the paths of the flows, and when both directions of a cable send.
func (m *method) flowRoutes(generate *engine.Stage) engine.Plan {
	m.route = m.routeStage(generate)
	m.overlaps = m.overlapsStage()
	return engine.Plan{m.route, m.overlaps}
}
