package workloads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/stages/ingest"
)

// Several processes, on one machine or many, can read the files of one ingest. Each reads the files of one
// shard (Settings.Shard). Then one ingest without a shard takes these files as if it had read them, reads
// those that are missing, and merges all records.
//
// A file that was read has a record (readFile) below the state of the workload, by its number. It is written
// after the data files of the file, so that a killed process leaves no record of a part of a file. An ingest
// takes a record only if it would have read the same content in the same way, under the same number, and the
// record names the data files of this file and number, which are as they were written and have the rows that
// the record counts. Any other record counts as none. What the rows are is up to the process that wrote
// them: each process that can write to the lake can write other rows. If two processes read one file at once,
// each writes its own data files, and the last record counts.
//
// Shards hold a shared lock of the workload. The ingest holds the exclusive one. It removes the data files
// that no record names and, when it is complete, all records.

// A readFile is the record of a file that was read for an ingest that is not complete.
type readFile struct {
	Source
	Notes   ingest.Notes `json:"notes,omitempty"`
	Reading string       `json:"reading"` // readingID
}

// begunFile is the name of the state file, beside the records of read files, that has a begun.
const begunFile = "shards.json"

// A begun describes an ingest of which a shard was begun.
type begun struct {
	Trace  Trace `json:"trace"`
	Shards int   `json:"shards"`
}

// Begun returns the trace and the number of shards of an ingest of which a shard was begun. Any process that
// sees the lake and the files under the same paths can then read the others. The error says which path it
// does not see. The paths of the trace are absolute.
func Begun(l *lake.Lake, id lake.WorkloadID) (t Trace, shards int, err error) {
	path := (&ingestion{state: State{ID: id}}).recordsPath(begunFile)
	var b begun
	found, err := l.ReadState(path, &b)
	if err == nil && !found {
		err = fmt.Errorf("no ingest of workload %s in shards was begun in %s: parsimon ingest --workload %s "+
			"--shard 0/N does it", id, l.Path(), id)
	}
	if err != nil {
		return t, 0, err
	}
	if err := b.check(id); err != nil {
		return t, 0, fmt.Errorf("%s/%s: %w: begin a shard again", l.Path(), path, err)
	}
	return b.Trace, b.Shards, nil
}

// check returns an error if other processes cannot read shards of the ingest of a workload.
func (b *begun) check(id lake.WorkloadID) error {
	t := &b.Trace
	last := fmt.Sprintf("%d/%d", b.Shards-1, b.Shards)
	if _, err := engine.ParseShard(last); err != nil {
		return fmt.Errorf("shard %w", err)
	}
	if t.Workload != string(id) {
		return fmt.Errorf("it describes an ingest of workload %q, not of %s", t.Workload, id)
	}
	if slices.Contains(t.Mappings, nil) {
		return errors.New("a mapping is missing")
	}
	for _, source := range t.Sources {
		if !filepath.IsAbs(source) {
			return fmt.Errorf("other machines do not find source %s: give absolute paths", source)
		}
	}
	for _, path := range []string{t.Topology, t.TopologyOptions.NodeList, t.Hosts, t.Labels} {
		if !filepath.IsAbs(path) {
			continue // none, or a built-in topology
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%w: the topology, --hosts and --labels must be files that every machine sees under "+
				"the same path, not URLs", err)
		}
	}
	return nil
}

// begin records that a shard is begun.
func (in *ingestion) begin() error {
	b := begun{Trace: in.Trace, Shards: in.Shard.Count}
	t := &b.Trace
	for _, path := range []*string{&t.Topology, &t.TopologyOptions.NodeList, &t.Hosts, &t.Labels} {
		*path = absolute(*path)
	}
	return in.session.WriteState(in.recordsPath(begunFile), b)
}

// readingID identifies all that determines the records and rejects of a file, except for the file and its
// number.
func (in *ingestion) readingID() string {
	mappings := names.Of(in.Mappings, func(m *ingest.Mapping) string { return m.Name + "\n" + m.Rows })
	text, err := json.Marshal([]any{MergeVersion, in.state.Setting, mappings, in.OffFabric})
	if err != nil {
		panic("workloads: " + err.Error()) // it is plain data
	}
	return scenario.IDOf(text)
}

// recordsPath returns the lake-relative path of the records of read files, or of one of them.
func (in *ingestion) recordsPath(name ...string) string {
	return in.place().StatePath(append([]string{"read"}, name...)...)
}

// recordPath returns the lake-relative path of the record of a file.
func (in *ingestion) recordPath(s *Source) string {
	return in.recordsPath(fmt.Sprintf("%05d.json", s.N))
}

// record records that a file was read.
func (in *ingestion) record(f *readFile) error {
	f.Reading = in.reading
	return in.session.WriteState(in.recordPath(&f.Source), f)
}

// readEarlier returns the record of a file if it can be taken instead of reading the file, or nil.
func (in *ingestion) readEarlier(s *Source) (*readFile, error) {
	f, err := in.readRecord(in.recordPath(s))
	if f == nil || err != nil {
		return nil, err
	}
	isSame := f.N == s.N && f.File == s.File && f.Digest == s.Digest && f.Reading == in.reading
	if !isSame || in.damage(f.Files) != nil {
		return nil, nil
	}
	f.FileBytes = s.FileBytes
	return f, nil
}

// readRecord reads a record of a file. It returns nil if there is none, or a damaged one. The data files of
// the result are those that the workload has for the file, if they exist.
func (in *ingestion) readRecord(path string) (*readFile, error) {
	f := new(readFile)
	found, err := in.session.ReadState(path, f)
	if lake.IsReadError(err) {
		return nil, err
	}
	if err != nil || !found || path != in.recordPath(&f.Source) || !in.isWhole(&f.Source) {
		return nil, nil
	}
	return f, nil
}

// isWhole reports whether a source that was read has a data file of records and, if there are any, one of
// rejects, in this workload and under its number, and whether their rows are those of its counts.
func (in *ingestion) isWhole(s *Source) bool {
	files := 1
	if s.Rejects > 0 {
		files = 2
	}
	isCounted := s.N > 0 && min(s.Rows, s.Reverse, s.Records, s.Rejects, s.SetAside) >= 0 &&
		s.Rows+s.Reverse == s.Records+s.Rejects && s.SetAside <= s.Rejects
	if !isCounted || len(s.Files) != files {
		return false
	}
	is := func(f lake.DataFile, t schema.Table, rows int64) bool {
		return f.Is(in.place(), t, int(s.N)) && f.Rows == rows
	}
	return is(s.Files[0], schema.Records, s.Records) &&
		(files == 1 || is(s.Files[1], schema.Rejects, s.Rejects))
}

// recordedFiles returns the paths of the data files that records name.
func (in *ingestion) recordedFiles() (map[string]bool, error) {
	paths := map[string]bool{}
	records, err := in.session.StateFiles(in.recordsPath())
	if err != nil {
		return nil, err
	}
	for name := range records {
		record, err := in.readRecord(in.recordsPath(name))
		if err != nil {
			return nil, err
		}
		if record == nil {
			continue
		}
		for _, f := range record.Files {
			paths[f.Path] = true
		}
	}
	return paths, nil
}

// readShard reads the files of a shard. The workload does not change.
func (in *ingestion) readShard(ctx context.Context, files []string) (err error) {
	switch {
	case in.Workload == "":
		return errors.New("--shard needs --workload: without it, all files have to be read to name the workload")
	case len(in.Objects) > 0:
		return fmt.Errorf("--shard divides files only: ingest %s without --shard", in.Objects[0])
	}
	l, err := lake.Open(in.Lake, true)
	if err != nil {
		return err
	}
	if err := in.name(l, nil); err != nil {
		return err
	}
	if err := in.lock(ctx, l.LockShared); err != nil {
		return err
	}
	defer in.session.Close()
	mine, err := in.mine(files)
	if err == nil {
		err = in.begin()
	}
	if err != nil {
		return err
	}
	if mine, err = in.digestAll(ctx, mine); err != nil {
		return err
	}
	in.NoMerge = true
	ingester, err := in.newIngester(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ingester.Close()) }()
	in.state.Sources, err = in.read(ctx, ingester, mine)
	in.report.Shard = in.Shard.String()
	in.reportRows()
	return err
}

// mine returns the files of the shard, with the numbers that an ingest of all files gives them. Sources of
// the workload are recognized by name and size: for their digests, each shard would have to read all files.
// The ingest gives no number to a file whose content it already has, or that it cannot read. All files after
// such a file therefore have other numbers here, and the ingest reads them again. With gaps instead, the
// numbers of such ingests would change in the tables.
func (in *ingestion) mine(files []string) (mine []Source, err error) {
	old, _, err := Read(in.session.Lake, in.state.ID)
	if err != nil {
		return nil, err
	}
	if len(old.Sources) > 0 {
		if err := in.sameSetting(old); err != nil {
			return nil, err
		}
	}
	sizes := map[string]int64{}
	next := int32(1)
	for _, s := range old.Sources {
		sizes[s.File] = s.FileBytes
		next = max(next, s.N+1)
	}
	fresh := 0
	for _, f := range files {
		info, err := os.Stat(f)
		size, isKnown := sizes[f]
		if isKnown && err == nil && info.Size() == size {
			continue
		}
		if fresh%in.Shard.Count == in.Shard.Index {
			mine = append(mine, Source{File: f, N: next + int32(fresh)})
		}
		fresh++
	}
	return mine, nil
}
