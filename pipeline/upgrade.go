package pipeline

import (
	"context"
	"errors"

	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// Upgraded describes the changes that Upgrade made to a lake.
type Upgraded struct {
	Scenarios []lake.ScenarioID `json:"scenarios"`
	Workloads []lake.WorkloadID `json:"workloads"`
	Version   int               `json:"schema_version"`
}

// Upgrade converts a lake of an older schema version to this version (lake.Upgrade). It removes windows of
// time that older versions stored among other scenarios. The next run with --within simulates them again.
func Upgrade(ctx context.Context, l *lake.Lake) (*Upgraded, error) {
	u := &Upgraded{Scenarios: []lake.ScenarioID{}, Workloads: []lake.WorkloadID{}, Version: schema.Version}
	places, errs := l.Upgrade(ctx, readersWait)
	for _, p := range places {
		if p.Workload != "" {
			u.Workloads = append(u.Workloads, p.Workload)
		} else {
			u.Scenarios = append(u.Scenarios, p.Scenario)
		}
	}
	ids, err := l.Scenarios()
	if err != nil {
		return u, errors.Join(errs, err)
	}
	for _, id := range ids {
		spec, err := ReadSpec(l, id)
		if err != nil || spec.Windows == nil || id.Hidden() { // status reports damage
			continue
		}
		session, err := l.Lock(ctx, lake.Of(id))
		if err == nil {
			err = session.RemovePlace(lake.Of(id))
			session.Close()
		}
		errs = errors.Join(errs, err)
	}
	return u, errs
}
