package pipeline

import (
	"context"
	"slices"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// minImputeTasks is the least number of tasks of stage impute. Each reads the rows of all representatives of its links:
// more tasks would read the same rows again.
const minImputeTasks = 2

// imputeStage gives the flows of links that were not simulated the observations of donors on the links that stand for
// them, in pass n. Where such a link has settled by the pass before (nil for the first), what was imputed then stands.
func (m *method) imputeStage(n int, simulate, before *engine.Stage) *engine.Stage {
	hops, observed := m.route.Output(schema.Hops), simulate.Output(schema.HopObservations)
	v, settled := m.variant.pass(n), m.settled(before)
	s := &engine.Stage{
		Name: "impute", Pass: n, Place: v.place(m.ID()), Unit: "packet-hops", Command: m.command("impute", v),
		Reads:       m.withCluster(append(append(m.loadTables(), hops, observed), settled.reads...)...),
		Writes:      []schema.Table{schema.ImputedObservations},
		BytesPerRow: 250,
		Cut: func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
			loads, err := m.readLoads(in)
			if err != nil {
				return nil, err
			}
			of, err := m.representatives(in)
			return m.cutLinks(loads, func(id int32) bool { return of[id] >= 0 && of[id] != id }, minImputeTasks), err
		},
	}
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		loads, err := m.readLoads(in)
		if err != nil {
			return nil, err
		}
		of, err := m.representatives(in)
		if err != nil {
			return nil, err
		}
		links, err := settled.links(in)
		return func() (engine.Worker, error) {
			imputer := stages.NewImputer(m.Network, m.Spec.Params, loads, of)
			imputer.Settle(links)
			return func(ctx context.Context, t *engine.Attempt) error {
				donors, files := donorFiles(imputer, of, t.Task, in.Records(simulate))
				defer t.Add(t.Cost)
				return imputer.Impute(ctx, int32(t.Lo), int32(t.Hi),
					t.Read(hops, stages.ImputeColumns(), t.Range("link_id")),
					t.Read(hops, stages.ImputeColumns(), donors),
					t.ReadFiles(observed, files, stages.ObservationColumns(), nil),
					t.Sink(schema.ImputedObservations))
			}, nil
		}, err
	}
	return s
}

// donorFiles are the range of the links that stand for those of a task, and the files with their observations.
func donorFiles(imputer *stages.Imputer, of []int32, t engine.Task,
	simulated engine.Records) (*lake.Range, []lake.DataFile) {
	all := simulated.Files(schema.HopObservations)
	wanted := make([]bool, len(all))
	first, end := int64(len(of)), int64(0)
	for id := int32(t.Lo); id < int32(t.Hi); id++ {
		if !imputer.IsImputed(id) {
			continue
		}
		first, end = min(first, int64(of[id])), max(end, int64(of[id])+1)
		n, _ := slices.BinarySearchFunc(simulated.Tasks, int64(of[id]), func(t engine.Task, id int64) int {
			if t.Hi <= id {
				return -1
			}
			return 1
		})
		wanted[n] = true
	}
	var files []lake.DataFile
	for n, f := range all {
		if wanted[n] {
			files = append(files, f)
		}
	}
	return linkRange(min(first, end), end), files
}
