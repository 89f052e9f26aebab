package workloads

import "parsimon/pipeline/lake"

// Status says what an ingested workload holds. State is "complete", or "damaged": ingest its
// sources again.
type Status struct {
	ID      lake.WorkloadID `json:"workload"`
	Format  string          `json:"format"`
	State   string          `json:"state"`
	Sources int             `json:"sources"`
	Rows    int64           `json:"rows"` // flows + merged + rejects
	Flows   int64           `json:"flows"`
	Merged  int64           `json:"merged"`
	Rejects int64           `json:"rejects"`
	Damage  []string        `json:"damage,omitempty"`
}

// ReadStatus looks at a workload and at every file it should hold: at its bytes if thorough, or else only whether it is
// there and of the right size.
func ReadStatus(l *lake.Lake, id lake.WorkloadID, thorough bool) Status {
	out := Status{ID: id, State: "complete"}
	s, _, err := Read(l, id)
	if err != nil {
		out.State, out.Damage = "damaged", []string{err.Error()}
		return out
	}
	out.Format, out.Sources, out.Flows, out.Merged = s.formats(), len(s.Sources), s.Merge.Flows, s.Merge.Merged
	out.Rows, out.Rejects, _, _ = s.counts()
	check := l.CheckSize
	if thorough {
		check = l.Check
	}
	_, _, err = l.ReadManifest(lake.Place{Workload: id})
	if err != nil {
		out.State, out.Damage = "damaged", append(out.Damage, err.Error())
	}
	for _, f := range s.files() {
		if err := check(f); err != nil {
			out.State, out.Damage = "damaged", append(out.Damage, err.Error())
		}
	}
	return out
}
