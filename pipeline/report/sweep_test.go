package report

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The table of a sweep has one row for each run.
func TestSweepRuns(t *testing.T) {
	long := &answer{columns: []string{"settings", "parameter", "parameter_place", "value", "p99_slowdown",
		"p99_exact"}}
	add := func(load, kind string, p99, exact any) {
		settings := "load.max=" + load + ", transport.kind=" + kind
		long.rows = append(long.rows, []any{settings, "load.max", int64(1), load, p99, exact},
			[]any{settings, "transport.kind", int64(2), kind, p99, exact})
	}
	add("20%", "hpcc", nil, nil)
	add("20%", "dctcp", 2.0, 2.5)
	add("40%", "dctcp", 8.0, nil)
	add("40%", "hpcc", 3.0, nil)
	c := &content{answers: map[string]*answer{"parameter_sweep": long}}
	runs := c.runs()
	if runs.Len() != 4 || !slices.Equal(runs.columns, []string{"settings", "p99_slowdown", "p99_exact"}) {
		t.Errorf("%+v", runs)
	}
}

// The report names the slowest service, and the tier and the link where its slowest flows lose most time.
func TestSlowestServiceInWords(t *testing.T) {
	groups := &answer{columns: []string{"service", "vnet", "quantile", "slowdown", "lo", "hi"}, rows: [][]any{
		{nil, nil, 0.99, 5.0, 4.5, 5.5}, {"web", nil, 0.99, 4.0, 3.9, 4.1}, {"etl", nil, 0.99, 7.5, 7.0, 8.0},
		{"etl", "blue", 0.99, 9.0, nil, nil}}}
	tiers := &answer{columns: []string{"service", "tier", "share"},
		rows: [][]any{{nil, "tor-host", 0.9}, {"etl", "fabric-tor", 0.7}}}
	links := &answer{columns: []string{"link", "load", "link_share"}, rows: [][]any{{"a → b", 0.31, 0.11}}}
	c := &content{answers: map[string]*answer{"percentiles_by_group": groups, "tail_by_tier": tiers,
		"p99_links": links}}
	want := "Service etl is the slowest: its p99 is 7.50× (95% interval 7.00× to 8.00×), 1.50× that of all " +
		"flows. Its slowest 1% lose 70% of their time on the links down into the racks (fabric-tor), most at a → " +
		"b: 11%, at a load of 31%."
	got := c.worstService()
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	groups.rows = groups.rows[:2]
	if got := c.worstService(); got != nil {
		t.Errorf("one service: %q", got)
	}
}

// Warnings of one kind are one entry, which lists three of them and the number of the others.
func TestWarningsOfOneKind(t *testing.T) {
	w := &answer{columns: []string{"kind", "warning"}}
	for i := range 9 {
		w.rows = append(w.rows, []any{"overload", fmt.Sprint("link ", i)})
	}
	w.rows = append(w.rows, []any{"x", "why"})
	c := &content{answers: map[string]*answer{"warnings": w, "short": {}, "synthetic_share": {}, "scenario": {}}}
	got := c.warnings()
	if len(got) != 2 || len(got[0].Items) != 4 || !strings.HasPrefix(got[0].Items[3], "And 6 more") ||
		got[1].Items[0] != "why." {
		t.Errorf("%+v", got)
	}
}

// Errors in tables of the page are percentages with a sign. Without the sign, a reader could not tell an
// estimate that is too low from one that is too high.
func TestErrorsHaveSigns(t *testing.T) {
	f := figureChart{Columns: "settings p99_error p99_largest_error:largest"}
	f.fill(&answer{columns: []string{"settings", "p99_error", "p99_largest_error"}, rows: [][]any{
		{"all runs", 0.124, -0.3},
		{"seed=1", 0.0, nil},
	}})
	want := [][]string{{"all runs", "+12.4%", "−30.0%"}, {"seed=1", "0.0%", ""}}
	if !reflect.DeepEqual(f.Rows, want) || f.Head[2] != "largest" {
		t.Errorf("head %q, rows %q, want %q", f.Head, f.Rows, want)
	}
}
