package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
)

// CheckChanges reports what is wrong with changes of a scenario that the lake holds, before any work, and returns the
// cables that they change.
func CheckChanges(dir, base string, c scenario.Changes) ([]scenario.CableChange, error) {
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil, err
	}
	from, err := OpenModel(l, base)
	if err != nil {
		return nil, err
	}
	applied, err := c.Apply(from.Network, from.Spec.Planned, from.Spec.Canonical, from.Spec.Seed)
	if err != nil {
		return nil, fmt.Errorf("scenario %s (%s): %w", from.ID(), from.Spec.Name, err)
	}
	services := slices.Concat(slices.Collect(maps.Keys(c.Scale)), slices.Collect(maps.Keys(c.Move)))
	return applied.Cables, from.checkServices(services)
}

// checkServices reports services without flows. It reads flows until it has found one of each.
func (m *Model) checkServices(asked []string) error {
	if len(asked) == 0 {
		return nil
	}
	r, err := engine.Complete(m.Lake, generated(m.Lake, m.ID()), methodVersion)
	if err != nil {
		return err
	}
	found := errors.New("all are found")
	seen := map[string]bool{}
	missing := func(name string) bool { return !seen[name] }
	flows := m.Lake.Read(schema.Flows, r.Files(schema.Flows), []string{"service"}, nil)
	err = columns.Consume(flows, func(rec arrow.Record) error {
		service := columns.Text(rec, "service")
		for i := range service.Len() {
			if name := service.Value(i); !seen[name] {
				seen[strings.Clone(name)] = true // the batch's memory is used again
			}
		}
		if !slices.ContainsFunc(asked, missing) {
			return found
		}
		return nil
	})
	if err != nil {
		if errors.Is(err, found) {
			return nil
		}
		return err
	}
	all := slices.Sorted(maps.Keys(seen))
	for _, name := range asked {
		if missing(name) {
			return fmt.Errorf("scenario %s (%s): no service %q; it has %q%s", m.ID(), m.Spec.Name, name, all, names.DidYouMean(name, all))
		}
	}
	return nil
}
