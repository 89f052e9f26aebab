package summary

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/stages/estimators"
)

// intervalTexts matches the intervals in a line of a summary.
var intervalTexts = regexp.MustCompile(`p\d\S* (\d|±)[^(\n]*`)

// overloaded returns a scenario whose hosts send more than the capacities of their links.
func overloaded(t *testing.T) (network, file string) {
	t.Helper()
	network, file = fixture.Trace(t, 1)
	var b strings.Builder
	b.WriteString("flow_id,src,dst,size_bytes,start_ns\n")
	for i := range 400 { // 100 KB take 84 µs
		fmt.Fprintf(&b, "%d,%d,%d,%d,%d\n", i, i%8, (i+4)%8, 100_000, i/8*60_000)
	}
	fixture.WriteFile(t, file, b.String())
	return network, file
}

// A summary reads the tables of a small estimate itself. Its figures are those of the questions. Otherwise, a
// user would find other numbers with `parsimon query` than those that the run printed.
func TestFiguresAreThoseOfQuestions(t *testing.T) {
	traced, flows := fixture.Trace(t, 6000)
	crowded, few := overloaded(t)
	for _, c := range []struct {
		network, flows string
		variant        pipeline.Variant
	}{
		{traced, flows, flow(pipeline.MaxPasses)},
		{traced, flows, pipeline.Variant{}},
		{crowded, few, pipeline.Variant{Estimator: estimators.Exact}},
		{crowded, few, flow(1)},
	} {
		dir := t.TempDir()
		e := estimates.Of(t, dir, estimates.Trace(t, c.network, c.flows), c.variant, pipeline.Settings{})
		r, err := Read(t.Context(), e, Options{Services: true, Text: true})
		if err != nil {
			t.Fatal(err)
		}
		q := &lateDB{of: e}
		asked := &Result{of: e}
		if err := asked.askPercentiles(t.Context(), q, Options{Services: true}); err != nil {
			t.Fatal(err)
		}
		sortServices(asked.Services)
		same(t, c.variant, "slowdown_by_size", r.Percentiles, asked.Percentiles)
		same(t, c.variant, "slowdown_by_service", r.Services, asked.Services)
		same(t, c.variant, "hottest_links", table(t, r.addLinks),
			table(t, answerOf(t, q.db, e, "hottest_links", map[string]string{"n": "5"})))
		same(t, c.variant, "load_top10", table(t, r.addLoad), table(t, answerOf(t, q.db, e, "load_top10", nil)))
		same(t, c.variant, "warnings", withoutAdvice(r.Warnings), firstColumn(t, q.db, "warning_lines"))
		if err := q.close(); err != nil {
			t.Fatal(err)
		}
		lines := estimates.Ask(t, dir, statement(t, "interval_lines"))
		texts := intervalTexts.FindAllString(said(t, r.addIntervals), -1)
		if len(texts) == 0 {
			t.Errorf("%s: no intervals", c.variant)
		}
		for _, line := range texts {
			if !strings.Contains(lines, strings.TrimSpace(line)) {
				t.Errorf("%s: interval_lines has %s, and not %s", c.variant, lines, line)
			}
		}
	}
}

// same compares two values by their JSON.
func same(t *testing.T, v pipeline.Variant, what string, got, want any) {
	t.Helper()
	one, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	two, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if string(one) != string(two) || len(one) < 10 {
		t.Errorf("%s: %s: the summary has\n%.3000s\nthe question has\n%.3000s", v, what, one, two)
	}
}

// table returns the first table of a text, with all digits.
func table(t *testing.T, add func(a *text.Answer)) string {
	t.Helper()
	var a text.Answer
	var b strings.Builder
	add(&a)
	if err := a.Write(&b, "csv"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// said returns a text.
func said(t *testing.T, add func(a *text.Answer)) string {
	t.Helper()
	var a text.Answer
	var b strings.Builder
	add(&a)
	if err := a.Write(&b, "text"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// answerOf adds the answer of a question without the columns scenario and variant.
func answerOf(
	t *testing.T, db *queries.DB, e *pipeline.Estimation, name string, params map[string]string,
) func(a *text.Answer) {
	t.Helper()
	found, err := ask(t.Context(), db, e, name, params)
	if err != nil {
		t.Fatal(err)
	}
	return func(a *text.Answer) {
		table := a.Table(found.Columns[2:]...)
		for _, row := range found.Rows {
			table.Add(row[2:]...)
		}
	}
}

// statement returns a statement of folder testdata.
func statement(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// firstColumn returns the first column of the answer of a statement of folder testdata.
func firstColumn(t *testing.T, db *queries.DB, name string) []string {
	t.Helper()
	all, err := lines(db.Ask(t.Context(), name, statement(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// withoutAdvice removes the commands from warnings, and what depends on the scenario.
func withoutAdvice(warnings []string) (all []string) {
	for _, line := range warnings {
		line = regexp.MustCompile(`(\(the largest of \d+); .* lists them\)`).ReplaceAllString(line, "$1 of them)")
		line = regexp.MustCompile(`Estimate .*, or use`).ReplaceAllString(line, "Estimate LONGER, or use")
		all = append(all, line)
	}
	return slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, "load: ") })
}
