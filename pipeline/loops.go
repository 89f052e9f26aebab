package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unique"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
	"parsimon/stages/workload"
)

// dependencies sets what the simulation of a workload whose flows wait for others needs.
func (m *method) dependencies(t *engine.Attempt, o *stages.ExactOptions) error {
	r, err := engine.Complete(m.Lake, m.generate, methodVersion)
	if err != nil {
		return err
	}
	g, err := generateStats(r)
	if err != nil || !g.Closed() {
		return err
	}
	o.Flows = g.Flows
	o.Dependencies = func() schema.Batches {
		return t.Read(m.generate.Output(schema.Dependencies), []string{"flow_row", "after_row", "delay_ns"}, nil)
	}
	return nil
}

// setClosedSpan sets the time of a workload whose flows wait for others: what links are offered depends on what the
// network delivers, and flows start until the last one ends.
func setClosedSpan(in *engine.Inputs, generate, sample *engine.Stage, loads *stages.Loads) error {
	g, err := generateStats(in.Records(generate))
	if err != nil || !g.Closed() {
		return err
	}
	chunks, err := engine.Stats[stages.SampleStats](in.Records(sample))
	for _, c := range chunks {
		loads.LastStartNS = max(loads.LastStartNS, c.LastEndNS)
	}
	return err
}

// foundStarts are the flows of a base scenario as an open loop: they start when the simulation of its whole network
// found that they do. Compute steps are no flows then. All flows are held in memory, some 120 bytes each.
type foundStarts struct {
	*Model
	base, exact *engine.Stage // stages generate and exact of the base
}

func newFoundStarts(m *Model, base lake.ScenarioID) *foundStarts {
	of := newMethod(&Model{Lake: m.Lake, Spec: Spec{ScenarioID: base}}, Variant{}, Settings{}, nil)
	return &foundStarts{m, of.generate, of.exactStage(Exact{})}
}

func (s *foundStarts) reads() []engine.Output {
	return []engine.Output{s.base.Output(schema.Flows), s.exact.Output(schema.ExactFCTs)}
}

func (s *foundStarts) flows(ctx context.Context, _ *engine.Attempt, out *lake.FlowWriter) (*GenerateStats, error) {
	all, err := s.read(ctx)
	if err == nil {
		err = s.start(all)
	}
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f workload.Row) bool { return stages.ComputeStep(f.Src, f.Dst, f.SizeBytes) })
	slices.SortFunc(all, byStart)
	stats := &GenerateStats{FirstStartNS: -1}
	if len(all) > 0 {
		stats.add(int64(len(all)), all[0].StartNS, all[len(all)-1].StartNS)
	}
	return stats, workload.RowTable.Write(out, all)
}

// read reads the base's flows in their order.
func (s *foundStarts) read(ctx context.Context) (all []workload.Row, err error) {
	r, err := engine.Complete(s.Lake, s.base, methodVersion)
	if err != nil {
		return nil, err
	}
	in := s.Lake.Read(schema.Flows, r.Files(schema.Flows), nil, nil)
	err = columns.Each(in, func(v *workload.RowView) error {
		for i := range v.ID {
			row := v.Row(i)
			row.Service, row.VNet = unique.Make(row.Service).Value(), unique.Make(row.VNet).Value() // of their own memory
			all = append(all, row)
		}
		return ctx.Err()
	})
	return all, errors.Join(err, in.Close())
}

// start sets the starts of flows to those that the simulation found.
func (s *foundStarts) start(all []workload.Row) error {
	r, err := engine.Complete(s.Lake, s.exact, methodVersion)
	if err != nil {
		return err
	}
	type view struct {
		Row   []int64 `col:"flow_row"`
		Start []int64 `col:"start_ns"`
	}
	in := s.Lake.Read(schema.ExactFCTs, r.Files(schema.ExactFCTs), columns.Names[view](), nil)
	return columns.Each(in, func(v *view) error {
		for i, row := range v.Row {
			if row < 0 || row >= int64(len(all)) {
				return fmt.Errorf("exact_fcts: flow row %d of %d", row, len(all))
			}
			all[row].StartNS = v.Start[i]
		}
		return nil
	})
}
