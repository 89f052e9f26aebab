package queries

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"parsimon/schema"
	"parsimon/schema/names"
)

// maxListed is the number of ids that an error lists.
const maxListed = 20

// checkIDs returns an error if the parameter scenario or variant is not empty and no data file of the lake has
// that id. The error lists the ids of the lake, the most similar one first.
func (db *DB) checkIDs(ctx context.Context, conn *sql.Conn, params map[string]string) error {
	scenario, variant := params["scenario"], params["variant"]
	var scenarios, variants []string // of the lake, and of the scenario
	for _, f := range db.files {
		if f.Scenario != "" {
			scenarios = append(scenarios, f.Scenario)
		}
		if f.Variant != "" && (scenario == "" || scenario == f.Scenario) {
			variants = append(variants, f.Variant)
		}
	}
	if scenario != "" && !slices.Contains(scenarios, scenario) {
		return fmt.Errorf("no scenario %q in the lake; it has %s", scenario,
			list(scenario, unique(scenarios), db.scenarioNames(ctx, conn)))
	}
	if variant != "" && !slices.Contains(variants, variant) {
		where := "in the lake; it has"
		if scenario != "" {
			where = "of scenario " + scenario + "; it has"
		}
		return fmt.Errorf("no variant %q %s %s", variant, where, list(variant, unique(variants), nil))
	}
	return nil
}

func unique(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}

// scenarioNames returns the names of the scenarios by id. Errors leave names out: they only add to a message.
func (db *DB) scenarioNames(ctx context.Context, conn *sql.Conn) map[string]string {
	if db.require(ctx, conn, []string{schema.Scenarios.Name}) != nil {
		return nil
	}
	rows, err := conn.QueryContext(ctx, "SELECT scenario, name FROM scenarios")
	if err != nil {
		return nil
	}
	defer rows.Close()
	nameOf := map[string]string{}
	for rows.Next() {
		var id, name string
		if rows.Scan(&id, &name) == nil {
			nameOf[id] = name
		}
	}
	if rows.Err() != nil {
		return nil
	}
	return nameOf
}

// list returns ids with their names, the most similar to the one that was asked for first. An id is as
// similar as the more similar of the id and the name.
func list(asked string, ids []string, nameOf map[string]string) string {
	if len(ids) == 0 {
		return "none"
	}
	distance := func(id string) int {
		d := names.Distance(asked, id)
		if name := nameOf[id]; name != "" {
			d = min(d, names.Distance(asked, name))
		}
		return d
	}
	sorted := slices.Clone(ids)
	slices.SortStableFunc(sorted, func(a, b string) int { return distance(a) - distance(b) })
	more := ""
	if len(sorted) > maxListed {
		more = fmt.Sprintf(" and %d more", len(sorted)-maxListed)
		sorted = sorted[:maxListed]
	}
	for i, id := range sorted {
		if name := nameOf[id]; name != "" {
			sorted[i] = fmt.Sprintf("%s (%q)", id, name)
		}
	}
	return strings.Join(sorted, ", ") + more
}
