package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rs/zerolog"

	"parsimon/queries"
	"parsimon/schema"
	"parsimon/stages/ingest"
	"parsimon/stages/topology"
)

// A Trace is what to bring into a lake as a workload.
type Trace struct {
	Sources  []string // files, directories and patterns
	Topology string   // as for TraceScenario
	// Workload names the workload; empty for a name made of everything but the sources, so that
	// the next day's files are added to the same one.
	Workload      string
	Mapping       *ingest.Mapping // nil: by the files' names
	Hosts, Labels string          // tables, see stages.IngestOptions
	MaxRejects    float64         // share of the rows of all sources so far
	Seed          uint64
	GapSigma      float64
	IdleNS        int64
}

// An ingestion is one call of Ingest at work.
type ingestion struct {
	trace    Trace
	scenario *Scenario // only its topology
	net      *topology.Network
	lake     *Lake
	state    workloadState
	options  ingest.Options
	workers  int
	log      zerolog.Logger
	progress Progress
	report   *IngestReport
	forecast *forecast // nil: not worked out yet
}

// Ingest brings a trace into the lake: its rows become table records, the records flows, and what
// the links will have to carry is worked out. Files that the workload already holds, by their
// content, are passed over; others are added to it, and the flows are made again of all records, so
// that it does not matter in how many steps a trace comes. Rows that cannot be used stand in table
// rejects; more of them than t.MaxRejects fail the call, and nothing is changed.
func Ingest(ctx context.Context, t Trace, o Options) (_ *IngestReport, err error) {
	if err := queries.CheckLakePath(o.Lake); err != nil {
		return nil, err
	}
	in := &ingestion{trace: t, scenario: newScenario(), workers: o.Workers, log: o.Log, progress: o.Progress, report: &IngestReport{}}
	if in.workers <= 0 {
		in.workers = runtime.GOMAXPROCS(0)
	}
	if in.progress == nil {
		in.progress = silent{}
	}
	files, err := in.prepare(o)
	if err != nil {
		return nil, err
	}
	if in.lake, err = OpenLake(o.Lake, true); err != nil {
		return nil, err
	}
	unlock, err := in.lake.lockAt("workload="+in.state.ID, "workload "+in.state.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	in.options.TmpDir = in.lake.tmp
	before, fresh, err := in.open(files)
	if err != nil {
		return nil, err
	}
	if err := in.undo(before); err != nil { // what a killed call has left
		return nil, err
	}
	if len(fresh)+in.report.DamagedFiles > 0 || in.damaged(in.state.Merge.Parts) {
		if err := in.add(ctx, fresh); err != nil {
			return nil, errors.Join(err, in.undo(before))
		}
	}
	if err := queries.WriteCatalog(in.lake.root); err != nil {
		return nil, err
	}
	return in.report, in.finish(ctx)
}

// prepare reads everything but the sources, and names the workload.
func (in *ingestion) prepare(o Options) (files []string, err error) {
	t := &in.trace
	if files, err = ingest.FindSources(t.Sources); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no source given")
	}
	if t.Mapping == nil {
		for _, f := range files {
			m, err := ingest.DetectFormat(f)
			if err != nil {
				return nil, err
			}
			if t.Mapping != nil && m.Name != t.Mapping.Name {
				return nil, fmt.Errorf("%s looks like %s, and %s like %s: give the format of all of them", files[0], t.Mapping.Name, f, m.Name)
			}
			t.Mapping = m
		}
	}
	if err := in.scenario.setTopology(t.Topology); err != nil {
		return nil, err
	}
	if in.net, err = in.scenario.Network(); err != nil {
		return nil, err
	}
	memory := o.MemoryBytes
	if memory <= 0 {
		memory = 512 << 20
	}
	in.options = ingest.Options{
		Mapping: t.Mapping, Hosts: t.Hosts, Labels: t.Labels, MemoryBytes: memory, Threads: in.workers,
		Seed: t.Seed, GapSigma: t.GapSigma, IdleNS: t.IdleNS,
	}
	set := workloadSetting{Format: t.Mapping.Name, Mapping: digestBytes([]byte(t.Mapping.Text)), Seed: t.Seed, GapSigma: t.GapSigma, IdleNS: t.IdleNS}
	if set.Topology, err = in.scenario.canonicalTopology(); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		file string
		to   *string
	}{{t.Hosts, &set.Hosts}, {t.Labels, &set.Labels}} {
		if f.file == "" {
			continue
		}
		if *f.to, err = in.scenario.digestFile(f.file); err != nil {
			return nil, err
		}
	}
	in.state = workloadState{ID: t.Workload, Setting: set}
	if in.state.ID == "" {
		in.state.ID = set.id()
	}
	if !workloadName.MatchString(in.state.ID) {
		return nil, fmt.Errorf("workload name %q: want up to 64 letters, digits, dots, dashes and underscores", in.state.ID)
	}
	return files, nil
}

// open reads what the workload holds already, and tells which of the files are new.
func (in *ingestion) open(files []string) (before *workloadState, fresh []workloadSource, err error) {
	var old workloadState
	found, err := in.lake.readState(in.lake.workloadPath(in.state.ID), &old)
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	if found {
		if old.Setting.id() != in.state.Setting.id() {
			return nil, nil, fmt.Errorf("workload %s was ingested with %s: give the new one another name", old.ID, settingDifference(old.Setting, in.state.Setting))
		}
		in.state, before = old, &old
		in.state.Sources = nil
		for _, s := range old.Sources {
			if in.damaged(s.Parts) {
				in.report.DamagedFiles++
				continue
			}
			in.state.Sources = append(in.state.Sources, s)
			known[s.Digest] = true
		}
	}
	in.report.HeldFiles = len(in.state.Sources)
	next := int32(1)
	for _, s := range in.state.Sources {
		next = max(next, s.N+1)
	}
	for _, f := range files {
		d, err := in.scenario.digestFile(f)
		if err != nil {
			return nil, nil, err
		}
		if known[d] {
			in.report.KnownFiles++
			continue
		}
		known[d] = true
		fresh = append(fresh, workloadSource{N: next, File: f, Digest: d})
		next++
	}
	in.report.NewFiles = len(fresh)
	return before, fresh, nil
}

// settingDifference says in words what differs.
func settingDifference(a, b workloadSetting) string {
	switch {
	case a.Format != b.Format:
		return "format " + a.Format + ", not " + b.Format
	case a.Mapping != b.Mapping:
		return "another mapping"
	case a.Hosts != b.Hosts:
		return "another hosts table"
	case a.Labels != b.Labels:
		return "another labels table"
	case a.Seed != b.Seed || a.GapSigma != b.GapSigma || a.IdleNS != b.IdleNS:
		return "other settings of merging"
	}
	return "another topology"
}

// damaged says whether a committed file is not as it was.
func (in *ingestion) damaged(parts []part) bool {
	for _, p := range parts {
		if err := in.lake.check(p); err != nil {
			in.log.Warn().Err(err).Msg("damaged: made again")
			return true
		}
	}
	return len(parts) == 0
}

// add reads the new files, makes the flows of all records, and commits.
func (in *ingestion) add(ctx context.Context, fresh []workloadSource) (err error) {
	ingester, err := ingest.NewIngester(ctx, in.net, in.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ingester.Close()) }()
	in.progress.begin("ingest", "files", int64(len(fresh)))
	for i := range fresh {
		if err = in.addFile(ingester, &fresh[i]); err != nil {
			break
		}
		in.progress.add(1)
	}
	in.progress.end()
	if err != nil {
		return err
	}
	in.state.Sources = append(in.state.Sources, fresh...)
	if err := in.checkRejects(); err != nil { // before the long work
		return err
	}
	in.progress.begin("merge", "flows", 0)
	err = in.merge(ctx, ingester)
	in.progress.end()
	if err != nil {
		return err
	}
	if err := in.checkRejects(); err != nil {
		return err
	}
	if in.state.Merge.Flows == 0 {
		return errors.New("the workload has no flow that can be simulated")
	}
	return in.lake.writeState(in.lake.workloadPath(in.state.ID), in.state)
}

func (in *ingestion) checkRejects() error {
	rows, rejects, setAside, reasons := in.state.counts()
	return ingest.CheckRejects("workload "+in.state.ID, rows, rejects, setAside, in.trace.MaxRejects, reasons)
}

// addFile brings one file into tables records and rejects.
func (in *ingestion) addFile(ingester *ingest.Ingester, s *workloadSource) error {
	stats, err := ingester.File(s.File, s.N)
	if err != nil {
		return err
	}
	s.Rows, s.Records, s.Rejects, s.SetAside, s.Reasons, s.AnyFlowID = stats.Rows, stats.Records, stats.Rejects, stats.SetAside, stats.Reasons, stats.AnyFlowID
	p, err := in.adopt(schema.Records, stats.RecordsFile, int(s.N))
	if err != nil {
		return err
	}
	s.Parts = append(s.Parts, p)
	if s.Rejects > 0 {
		if p, err = in.adopt(schema.Rejects, stats.RejectsFile, int(s.N)); err != nil {
			return err
		}
		s.Parts = append(s.Parts, p)
	}
	return nil
}

// adopt writes a file that DuckDB left as a part of the lake.
func (in *ingestion) adopt(t schema.Table, file string, n int) (part, error) {
	w, err := in.lake.create(t, workloadFile(t, in.state.ID, n))
	if err != nil {
		return part{}, err
	}
	defer w.abandon()
	if err := copyBatches(openTable(t, []string{file}, nil, nil), w); err != nil {
		return part{}, err
	}
	p, err := w.commit()
	return p, errors.Join(err, os.Remove(file))
}

// merge makes the flows, and the tables that go with them.
func (in *ingestion) merge(ctx context.Context, ingester *ingest.Ingester) error {
	var sources []ingest.MergeSource
	for _, s := range in.state.Sources {
		for _, p := range s.Parts {
			if t, err := tableOf(p.Path); err == nil && t.Name == schema.Records.Name {
				sources = append(sources, ingest.MergeSource{N: s.N, File: s.File, Records: filepath.Join(in.lake.root, filepath.FromSlash(p.Path)), Rows: s.Rows, AnyFlowID: s.AnyFlowID})
			}
		}
	}
	stats, err := ingester.Merge(sources)
	if err != nil {
		return err
	}
	m := mergeState{Flows: stats.Flows, Merged: stats.Merged, Rejects: stats.Rejects, SyntheticStarts: stats.SyntheticStarts,
		FirstStartNS: stats.FirstStartNS, LastStartNS: stats.LastStartNS, Reasons: stats.Reasons}
	for _, t := range []schema.Table{schema.Flows, schema.Nodes, schema.Links, schema.LinkLoads, schema.Workloads} {
		if err := os.RemoveAll(filepath.Join(in.lake.root, filepath.FromSlash(workloadDir(t, in.state.ID)))); err != nil {
			return err
		}
	}
	if stats.Rejects > 0 {
		p, err := in.adopt(schema.Rejects, stats.RejectsFile, 0)
		if err != nil {
			return err
		}
		m.Parts = append(m.Parts, p)
	}
	chunks := &chunkWriter{lake: in.lake, progress: in.progress, file: func(n int) string { return workloadFile(schema.Flows, in.state.ID, n) }}
	defer chunks.abandon()
	if err := copyBatches(openTable(schema.Flows, []string{stats.FlowsFile}, nil, nil), chunks); err != nil {
		return err
	}
	flows, err := chunks.finish()
	if err != nil {
		return err
	}
	m.Parts = append(m.Parts, flows...)
	in.state.Merge = m
	return in.tables(ctx)
}

// undo leaves the workload as it was before a call that failed: its old flows are made again the
// next time, of the records, which are all there.
func (in *ingestion) undo(before *workloadState) error {
	keep := map[string]bool{}
	if before != nil {
		for _, s := range before.Sources {
			for _, p := range s.Parts {
				keep[p.Path] = true
			}
		}
		for _, p := range before.Merge.Parts {
			keep[p.Path] = true
		}
	}
	var errs error
	for _, t := range schema.Tables() {
		files, err := filepath.Glob(filepath.Join(escapeGlob(in.lake.root), t.Name, "workload="+in.state.ID, "part-*.parquet"))
		errs = errors.Join(errs, err)
		for _, f := range files {
			rel, err := filepath.Rel(in.lake.root, f)
			if err == nil && !keep[filepath.ToSlash(rel)] {
				err = os.Remove(f)
			}
			errs = errors.Join(errs, err)
		}
		_ = os.Remove(filepath.Join(in.lake.root, t.Name, "workload="+in.state.ID)) // if it is empty now
		_ = os.Remove(filepath.Join(in.lake.root, t.Name))
	}
	return errs
}
