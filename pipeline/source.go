package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/workloads"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// A source provides the flows of a scenario.
type source interface {
	// reads are the tables of other scenarios that the flows come from.
	reads() []engine.Output
	// flows writes the flows in start order and, if there are any, the rejects.
	flows(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error)
}

// sourceOf is the source of a scenario that was not made from another.
func sourceOf(m *Model, o Settings, s *scenario.Scenario) source {
	if w, from, to, ok := s.Ingested(); ok {
		return &ingestedFlows{m, w, from, to}
	}
	if s.FlowFile() != "" {
		return &flowFile{m, o, s.FlowFile()}
	}
	return &generatedFlows{m, s}
}

// generatedFlows are drawn from traffic matrices, or those of jobs.
type generatedFlows struct {
	*Model
	scenario *scenario.Scenario
}

func (*generatedFlows) reads() []engine.Output { return nil }
func (g *generatedFlows) flows(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
	// The load is that of the network before anything fails: a failure does not change what hosts send.
	n, err := g.scenario.IntactNetwork()
	if err != nil {
		return nil, err
	}
	run, err := g.scenario.Jobs(n)
	if err != nil {
		return nil, err
	}
	stats := &Generated{FirstStartNS: -1}
	if len(run) == 0 {
		return stats, g.draw(ctx, n, stats, out)
	}
	w := newJobWriter(run, out, t.Sink(schema.Dependencies), t.Sink(schema.JobFlows), stats)
	w.stopped = ctx.Err
	if err := g.draw(ctx, n, stats, w); err != nil {
		return nil, err
	}
	return stats, w.finish()
}

// draw draws the flows of services.
func (g *generatedFlows) draw(ctx context.Context, n *topology.Network, stats *Generated, out schema.Sink) error {
	w, err := g.scenario.Workload(n)
	if err != nil || len(w.Services) == 0 {
		return err
	}
	router, err := topology.NewRouter(n, g.Spec.Seed)
	if err != nil {
		return err
	}
	drawn, err := workload.Generate(ctx, n, router, w, g.Spec.Seed, out)
	if err != nil {
		return err
	}
	stats.add(drawn.Flows, drawn.FirstStartNS, drawn.LastStartNS)
	stats.ExpectedMaxLoad, stats.ExpectedMaxLink = drawn.Plan.MaxLoad, drawn.Plan.MaxLink
	return nil
}

// A flowFile is read by way of DuckDB, which checks, sorts and, where memory is short, spills.
type flowFile struct {
	*Model
	Settings
	path string
}

func (*flowFile) reads() []engine.Output { return nil }

// accept reports flows that were accepted with another limit of rejects.
func (f *flowFile) accept(g *Generated) error {
	rows := g.Flows + g.Merged + g.Rejects
	return ingest.CheckRejects(f.path, rows, g.Rejects, g.SetAside, f.Spec.MaxRejects, g.RejectReasons)
}

func (f *flowFile) flows(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
	stats, err := ingest.File(ctx, f.Network, f.path, ingest.Options{
		TmpDir: t.Session().TmpPath(), Seed: f.Spec.Seed, MemoryBytes: f.MemoryBytes, Threads: f.Workers,
		MaxRejects: f.Spec.MaxRejects,
	})
	if err != nil {
		return nil, err
	}
	err = copyBatches(ctx, parquet.OpenFile(schema.Flows, stats.FlowsFile), out)
	if err == nil && stats.Dependencies > 0 {
		in := parquet.OpenFile(schema.Dependencies, stats.DependenciesFile)
		err = copyBatches(ctx, in, t.Sink(schema.Dependencies))
	}
	if err == nil && stats.Rejects > 0 {
		err = copyBatches(ctx, parquet.OpenFile(schema.Rejects, stats.RejectsFile), t.Sink(schema.Rejects))
	}
	if err != nil {
		return nil, err
	}
	return &Generated{
		Flows: stats.Flows, Merged: stats.Merged, Rejects: stats.Rejects, SetAside: stats.SetAside,
		SyntheticStarts: stats.SyntheticStarts, Dependencies: stats.Dependencies, ComputeSteps: stats.ComputeSteps,
		FirstStartNS: stats.FirstStartNS, LastStartNS: stats.LastStartNS,
		GenerateStats: GenerateStats{RejectReasons: stats.Reasons, Notes: stats.Notes},
	}, nil
}

// copyBatches writes a stream to a sink and closes the stream.
func copyBatches(ctx context.Context, in schema.Batches, out schema.Sink) error {
	return columns.Consume(in, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return out.Write(rec)
	})
}

// ingestedFlows are the flows of an ingested workload that start from fromNS until toNS, excluded.
type ingestedFlows struct {
	*Model
	workload     scenario.Ingested
	fromNS, toNS int64
}

func (*ingestedFlows) reads() []engine.Output { return nil }
func (w *ingestedFlows) flows(ctx context.Context, _ *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
	files, chunks, err := workloads.FlowFiles(w.Lake, lake.WorkloadID(w.workload.ID))
	if err != nil {
		return nil, err
	}
	g := &Generated{FirstStartNS: -1}
	shared, err := w.share(files, chunks, g, out)
	if err != nil {
		return nil, err
	}
	rows := w.Lake.Read(schema.Flows, files[shared:], nil, &lake.Range{Column: "start_ns", Lo: w.fromNS, Hi: w.toNS})
	err = columns.Consume(rows, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		starts := columns.Int64s(rec, "start_ns")
		lo, _ := slices.BinarySearch(starts, w.fromNS)
		hi, _ := slices.BinarySearch(starts, w.toNS)
		if lo >= hi {
			return nil
		}
		part := rec.NewSlice(int64(lo), int64(hi))
		defer part.Release()
		g.count(part, starts[lo], starts[hi-1])
		return out.Write(part)
	})
	if err != nil {
		return nil, err
	}
	if g.Flows == 0 {
		return nil, fmt.Errorf("workload %s has no flow in the part that was asked for", w.workload.ID)
	}
	return g, ingest.CheckSpan("workload "+w.workload.ID, g.FirstStartNS, g.LastStartNS)
}

// share makes the first data files of the workload also those of the scenario, as far as all of their flows are in its
// time. It returns how many.
func (w *ingestedFlows) share(files []lake.DataFile, chunks []workloads.Chunk, g *Generated,
	out *lake.FlowWriter) (int, error) {
	for i, c := range chunks {
		if c.FirstStartNS < w.fromNS || c.LastStartNS >= w.toNS {
			return i, nil
		}
		if done, err := out.Share(files[i]); err != nil || !done {
			return i, err
		}
		if i == 0 {
			g.FirstStartNS = c.FirstStartNS
		}
		g.LastStartNS = c.LastStartNS
		g.Flows += files[i].Rows
		g.SyntheticStarts += c.SyntheticStarts
	}
	return len(chunks), nil
}

// count adds a batch of flows, whose first and last start are given.
func (g *Generated) count(flows arrow.Record, firstNS, lastNS int64) {
	synthetic := columns.Named(flows, "synthetic_start").(*array.Boolean)
	for i := range synthetic.Len() {
		if synthetic.Value(i) {
			g.SyntheticStarts++
		}
	}
	g.add(flows.NumRows(), firstNS, lastNS)
}

// countRow adds a flow.
func (g *Generated) countRow(f workload.Row) {
	if f.Synthetic {
		g.SyntheticStarts++
	}
	g.add(1, f.StartNS, f.StartNS)
}

// add adds a number of flows, whose first and last start are given.
func (g *Generated) add(flows, firstNS, lastNS int64) {
	if g.FirstStartNS < 0 || firstNS < g.FirstStartNS {
		g.FirstStartNS = firstNS
	}
	g.LastStartNS = max(g.LastStartNS, lastNS)
	g.Flows += flows
}

// derivedFlows are those of a base scenario: its files where no flow changes, or changed flows.
type derivedFlows struct {
	*Model
	base    *engine.Stage // stage generate of the base
	changes workload.FlowChanges
}

func (d *derivedFlows) reads() []engine.Output {
	return []engine.Output{d.base.Output(schema.Flows), d.base.Output(schema.Rejects),
		d.base.Output(schema.Dependencies), d.base.Output(schema.JobFlows)}
}

func (d *derivedFlows) flows(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
	base, err := engine.Complete(d.Lake, d.base, methodVersion)
	if err != nil {
		return nil, err
	}
	stats, err := readGenerated(d.Lake, base)
	if err != nil {
		return nil, err
	}
	if err := d.share(t, base, schema.Rejects); err != nil {
		return nil, err
	}
	if len(d.changes.Scale)+len(d.changes.Move) == 0 {
		err := errors.Join(d.share(t, base, schema.Flows), d.share(t, base, schema.Dependencies),
			d.share(t, base, schema.JobFlows))
		t.Add(stats.Flows)
		return &stats, err
	}
	open := func() schema.Batches { return d.Lake.Read(schema.Flows, base.Files(schema.Flows), nil, nil) }
	changed, err := workload.ChangeFlows(ctx, d.Network, d.changes, d.Spec.Seed, open, out)
	stats.Flows, stats.FirstStartNS, stats.LastStartNS = changed.Flows, changed.FirstStartNS, changed.LastStartNS
	stats.ExpectedMaxLoad = 0 // it was that of the unchanged flows
	return &stats, err
}

// share makes the base's files of a table also those of the scenario.
func (d *derivedFlows) share(t *engine.Attempt, base engine.Records, table schema.Table) error {
	for n, f := range base.Files(table) {
		shared, err := t.Session().Share(f, lake.Of(d.ID()).File(table, n))
		if err != nil {
			return err
		}
		t.Adopt(shared)
	}
	return nil
}
