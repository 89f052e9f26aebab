package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/workloads"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/stages/ingest"
	"parsimon/stages/traffic"
)

// An ingested source has the flows of a workload of the lake that start from fromNS up to, but not including,
// toNS.
type ingested struct {
	*Model
	workload     scenario.Ingested
	rules        traffic.Rules
	fromNS, toNS int64
	settings     Settings
	// forWindows is the division from which flows of windows are written. Its files are temporary files of the
	// session of the estimate.
	forWindows *division
}

// ingestedFlows returns the source of the flows of an ingested workload. Long connections of flow logs are
// divided into flows (package traffic).
func (m *Model) ingestedFlows(of ingested) *source {
	s := &source{ingested: &of}
	s.write = func(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (*Generated, error) {
		// Meanwhile, an ingest that adds to the workload keeps its old files.
		defer m.Lake.LockForReading().Close()
		files, state, err := workloads.FlowFiles(m.Lake, of.workload)
		if err != nil {
			return nil, err
		}
		stats := &Generated{}
		divided := &traffic.Divided{}
		if of.workload.Profiles {
			divided, err = of.writeDivided(ctx, t, dividedFiles{files, state}, out)
		}
		if err == nil && len(divided.Groups) == 0 {
			err = of.writeWhole(ctx, files, state.Merge.Chunks, out)
		}
		if err != nil {
			return nil, err
		}
		written := out.Stats()
		if written.Flows == 0 {
			return nil, fmt.Errorf("workload %s has no flow in the part that was asked for", of.workload.ID)
		}
		stats.Notes = state.Merge.Notes(written.FirstStartNS, written.LastStartNS)
		stats.Traffic = divided.Groups
		stats.Dependencies = divided.Waits
		stats.Notes = append(stats.Notes, traffic.Notes(divided.Groups)...)
		stats.Notes = append(stats.Notes, divided.Earlier.Notes(of.Network)...)
		if state.Setting.Records && !of.workload.Profiles {
			note := fmt.Sprintf("all bytes of a connection are sent at its start, because an older version ingested "+
				"workload %s: ingest its flow logs again, and long connections send their bytes when the log saw them",
				of.workload.ID)
			stats.Notes = append(stats.Notes, note)
		}
		return stats, ingest.CheckSpan("workload "+of.workload.ID, written.FirstStartNS, written.LastStartNS)
	}
	return s
}

// writeWhole writes flows as they are. The first data files of the workload are shared with the scenario as
// long as all of their flows are within the time.
func (in *ingested) writeWhole(
	ctx context.Context, files []lake.DataFile, chunks []workloads.Chunk, out *lake.FlowWriter,
) error {
	for _, c := range chunks {
		if c.FirstStartNS < in.fromNS || c.LastStartNS >= in.toNS {
			break
		}
		shared, err := out.Share(files[0], c.FlowStats)
		if err != nil {
			return err
		}
		if !shared {
			break
		}
		files = files[1:]
	}
	starts := &lake.Range{Column: "start_ns", Lo: in.fromNS, Hi: in.toNS}
	return copyBatches(ctx, in.Lake.Read(schema.Flows, files, starts), out)
}

// dividedFiles are the files of a workload whose connections are divided.
type dividedFiles struct {
	flows []lake.DataFile
	state *workloads.State
}

// writeDivided writes the flows of which some are parts of connections. If no connection is divided, it
// writes nothing.
func (in *ingested) writeDivided(
	ctx context.Context, t *engine.Attempt, of dividedFiles, out schema.Sink,
) (_ *traffic.Divided, err error) {
	d, err := in.divide(ctx, t.Session().TmpPath(), of)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Remove()) }()
	sinks := traffic.Sinks{Flows: out}
	if in.rules.Waits() {
		sinks.Waits = t.Sink(schema.Dependencies)
	}
	return d.Divided, d.write(ctx, d.input, in.Spec.Seed, sinks)
}

// A division has the files from which the flows of a workload are written. They can be written repeatedly,
// with other messages.
type division struct {
	*traffic.Divided
	input traffic.Input
}

// divide divides the connections of the workload. The files are in the directory.
func (in *ingested) divide(ctx context.Context, dir string, of dividedFiles) (_ *division, err error) {
	intervals, err := of.state.IntervalFiles(in.Lake)
	if err != nil {
		return nil, err
	}
	db, err := duckdb.Open(ctx, duckdb.Options{
		MemoryBytes: max(duckdb.MinMemoryBytes, in.settings.MemoryBytes/4), Threads: in.settings.Workers,
		SpillDir: filepath.Join(dir, "duckdb"),
	})
	if err != nil {
		return nil, err
	}
	d := &division{input: traffic.Input{
		Flows: ScanFiles(in.Lake, of.flows), Intervals: ScanFiles(in.Lake, intervals), Network: in.Network,
		Rules: in.rules, FromNS: in.fromNS, ToNS: in.toNS, Dir: dir,
	}}
	d.Divided, err = traffic.Divide(ctx, db, d.input)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, errors.Join(err, d.Remove())
	}
	return d, nil
}

// write writes the flows of an input that differs in Starts and Variation only.
func (d *division) write(ctx context.Context, in traffic.Input, seed uint64, out traffic.Sinks) error {
	if len(d.Groups) == 0 {
		return nil
	}
	whole := parquet.OpenForeign(schema.Flows, d.WholeFile)
	parts := parquet.OpenForeign(traffic.Parts, d.PartsFile)
	return d.Write(ctx, in, seed, traffic.Streams{Whole: whole, Parts: parts}, out)
}
