package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/scenario"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema/names"
	"parsimon/stages/ingest"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// A Trace describes what to ingest as a workload. It can be stored as JSON, without Store.
type Trace struct {
	Sources []string // files, directories and patterns
	// Objects are URLs of objects in Store, of prefixes or patterns. Objects of the workload that have not
	// changed are not read again.
	Objects         []string
	Store           ObjectStore `json:"-"`
	Topology        string      // as for scenario.FromFiles
	TopologyURL     string      // where Topology was copied from, or empty
	TopologyOptions format.Options
	// Workload is the name of the workload. If it is empty, an existing workload with the same settings and
	// at least one of the sources is used. If there is none, a new workload is named by a hash of the
	// settings and the sources.
	Workload    string
	SkipDamaged bool // skip files that cannot be read, and list them in the report
	// Each file uses the mapping that fits it; empty: chosen by the names of the files.
	Mappings []*ingest.Mapping
	// Options apply to the rows. Ingest sets Mapping, TmpDir, MemoryBytes and Threads. MaxRejects is a share
	// of the rows of all sources so far.
	ingest.Options
}

// Settings control how an ingest works. None of them changes its rows. MemoryBytes is the memory limit of
// DuckDB; 0: 512 MiB. With a Shard, Ingest only reads the files of the shard (shard.go).
type Settings struct {
	engine.Settings
	Lake string        // directory, created if it does not exist
	Wait time.Duration // how long to wait while another process works on the workload
	// SpoolBytes limits the copies of objects on the disk of the lake, unless one object is larger; 0: 1 GiB.
	SpoolBytes int64
}

// An ingestion is one call of Ingest.
type ingestion struct {
	Trace
	Settings
	scenario *scenario.Scenario // only its topology is used
	net      *topology.Network
	session  *lake.Session
	state    State
	report   *Report
	reading  string           // readingID
	known    map[string]bool  // digests of the sources that are in the workload or are added
	again    map[string]int32 // numbers of the sources whose records are damaged, by digest
	next     int32            // number of the next new source
	earlier  map[string]bool  // names of the records of read files that existed before this call
	renewed  bool             // a source has another ETag than before, and the same content
	copies   []Source         // objects that have the content of a source
	changed  []string         // notes about objects that have other content than before
}

// Ingest adds a trace to the lake. Its rows become table records, the records are merged into flows, and the
// load of every link is computed. Files whose content the workload already has are skipped. Other files are
// added, and the flows of all records are merged again, so that the result does not depend on the steps in
// which a trace is ingested. Unusable rows are written to table rejects. If there are more of them than
// t.MaxRejects, the call fails. A failed call changes nothing. If the process is killed or ctx ends, the next
// call takes the files that were read (shard.go).
func Ingest(ctx context.Context, t Trace, o Settings) (_ *Report, err error) {
	if err := queries.CheckLakePath(o.Lake); err != nil {
		return nil, err
	}
	in := &ingestion{Trace: t, Settings: o, report: &Report{}}
	in.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	in.Progress = cmp.Or[engine.Progress](o.Progress, engine.Silent{})
	in.Options.MemoryBytes = cmp.Or(o.MemoryBytes, 512<<20)
	in.Threads = in.Workers
	files, err := in.prepare()
	if err != nil {
		return nil, err
	}
	if in.Shard.Count > 0 {
		return in.report, in.readShard(ctx, files)
	}
	given, err := in.given(ctx, files)
	if err != nil {
		return nil, err
	}
	l, err := lake.Open(o.Lake, true)
	if err != nil {
		return nil, err
	}
	if err := in.name(l, given); err != nil {
		return nil, err
	}
	if err := in.lock(ctx, l.Lock); err != nil {
		return nil, err
	}
	defer in.session.Close()
	before, fresh, err := in.open(given)
	if err != nil {
		return nil, err
	}
	if err := in.removeOthers(before); err != nil { // files of a killed call
		return nil, err
	}
	if len(fresh)+in.report.DamagedFiles > 0 || !in.state.Merge.described() ||
		in.damage(in.state.Merge.Files) != nil {
		if err := in.add(ctx, fresh); err != nil {
			return nil, in.fail(ctx, before, err)
		}
	}
	if err := in.session.Commit(in.place(), in.state.files()); err != nil {
		return nil, err
	}
	if err := catalog.Write(l); err != nil {
		return nil, err
	}
	if err := in.session.RemoveState(in.recordsPath()); err != nil {
		return nil, err
	}
	// Files that the new state has replaced, once no view names them.
	if err := in.removeOthers(&in.state); err != nil {
		return nil, err
	}
	return in.report, in.finish()
}

// lock opens a session of the workload.
func (in *ingestion) lock(ctx context.Context,
	session func(context.Context, lake.Place) (*lake.Session, error)) (err error) {
	open := func() (*lake.Session, error) { return session(ctx, in.place()) }
	in.session, err = lake.Waiting(ctx, in.Wait, open)
	if err != nil {
		return err
	}
	in.TmpDir = in.session.TmpPath()
	in.Open = parquet.OpenFile
	return nil
}

// fail returns the error of a call that failed. What the call has read stays only if ctx has ended. The user
// does not know the name of a workload that the call would have named.
func (in *ingestion) fail(ctx context.Context, before *State, err error) error {
	if ctx.Err() == nil {
		return errors.Join(err, in.undo(before))
	}
	if in.Workload == "" && before == nil {
		in.Log.Warn().Str("workload", string(in.state.ID)).Msg("interrupted: the same command continues, or " +
			"parsimon rm --workload removes what was read")
	}
	return err
}

// undo removes what a failed call has written. before is the state of the workload before the call.
func (in *ingestion) undo(before *State) error {
	if before == nil && len(in.earlier) == 0 {
		return in.session.RemovePlace(in.place())
	}
	records, err := in.session.StateFiles(in.recordsPath())
	for name := range records {
		if !in.earlier[name] {
			err = errors.Join(err, in.session.RemoveState(in.recordsPath(name)))
		}
	}
	return errors.Join(err, in.removeOthers(before))
}

// given returns the sources: the given files with their digests, and the objects of the trace.
func (in *ingestion) given(ctx context.Context, files []string) ([]Source, error) {
	sources, err := in.digestAll(ctx, names.Of(files, func(f string) Source { return Source{File: f} }))
	if err != nil {
		return nil, err
	}
	objects, err := in.listObjects(ctx)
	if err != nil {
		return nil, err
	}
	sources = append(sources, objects...)
	if len(sources) == 0 {
		return nil, &SkippedError{in.report.Skipped}
	}
	return sources, nil
}

// place returns where the workload's tables are stored.
func (in *ingestion) place() lake.Place { return lake.Place{Workload: in.state.ID} }

// prepare reads all inputs except the sources, and names the workload.
func (in *ingestion) prepare() (files []string, err error) {
	if files, err = ingest.FindSources(in.Sources); err != nil {
		return nil, err
	}
	if len(files)+len(in.Objects) == 0 {
		return nil, errors.New("no source given")
	}
	if err := in.setMappings(slices.Concat(files, in.Objects)); err != nil {
		return nil, err
	}
	if in.scenario, err = scenario.OfTopology(in.Topology); err != nil {
		return nil, err
	}
	in.scenario.SetTopologyOptions(in.TopologyOptions)
	if in.net, err = in.scenario.Network(); err != nil {
		return nil, err
	}
	for _, note := range in.scenario.TopologyNotes() {
		in.Log.Info().Str("topology", in.Topology).Msg(note)
	}
	in.Mapping = in.Mappings[0]
	if in.SamplingRate > 0 && !in.Mapping.Records {
		return nil, fmt.Errorf("--sampling-rate is for flow logs: the rows of format %s are whole flows",
			in.Mapping.Name)
	}
	set := Setting{Records: in.Mapping.Records, Seed: in.Seed, GapSigma: in.GapSigma, IdleNS: in.IdleNS,
		First: in.LabelsFirst, Rate: in.SamplingRate, Domains: slices.Sorted(slices.Values(in.Domains))}
	if set.Topology, err = in.scenario.TopologyKey(); err != nil {
		return nil, err
	}
	if in.Hosts != "" {
		set.Hosts, err = in.scenario.FileDigest(in.Hosts)
	}
	if err == nil && in.Labels != "" {
		set.Labels, err = in.scenario.FileDigest(in.Labels)
	}
	if err != nil {
		return nil, err
	}
	in.state.Setting = set
	in.state.Topology.Path = cmp.Or(in.TopologyURL, absolute(in.Topology))
	in.state.Topology.Options = in.TopologyOptions
	in.state.Topology.Options.NodeList = absolute(in.TopologyOptions.NodeList)
	in.reading = in.readingID()
	return files, nil
}

// name sets the id of the workload. Sources of another experiment on the same topology form another workload,
// unless the user gives it the same name.
func (in *ingestion) name(l *lake.Lake, given []Source) (err error) {
	if in.Workload != "" {
		in.state.ID, err = lake.ParseWorkloadID(in.Workload)
		return err
	}
	ids, err := l.Workloads()
	if err != nil {
		return err
	}
	identities := names.Of(given, func(s Source) string { return s.identity() })
	for _, id := range ids {
		s, found, err := Read(l, id)
		if err != nil || !found || s.Setting.id() != in.state.Setting.id() || s.ID != s.unnamed() {
			continue // a damaged workload does not prevent creating another one
		}
		has := func(s Source) bool {
			return slices.Contains(identities, s.Digest) || slices.Contains(identities, s.identity())
		}
		if slices.ContainsFunc(s.Sources, has) {
			in.state.ID = id
			return nil
		}
	}
	in.state.First = slices.Compact(slices.Sorted(slices.Values(identities)))
	in.state.ID = in.state.unnamed()
	return nil
}

// setMappings chooses the formats of files by their names if none are given. All rows must be of one kind.
func (t *Trace) setMappings(files []string) error {
	if len(t.Mappings) == 0 {
		for _, f := range files {
			m, err := ingest.DetectFormat(f)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(t.Mappings, func(other *ingest.Mapping) bool { return other.Name == m.Name }) {
				t.Mappings = append(t.Mappings, m)
			}
		}
	}
	for _, m := range t.Mappings {
		first := t.Mappings[0]
		if m.Records != first.Records {
			return fmt.Errorf("format %s and format %s differ: one has records of flow logs, the other whole flows: "+
				"make two workloads", m.Name, first.Name)
		}
	}
	return nil
}

// absolute returns the absolute path of an existing file. Names of built-in topologies do not change.
func absolute(path string) string {
	full, err := filepath.Abs(path)
	_, missing := os.Stat(path)
	if missing != nil || err != nil {
		return path
	}
	return full
}

// open reads the current content of the workload and finds the new sources. If records are damaged and their
// source is given, the source is read again. Otherwise open returns an error.
func (in *ingestion) open(given []Source) (before *State, fresh []Source, err error) {
	if in.earlier, err = in.session.StateFiles(in.recordsPath()); err != nil {
		return nil, nil, err
	}
	old, found, err := Read(in.session.Lake, in.state.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: remove workload %s (parsimon rm --workload) and ingest all of its files "+
			"again", err, in.state.ID)
	}
	in.known = map[string]bool{}
	in.again = map[string]int32{}
	in.next = 1
	if found {
		before = old
		if err := in.adoptState(old, given); err != nil {
			return nil, nil, err
		}
	}
	in.report.HeldFiles = len(in.state.Sources)
	in.report.DamagedFiles = len(in.again)
	for _, s := range given {
		if in.known[s.Digest] || slices.ContainsFunc(in.state.Sources, s.isSameObject) {
			in.report.KnownFiles++
			continue
		}
		if !s.isObject() {
			in.known[s.Digest] = true
			s.N = in.number(s.Digest)
		}
		fresh = append(fresh, s)
	}
	in.report.NewFiles = len(fresh)
	return before, fresh, nil
}

// adoptState adopts the state of the workload, except for sources whose records are damaged.
func (in *ingestion) adoptState(old *State, given []Source) error {
	if err := in.sameSetting(old); err != nil {
		return err
	}
	place := in.state.Topology
	in.state = *old
	in.state.Sources = nil
	in.state.Topology = place
	for _, s := range old.Sources {
		isGiven := slices.ContainsFunc(given, func(g Source) bool {
			return g.Digest == s.Digest || g.isSameObject(s)
		})
		if err := in.sameMapping(s, isGiven); err != nil {
			return err
		}
		in.next = max(in.next, s.N+1)
		damage := in.damage(s.Files)
		switch {
		case damage == nil:
			in.state.Sources = append(in.state.Sources, s)
			in.known[s.Digest] = true
		case !isGiven:
			return fmt.Errorf("workload %s: the records of %s are damaged: %w: give that file again, too", old.ID,
				s.File, damage)
		default: // reading it again gives the same rows as before
			in.again[s.Digest] = s.N
		}
	}
	return nil
}

// sameSetting returns an error if the workload was ingested with another setting.
func (in *ingestion) sameSetting(old *State) error {
	if old.Setting.id() == in.state.Setting.id() {
		return nil
	}
	return fmt.Errorf("workload %s was ingested with %s: give the new one another name", old.ID,
		settingDifference(old.Setting, in.state.Setting))
}

// number returns the number of a source: a new one, or its earlier one if its records are read again.
func (in *ingestion) number(digest string) int32 {
	n, isAgain := in.again[digest]
	if !isAgain {
		n = in.next
		in.next++
	}
	return n
}

// digestAll completes files, side by side, by their digests and sizes. With SkipDamaged, it skips files that
// cannot be read. If several files cannot be read, the error is that of the first one.
func (in *ingestion) digestAll(ctx context.Context, files []Source) (read []Source, err error) {
	errs := make([]error, len(files))
	var failed atomic.Bool
	err = engine.Parallel(ctx, in.Workers, len(files), func(ctx context.Context, i int) error {
		if failed.Load() {
			return nil
		}
		errs[i] = files[i].digest(ctx)
		if errs[i] != nil && !in.maySkip(ctx, errs[i]) {
			failed.Store(true)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, s := range files {
		switch {
		case errs[i] == nil:
			read = append(read, s)
		case !in.maySkip(ctx, errs[i]):
			return nil, errs[i]
		default:
			in.skip(s.File, errs[i])
		}
	}
	return read, ctx.Err()
}

// digest completes a file by its digests and its size.
func (s *Source) digest(ctx context.Context) error {
	digest, err := ingest.Digest(ctx, "flow file", s.File)
	if err != nil {
		return err
	}
	info, err := os.Stat(s.File)
	if err != nil {
		return err
	}
	s.Digest = digest.SHA256
	s.FileBytes = info.Size()
	s.xxh3 = digest.XXH3
	return nil
}

// maySkip reports whether a file that cannot be read because of an error may be skipped.
func (in *ingestion) maySkip(ctx context.Context, err error) bool {
	return in.SkipDamaged && !ends(ctx, err) && !errors.Is(err, syscall.ENOSPC) && !duckdb.IsOutOfMemory(err)
}

// skip skips a file that cannot be read.
func (in *ingestion) skip(file string, err error) {
	in.report.Skipped = append(in.report.Skipped, SkippedFile{file, err.Error()})
}

// sameMapping returns an error if a source of the workload was read with another mapping of the same name. It
// also returns an error if the source is given again but was read with none of the given mappings, because
// its rows would not be read again.
func (in *ingestion) sameMapping(s Source, given bool) error {
	ofName := false
	for _, m := range in.Mappings {
		if scenario.BytesDigest([]byte(m.Rows)) == s.Mapping {
			return nil
		}
		ofName = ofName || m.Name == s.Format
	}
	switch {
	case ofName:
		return fmt.Errorf("workload %[1]s was ingested with another mapping %[2]s, of --mapping or of another "+
			"version of the program, whose rows may differ: parsimon rm --workload %[1]s --lake %[3]s and ingest all "+
			"of its files again, or give another --workload", in.state.ID, s.Format, in.session.Path())
	case given:
		return fmt.Errorf("%s is in workload %s by mapping %s, and its rows are read once: give that mapping or "+
			"another --workload; for both directions of a record, one mapping yields column reverse_bytes", s.File,
			in.state.ID,
			s.Format)
	}
	return nil
}

// settingDifference describes how two settings differ.
func settingDifference(a, b Setting) string {
	switch {
	case a.Records && !b.Records:
		return "formats whose rows are records of flow logs, not whole flows"
	case b.Records && !a.Records:
		return "formats whose rows are whole flows, not records of flow logs"
	case a.Hosts != b.Hosts:
		return "another hosts table"
	case !slices.Equal(a.Domains, b.Domains):
		return "another --domain"
	case a.Labels != b.Labels || a.First != b.First:
		return "another labels table"
	case a.Rate != b.Rate:
		return "another --sampling-rate"
	case a.Seed != b.Seed || a.GapSigma != b.GapSigma || a.IdleNS != b.IdleNS:
		return "other settings of merging"
	}
	return "another topology"
}

// damage returns an error for the first committed file that is damaged, or if there are no files.
func (in *ingestion) damage(files []lake.DataFile) error {
	for _, f := range files {
		if err := in.session.Check(f); err != nil {
			in.Log.Warn().Err(err).Msg("damaged: made again")
			return err
		}
	}
	if len(files) == 0 {
		return errors.New("no data files")
	}
	return nil
}
