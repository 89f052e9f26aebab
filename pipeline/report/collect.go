package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"

	"parsimon/queries"
)

// A content is everything that a page says.
type content struct {
	db       *queries.DB
	lake     string
	estimate Estimate
	base     *Estimate                    // nil without a comparison
	answers  map[string]*answer           // by question
	asked    map[string]map[string]string // parameters, by question
}

// parameters name the estimates to a question.
func parameters(of Estimate, base *Estimate) map[string]string {
	params := map[string]string{"scenario": of.Scenario, "variant": of.Variant}
	if base != nil {
		params["base_scenario"], params["base_variant"] = base.Scenario, base.Variant
	}
	return params
}

func (c *content) collect(ctx context.Context) error {
	first, exact := []string{"scenario", "warnings", "short", "sweep", "truth", "headline"}, c.estimate.Variant == "exact"
	if c.estimate.Windows {
		first = []string{"scenario", "warnings", "short", "sampled_headline"}
	}
	if c.base != nil {
		first = append(first, "ideal")
	}
	for _, name := range first {
		if err := c.put(ctx, name, nil); err != nil {
			return err
		}
	}
	if c.base != nil {
		err := errors.Join(c.put(ctx, "what_changed", map[string]string{"groups": strconv.Itoa(mostChanged)}),
			c.put(ctx, "load_changes", map[string]string{"n": "100000"}))
		if err != nil {
			return err
		}
	}
	// Estimates of every flow, from windows of time, with a base, that simulated every packet, and of these with jobs.
	is := map[string]bool{"flows": !c.estimate.Windows, "windows": c.estimate.Windows, "base": c.base != nil,
		"exact": exact, "jobs": exact && c.answers["scenario"].Int(0, "dependencies") > 0}
	sections, err := plan()
	for _, s := range sections {
		for _, chart := range s.Charts {
			if err == nil && is[chart.Of] {
				err = c.put(ctx, chart.ID, chart.Params)
			}
		}
	}
	if err != nil {
		return err
	}
	if c.answers["link_loads_over_time"].Len() > 0 { // paths move
		if err := c.put(ctx, "path_shares", nil); err != nil {
			return err
		}
	}
	if c.base != nil && c.answers["what_changed"].Len() == 0 {
		return fmt.Errorf("the lake holds no comparison of %s@%s with %s@%s: parsimon compare makes it",
			c.estimate.Scenario, c.estimate.Variant, c.base.Scenario, c.base.Variant)
	}
	if c.estimate.Windows {
		c.answers["headline"] = c.answers["sampled_headline"]
		all := c.answers["sampled_percentiles"] // for the filter, and for sentences
		c.answers["percentiles_by_group"] = all.where(func(i int) bool { return all.Text(i, "size_bin") == "all" })
		return nil
	}
	if c.answers["sweep"].Len() > 0 { // the largest sweep of parameters that the scenario is a run of
		of := map[string]string{"scenario": "", "sweep": c.answers["sweep"].Text(0, "sweep")}
		if err := c.put(ctx, "parameter_sweep", of); err != nil {
			return err
		}
	}
	if p99 := c.servicesByP99(); p99.Len() > 1 {
		of := map[string]string{"service": p99.Text(0, "service"), "n": "1"}
		if err := c.put(ctx, "p99_links", of); err != nil {
			return err
		}
	}
	return c.curves(ctx)
}

// mostCurveRows bounds the points of curves, which are most of a page's data.
const mostCurveRows = 4_500

// curves asks for distributions: where those of all groups of flows would make the page too large, for fewer.
func (c *content) curves(ctx context.Context) error {
	for groups := 12; ; groups /= 2 {
		err := c.put(ctx, "slowdown_cdf", map[string]string{"groups": strconv.Itoa(groups)})
		if err != nil {
			return err
		}
		if groups == 1 || c.answers["slowdown_cdf"].Len() <= mostCurveRows {
			c.answers["slowdown_cdf"] = c.answers["slowdown_cdf"].without("share") // 1 - slower_share
			return nil
		}
	}
}

// put asks a question about the estimate and, if it has rows for bases, about the base.
func (c *content) put(ctx context.Context, name string, more map[string]string) error {
	q := queries.Known(name)
	params := parameters(c.estimate, c.base)
	maps.Copy(params, more)
	maps.DeleteFunc(params, func(name, _ string) bool {
		return !slices.ContainsFunc(q.Params, func(p queries.Param) bool { return p.Name == name })
	})
	a, err := ask(ctx, c.db, q, params)
	if err != nil {
		return err
	}
	if slices.Contains(a.columns, "base_scenario") {
		a = a.where(func(i int) bool {
			return a.Text(i, "base_scenario") == c.base.Scenario && a.Text(i, "base_variant") == c.base.Variant
		})
	}
	c.answers[name] = a.without("scenario", "variant", "base_scenario", "base_variant")
	c.asked[name] = params
	return nil
}

// An answer holds the rows of one question. They are aggregates, so they are few.
type answer struct {
	columns []string
	rows    [][]any // nil, bool, int64, float64 or string
}

func ask(ctx context.Context, db *queries.DB, q queries.Query, params map[string]string) (*answer, error) {
	found, err := db.Run(ctx, q, params)
	if err != nil {
		return nil, err
	}
	for _, row := range found.Rows {
		for i, v := range row {
			row[i] = plain(v)
		}
	}
	return &answer{found.Columns, found.Rows}, nil
}

// plain turns the values of a format.Answer into the few types of an answer.
func plain(v any) any {
	x := reflect.ValueOf(v)
	switch v.(type) {
	case nil, bool, int64, string:
		return v
	}
	switch {
	case x.CanFloat() && (math.IsNaN(x.Float()) || math.IsInf(x.Float(), 0)):
		return nil
	case x.CanFloat():
		return x.Float()
	case x.CanUint():
		return float64(x.Uint())
	}
	return fmt.Sprint(v)
}

// Len is the number of rows, 0 of no answer.
func (a *answer) Len() int {
	if a == nil {
		return 0
	}
	return len(a.rows)
}

// at returns a value, nil where there is no such row or column.
func (a *answer) at(row int, column string) any {
	if row >= a.Len() {
		return nil
	}
	if i := slices.Index(a.columns, column); i >= 0 {
		return a.rows[row][i]
	}
	return nil
}

// Text returns a text, empty for null.
func (a *answer) Text(row int, column string) string {
	s, _ := a.at(row, column).(string)
	return s
}

// Float returns a number, NaN for null.
func (a *answer) Float(row int, column string) float64 { return number(a.at(row, column)) }

func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return math.NaN()
}

// Int returns a whole number, 0 for null.
func (a *answer) Int(row int, column string) int64 {
	v, _ := a.at(row, column).(int64)
	return v
}

// Is says whether a column is true.
func (a *answer) Is(row int, column string) bool { v, _ := a.at(row, column).(bool); return v }

// Null says whether a value is null.
func (a *answer) Null(row int, column string) bool { return a.at(row, column) == nil }

func (a *answer) where(keep func(row int) bool) *answer {
	out := &answer{}
	if a != nil {
		out.columns = a.columns
	}
	for i := range a.Len() {
		if keep(i) {
			out.rows = append(out.rows, a.rows[i])
		}
	}
	return out
}

func (a *answer) without(columns ...string) *answer {
	out := &answer{rows: make([][]any, len(a.rows))}
	for i, c := range a.columns {
		if slices.Contains(columns, c) {
			continue
		}
		out.columns = append(out.columns, c)
		for k := range a.rows {
			out.rows[k] = append(out.rows[k], a.rows[k][i])
		}
	}
	return out
}

// MarshalJSON writes an answer column by column, which takes a third of the space of rows of objects:
//
//	{"columns": ["tier", "share"], "values": [{"of": ["host-tor"], "at": [0, 0]}, [0.5, null]]}
//
// Texts are places in a list of the distinct ones, -1 for null. Numbers have six significant digits, whole numbers all.
func (a *answer) MarshalJSON() ([]byte, error) {
	values := make([]any, len(a.columns))
	for i := range a.columns {
		values[i] = a.column(i)
	}
	return json.Marshal(map[string]any{"columns": append([]string{}, a.columns...), "values": values})
}

// column is a column as MarshalJSON writes it. A column with one text is written as texts throughout.
func (a *answer) column(i int) any {
	texts := slices.ContainsFunc(a.rows, func(row []any) bool { _, ok := row[i].(string); return ok })
	if !texts {
		out := make([]any, len(a.rows))
		for k, row := range a.rows {
			out[k] = row[i]
			if f, ok := row[i].(float64); ok {
				out[k] = json.Number(strconv.FormatFloat(f, 'g', 6, 64))
			}
		}
		return out
	}
	at, places, of := make([]int, len(a.rows)), map[string]int{}, []string{}
	for k, row := range a.rows {
		text, ok := row[i].(string)
		if !ok && row[i] == nil {
			at[k] = -1
			continue
		}
		if !ok {
			text = fmt.Sprint(row[i])
		}
		place, known := places[text]
		if !known {
			place = len(of)
			places[text], of = place, append(of, text)
		}
		at[k] = place
	}
	return map[string]any{"of": of, "at": at}
}
