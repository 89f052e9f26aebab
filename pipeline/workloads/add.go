package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/simkernel"
	"parsimon/stages/ingest"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/topology"
)

// add reads the new files, merges all records into flows, and commits the result.
func (in *ingestion) add(ctx context.Context, fresh []Source) (err error) {
	ingester, err := in.newIngester(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ingester.Close()) }()
	added, err := in.read(ctx, ingester, fresh)
	if err != nil {
		return err
	}
	if len(in.state.Sources)+len(added) == 0 {
		return &SkippedError{in.report.Skipped}
	}
	in.state.Sources = append(in.state.Sources, added...)
	slices.SortFunc(in.state.Sources, func(a, b Source) int { return cmp.Compare(a.N, b.N) })
	in.recordCopies()
	if len(added) == 0 && !in.renewed && in.upToDate() { // all objects were copies of known files
		return in.session.WriteStateDurably(in.place().WorkloadPath(), in.state)
	}
	if err := in.checkRejects(); err != nil { // before the long-running part
		return err
	}
	in.Progress.Begin("merge", "flows", 0)
	err = in.merge(ctx, ingester)
	in.Progress.End()
	if err != nil {
		return err
	}
	if err := in.checkRejects(); err != nil {
		return err
	}
	if in.state.Merge.Flows == 0 {
		return in.noFlows()
	}
	return in.session.WriteStateDurably(in.place().WorkloadPath(), in.state)
}

// newIngester returns an Ingester with the hosts and labels tables. The caller closes it.
func (in *ingestion) newIngester(ctx context.Context) (_ *ingest.Ingester, err error) {
	ingester, err := ingest.NewIngester(ctx, in.net, in.Options)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ingester.Close())
		}
	}()
	// The ingester has read them after their digests were computed.
	for _, table := range []string{in.Hosts, in.Labels} {
		if table == "" {
			continue
		}
		if err := in.scenario.CheckUnchanged(table); err != nil {
			return nil, err
		}
	}
	in.state.Traffic = ingester.Traffic()
	if _, err := scenario.ParseModels(in.state.Traffic); err != nil {
		return nil, fmt.Errorf("labels table %s: traffic_model %w", in.Labels, err)
	}
	return ingester, nil
}

// upToDate reports whether the flows are those of the sources, and complete.
func (in *ingestion) upToDate() bool {
	return in.report.DamagedFiles == 0 && in.state.Merge.described() && in.damage(in.state.Merge.Files) == nil
}

// read reads new sources into tables records and rejects. It returns those that the workload has got.
func (in *ingestion) read(ctx context.Context, ingester *ingest.Ingester, fresh []Source) (
	added []Source, err error) {
	in.Progress.Begin("ingest", "files", int64(len(fresh)))
	added, err = in.readSources(ctx, ingester, fresh)
	in.Progress.End()
	in.report.NewFiles = len(added)
	in.report.Notes = append(notesOf(ingester, fresh), in.changed...)
	return added, err
}

// readSources reads sources. Objects are read one after another, because the copies of those that wait would
// fill the disk.
func (in *ingestion) readSources(ctx context.Context, ingester *ingest.Ingester, fresh []Source) (
	added []Source, err error) {
	if !slices.ContainsFunc(fresh, func(s Source) bool { return s.isObject() }) {
		return in.readFiles(ctx, ingester, fresh)
	}
	dir := filepath.Join(in.session.TmpPath(), "objects")
	copies, err := newSpool(ctx, in.Store, fresh, dir, cmp.Or(in.SpoolBytes, defaultSpoolBytes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, copies.close()) }()
	for i := range fresh {
		s := &fresh[i]
		isNew := true
		if s.isObject() {
			isNew, err = in.addObject(ctx, ingester, copies, s)
		} else {
			err = in.addFile(ctx, ingester, s)
		}
		if err == nil && isNew {
			added = append(added, *s)
		}
		if err != nil {
			if !in.maySkip(ctx, err) {
				return added, err
			}
			in.skip(s.File, err)
		}
		in.Progress.Add(1)
	}
	return added, nil
}

// ends reports whether an error ends an ingest even if files that cannot be read are skipped.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.As(err, new(*scenario.ChangedError)) || errors.As(err, new(*copyError)) ||
		errors.As(err, new(*ingest.CollectError))
}

// notesOf returns the notes about sources, with the URLs of objects.
func notesOf(ingester *ingest.Ingester, sources []Source) []string {
	notes := ingester.Notes()
	for i := range notes {
		for _, s := range sources {
			if s.isObject() {
				notes[i] = s.rename(notes[i])
			}
		}
	}
	return notes
}

// A reading is the result of reading one file.
type reading struct {
	readFile
	err    error
	isDone bool
}

// readFiles reads files side by side. It returns those that were not skipped, in their order. If several
// files cannot be read, the error is that of the first one.
func (in *ingestion) readFiles(ctx context.Context, ingester *ingest.Ingester, files []Source) (
	added []Source, err error) {
	readers, err := ingester.Readers(ctx, in.Mappings, len(files))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, readers.Close()) }()
	idle := make(chan *ingest.Ingester, len(readers.All))
	for _, reader := range readers.All {
		idle <- reader
	}
	own := ingester.TakeNotes() // about its tables: they belong to no file's record
	readings := make([]reading, len(files))
	var failed atomic.Bool
	var taken atomic.Int64
	err = engine.Parallel(ctx, len(readers.All), len(files), func(ctx context.Context, i int) error {
		if failed.Load() {
			return nil
		}
		reader := <-idle
		defer func() { idle <- reader }()
		r := &readings[i]
		r.isDone = true
		defer in.Progress.Add(1)
		earlier, err := in.readEarlier(&files[i])
		if err != nil {
			return err
		}
		if earlier != nil {
			r.readFile = *earlier
			taken.Add(1)
			return nil
		}
		r.Source = files[i]
		r.Source.path = r.Source.File
		r.err = in.addFile(ctx, reader, &r.Source)
		r.Notes = reader.TakeNotes()
		if r.err == nil {
			return in.record(&r.readFile)
		}
		if !in.maySkip(ctx, r.err) {
			failed.Store(true)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	in.report.TakenFiles = int(taken.Load())
	ingester.AddNotes(own)
	return in.collect(ctx, ingester, readings)
}

// collect returns the sources that were not skipped, in their order, and adds the notes about all of them.
func (in *ingestion) collect(ctx context.Context, ingester *ingest.Ingester, readings []reading) (
	added []Source, err error) {
	for i := range readings {
		r := &readings[i]
		ingester.AddNotes(r.Notes)
		switch {
		case r.err != nil && !in.maySkip(ctx, r.err):
			return added, r.err
		case r.err != nil:
			in.skip(r.Source.File, r.err)
		case r.isDone:
			added = append(added, r.Source)
		}
	}
	return added, ctx.Err()
}

// noFlows returns the error for a workload whose rows are all rejected, such as the log of an idle interface.
func (in *ingestion) noFlows() error {
	c := in.state.counts()
	why := names.Of(c.Reasons, func(r ingest.RejectCount) string {
		return fmt.Sprintf("%d × %s", r.Rows, r.Reason)
	})
	return fmt.Errorf("workload %s has no flow that can be simulated: all of its %d rows are rejected, %d of "+
		"them no flows by their own account (%s)", in.state.ID, c.Rows, c.SetAside, strings.Join(why, ", "))
}

func (in *ingestion) checkRejects() error {
	c := in.state.counts()
	return ingest.CheckRejects("workload "+string(in.state.ID), ingest.Tally{
		Rows: c.Rows, Reverse: c.Reverse, Rejects: c.Rejects, SetAside: c.SetAside, Reasons: c.Reasons,
	}, in.MaxRejects)
}

// addFile adds one file to tables records and rejects.
func (in *ingestion) addFile(ctx context.Context, ingester *ingest.Ingester, s *Source) (err error) {
	var stats ingest.FileStats
	var records, rejects *lake.Writer
	if ingest.MayBeRegular(in.Mappings, s.path) {
		records, err = in.session.Create(schema.Records, in.place(), in.place().File(schema.Records, int(s.N)))
		if err != nil {
			return err
		}
		defer records.Abandon()
		rejects, err = in.session.Create(schema.Rejects, in.place(), in.place().File(schema.Rejects, int(s.N)))
		if err != nil {
			return err
		}
		defer rejects.Abandon()
		var regular bool
		stats, regular, err = ingester.RegularFile(ctx, in.Mappings[0], s.path, s.N,
			ingest.FileTables{Records: records, Rejects: rejects})
		if !regular {
			records.Abandon()
			records = nil
		}
	}
	if records == nil {
		stats, err = ingester.File(ctx, in.Mappings, s.path, s.N)
	}
	s.FileStats = stats
	if err := cmp.Or(s.checkUnchanged(ctx), err); err != nil {
		return err
	}
	s.Format, s.Mapping = s.FileStats.Mapping.Name, scenario.BytesDigest([]byte(s.FileStats.Mapping.Rows))
	if s.Waits+s.ComputeSteps > 0 {
		return fmt.Errorf("%s: flows wait for others (column after): run takes such files with --flows", s.File)
	}
	var p lake.DataFile
	if records != nil {
		p, err = records.Commit()
	} else {
		p, err = in.adopt(schema.Records, s.RecordsFile, int(s.N))
	}
	if err != nil {
		return err
	}
	s.Files = append(s.Files, p)
	switch {
	case s.Rejects == 0:
		return nil
	case records != nil:
		p, err = rejects.Commit()
	default:
		p, err = in.adopt(schema.Rejects, s.RejectsFile, int(s.N))
	}
	if err != nil {
		return err
	}
	s.Files = append(s.Files, p)
	return nil
}

// checkUnchanged returns an error if a file is not as it was when its digest was computed. Such a change also
// explains an error of reading the file. If the hash of what was read is not known, the file is read again.
// Nobody else writes the copy of an object.
func (s *Source) checkUnchanged(ctx context.Context) error {
	switch {
	case s.isObject() || s.FileStats.XXH3 == s.xxh3:
		return nil
	case s.FileStats.XXH3 > 0:
		return &scenario.ChangedError{Path: s.File}
	}
	now, err := ingest.Digest(ctx, "flow file", s.File)
	if err == nil && now.SHA256 != s.Digest {
		return &scenario.ChangedError{Path: s.File}
	}
	return err
}

// adopt makes a file that DuckDB has written data file n of a table.
func (in *ingestion) adopt(t schema.Table, file string, n int) (lake.DataFile, error) {
	w, err := in.session.Create(t, in.place(), in.place().File(t, n))
	if err != nil {
		return lake.DataFile{}, err
	}
	defer w.Abandon()
	rows := parquet.OpenFile(t, file)
	if err := columns.ForEach(rows, w.Write); err != nil {
		return lake.DataFile{}, err
	}
	d, err := w.Commit()
	return d, errors.Join(err, os.Remove(file))
}

// removeOthers removes the workload's data files that neither a state, the manifest nor a record of a read
// file names. No shard works on the workload.
func (in *ingestion) removeOthers(s *State) error {
	keep, err := in.recordedFiles()
	if err != nil {
		return err
	}
	m, _, err := in.session.ReadManifest(in.place())
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		keep[f.Path] = true
	}
	if s != nil {
		for _, f := range s.files() {
			keep[f.Path] = true
		}
	}
	return in.session.RemoveUnlisted(in.place(), func(path string) bool { return keep[path] })
}

// merge merges the records of all sources into flows, and writes the tables that depend on them. The numbers
// of the new data files are above those of the current state, because readers see the current files until the
// new ones are committed.
func (in *ingestion) merge(ctx context.Context, ingester *ingest.Ingester) error {
	var sources []ingest.MergeSource
	for _, s := range in.state.Sources {
		for _, f := range lake.FilesOf(s.Files, schema.Records) {
			s.RecordsFile = in.file(f)
			sources = append(sources, ingest.MergeSource{N: s.N, File: s.File, FileStats: s.FileStats})
		}
	}
	chunks := lake.NewFlowWriter(in.session, in.place(), in.Progress.Add)
	defer chunks.Abandon()
	path := in.place().File(schema.WorkloadIntervals, in.state.Merge.Next)
	intervals, err := in.session.Create(schema.WorkloadIntervals, in.place(), path)
	if err != nil {
		return err
	}
	defer intervals.Abandon()
	stats, err := ingester.Merge(ctx, sources, ingest.Tables{Flows: chunks, Intervals: intervals})
	if err != nil {
		return err
	}
	in.report.Repeated = stats.Repeated
	m := Merged{MergeStats: stats, Next: in.state.Merge.Next, Version: MergeVersion}
	if stats.RejectsFile != "" {
		d, err := in.adopt(schema.Rejects, stats.RejectsFile, mergeRejects+m.Next)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, d)
	}
	if in.Mapping.Records {
		d, err := intervals.Commit()
		if err != nil {
			return err
		}
		m.Files = append(m.Files, d)
	}
	flows, err := chunks.Finish()
	if err != nil {
		return err
	}
	loads, err := in.routeChunks(ctx, &m, flows, chunks.Chunks)
	if err != nil {
		return err
	}
	m.Files = slices.Concat(m.Files, flows, loads)
	if err := in.tables(&m); err != nil {
		return err
	}
	m.Labels = stats.Labels
	m.Next += max(1, len(flows))
	in.state.Merge = m
	return nil
}

// mergeRejects is added to the file numbers of rejects of the merge, because the rejects of a source have the
// source's number.
const mergeRejects = 50_000

// file returns the absolute path of a data file.
func (in *ingestion) file(f lake.DataFile) string { return filepath.Join(in.session.Path(), f.Path) }

// routeChunks routes the flows of data files, and writes the load of each link. A flow without a path is
// counted as unreachable. A later run decides whether that is an error.
func (in *ingestion) routeChunks(ctx context.Context, m *Merged, files []lake.DataFile,
	has []lake.FlowStats) (
	[]lake.DataFile, error) {
	router, err := topology.NewRouter(ctx, in.net, in.Seed)
	if err != nil {
		return nil, err
	}
	model := &step.Model{
		Network: in.net, Router: router, Params: simkernel.DefaultParams(), Unreachable: step.CountUnreachable,
	}
	m.Chunks = make([]Chunk, len(files))
	loads := make([]lake.DataFile, len(files))
	return loads, engine.Parallel(ctx, in.Workers, len(files), func(ctx context.Context, i int) error {
		w, err := in.session.Create(schema.LinkLoads, in.place(), in.place().File(schema.LinkLoads, m.Next+i))
		if err != nil {
			return err
		}
		defer w.Abandon()
		rows := in.session.Read(schema.Flows, files[i:i+1], nil)
		stats, err := route.Flows(ctx, model, route.Chunk{Number: int32(i), Flows: rows}, route.Sink{Loads: w})
		if err != nil {
			return err
		}
		m.Chunks[i] = Chunk{has[i], stats.Unreachable, stats.PacketHops}
		loads[i], err = w.Commit()
		return err
	})
}

// tables adds the other tables of the workload: its source files and its topology.
func (in *ingestion) tables(m *Merged) error {
	add := func(t schema.Table, record func() arrow.Record) error {
		rec := record()
		defer rec.Release()
		p, err := in.session.WriteFile(t, in.place(), in.place().File(t, m.Next), rec)
		m.Files = append(m.Files, p)
		return err
	}
	return errors.Join(add(schema.Workloads, in.sourcesRecord), add(schema.Nodes, in.net.NodesRecord),
		add(schema.Links, in.net.LinksRecord))
}

func (in *ingestion) sourcesRecord() arrow.Record {
	return columns.RecordOf(schema.Workloads, in.state.Sources, func(s Source) columns.Row {
		row := columns.Row{
			"source": s.N, "file": s.File, "digest": s.Digest,
			"rows": s.Rows, "second_directions": s.Reverse, "records": s.Records, "rejects": s.Rejects,
			"set_aside": s.SetAside,
		}
		if s.FileBytes > 0 {
			row["file_bytes"] = s.FileBytes
		}
		if s.isObject() {
			row["etag"] = s.ETag
		}
		return row
	})
}
