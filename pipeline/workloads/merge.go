package workloads

import (
	"context"
	"path/filepath"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest"
)

// merge makes the flows, and the tables that go with them. The flows that were there before stay as far as the new
// records do not change them: data files of these are kept, and the result is the same as that of all records at once.
// Other data files get numbers above those of the present state, which readers see until the new one is committed.
func (in *ingestion) merge(ctx context.Context, ingester *ingest.Ingester, fresh []Source) error {
	before := in.state.Merge
	if in.report.DamagedFiles > 0 || !before.described() || in.damage(before.Files) != nil {
		before = Merged{Next: before.Next} // all flows are made
	}
	stats, err := ingester.Merge(ctx, in.mergeSources(fresh, &before), in.heldFlows(&before))
	if err != nil {
		return err
	}
	in.report.Repeated = stats.Repeated
	m := Merged{MergeStats: stats, Next: before.Next, Version: mergeVersion,
		Chunks: before.Chunks[:stats.Kept:stats.Kept], Files: lake.FilesOf(before.Files, schema.Rejects)}
	if stats.RejectsFile != "" {
		d, err := in.adopt(schema.Rejects, stats.RejectsFile, mergeRejects+m.Next)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, d)
	}
	chunks := lake.NewFlowWriter(in.session, in.place(), in.Progress.Add)
	defer chunks.Abandon()
	chunks.Keep(lake.FilesOf(before.Files, schema.Flows)[:stats.Kept])
	for _, file := range stats.FlowsFiles {
		if err := columns.Consume(parquet.OpenFile(schema.Flows, file), chunks.Write); err != nil {
			return err
		}
	}
	flows, err := chunks.Finish()
	if err != nil {
		return err
	}
	loads, err := in.routeChunks(ctx, &m, flows[stats.Kept:])
	if err != nil {
		return err
	}
	m.Files = append(m.Files, flows...)
	m.Files = append(m.Files, lake.FilesOf(before.Files, schema.LinkLoads)[:stats.Kept]...)
	m.Files = append(m.Files, loads...)
	if err := in.tables(&m, &before); err != nil {
		return err
	}
	if stats.Kept > 0 {
		m.FirstStartNS = m.Chunks[0].FirstStartNS
	}
	m.LastStartNS, m.SyntheticStarts = 0, 0
	for _, c := range m.Chunks {
		m.LastStartNS = c.LastStartNS
		m.SyntheticStarts += c.SyntheticStarts
	}
	paths := make([]string, len(flows))
	for i, f := range flows {
		paths[i] = in.file(f)
	}
	if m.Labels, err = ingester.Labels(ctx, paths); err != nil {
		return err
	}
	m.Next += max(1, len(flows)-stats.Kept)
	in.state.Merge = m
	return nil
}

// mergeRejects is added to the number of the data file of the rejects of merging, since those of the sources have the
// sources' numbers.
const mergeRejects = 50_000

// mergeSources are the records of all sources. Those that are not new are held if there was a merge before.
func (in *ingestion) mergeSources(fresh []Source, before *Merged) (all []ingest.MergeSource) {
	isNew := map[int32]bool{}
	for _, s := range fresh {
		isNew[s.N] = true
	}
	for _, s := range in.state.Sources {
		for _, f := range lake.FilesOf(s.Files, schema.Records) {
			s.RecordsFile = in.file(f)
			all = append(all, ingest.MergeSource{N: s.N, File: s.File, FileStats: s.FileStats,
				Held: len(before.Files) > 0 && !isNew[s.N]})
		}
	}
	return all
}

// heldFlows are the results of the merge before.
func (in *ingestion) heldFlows(before *Merged) (held ingest.HeldFlows) {
	for i, f := range lake.FilesOf(before.Files, schema.Flows) {
		held.Files = append(held.Files, ingest.HeldFile{Path: in.file(f), Rows: f.Rows,
			LastStartNS: before.Chunks[i].LastStartNS, Fixed: lake.Full(i, f)})
	}
	for _, f := range lake.FilesOf(before.Files, schema.Rejects) {
		held.Rejects = append(held.Rejects, in.file(f))
	}
	return held
}

// file is the path of a data file.
func (in *ingestion) file(f lake.DataFile) string { return filepath.Join(in.session.Path(), f.Path) }
