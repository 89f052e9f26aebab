package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/stages/ingest"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// chunkRows is how many flows stand in file n of table flows, and so how many one task of route or
// sample works on: few at first, so that small workloads have several tasks, and more the longer the
// workload turns out to be, so that a range of links is worth reading from every file. It is part of
// the lake's layout, not a setting: tasks of different runs must meet.
func chunkRows(n int) int64 {
	const first, most = 1 << 16, 1 << 20
	return min(most, int64(first)<<min(n/16, 4))
}

// GenerateReport is what is known of a workload once its flows stand in the lake.
type GenerateReport struct {
	Flows, Rejects            int64
	Merged                    int64 // rows of a trace that went into flows with others
	SetAside                  int64 // rejects that say themselves that they are no flows
	SyntheticStarts           int64 // flows whose start was not measured
	RejectReasons             []ingest.RejectCount
	FirstStartNS, LastStartNS int64
	ExpectedMaxLoad           float64 // of the most loaded link, from the matrix; 0 for traces
	ExpectedMaxLink           int32
}

// Generate puts the topology and the flows of the scenario into the lake: generated from traffic
// matrices, or read from a flow file. It is one task: the flows are one stream in start order.
func (r *Run) Generate(ctx context.Context) error {
	if r.source == nil && r.from == nil { // read from the lake, which has to hold it
		_, err := r.flowParts()
		return err
	}
	s := r.generateStage()
	err := r.perform(ctx, s, []task{{}}, "flows", func() (work, error) {
		return func(ctx context.Context, _ int, _ task) ([]part, int64, any, error) {
			parts, report, err := r.generate(ctx)
			return parts, 0, report, err
		}, nil
	})
	if err != nil && !IsInterrupt(err) {
		return errors.Join(err, r.forget())
	}
	if err != nil {
		return err
	}
	g, err := r.generated()
	if err != nil {
		return err
	}
	// What a former run accepted need not be accepted now.
	if r.from != nil {
		return nil
	}
	return ingest.CheckRejects(r.source.FlowFile(), g.Flows+g.Merged+g.Rejects, g.Rejects, g.SetAside, r.spec.MaxRejects, g.RejectReasons)
}

// generated is what is known of the run's workload.
func (r *Run) generated() (g GenerateReport, err error) {
	_, records, err := r.generateStage().complete(r.lake)
	if err != nil {
		return g, err
	}
	return g, json.Unmarshal(records[0].Stats, &g)
}

// forget takes away what Begin and a failed Generate have left of a scenario that never was.
func (r *Run) forget() error {
	errs := os.RemoveAll(r.lake.statePath(r.base(), "spec.json"))
	errs = errors.Join(errs, os.RemoveAll(r.generateStage().path(r.lake, "")))
	for _, t := range r.generateStage().tables {
		errs = errors.Join(errs, r.lake.removeTable(t, r.base()))
	}
	return errs
}

func (r *Run) generate(ctx context.Context) ([]part, *GenerateReport, error) {
	at := r.base()
	if err := r.lake.removeTable(schema.Flows, at); err != nil { // what a killed run left may have more parts
		return nil, nil, err
	}
	nodes, links := r.net.NodesRecord(), r.net.LinksRecord()
	defer nodes.Release()
	defer links.Release()
	var parts []part
	for _, t := range []struct {
		table schema.Table
		rec   arrow.Record
	}{{schema.Nodes, nodes}, {schema.Links, links}} {
		p, err := r.lake.writePart(t.table, at.file(t.table, 0), t.rec)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, p)
	}
	chunks := &chunkWriter{lake: r.lake, progress: r.progress, file: func(n int) string { return at.file(schema.Flows, n) }}
	defer chunks.abandon()
	var report *GenerateReport
	var rejects []part
	var shared []part
	var err error
	if r.from != nil {
		report, shared, err = r.deriveFlows(ctx, chunks)
	} else if w := r.source.workload.ingested; w != nil {
		report, err = r.takeWorkload(ctx, w, chunks)
	} else if file := r.source.FlowFile(); file != "" {
		report, rejects, err = r.ingest(ctx, file, chunks)
	} else {
		report, err = r.generateFlows(ctx, chunks)
	}
	if err != nil {
		return nil, nil, err
	}
	flows, err := chunks.finish()
	if err != nil {
		return nil, nil, err
	}
	if report.Flows == 0 {
		return nil, nil, errors.New("the workload has no flow that can be simulated")
	}
	parts = append(append(append(parts, flows...), rejects...), shared...)
	rec := r.scenarioRecord(report)
	defer rec.Release()
	p, err := r.lake.writePart(schema.Scenarios, at.file(schema.Scenarios, 0), rec)
	return append(parts, p), report, err
}

func (r *Run) generateFlows(ctx context.Context, out schema.Sink) (*GenerateReport, error) {
	// The load is that of the network before anything fails: a failure does not change what hosts send.
	net, err := r.source.intact()
	if err != nil {
		return nil, err
	}
	router, err := topology.NewRouter(net, r.spec.Seed)
	if err != nil {
		return nil, err
	}
	w, err := r.source.Workload(net)
	if err != nil {
		return nil, err
	}
	stats, err := workload.Generate(ctx, net, router, w, r.spec.Seed, out)
	if err != nil {
		return nil, err
	}
	return &GenerateReport{
		Flows: stats.Flows, FirstStartNS: stats.FirstStartNS, LastStartNS: stats.LastStartNS,
		ExpectedMaxLoad: stats.Plan.MaxLoad, ExpectedMaxLink: stats.Plan.MaxLink,
	}, nil
}

// ingest reads a flow file by way of DuckDB, which checks, sorts and, where memory is short,
// spills; what it leaves is written to the lake like generated flows.
func (r *Run) ingest(ctx context.Context, file string, out *chunkWriter) (*GenerateReport, []part, error) {
	stats, err := ingest.File(ctx, r.net, file, ingest.Options{
		TmpDir: r.lake.tmp, Seed: r.spec.Seed, MemoryBytes: r.memory, Threads: r.workers, MaxRejects: r.spec.MaxRejects,
	})
	if err != nil {
		return nil, nil, err
	}
	if err := copyBatches(openTable(schema.Flows, []string{stats.FlowsFile}, nil, nil), out); err != nil {
		return nil, nil, err
	}
	var rejects []part
	if stats.Rejects > 0 {
		w, err := r.lake.create(schema.Rejects, r.base().file(schema.Rejects, 0))
		if err != nil {
			return nil, nil, err
		}
		defer w.abandon()
		if err := copyBatches(openTable(schema.Rejects, []string{stats.RejectsFile}, nil, nil), w); err != nil {
			return nil, nil, err
		}
		p, err := w.commit()
		if err != nil {
			return nil, nil, err
		}
		rejects = append(rejects, p)
	}
	return &GenerateReport{
		Flows: stats.Flows, Merged: stats.Merged, Rejects: stats.Rejects, SetAside: stats.SetAside, SyntheticStarts: stats.SyntheticStarts,
		RejectReasons: stats.Reasons, FirstStartNS: stats.FirstStartNS, LastStartNS: stats.LastStartNS,
	}, rejects, nil
}

func copyBatches(in schema.Batches, out schema.Sink) error {
	defer closeQuietly(in)
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = out.Write(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

// chunkWriter writes table flows, chunkRows(n) to file n.
type chunkWriter struct {
	lake     *Lake
	progress Progress
	file     func(n int) string // the lake-relative path of the n-th
	open     *partWriter
	rows     int64 // in the open file
	parts    []part
}

// Write appends a batch, across files where it must.
func (c *chunkWriter) Write(rec arrow.Record) error {
	for at := int64(0); at < rec.NumRows(); {
		if c.open == nil {
			w, err := c.lake.create(schema.Flows, c.file(len(c.parts)))
			if err != nil {
				return err
			}
			c.open, c.rows = w, 0
		}
		limit := chunkRows(len(c.parts))
		take := min(rec.NumRows()-at, limit-c.rows)
		slice := rec.NewSlice(at, at+take)
		err := c.open.Write(slice)
		slice.Release()
		if err != nil {
			return err
		}
		at += take
		c.rows += take
		c.progress.add(take)
		if c.rows == limit {
			if err := c.closeFile(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *chunkWriter) closeFile() error {
	p, err := c.open.commit()
	if err != nil {
		return err
	}
	c.parts, c.open = append(c.parts, p), nil
	return nil
}

// finish commits the last file and answers all of them.
func (c *chunkWriter) finish() ([]part, error) {
	if c.open != nil {
		if err := c.closeFile(); err != nil {
			return nil, err
		}
	}
	return c.parts, nil
}

func (c *chunkWriter) abandon() {
	if c.open != nil {
		c.open.abandon()
	}
}

// scenarioRecord is the scenario's row of table scenarios.
func (r *Run) scenarioRecord(g *GenerateReport) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Scenarios.Arrow())
	defer b.Release()
	b.Field(0).(*array.StringBuilder).Append(r.spec.ScenarioID)
	if r.from != nil {
		b.Field(1).(*array.StringBuilder).Append(r.from.base.ScenarioID)
	} else {
		b.Field(1).AppendNull()
	}
	b.Field(2).(*array.StringBuilder).Append(r.spec.Name)
	b.Field(3).(*array.Int64Builder).Append(int64(r.spec.Seed))
	b.Field(4).(*array.StringBuilder).Append(string(r.spec.Canonical))
	b.Field(5).(*array.Int64Builder).Append(g.Flows)
	b.Field(6).(*array.Int64Builder).Append(g.Rejects)
	b.Field(7).(*array.Int64Builder).Append(g.FirstStartNS)
	b.Field(8).(*array.Int64Builder).Append(g.LastStartNS)
	if r.spec.MaxLoad > 0 {
		b.Field(9).(*array.Float64Builder).Append(r.spec.MaxLoad)
	} else {
		b.Field(9).AppendNull()
	}
	return b.NewRecord()
}

// readNetwork rebuilds a scenario's topology from the lake's tables nodes and links.
func (l *Lake) readNetwork(scenario string) (*topology.Network, error) {
	at := place{scenario: scenario}
	g := stage{"generate", at, nil}
	_, records, err := g.complete(l)
	if err != nil {
		return nil, err
	}
	nodes := l.read(schema.Nodes, partsOf(records, schema.Nodes), nil, nil)
	defer closeQuietly(nodes)
	links := l.read(schema.Links, partsOf(records, schema.Links), nil, nil)
	defer closeQuietly(links)
	n, err := topology.FromTables(nodes, links)
	if err != nil {
		return nil, fmt.Errorf("topology of scenario %s: %w", scenario, err)
	}
	return n, nil
}
