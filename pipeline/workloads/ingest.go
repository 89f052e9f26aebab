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
	"time"

	"github.com/rs/zerolog"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/queries"
	"parsimon/stages/ingest"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// A Trace is what to bring into a lake as a workload.
type Trace struct {
	Sources  []string // files, directories and patterns
	Topology string   // as for scenario.FromFiles
	Options  format.Options
	// Workload names the workload; empty for a name made of everything but the sources, so that the next day's files are
	// added to the same one.
	Workload      string
	Mappings      []*ingest.Mapping // of several, each file has the one that fits it; none: by the files' names
	Hosts, Labels string            // tables, see ingest.Options
	LabelsFirst   bool
	MaxRejects    float64 // share of the rows of all sources so far
	Seed          uint64
	GapSigma      float64
	IdleNS        int64
}

// Settings say how an ingest works. None of them changes its rows.
type Settings struct {
	Lake        string        // directory, made if it does not exist
	Workers     int           // 0: one per core
	MemoryBytes int64         // 0: 512 MiB
	Wait        time.Duration // while another process works on the workload
	Log         zerolog.Logger
	Progress    engine.Progress // nil: none
}

// An ingestion is one call of Ingest at work.
type ingestion struct {
	trace    Trace
	scenario *scenario.Scenario // only its topology
	net      *topology.Network
	session  *lake.Session
	state    State
	options  ingest.Options
	workers  int
	log      zerolog.Logger
	progress engine.Progress
	report   *Report
}

// Ingest brings a trace into the lake: its rows become table records, the records flows, and the load of every link is
// worked out. Files that the workload already holds, by their content, are passed over. Others are added to it. Flows
// that start before the first that they add or change stay; the others are made again, so that it does not matter in
// how many steps a trace comes. Rows that cannot be used go to table rejects; more of them than t.MaxRejects fail the
// call. A call that fails changes nothing.
func Ingest(ctx context.Context, t Trace, o Settings) (_ *Report, err error) {
	if err := queries.CheckLakePath(o.Lake); err != nil {
		return nil, err
	}
	in := &ingestion{trace: t, workers: o.Workers, log: o.Log, progress: o.Progress, report: &Report{}}
	if in.workers <= 0 {
		in.workers = runtime.GOMAXPROCS(0)
	}
	if in.progress == nil {
		in.progress = engine.Silent
	}
	files, err := in.prepare(o)
	if err != nil {
		return nil, err
	}
	l, err := lake.Open(o.Lake, true)
	if err != nil {
		return nil, err
	}
	in.session, err = lake.Waiting(ctx, o.Wait, func() (*lake.Session, error) { return l.Lock(ctx, in.place()) })
	if err != nil {
		return nil, err
	}
	defer in.session.Close()
	in.options.TmpDir = in.session.TmpPath()
	before, fresh, err := in.open(ctx, files)
	if err != nil {
		return nil, err
	}
	if err := in.removeOthers(before); err != nil { // files of a killed call
		return nil, err
	}
	if len(fresh)+in.report.DamagedFiles > 0 || !in.state.Merge.described() || in.damage(in.state.Merge.Files) != nil {
		if err := in.add(ctx, fresh); err != nil {
			return nil, errors.Join(err, in.removeOthers(before))
		}
	}
	if err := in.session.Commit(in.place(), in.state.files()); err != nil {
		return nil, err
	}
	if err := catalog.Write(l); err != nil {
		return nil, err
	}
	if err := in.removeOthers(&in.state); err != nil { // what the new state replaces, when no view names it
		return nil, err
	}
	return in.report, in.finish()
}

// place is where the workload's tables are stored.
func (in *ingestion) place() lake.Place { return lake.Place{Workload: in.state.ID} }

// prepare reads everything but the sources, and names the workload.
func (in *ingestion) prepare(o Settings) (files []string, err error) {
	t := &in.trace
	if files, err = ingest.FindSources(t.Sources); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no source given")
	}
	if err := t.setMappings(files); err != nil {
		return nil, err
	}
	if in.scenario, err = scenario.OfTopology(t.Topology); err != nil {
		return nil, err
	}
	in.scenario.SetTopologyOptions(t.Options)
	if in.net, err = in.scenario.Network(); err != nil {
		return nil, err
	}
	for _, note := range in.scenario.TopologyNotes() {
		in.log.Info().Str("topology", t.Topology).Msg(note)
	}
	memory := o.MemoryBytes
	if memory <= 0 {
		memory = 512 << 20
	}
	in.options = ingest.Options{
		Mapping: t.Mappings[0], Hosts: t.Hosts, Labels: t.Labels, LabelsFirst: t.LabelsFirst,
		MemoryBytes: memory, Threads: in.workers,
		Seed: t.Seed, GapSigma: t.GapSigma, IdleNS: t.IdleNS,
	}
	set := Setting{Records: t.Mappings[0].Records, Seed: t.Seed, GapSigma: t.GapSigma, IdleNS: t.IdleNS,
		First: t.LabelsFirst}
	if set.Topology, err = in.scenario.TopologyKey(); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		file string
		to   *string
	}{{t.Hosts, &set.Hosts}, {t.Labels, &set.Labels}} {
		if f.file == "" {
			continue
		}
		if *f.to, err = in.scenario.FileDigest(f.file); err != nil {
			return nil, err
		}
	}
	in.state.Setting = set
	in.state.Topology = TopologyFile{Path: absolute(t.Topology), Options: t.Options}
	in.state.Topology.Options.NodeList = absolute(t.Options.NodeList)
	in.state.ID, err = lake.ParseWorkloadID(cmp.Or(t.Workload, set.id()))
	return files, err
}

// setMappings finds the formats of files by their names if none are given. All rows are of one kind.
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
		if first := t.Mappings[0]; m.Records != first.Records {
			return fmt.Errorf("format %s and format %s differ: one has records of flow logs, the other whole flows: "+
				"make two workloads", m.Name, first.Name)
		}
	}
	return nil
}

// absolute is the absolute path of what exists: names of shipped topologies stay.
func absolute(path string) string {
	if _, err := os.Stat(path); err != nil {
		return path
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return full
}

// open reads what the workload holds already, and finds which of the files are new. Records that are damaged are read
// again if their source is among the files; otherwise open fails.
func (in *ingestion) open(ctx context.Context, files []string) (before *State, fresh []Source, err error) {
	old, found, err := Read(in.session.Lake, in.state.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: remove workload %s (parsimon rm --workload) and ingest all of its files again", err, in.state.ID)
	}
	digests := make([]string, len(files))
	given := map[string]bool{}
	for i, f := range files {
		if digests[i], err = ingest.Digest(ctx, "flow file", f); err != nil {
			return nil, nil, err
		}
		given[digests[i]] = true
	}
	known, damaged := map[string]bool{}, map[string]int32{} // numbers of sources whose records are damaged
	next := int32(1)
	if found {
		if old.Setting.id() != in.state.Setting.id() {
			return nil, nil, fmt.Errorf("workload %s was ingested with %s: give the new one another name", old.ID, settingDifference(old.Setting, in.state.Setting))
		}
		place := in.state.Topology
		before, in.state = old, *old
		in.state.Sources, in.state.Topology = nil, place
		for _, s := range old.Sources {
			next = max(next, s.N+1)
			damage := in.damage(s.Files)
			if damage == nil {
				in.state.Sources = append(in.state.Sources, s)
				known[s.Digest] = true
				continue
			}
			damaged[s.Digest] = s.N
			if !given[s.Digest] {
				return nil, nil, fmt.Errorf("workload %s: the records of %s are damaged: %w: give that file again, too", old.ID, s.File, damage)
			}
			in.report.DamagedFiles++
		}
	}
	in.report.HeldFiles = len(in.state.Sources)
	for i, f := range files {
		if known[digests[i]] {
			in.report.KnownFiles++
			continue
		}
		known[digests[i]] = true
		n, again := damaged[digests[i]] // what is read again has the same rows as before
		if !again {
			n = next
			next++
		}
		source := Source{N: n, File: f, Digest: digests[i]}
		if err := in.setFormat(&source); err != nil {
			return nil, nil, err
		}
		fresh = append(fresh, source)
	}
	in.report.NewFiles = len(fresh)
	return before, fresh, nil
}

// setFormat finds the format of a new source.
func (in *ingestion) setFormat(s *Source) (err error) {
	if s.mapping, err = ingest.Choose(s.File, in.trace.Mappings); err != nil {
		return err
	}
	s.Format, s.Mapping = s.mapping.Name, scenario.BytesDigest([]byte(s.mapping.Text))
	for _, held := range in.state.Sources {
		if held.Format == s.Format && held.Mapping != s.Mapping {
			return fmt.Errorf("workload %s was ingested with another mapping %s: give the new one another name",
				in.state.ID, s.Format)
		}
	}
	return nil
}

// settingDifference says in words what differs.
func settingDifference(a, b Setting) string {
	switch {
	case a.Records && !b.Records:
		return "formats whose rows are records of flow logs, not whole flows"
	case b.Records && !a.Records:
		return "formats whose rows are whole flows, not records of flow logs"
	case a.Hosts != b.Hosts:
		return "another hosts table"
	case a.Labels != b.Labels || a.First != b.First:
		return "another labels table"
	case a.Seed != b.Seed || a.GapSigma != b.GapSigma || a.IdleNS != b.IdleNS:
		return "other settings of merging"
	}
	return "another topology"
}

// damage is the error of the first committed file that is not as it was, or of there being none.
func (in *ingestion) damage(files []lake.DataFile) error {
	for _, f := range files {
		if err := in.session.Check(f); err != nil {
			in.log.Warn().Err(err).Msg("damaged: made again")
			return err
		}
	}
	if len(files) == 0 {
		return errors.New("no data files")
	}
	return nil
}
