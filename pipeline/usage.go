package pipeline

import (
	"os"
	"path/filepath"
	"time"

	"parsimon/pipeline/cache"
	"parsimon/pipeline/lake"
)

// Usage is the disk space that a lake uses.
type Usage struct {
	Lake       string       `json:"lake"`
	Bytes      int64        `json:"bytes"` // files that several scenarios share are counted once
	CacheBytes int64        `json:"cache_bytes"`
	Owners     []OwnerUsage `json:"scenarios"`
	Workloads  []OwnerUsage `json:"workloads"`
}

// OwnerUsage is the disk space that one scenario or workload uses.
type OwnerUsage struct {
	ID      string           `json:"id"`
	Name    string           `json:"name,omitempty"`
	Bytes   int64            `json:"bytes"`
	Own     int64            `json:"own_bytes"` // of files that are not shared, which removing it would free
	Tables  map[string]int64 `json:"tables"`
	AgeDays float64          `json:"age_days"` // since it was last worked on

	place lake.Place
}

// ReadUsage sums the sizes of the files of a lake.
func ReadUsage(l *lake.Lake) (*Usage, error) {
	u := &Usage{Lake: l.Path(), Owners: []OwnerUsage{}, Workloads: []OwnerUsage{}}
	scenarios, err := l.Scenarios()
	if err != nil {
		return nil, err
	}
	ingested, err := l.BegunWorkloads()
	if err != nil {
		return nil, err
	}
	seen := map[lake.Identity]bool{}
	for _, id := range scenarios {
		spec, _ := ReadSpec(l, id) // a damaged scenario has no name
		o, err := u.read(l, lake.Of(id), lake.Of(id).SpecPath(), seen)
		if err != nil {
			return nil, err
		}
		o.Name = spec.Name
		u.Owners = append(u.Owners, o)
	}
	for _, id := range ingested {
		p := lake.Place{Workload: id}
		state := p.WorkloadPath()
		for _, begun := range []string{p.StatePath("read"), p.StatePath()} { // the first ingest is not complete
			if !l.Exists(state) {
				state = begun
			}
		}
		o, err := u.read(l, p, state, seen)
		if err != nil {
			return nil, err
		}
		u.Workloads = append(u.Workloads, o)
	}
	u.CacheBytes = cache.Bytes(lake.CachePath(l.Path()))
	return u, nil
}

// read sums the sizes of the files of a scenario or workload. The time of its state file, or of a directory
// of state files, tells when it was last worked on.
func (u *Usage) read(l *lake.Lake, p lake.Place, state string, seen map[lake.Identity]bool) (o OwnerUsage,
	err error) {
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
