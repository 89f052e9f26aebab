package workloads

import (
	"context"
	"path/filepath"
	"slices"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest"
)

// merge makes the flows of the records of all sources, and the tables that go with them. Data files get numbers above
// those of the present state, which readers see until the new one is committed.
func (in *ingestion) merge(ctx context.Context, ingester *ingest.Ingester) error {
	var sources []ingest.MergeSource
	for _, s := range in.state.Sources {
		for _, f := range lake.FilesOf(s.Files, schema.Records) {
			s.RecordsFile = in.file(f)
			sources = append(sources, ingest.MergeSource{N: s.N, File: s.File, FileStats: s.FileStats})
		}
	}
	stats, err := ingester.Merge(ctx, sources)
	if err != nil {
		return err
	}
	in.report.Repeated = stats.Repeated
	m := Merged{MergeStats: stats, Next: in.state.Merge.Next, Version: mergeVersion}
	if stats.RejectsFile != "" {
		d, err := in.adopt(schema.Rejects, stats.RejectsFile, mergeRejects+m.Next)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, d)
	}
	chunks := lake.NewFlowWriter(in.session, in.place(), in.Progress.Add)
	defer chunks.Abandon()
	if err := columns.Consume(parquet.OpenFile(schema.Flows, stats.FlowsFile), chunks.Write); err != nil {
		return err
	}
	flows, err := chunks.Finish()
	if err != nil {
		return err
	}
	loads, err := in.routeChunks(ctx, &m, flows)
	if err != nil {
		return err
	}
	m.Files = slices.Concat(m.Files, flows, loads)
	if err := in.tables(&m); err != nil {
		return err
	}
	paths := make([]string, len(flows))
	for i, f := range flows {
		paths[i] = in.file(f)
	}
	if m.Labels, err = ingester.Labels(ctx, paths); err != nil {
		return err
	}
	m.Next += max(1, len(flows))
	in.state.Merge = m
	return nil
}

// mergeRejects is added to the number of the data file of the rejects of merging, since those of the sources have the
// sources' numbers.
const mergeRejects = 50_000

// file is the path of a data file.
func (in *ingestion) file(f lake.DataFile) string { return filepath.Join(in.session.Path(), f.Path) }
