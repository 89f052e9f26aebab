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

// Found is what a report is about.
type Found struct {
	Estimate Estimate
	Base     *Estimate // nil without Options.Compare
	Compared bool      // the lake holds the comparison with Base, by service where there are several
}

var (
	estimatesQuery = own("estimates", `SELECT x.scenario, s.variant, x.name, s.windows, s.variant = x.answer AS answer
		FROM (SELECT scenario, variant, 0 AS windows FROM slowdowns_all GROUP BY scenario, variant
			UNION ALL SELECT scenario, variant, count(*) FROM windows_all GROUP BY scenario, variant) AS s
		JOIN scenarios AS x ON x.scenario = s.scenario
		ORDER BY x.name, x.scenario, s.variant`)
	comparisonQuery = own("comparison", `SELECT count(*) FILTER (service <> 'all') > 0 OR count(*) > 0 AND
			(SELECT count(DISTINCT service) FROM intervals WHERE scenario = $scenario AND variant = $variant) < 2 AS compared
		FROM comparisons WHERE scenario = $scenario AND variant = $variant
			AND base_scenario = $base_scenario AND base_variant = $base_variant`)
)

// Find finds the estimates that Options.Scenario and Options.Compare mean, and what a report of them needs.
func Find(ctx context.Context, lake string, o Options) (f Found, err error) {
	db, err := queries.Open(ctx, lake, o.Query)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if f.Estimate, f.Base, err = resolve(ctx, db, o); err != nil {
		return f, err
	}
	if f.Base != nil {
		a, err := ask(ctx, db, comparisonQuery, parameters(f.Estimate, f.Base))
		if err != nil {
			return f, err
		}
		f.Compared = a.Is(0, "compared")
	}
	return f, nil
}

// resolve finds the estimates that the options mean.
func resolve(ctx context.Context, db *queries.DB, o Options) (estimate Estimate, base *Estimate, err error) {
	rows, err := ask(ctx, db, estimatesQuery, nil)
	if err != nil {
		return estimate, nil, err
	}
	var all []Estimate
	for i := range rows.Len() {
		all = append(all, Estimate{rows.Text(i, "scenario"), rows.Text(i, "variant"), rows.Text(i, "name"),
			rows.Int(i, "windows"), rows.Is(i, "answer")})
	}
	if estimate, err = choose(all, o.Scenario, ""); err != nil || o.Compare == "" {
		return estimate, nil, err
	}
	other, err := choose(all, o.Compare, estimate.Variant)
	switch {
	case err != nil:
	case estimate.Windows+other.Windows > 0:
		err = errors.New("a report compares estimates of every flow, and one of these is from windows of time " +
			"(run --within): parsimon compare --within answers what changed, from the same windows of both")
	case other == estimate:
		err = fmt.Errorf("scenario %s, variant %s, is compared with itself", other.Scenario, other.Variant)
	}
	return estimate, &other, err
}

// choose picks the estimate that SCENARIO[@VARIANT] means: of several variants the one to prefer, or else the answer.
func choose(all []Estimate, text, prefer string) (Estimate, error) {
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
	found := slices.DeleteFunc(slices.Clone(all), func(e Estimate) bool { return e.Scenario != things[at].ID })
	var have []string
	chosen := found[0]
	for _, e := range slices.Backward(found) {
		have = append(have, e.Variant)
		if e.answer {
			chosen = e
		}
	}
	for _, want := range []string{prefer, variant} {
		if i := slices.IndexFunc(found, func(e Estimate) bool { return e.Variant == want }); i >= 0 {
			chosen = found[i]
		}
	}
	if variant != "" && chosen.Variant != variant {
		return chosen, fmt.Errorf("scenario %s has no estimate %q; it has %s", chosen.Scenario, variant,
			strings.Join(slices.Sorted(slices.Values(have)), ", "))
	}
	return chosen, nil
}
