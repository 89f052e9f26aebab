package queries

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var datumField = regexp.MustCompile(`datum\.([A-Za-z_]\w*)`)

// chartFields are the fields that a specification reads, and those that its transforms compute.
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

// charts are all charts.
func charts(t *testing.T) (all []Chart) {
	t.Helper()
	paths, err := filepath.Glob("*.vl.json")
	for _, path := range paths {
		chart, chartErr := GetChart(strings.TrimSuffix(path, ".vl.json"))
		err = errors.Join(err, chartErr)
		all = append(all, chart)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every field of every specification is a column of its question, or computed by the specification.
func TestChartFieldsAreColumns(t *testing.T) {
	db := open(t, makeKnownLake(t), Options{})
	if len(charts(t)) < 10 {
		t.Fatalf("only %d charts", len(charts(t)))
	}
	for _, chart := range charts(t) {
		q, err := Get(chart.Name)
		if err != nil {
			t.Errorf("%s: %v", chart.Name, err)
			continue
		}
		header, _, _ := strings.Cut(answer(t, db, q.Name, "csv", nil), "\n")
		known := map[string]bool{}
		for _, column := range strings.Split(header, ",") {
			known[column] = true
		}
		var spec any
		if err := json.Unmarshal(chart.Spec, &spec); err != nil {
			t.Fatal(err)
		}
		f := chartFields{map[string]bool{}, map[string]bool{}, map[string]bool{}}
		f.walk("", spec)
		if len(f.read) < 3 {
			t.Errorf("%s reads only the fields %v", chart.Name, f.read)
		}
		for _, field := range slices.Sorted(maps.Keys(f.read)) {
			if !known[field] && !f.made[field] {
				t.Errorf("%s: field %q is no column of question %s: %s", chart.Name, field, q.Name, header)
			}
		}
		if !maps.Equal(f.data, map[string]bool{q.Name: true}) {
			t.Errorf("%s: its data are %v, want the rows of %s", chart.Name, f.data, q.Name)
		}
		for _, column := range []string{"service", "vnet"} {
			if chart.Filtered && !known[column] {
				t.Errorf("%s is filtered by %s, which question %s does not have", chart.Name, column, q.Name)
			}
		}
	}
}

// A specification fixes no colours: a theme gives them, so that they suit light and dark pages.
func TestChartsHaveNoColours(t *testing.T) {
	for _, chart := range charts(t) {
		if found := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b`).Find(chart.Spec); found != nil {
			t.Errorf("%s has the colour %s", chart.Name, found)
		}
	}
	for _, dark := range []bool{false, true} {
		var theme struct {
			Range struct{ Category, Ramp, Heatmap []string }
		}
		if err := json.Unmarshal(Theme(dark), &theme); err != nil {
			t.Fatal(err)
		}
		r := theme.Range
		for _, colours := range [][]string{r.Category, r.Ramp, r.Heatmap} {
			if slices.Sort(colours); len(colours) < 5 || len(slices.Compact(colours)) != len(colours) {
				t.Errorf("theme dark=%v: colours %v", dark, colours)
			}
		}
	}
}

func TestBadCharts(t *testing.T) {
	for want, text := range map[string]string{"unexpected end": `{`, "no description": `{}`} {
		if _, err := parseChart("x", []byte(text)); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: want %q, got %v", text, want, err)
		}
	}
	if _, err := GetChart("x"); err == nil {
		t.Error("chart x exists")
	}
}
