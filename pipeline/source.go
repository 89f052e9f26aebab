package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/scenario"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
	"parsimon/stages/workload/jobs"
)

// A source provides the flows of a scenario.
type source struct {
	ingested *ingested // set for the flows of an ingested workload
	// reads are the tables of other scenarios that contain the flows.
	reads []engine.Output
	// write writes the flows in start order, and the rejects if there are any. The returned Generated need
	// not have the FlowStats of the written flows.
	write func(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error)
	// check returns an error if the settings do not accept the flows; nil: no check.
	check func(g *Generated) error
}

// sourceOf returns the source of a scenario that was not made from another one.
func sourceOf(m *Model, o Settings, s *scenario.Scenario) *source {
	if w, from, to, ok := s.Ingested(); ok {
		return m.ingestedFlows(ingested{
			Model: m, workload: w, rules: s.Traffic(), fromNS: from, toNS: to, settings: o,
		})
	}
	if s.FlowFile() != "" {
		return m.flowFile(s, o)
	}
	return m.generatedFlows(s)
}

// generatedFlows returns the source of flows that are drawn from traffic matrices, or that belong to jobs.
func (m *Model) generatedFlows(s *scenario.Scenario) *source {
	return &source{write: func(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated,
		error) {
		// The load is relative to the network without failures, because a failure does not change what hosts
		// send.
		n, err := s.IntactNetwork()
		if err != nil {
			return nil, err
		}
		run, err := s.Jobs(n)
		if err != nil {
			return nil, err
		}
		stats := &Generated{}
		if len(run) == 0 {
			return stats, m.draw(ctx, s, n, stats, out)
		}
		slices.SortStableFunc(run, func(a, b jobs.Job) int { return cmp.Compare(a.StartNS, b.StartNS) })
		w := &jobWriter{jobs: run, flows: out, waits: t.Sink(schema.Dependencies), parts: t.Sink(schema.JobFlows),
			stats: stats, stopped: ctx.Err}
		err = m.draw(ctx, s, n, stats, w)
		for err == nil && len(w.jobs) > 0 {
			err = w.next()
		}
		return stats, err
	}}
}

// draw draws the flows of services.
func (m *Model) draw(ctx context.Context, s *scenario.Scenario, n *topology.Network, stats *Generated,
	out schema.Sink) error {
	w, err := s.Workload(n)
	if err != nil || len(w.Services) == 0 {
		return err
	}
	router, err := topology.NewRouter(ctx, n, m.Spec.Seed)
	if err != nil {
		return err
	}
	plan, err := workload.Generate(ctx, router, w, m.Spec.Seed, out)
	if err != nil {
		return err
	}
	stats.ExpectedMaxLoad = plan.MaxLoad
	stats.ExpectedMaxLink = plan.MaxLink
	return nil
}

// flowFile returns the source of the flows of a file. DuckDB reads, checks and sorts the file, and spills to
// disk if memory is short. The file must be the one that the scenario's id identifies. This is checked before
// the first row is read and after the last.
func (m *Model) flowFile(of *scenario.Scenario, o Settings) *source {
	path := of.FlowFile()
	s := &source{check: func(g *Generated) error { // the limit may have changed since
		return ingest.CheckRejects(path, ingest.Tally{
			Rows: g.Flows + g.Merged + g.Rejects, Rejects: g.Rejects, SetAside: g.SetAside,
			Reasons: g.RejectReasons,
		}, m.Spec.MaxRejects)
	}}
	s.write = func(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
		if err := of.CheckTouched(path); err != nil { // this process may have waited for a lock
			return nil, err
		}
		stats, err := ingest.File(ctx, m.Network, path, ingest.Options{
			TmpDir: t.Session().TmpPath(), Seed: m.Spec.Seed, MemoryBytes: o.MemoryBytes, Threads: o.Workers,
			MaxRejects: m.Spec.MaxRejects, Files: ingest.Files{Open: parquet.OpenFile, Create: parquet.CreateFile},
		}, ingest.Tables{Flows: out})
		// This also explains an error of reading the file.
		changed := of.CheckUnchanged(path)
		if changed != nil {
			return nil, changed
		}
		if err != nil {
			return nil, err
		}
		if stats.Dependencies > 0 {
			in := parquet.OpenFile(schema.Dependencies, stats.DependenciesFile)
			err = copyBatches(ctx, in, t.Sink(schema.Dependencies))
		}
		if err == nil && stats.Rejects > 0 {
			err = copyBatches(ctx, parquet.OpenFile(schema.Rejects, stats.RejectsFile), t.Sink(schema.Rejects))
		}
		return &Generated{
			Merged: stats.Merged, Rejects: stats.Rejects, SetAside: stats.SetAside,
			Dependencies: stats.Dependencies, ComputeSteps: stats.ComputeSteps,
			GenerateStats: GenerateStats{RejectReasons: stats.Reasons, Notes: stats.Notes},
		}, err
	}
	return s
}

// copyBatches writes a stream to a sink and closes the stream.
func copyBatches(ctx context.Context, in schema.Batches, out schema.Sink) error {
	return columns.ForEach(in, func(rec arrow.Record) error { return cmp.Or(ctx.Err(), out.Write(rec)) })
}

// derivedFlows returns the source of the flows of a base scenario: its files if no flow changes, or the
// changed flows.
func (m *Model) derivedFlows(from lake.ScenarioID, changes workload.FlowChanges) *source {
	of := generated(m.Lake, from)
	s := &source{reads: []engine.Output{of.Output(schema.Flows), of.Output(schema.Rejects),
		of.Output(schema.Dependencies), of.Output(schema.JobFlows)}}
	s.write = func(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
		base, stats, err := completeGenerated(m.Lake, of)
		if err != nil {
			return nil, err
		}
		if err := m.share(t, base, schema.Rejects, schema.Dependencies, schema.JobFlows); err != nil {
			return nil, err
		}
		if len(changes.Scale)+len(changes.Move) == 0 {
			t.Add(stats.Flows)
			stats.ExpectedMaxLoad = 0 // of the network without the change
			return &stats, m.share(t, base, schema.Flows)
		}
		changes.Ranks = stats.Closed()
		open := func() schema.Batches { return m.Lake.Read(schema.Flows, base.Files(schema.Flows), nil) }
		stats.FlowStats = lake.FlowStats{}
		stats.ExpectedMaxLoad = 0 // they described the unchanged flows
		notes, err := workload.ChangeFlows(ctx, m.Network, changes, m.Spec.Seed, open, out)
		stats.Notes = slices.Concat(stats.Notes, notes)
		return &stats, err
	}
	return s
}

// share shares the base's files of the given tables with the scenario.
func (m *Model) share(t *engine.Attempt, base engine.Records, tables ...schema.Table) error {
	for _, table := range tables {
		for n, f := range base.Files(table) {
			shared, err := t.Session().Share(f, m.base().File(table, n))
			if err != nil {
				return err
			}
			t.Adopt(shared)
		}
	}
	return nil
}

// foundStarts returns the source of the flows of a base scenario as an open loop. They start at the times
// that the simulation of its whole network found. Compute steps have no hops and are omitted.
func (m *Model) foundStarts(from lake.ScenarioID) *source {
	of := newPlanner(&Model{Lake: m.Lake, Spec: Spec{ScenarioID: from}}, Variant{}, Settings{}, nil)
	s := &source{reads: []engine.Output{of.generate.Output(schema.Flows),
		of.exactStage().Output(schema.ExactFCTs)}}
	s.write = func(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
		var scans []string
		for _, of := range s.reads {
			r, err := engine.Complete(m.Lake, of.Stage, MethodVersion)
			if err != nil {
				return nil, err
			}
			scans = append(scans, ScanFiles(m.Lake, r.Files(of.Table)))
		}
		dir := t.Session().TmpPath()
		db, err := duckdb.Open(ctx,
			duckdb.Options{MemoryBytes: DefaultMemory / 4, SpillDir: filepath.Join(dir, "duckdb")})
		if err != nil {
			return nil, err
		}
		defer func() { _ = db.Close() }() // nothing was written
		file := filepath.Join(dir, "starts.parquet")
		_, err = db.ExecContext(ctx, fmt.Sprintf(`COPY (SELECT f.* REPLACE (x.start_ns AS start_ns) FROM %s f
			JOIN %s x ON f.flow_id = x.flow_id WHERE x.hops > 0 ORDER BY x.start_ns, x.flow_id) TO %s (FORMAT parquet)`,
			scans[0], scans[1], duckdb.Quote(file)))
		if err != nil {
			return nil, duckdb.FirstLine(err)
		}
		err = copyBatches(ctx, parquet.OpenForeign(schema.Flows, file), out)
		return &Generated{}, errors.Join(err, os.Remove(file))
	}
	return s
}

// A jobWriter writes flows of services and of jobs in start order. Among flows that start at the same time,
// flows of services come first, followed by jobs in the order of the scenario.
type jobWriter struct {
	jobs  []jobs.Job // not yet written, ordered by start
	flows schema.Sink
	waits schema.Sink // dependencies
	parts schema.Sink // job_flows
	rows  int64       // number of rows written
	stats *Generated

	stopped func() error
	job     []jobFlow
	after   []jobWait
}

// A jobFlow is a row of tables flows and job_flows.
type jobFlow struct {
	workload.Row
	FlowRow   int64  `col:"flow_row"`
	Job       string `col:"job"`
	Iteration int32  `col:"iteration"`
	Kind      string `col:"kind"`
}

type jobWait struct {
	FlowRow     int64 `col:"flow_row"`
	FlowID      int64 `col:"flow_id"`
	AfterRow    int64 `col:"after_row"`
	AfterFlowID int64 `col:"after_flow_id"`
	DelayNS     int64 `col:"delay_ns"`
}

var (
	jobAsFlow = columns.TableOf[jobFlow](schema.Flows)
	jobAsPart = columns.TableOf[jobFlow](schema.JobFlows)
	jobWaits  = columns.TableOf[jobWait](schema.Dependencies)
)

// Write writes flows of services, each after the jobs that start before it.
func (w *jobWriter) Write(rec arrow.Record) error {
	starts := columns.Int64s(rec, "start_ns")
	for at := 0; at < len(starts); {
		to := len(starts)
		if len(w.jobs) > 0 {
			to, _ = slices.BinarySearch(starts, w.jobs[0].StartNS+1)
		}
		if to > at {
			part := rec.NewSlice(int64(at), int64(to))
			err := w.flows.Write(part)
			part.Release()
			if err != nil {
				return err
			}
			w.rows += int64(to - at)
		}
		at = to
		if at < len(starts) {
			if err := w.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

// next writes the next job.
func (w *jobWriter) next() error {
	j := w.jobs[0]
	w.jobs = w.jobs[1:]
	row := w.rows
	id := int64(j.ID+1) << 40
	err := j.Generate(func(f *jobs.Flow) error {
		n := w.rows - row
		for _, a := range f.After {
			w.after = append(w.after, jobWait{w.rows, id + n, row + a, id + a, f.DelayNS})
		}
		w.job = append(w.job, jobFlow{
			workload.Row{ID: id + n, Src: f.Src, Dst: f.Dst, SizeBytes: f.Bytes, StartNS: j.StartNS,
				Labels: workload.Labels{Service: j.Name}, Connection: id + n}, w.rows, j.Name, f.Iteration, f.Kind})
		w.rows++
		w.stats.Dependencies += int64(len(f.After))
		if f.Bytes == 0 {
			w.stats.ComputeSteps++
		}
		if len(w.job) < columns.BatchRows {
			return nil
		}
		return w.flush()
	})
	return errors.Join(err, w.flush())
}

func (w *jobWriter) flush() error {
	err := errors.Join(w.stopped(), jobAsFlow.Write(w.flows, w.job), jobAsPart.Write(w.parts, w.job),
		jobWaits.Write(w.waits, w.after))
	w.job = w.job[:0]
	w.after = w.after[:0]
	return err
}
