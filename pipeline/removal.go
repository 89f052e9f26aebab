package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/schema/names"
)

// A Removal selects scenarios and workloads for removal.
type Removal struct {
	Scenarios []string // ids or names
	Workloads []lake.WorkloadID
	OlderThan time.Duration // selects scenarios last worked on longer ago than this; 0: none
	KeepLast  int           // the number of newest scenarios to keep among those
	// OldWorkloads also selects workloads that were ingested longer ago than OlderThan, except for the newest
	// KeepLast.
	OldWorkloads bool
	DryRun       bool
}

// Remove removes scenarios and workloads. It returns the removed ones or, in a dry run, those that would be
// removed.
func Remove(ctx context.Context, l *lake.Lake, r Removal) ([]OwnerUsage, error) {
	usage, err := ReadUsage(l)
	if err != nil {
		return nil, err
	}
	selected, err := r.named(l, usage)
	if err != nil {
		return nil, err
	}
	r.addOld(selected, usage)
	addWindows(selected, l, usage)
	removed := []OwnerUsage{}
	for _, o := range slices.Concat(usage.Owners, usage.Workloads) {
		if selected[o.place] {
			removed = append(removed, o)
		}
	}
	slices.SortFunc(removed, func(a, b OwnerUsage) int {
		return strings.Compare(a.place.String(), b.place.String())
	})
	if len(removed) > 0 && !r.DryRun {
		err = removePlaces(ctx, l, removed)
	}
	return removed, err
}

// named returns the places of the scenarios and workloads that the user named.
func (r *Removal) named(l *lake.Lake, usage *Usage) (map[lake.Place]bool, error) {
	selected := map[lake.Place]bool{}
	for _, name := range r.Scenarios {
		id, _, err := ResolveNoted(l, name, names.Exact)
		is := func(o OwnerUsage) bool { return name != "" && (o.ID == name || o.Name == name) }
		if err != nil && slices.ContainsFunc(usage.Workloads, is) && !slices.ContainsFunc(usage.Owners, is) {
			return nil, fmt.Errorf("%s is a workload: parsimon rm --workload %s", name, name)
		}
		if err != nil {
			return nil, err
		}
		selected[lake.Of(id)] = true
	}
	for _, id := range r.Workloads {
		if !slices.ContainsFunc(usage.Workloads, func(o OwnerUsage) bool { return o.ID == string(id) }) {
			return nil, fmt.Errorf("no workload %q in %s", id, l.Path())
		}
		selected[lake.Place{Workload: id}] = true
	}
	return selected, nil
}

// addOld adds the scenarios and workloads that are older than OlderThan.
func (r *Removal) addOld(selected map[lake.Place]bool, usage *Usage) {
	add := func(all []OwnerUsage) { // sorted: the newest are at the end
		for i, o := range all {
			if o.AgeDays > r.OlderThan.Hours()/24 && i < len(all)-r.KeepLast {
				selected[o.place] = true
			}
		}
	}
	if r.OlderThan > 0 {
		add(usage.Owners)
	}
	if r.OldWorkloads {
		add(slices.SortedFunc(slices.Values(usage.Workloads),
			func(a, b OwnerUsage) int { return cmp.Compare(b.AgeDays, a.AgeDays) }))
	}
}

// addWindows adds the windows of time that were drawn from a selected scenario.
func addWindows(selected map[lake.Place]bool, l *lake.Lake, usage *Usage) {
	for _, o := range usage.Owners {
		spec, err := ReadSpec(l, o.place.Scenario)
		if err == nil && spec.Windows != nil && selected[lake.Of(spec.Windows.Of)] {
			selected[o.place] = true
		}
	}
}

// readersWait is how long a removal waits for queries that may read the files to be removed.
const readersWait = 10 * time.Second

// removePlaces removes scenarios and workloads if no process works on them and no query reads the lake.
// Otherwise it removes nothing. The views are written before the files are removed, so that views never name
// missing files, even if the removal is killed.
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
	err = catalog.Write(l) // damage to another place makes this fail, but must not prevent this removal
	for i, o := range owners {
		err = errors.Join(err, sessions[i].RemovePlace(o.place))
	}
	return err
}
