package queries

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var datumField = regexp.MustCompile(`datum\.([A-Za-z_]\w*)`)

// chartFields has the fields that a specification reads and those that its transforms compute.
type chartFields struct{ read, made, data map[string]bool }

// walk collects the fields of a specification. Every text that is, or may be, a field counts: "field",
// lists of fields, and datum.X in expressions. In labelExpr datum is an axis label and not a row.
func (c chartFields) walk(key string, node any) {
	switch n := node.(type) {
	case map[string]any:
		if name, ok := n["name"].(string); ok && key == "data" {
			c.data[name] = true
		}
		for k, v := range n {
			if k != "labelExpr" {
				c.walk(k, v)
			}
		}
	case []any:
		for _, v := range n {
			c.walk(key, v)
		}
	case string:
		switch key {
		case "field", "fold", "groupby", "stack", "fields":
			c.read[n] = true
		case "as":
			c.made[n] = true
		}
		for _, m := range datumField.FindAllStringSubmatch(n, -1) {
			c.read[m[1]] = true
		}
	}
}

// charts returns all charts by name.
func charts(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	paths, err := filepath.Glob("*.vl.json")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]json.RawMessage{}
	for _, path := range paths {
		name := strings.TrimSuffix(path, ".vl.json")
		all[name] = Chart(name)
	}
	return all
}

// Every field of a specification is a column of its question or is computed by the specification. Otherwise
// the chart would be empty. Short tests have a ninth of the charts each day.
func TestChartFieldsAreColumns(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	if len(charts(t)) < 10 {
		t.Fatalf("only %d charts", len(charts(t)))
	}
	for name, chart := range charts(t) {
		if testing.Short() && !isAskedToday(name) {
			continue
		}
		q, err := Get(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		header, _, _ := strings.Cut(answer(t, db, q.Name, "csv", nil), "\n")
		known := map[string]bool{}
		for _, column := range strings.Split(header, ",") {
			known[column] = true
		}
		var spec any
		var says struct {
			Description string
			Params      []struct{ Name string }
		}
		if err := errors.Join(json.Unmarshal(chart, &spec), json.Unmarshal(chart, &says)); err != nil ||
			says.Description == "" {
			t.Fatalf("%s: %v, or no description", name, err)
		}
		f := chartFields{map[string]bool{}, map[string]bool{}, map[string]bool{}}
		f.walk("", spec)
		if len(f.read) < 3 {
			t.Errorf("%s reads only the fields %v", name, f.read)
		}
		for _, field := range slices.Sorted(maps.Keys(f.read)) {
			if !known[field] && !f.made[field] {
				t.Errorf("%s: field %q is not a column of question %s: %s", name, field, q.Name, header)
			}
		}
		if !maps.Equal(f.data, map[string]bool{q.Name: true}) {
			t.Errorf("%s: its data are %v, want the rows of %s", name, f.data, q.Name)
		}
		for _, p := range says.Params {
			if (p.Name == "service" || p.Name == "vnet") && !known[p.Name] {
				t.Errorf("%s is filtered by %s, which question %s does not have", name, p.Name, q.Name)
			}
		}
	}
}

// A specification has no colors. Themes give the colors, which differ on light and dark pages.
func TestChartsHaveNoColours(t *testing.T) {
	for name, chart := range charts(t) {
		found := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b`).Find(chart)
		if found != nil {
			t.Errorf("%s has the color %s", name, found)
		}
	}
	for _, data := range []json.RawMessage{LightTheme(), DarkTheme()} {
		var theme struct {
			Range struct{ Category, Ramp, Heatmap []string }
		}
		if err := json.Unmarshal(data, &theme); err != nil {
			t.Fatal(err)
		}
		r := theme.Range
		for _, colours := range [][]string{r.Category, r.Ramp, r.Heatmap} {
			slices.Sort(colours)
			if len(colours) < 5 || len(slices.Compact(colours)) != len(colours) {
				t.Errorf("a theme has the colors %v", colours)
			}
		}
	}
}
