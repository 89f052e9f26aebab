package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"parsimon/schema"
	"parsimon/stages/ingest"
)

// A workloadState is what the lake keeps of a workload beside its tables.
type workloadState struct {
	ID      string           `json:"id"`
	Setting workloadSetting  `json:"setting"`
	Sources []workloadSource `json:"sources"`
	Merge   mergeState       `json:"merge"`
}

// A workloadSetting is everything but the sources that the flows of a workload depend on.
type workloadSetting struct {
	Topology canonicalTopology `json:"topology"`
	Mapping  string            `json:"mapping"` // digest
	Format   string            `json:"format"`
	Hosts    string            `json:"hosts"`
	Labels   string            `json:"labels"`
	Seed     uint64            `json:"seed"`
	GapSigma float64           `json:"gap_sigma"`
	IdleNS   int64             `json:"idle_ns"`
}

type workloadSource struct {
	N         int32                `json:"n"`
	File      string               `json:"file"`
	Digest    string               `json:"digest"`
	Rows      int64                `json:"rows"`
	Records   int64                `json:"records"`
	Rejects   int64                `json:"rejects"`
	SetAside  int64                `json:"set_aside"`
	Reasons   []ingest.RejectCount `json:"reasons"`
	AnyFlowID bool                 `json:"any_flow_id"`
	Parts     []part               `json:"parts"` // of records and, if any, rejects
}

type mergeState struct {
	Flows           int64                `json:"flows"`
	Merged          int64                `json:"merged"`
	Rejects         int64                `json:"rejects"`
	SyntheticStarts int64                `json:"synthetic_starts"`
	FirstStartNS    int64                `json:"first_start_ns"`
	LastStartNS     int64                `json:"last_start_ns"`
	Reasons         []ingest.RejectCount `json:"reasons"`
	Parts           []part               `json:"parts"`
}

// digests name what the flows come from, whatever the order of the files.
func (w *workloadState) digests() []string {
	var list []string
	for _, s := range w.Sources {
		list = append(list, s.Digest)
	}
	slices.Sort(list)
	return append([]string{w.Setting.id()}, list...)
}

func (s workloadSetting) id() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("pipeline: " + err.Error()) // it is plain data
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// counts are rows, flows, merged, rejects and those of them set aside: the first is the sum of the
// next three.
func (w *workloadState) counts() (rows, rejects, setAside int64, reasons []ingest.RejectCount) {
	rejects = w.Merge.Rejects
	at := map[string]int{}
	add := func(list []ingest.RejectCount) {
		for _, r := range list {
			if i, ok := at[r.Reason]; ok {
				reasons[i].Rows += r.Rows
				continue
			}
			at[r.Reason] = len(reasons)
			reasons = append(reasons, r)
		}
	}
	for _, s := range w.Sources {
		rows += s.Rows
		rejects += s.Rejects
		setAside += s.SetAside
		add(s.Reasons)
	}
	add(w.Merge.Reasons)
	slices.SortStableFunc(reasons, func(a, b ingest.RejectCount) int { return int(min(1, max(-1, b.Rows-a.Rows))) })
	return rows, rejects, setAside, reasons
}

// workloadDir is where the files of a workload's table stand in the lake.
func workloadDir(t schema.Table, id string) string { return t.Name + "/workload=" + id }

func workloadFile(t schema.Table, id string, n int) string {
	return fmt.Sprintf("%s/part-%05d.parquet", workloadDir(t, id), n)
}

func (l *Lake) workloadPath(id string) string {
	return filepath.Join(l.root, stateDir, "workload="+id, "workload.json")
}

// workloads lists the ids of the ingested workloads.
func (l *Lake) workloads() (all []string, err error) {
	dirs, err := filepath.Glob(filepath.Join(escapeGlob(l.root), stateDir, "workload=*"))
	for _, d := range dirs {
		name := filepath.Base(d)[len("workload="):]
		if _, err := os.Stat(l.workloadPath(name)); err == nil {
			all = append(all, name)
		}
	}
	return all, err
}

// resolveWorkload finds an ingested workload by its id or the first letters of it, if only one has
// them.
func (l *Lake) resolveWorkload(id string) (*workloadState, error) {
	all, err := l.workloads()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range all {
		if name == id {
			found = []string{id}
			break
		}
		if len(id) >= 4 && len(name) > len(id) && name[:len(id)] == id {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("no workload %q in %s; it holds %v", id, l.root, all)
	}
	var w workloadState
	_, err = l.readState(l.workloadPath(found[0]), &w)
	return &w, err
}

// escapeGlob makes filepath.Glob take a path for itself.
func escapeGlob(path string) string {
	return regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(path, `\$0`)
}

var workloadName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
