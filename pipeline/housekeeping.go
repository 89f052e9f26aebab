package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline/cache"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
)

// Usage says what a lake takes on disk.
type Usage struct {
	Lake       string       `json:"lake"`
	Bytes      int64        `json:"bytes"` // files shared by scenarios count once
	CacheBytes int64        `json:"cache_bytes"`
	Owners     []OwnerUsage `json:"scenarios"`
	Workloads  []OwnerUsage `json:"workloads"`
}

// OwnerUsage is the disk space of one scenario or workload.
type OwnerUsage struct {
	ID      string           `json:"id"`
	Name    string           `json:"name,omitempty"`
	Bytes   int64            `json:"bytes"`
	Own     int64            `json:"own_bytes"` // not shared with another scenario: what removing it frees
	Tables  map[string]int64 `json:"tables"`
	AgeDays float64          `json:"age_days"` // since it was last worked on

	place lake.Place
}

// ReadUsage adds up the files of a lake.
func ReadUsage(l *lake.Lake) (*Usage, error) {
	u := &Usage{Lake: l.Path(), Owners: []OwnerUsage{}, Workloads: []OwnerUsage{}}
	scenarios, err := l.Scenarios()
	if err != nil {
		return nil, err
	}
	ingested, err := l.Workloads()
	if err != nil {
		return nil, err
	}
	seen := map[lake.Identity]bool{}
	for _, id := range scenarios {
		spec, _ := ReadSpec(l, id) // a damaged one has no name
		o, err := u.read(l, lake.Of(id), lake.Of(id).SpecPath(), seen)
		if err != nil {
			return nil, err
		}
		o.Name = spec.Name
		u.Owners = append(u.Owners, o)
	}
	for _, id := range ingested {
		p := lake.Place{Workload: id}
		o, err := u.read(l, p, p.WorkloadPath(), seen)
		if err != nil {
			return nil, err
		}
		u.Workloads = append(u.Workloads, o)
	}
	u.CacheBytes = cache.Bytes(lake.CachePath(l.Path()))
	return u, nil
}

// read adds up the files of a scenario or workload, which was last worked on when its state file was written.
func (u *Usage) read(l *lake.Lake, p lake.Place, state string, seen map[lake.Identity]bool) (o OwnerUsage, err error) {
	o = OwnerUsage{ID: string(p.Scenario) + string(p.Workload), Tables: map[string]int64{}, place: p}
	info, err := os.Stat(filepath.Join(l.Path(), state))
	if err != nil {
		return o, err
	}
	o.AgeDays = time.Since(info.ModTime()).Hours() / 24
	err = l.EachFile(p, func(f lake.FileUsage) error {
		o.Bytes += f.Bytes
		o.Tables[f.Table] += f.Bytes
		if f.Links <= 1 {
			o.Own += f.Bytes
		}
		if !seen[f.Identity] {
			seen[f.Identity] = true
			u.Bytes += f.Bytes
		}
		return nil
	})
	return o, err
}

// A Removal says which scenarios and workloads to remove.
type Removal struct {
	Scenarios []string // ids or names
	Workloads []lake.WorkloadID
	OlderThan time.Duration // scenarios last worked on before that; 0: none
	KeepLast  int           // of those, so many of the newest stay
	// OldWorkloads are removed too: those ingested before OlderThan but for the newest KeepLast.
	OldWorkloads bool
	DryRun       bool
}

// Remove removes scenarios and workloads and returns what it removed, or would remove.
func Remove(ctx context.Context, l *lake.Lake, r Removal) ([]OwnerUsage, error) {
	usage, err := ReadUsage(l)
	if err != nil {
		return nil, err
	}
	remove := map[lake.Place]bool{}
	for _, name := range r.Scenarios {
		id, _, err := ResolveNoted(l, name, true)
		is := func(o OwnerUsage) bool { return name != "" && (o.ID == name || o.Name == name) }
		if err != nil && slices.ContainsFunc(usage.Workloads, is) && !slices.ContainsFunc(usage.Owners, is) {
			return nil, fmt.Errorf("%s is a workload: parsimon rm --workload %s", name, name)
		}
		if err != nil {
			return nil, err
		}
		remove[lake.Of(id)] = true
	}
	for _, id := range r.Workloads {
		if !slices.ContainsFunc(usage.Workloads, func(o OwnerUsage) bool { return o.ID == string(id) }) {
			return nil, fmt.Errorf("no workload %q in %s", id, l.Path())
		}
		remove[lake.Place{Workload: id}] = true
	}
	old := func(all []OwnerUsage) { // those last worked on come last
		for i, o := range all {
			if o.AgeDays > r.OlderThan.Hours()/24 && i < len(all)-r.KeepLast {
				remove[o.place] = true
			}
		}
	}
	if r.OlderThan > 0 {
		old(usage.Owners)
	}
	if r.OldWorkloads {
		old(slices.SortedFunc(slices.Values(usage.Workloads),
			func(a, b OwnerUsage) int { return cmp.Compare(b.AgeDays, a.AgeDays) }))
	}
	for _, o := range usage.Owners { // windows go with the scenario that they were drawn from
		spec, err := ReadSpec(l, o.place.Scenario)
		if err == nil && spec.Windows != nil && remove[lake.Of(spec.Windows.Of)] {
			remove[o.place] = true
		}
	}
	removed := []OwnerUsage{}
	for _, o := range slices.Concat(usage.Owners, usage.Workloads) {
		if remove[o.place] {
			removed = append(removed, o)
		}
	}
	slices.SortFunc(removed, func(a, b OwnerUsage) int { return strings.Compare(a.place.String(), b.place.String()) })
	if len(removed) > 0 && !r.DryRun {
		err = removePlaces(ctx, l, removed)
	}
	return removed, err
}

// readersWait is how long a removal waits for queries that may read what it removes.
const readersWait = 10 * time.Second

// removePlaces removes scenarios and workloads when no process works on them and no query reads the lake; otherwise
// nothing. The views are written before the files go, so that a killed removal leaves none that name missing files.
func removePlaces(ctx context.Context, l *lake.Lake, owners []OwnerUsage) error {
	sessions := make([]*lake.Session, len(owners))
	for i, o := range owners {
		s, err := l.Lock(ctx, o.place)
		if err != nil {
			return err
		}
		defer s.Close()
		sessions[i] = s
	}
	readers, err := l.LockOutReaders(ctx, readersWait)
	if err != nil {
		return err
	}
	defer readers.Close()
	for i, o := range owners {
		if err := sessions[i].Withdraw(o.place); err != nil {
			return err
		}
	}
	err = catalog.Write(l) // fails where another place is damaged, which must not prevent the removal of this one
	for i, o := range owners {
		err = errors.Join(err, sessions[i].RemovePlace(o.place))
	}
	return err
}

// Publish commits the tables of all complete stages of the scenario and removes data files that nothing names. The
// views of LAKE/parsimon.duckdb follow at the end of a command: catalog.Write.
//
// If the views name any of those, they are written before the files are removed. Shards remove nothing, since another
// one may have installed a file that it has not recorded yet.
func (e *Estimation) Publish() error {
	if e.Ephemeral {
		return nil
	}
	named, replaced, err := e.commit()
	if err != nil || e.Shard.Count > 0 {
		return err
	}
	if replaced {
		if err := catalog.Write(e.Lake); err != nil {
			return err
		}
	}
	return e.exec.Session().RemoveUnlisted(e.base(), func(path string) bool { return named[path] })
}

// commit commits the tables of all complete stages, and returns the data files that manifests and records name, and
// whether they replace others. Shards commit one after the other: each finds at least the complete stages that the one
// before it has found.
func (e *Estimation) commit() (named map[string]bool, replaced bool, err error) {
	lock, err := e.Lake.LockCatalog()
	if err != nil {
		return nil, false, err
	}
	defer lock.Close()
	session := e.exec.Session()
	all, _, err := begunStages(e.Lake, e.Model)
	if err != nil {
		return nil, false, err
	}
	committed, before := map[lake.Place][]lake.DataFile{e.base(): nil}, []lake.DataFile(nil)
	named = map[string]bool{}
	for _, s := range all {
		r, found, err := engine.ReadRecords(e.Lake, s)
		if lake.IsReadError(err) {
			return nil, false, err
		}
		if err != nil || !found {
			continue // status reports it
		}
		complete := r.Complete(MethodVersion)
		for _, f := range r.AllFiles() {
			named[f.Path] = true
			if t, err := f.Table(); complete && err == nil && !t.Temporary {
				committed[s.Place] = append(committed[s.Place], f)
			}
		}
	}
	byName := func(a, b lake.Place) int { return strings.Compare(a.String(), b.String()) }
	for _, p := range slices.SortedFunc(maps.Keys(committed), byName) {
		files := committed[p]
		old, _, err := e.Lake.ReadManifest(p)
		if lake.IsReadError(err) {
			return nil, false, err
		}
		if err == nil {
			before = append(before, old.Files...)
			for _, f := range old.Files {
				if t, err := f.Table(); err == nil && t.Published {
					files = append(files, f)
				}
			}
		}
		for _, f := range files {
			named[f.Path] = true
		}
		if err := session.Commit(p, files); err != nil {
			return nil, false, err
		}
	}
	return named, slices.ContainsFunc(before, func(f lake.DataFile) bool { return !named[f.Path] }), nil
}
