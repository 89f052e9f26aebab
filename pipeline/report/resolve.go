package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parsimon/queries"
	"parsimon/schema/names"
)

// Estimate is one estimate of the lake.
type Estimate struct {
	Scenario, Variant string
	Name              string // of the scenario; need not be unique
	Windows           int64  // of time that it was estimated from; 0: every flow was estimated
	answer            bool   // of the scenario
}

// Resolve finds the estimates that Options.Scenario and Options.Compare mean; base is the zero Estimate without
// Compare.
func Resolve(ctx context.Context, lake string, o Options) (scenario, base Estimate, err error) {
	db, err := queries.Open(ctx, lake, o.Query)
	if err != nil {
		return scenario, base, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	return resolveBoth(ctx, db, o)
}

// resolveBoth is Resolve in an open lake.
func resolveBoth(ctx context.Context, db *queries.DB, o Options) (scenario, base Estimate, err error) {
	if scenario, err = resolve(ctx, db, o.Scenario); err != nil || o.Compare == "" {
		return scenario, base, err
	}
	if base, err = resolveBase(ctx, db, o.Compare, scenario.Variant); err == nil && scenario.Windows+base.Windows > 0 {
		err = errCompareSampled
	}
	return scenario, base, err
}

// estimatesQuery lists what the lake holds.
var estimatesQuery = queries.Query{Name: "estimates", SQL: `SELECT x.scenario, s.variant, x.name, s.windows, s.variant = x.answer AS answer
	FROM (SELECT scenario, variant, 0 AS windows FROM slowdowns_all GROUP BY scenario, variant
		UNION ALL SELECT scenario, variant, count(*) FROM windows_all GROUP BY scenario, variant) AS s
	JOIN scenarios AS x ON x.scenario = s.scenario
	ORDER BY x.name, x.scenario, s.variant`}

// resolve finds the estimate that SCENARIO[@VARIANT] means.
func resolve(ctx context.Context, db *queries.DB, text string) (Estimate, error) {
	return resolveBase(ctx, db, text, "")
}

// resolveBase is resolve with a variant to prefer, if the scenario has it.
func resolveBase(ctx context.Context, db *queries.DB, text, prefer string) (Estimate, error) {
	rows, err := ask(ctx, db, estimatesQuery, nil)
	if err != nil {
		return Estimate{}, err
	}
	var all []Estimate
	for i := range rows.Len() {
		all = append(all, Estimate{rows.Text(i, "scenario"), rows.Text(i, "variant"), rows.Text(i, "name"),
			rows.Int(i, "windows"), rows.Is(i, "answer")})
	}
	if len(all) == 0 {
		return Estimate{}, errors.New("the lake holds no estimate yet")
	}
	scenario, variant, _ := strings.Cut(text, "@")
	if slices.ContainsFunc(all, func(e Estimate) bool { return e.Name == text }) { // a name may have an @
		scenario, variant = text, ""
	}
	var things []names.Thing
	for _, e := range all {
		if !slices.ContainsFunc(things, func(t names.Thing) bool { return t.ID == e.Scenario }) {
			things = append(things, names.Thing{ID: e.Scenario, Names: []string{e.Name}})
		}
	}
	at, err := names.Find("estimated scenario", scenario, "the lake", things, false)
	if err != nil {
		return Estimate{}, err
	}
	found := slices.DeleteFunc(all, func(e Estimate) bool { return e.Scenario != things[at].ID })
	return chooseVariant(found, variant, prefer)
}

// chooseVariant picks one of the estimates of a scenario.
func chooseVariant(found []Estimate, variant, prefer string) (Estimate, error) {
	for _, want := range []string{variant, prefer} {
		for _, e := range found {
			if want != "" && e.Variant == want {
				return e, nil
			}
		}
		if want != "" && want == variant {
			return Estimate{}, fmt.Errorf("scenario %s has no estimate %q; it has %s", found[0].Scenario, variant, list(found))
		}
	}
	return found[max(0, slices.IndexFunc(found, func(e Estimate) bool { return e.answer }))], nil
}

// exactVariant is the variant of estimator exact, which simulates the whole network.
const exactVariant = "exact"

// list writes what exists for an error message.
func list(all []Estimate) string {
	const most = 20
	var texts []string
	for i, e := range all {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		texts = append(texts, fmt.Sprintf("%s@%s (%s)", e.Scenario, e.Variant, e.Name))
	}
	return strings.Join(texts, ", ")
}

// HasComparison says whether the lake holds the comparison of a scenario with its base, by service where there are
// several.
func HasComparison(ctx context.Context, lake string, scenario, base Estimate, opt queries.Options) (bool, error) {
	db, err := queries.Open(ctx, lake, opt)
	if err != nil {
		return false, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	params := map[string]string{"scenario": scenario.Scenario, "variant": scenario.Variant,
		"base_scenario": base.Scenario, "base_variant": base.Variant}
	q := queries.Query{Name: "comparison", SQL: `SELECT count(*) AS n, count(*) FILTER (service <> 'all') AS by_service,
		(SELECT count(DISTINCT service) FROM intervals WHERE scenario = $scenario AND variant = $variant) AS services
		FROM comparisons WHERE scenario = $scenario AND variant = $variant AND base_scenario = $base_scenario AND base_variant = $base_variant`}
	for name := range params {
		q.Params = append(q.Params, queries.Param{Name: name, Type: "text"})
	}
	a, err := ask(ctx, db, q, params)
	if err != nil {
		return false, err
	}
	return a.Int(0, "by_service") > 0 || a.Int(0, "n") > 0 && a.Int(0, "services") < 2, nil
}
