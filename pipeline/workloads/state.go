// Package workloads ingests flow logs into the lake and manages the resulting workloads. A workload is
// independent of scenarios: a run uses a range of its time (scenario.FromWorkload), and more files can be
// added to it.
//
//	log files ─ ingest.Ingester ─► records, addresses, rejects   one set of data files per source
//	                                  │ merge of all sources
//	                                  ▼
//	                               flows, rejects                 rows = flows + merged + rejected
//	                                  │ routed on the network, one data file at a time
//	                                  ▼
//	                               Report: load of each link, expected cost of a simulation
//
// State lists the sources by digest, so that each file counts once, and all data files. It is written after
// the data files and before the manifest. The next ingest removes the files of a killed one.
package workloads

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/stages/ingest"
	"parsimon/stages/topology/format"
)

// A State describes a workload. The lake stores it beside the workload's tables.
type State struct {
	ID      lake.WorkloadID `json:"id"`
	Setting Setting         `json:"setting"`
	// First has the identities of the sources of the first ingest, if the user did not name the workload.
	First []string `json:"first,omitempty"`
	// Topology is the topology that the flows were ingested with. A run reads it again, unless another
	// topology is given.
	Topology TopologyFile `json:"topology_file"`
	Sources  []Source     `json:"sources"`
	Merge    Merged       `json:"merge"`
	// Traffic has the models that the labels table states by service (column traffic_model).
	Traffic map[string]string `json:"traffic,omitempty"`
}

// A Setting has everything, except for the sources, that determines the flows of a workload.
type Setting struct {
	Topology json.RawMessage `json:"topology"`
	Records  bool            `json:"records"` // of flow logs
	Hosts    string          `json:"hosts"`
	Domains  []string        `json:"domains,omitempty"` // sorted
	Labels   string          `json:"labels"`
	First    bool            `json:"labels_first,omitempty"`
	Seed     uint64          `json:"seed"`
	GapSigma float64         `json:"gap_sigma"`
	IdleNS   int64           `json:"idle_ns"`
	Rate     int64           `json:"sampling_rate,omitempty"`
}

// A TopologyFile is a topology file and the options that complete it.
type TopologyFile struct {
	Path    string         `json:"path"` // absolute, or the name of a built-in topology
	Options format.Options `json:"options"`
}

// A Source is an ingested log file with its counts.
type Source struct {
	N       int32  `json:"n"`
	File    string `json:"file"` // path, or URL of an object
	Format  string `json:"format"`
	Mapping string `json:"mapping"` // digest of the mapping
	Digest  string `json:"digest"`  // of the decompressed content
	// FileBytes is the size as it is stored; 0: unknown. ETag is empty for files that are no objects.
	FileBytes int64  `json:"file_bytes,omitempty"`
	ETag      string `json:"etag,omitempty"`
	// Copies are other objects with the same content. Their rows were not added again.
	Copies []Object `json:"copies,omitempty"`
	ingest.FileStats
	Files []lake.DataFile `json:"files"` // files of records and, if there are any, of rejects

	path string // of the file or of the copy of the object, while it is ingested
	xxh3 uint64 // of the content, as in ingest.Digests
}

// Merged is the result of merging all sources.
type Merged struct {
	ingest.MergeStats
	Next  int             `json:"next"` // number of the first data file of the next merge
	Files []lake.DataFile `json:"files"`
	// Describes the files of table flows, in the order of Files.
	Chunks []Chunk             `json:"chunks,omitempty"`
	Labels []ingest.LabelCount `json:"labels"`
	// MergeVersion; a merge of another version is not continued.
	Version int `json:"version,omitempty"`
}

// MergeVersion is raised if the same records produce other flows, or if the content of the state changes.
const MergeVersion = 12

// A Chunk describes one data file of table flows and its file of table link_loads.
type Chunk struct {
	lake.FlowStats
	UnreachableFlows int64 `json:"unreachable_flows"`
	PacketHops       int64 `json:"packet_hops"`
}

// described reports whether the merge has a complete Chunk for every data file.
func (m *Merged) described() bool {
	n := len(m.Chunks)
	return m.Version == MergeVersion && n > 0 && len(lake.FilesOf(m.Files, schema.Flows)) == n &&
		len(lake.FilesOf(m.Files, schema.LinkLoads)) == n
}

// formats returns the formats of the sources as a text.
func (s *State) formats() string {
	all := names.Of(s.Sources, func(s Source) string { return s.Format })
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// digests returns the digests that identify the sources of the flows. They do not depend on the order of the
// files.
func (s *State) digests() []string {
	list := names.Of(s.Sources, func(s Source) string { return s.Digest })
	slices.Sort(list)
	return append([]string{s.Setting.id()}, list...)
}

// unnamed returns the id of a workload that the user did not name.
func (s *State) unnamed() lake.WorkloadID {
	return lake.WorkloadID(scenario.IDOf(
		[]byte(strings.Join(append([]string{s.Setting.id()}, s.First...), " "))))
}

func (s Setting) id() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("pipeline: " + err.Error()) // it is plain data
	}
	return scenario.IDOf(text)
}

// rowCounts are the counts of rows of all sources: Rows + Reverse = flows + merged + Rejects.
type rowCounts struct {
	Rows     int64
	Reverse  int64 // rows with bytes in both directions, each of which is two flows
	Rejects  int64
	SetAside int64 // rejects that the log itself does not count as flows
	Reasons  []ingest.RejectCount
}

func (s *State) counts() (c rowCounts) {
	c.Rejects = s.Merge.Rejects
	lists := [][]ingest.RejectCount{s.Merge.Reasons}
	for _, s := range s.Sources {
		c.Rows += s.Rows
		c.Reverse += s.Reverse
		c.Rejects += s.Rejects
		c.SetAside += s.SetAside
		lists = append(lists, s.Reasons)
	}
	c.Reasons = ingest.AddReasons(lists...)
	return c
}

// Read reads the state of a workload. If the lake has no workload with this name, found is false.
func Read(l *lake.Lake, id lake.WorkloadID) (s *State, found bool, err error) {
	s = new(State)
	path := lake.Place{Workload: id}.WorkloadPath()
	found, err = l.ReadState(path, s)
	if err == nil && found && s.ID != id {
		err = fmt.Errorf("%s/%s is the state of workload %q, not of %s", l.Path(), path, s.ID, id)
	}
	return s, found, err
}

// Resolve reads the ingested workload that a user names. If the name is a hash, a prefix is sufficient.
func Resolve(l *lake.Lake, name string) (*State, error) {
	ids, err := l.Workloads()
	if err != nil {
		return nil, err
	}
	id, err := resolve(l, name, ids, names.Abbreviated)
	if err != nil {
		return nil, err
	}
	s, _, err := Read(l, id)
	return s, err
}

// ResolveWhole checks that the lake has a workload with exactly this name, complete or not. The error lists
// the workloads of the lake.
func ResolveWhole(l *lake.Lake, name string) (lake.WorkloadID, error) {
	ids, err := l.BegunWorkloads()
	if err != nil {
		return "", err
	}
	return resolve(l, name, ids, names.Exact)
}

func resolve(l *lake.Lake, name string, ids []lake.WorkloadID, match names.Match) (
	lake.WorkloadID, error) {
	all := make([]names.Thing, len(ids))
	for i, id := range ids {
		_, chosen := lake.ParseScenarioID(string(id)) // hashes look like scenario ids
		all[i] = names.Thing{ID: string(id), Chosen: chosen != nil}
	}
	at, _, err := names.Find("workload", name, l.Path(), all, match)
	if err != nil {
		return "", err
	}
	return ids[at], nil
}

// Ingested identifies the workload and the sources of its flows.
func (s *State) Ingested() scenario.Ingested {
	return scenario.Ingested{
		ID: string(s.ID), Digests: s.digests(),
		FirstStartNS: s.Merge.FirstStartNS, LastStartNS: s.Merge.LastStartNS,
		Profiles: len(s.Merge.intervals()) > 0, EndNS: s.Merge.LastEndNS,
	}
}

// Find returns the workload that has exactly the given digests (scenario.Ingested), and bytes over time. If
// the lake has none, found is false.
func Find(l *lake.Lake, digests []string) (s *State, found bool, err error) {
	ids, err := l.Workloads()
	if err != nil {
		return nil, false, err
	}
	for _, id := range ids {
		s, found, err := Read(l, id)
		if err != nil {
			return nil, false, err
		}
		if found && len(s.Merge.intervals()) > 0 && slices.Equal(s.digests(), digests) {
			return s, true, nil
		}
	}
	return nil, false, nil
}

// Files returns the verified data files of one of the workload's tables.
func (s *State) Files(l *lake.Lake, t schema.Table) ([]lake.DataFile, error) {
	files := lake.FilesOf(s.Merge.Files, t)
	for _, source := range s.Sources {
		files = append(files, lake.FilesOf(source.Files, t)...)
	}
	return files, s.check(l, files)
}

// intervals returns the data files of table workload_intervals. A workload whose rows are whole flows, or
// that an older version ingested, has none.
func (m *Merged) intervals() []lake.DataFile { return lake.FilesOf(m.Files, schema.WorkloadIntervals) }

// IntervalFiles returns the verified data files of table workload_intervals.
func (s *State) IntervalFiles(l *lake.Lake) ([]lake.DataFile, error) {
	files := s.Merge.intervals()
	return files, s.check(l, files)
}

// check returns an error if a data file of the workload is damaged.
func (s *State) check(l *lake.Lake, files []lake.DataFile) error {
	for _, f := range files {
		if err := l.Check(f); err != nil {
			return fmt.Errorf("workload %s is damaged: %w: ingest it again", s.ID, err)
		}
	}
	return nil
}

// FlowFiles returns the verified data files of a workload's flows, and the state of the workload. If another
// version of the program ingested the workload, its merge has no chunks. If the workload no longer has the
// content of w, FlowFiles returns an error, because the flows would not be those that the scenario's id
// identifies.
func FlowFiles(l *lake.Lake, w scenario.Ingested) (files []lake.DataFile, s *State, err error) {
	id := lake.WorkloadID(w.ID)
	s, found, err := Read(l, id)
	if err == nil && found && (!slices.Equal(s.digests(), w.Digests) || s.Ingested().Profiles != w.Profiles) {
		err = fmt.Errorf("workload %s was changed since this command read what it holds: run it again", id)
	}
	if err == nil && !found {
		err = fmt.Errorf("no workload %q in %s", id, l.Path())
	}
	if err != nil {
		return nil, nil, err
	}
	files = lake.FilesOf(s.Merge.Files, schema.Flows)
	if err := s.check(l, files); err != nil {
		return nil, nil, err
	}
	if !s.Merge.described() {
		s.Merge.Chunks = nil
	}
	return files, s, nil
}

// files returns all data files of the workload.
func (s *State) files() []lake.DataFile {
	files := slices.Clone(s.Merge.Files)
	for _, source := range s.Sources {
		files = append(files, source.Files...)
	}
	return files
}

// Status describes the state of a workload. State is "complete", "damaged" or, if its first ingest is not
// complete, "partial". Ingesting the sources again repairs a damaged workload and completes a partial one.
type Status struct {
	ID      lake.WorkloadID `json:"workload"`
	Format  string          `json:"format"`
	State   string          `json:"state"`
	Sources int             `json:"sources"`
	Rows    int64           `json:"rows"` // Rows + Reverse = flows + merged + rejects
	Reverse int64           `json:"second_directions,omitempty"`
	Flows   int64           `json:"flows"`
	Merged  int64           `json:"merged"`
	Rejects int64           `json:"rejects"`
	Damage  []string        `json:"damage,omitempty"`
}

// ReadStatus checks a workload and every file that it should have. how says how closely it checks
// each file.
func ReadStatus(l *lake.Lake, id lake.WorkloadID, how lake.Verification) Status {
	out := Status{ID: id, State: "complete"}
	s, found, err := Read(l, id)
	switch {
	case err != nil:
		out.State, out.Damage = "damaged", []string{err.Error()}
		return out
	case !found:
		out.State = "partial"
		return out
	}
	out.Format = s.formats()
	out.Sources = len(s.Sources)
	out.Flows = s.Merge.Flows
	out.Merged = s.Merge.Merged
	c := s.counts()
	out.Rows = c.Rows
	out.Reverse = c.Reverse
	out.Rejects = c.Rejects
	_, _, err = l.ReadManifest(lake.Place{Workload: id})
	if err != nil {
		out.State, out.Damage = "damaged", append(out.Damage, err.Error())
	}
	for _, f := range s.files() {
		if err := l.Verify(f, how); err != nil {
			out.State, out.Damage = "damaged", append(out.Damage, err.Error())
		}
	}
	return out
}
