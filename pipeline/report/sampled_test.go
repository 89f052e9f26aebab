package report

import (
	"strings"
	"testing"

	"parsimon/queries"
	"parsimon/schema/variant"
)

// sampledContent returns the content of an estimate of two rounds of windows by link cases.
func sampledContent() *content {
	percentiles := &answer{columns: []string{"service", "vnet", "size_bin", "flows", "quantile", "slowdown",
		"lo", "hi", "estimated_from"},
		rows: [][]any{{nil, nil, "all", int64(1000), 0.5, 1.0, 1.0, 1.01, "sampled, 48 windows, 12.5% of flows"}}}
	headline := &answer{columns: []string{"flows", "sampled_flows", "windows", "rounds", "window_ns",
		"warmup_ns", "p50_slowdown", "p99_slowdown", "p99_lo", "p99_hi", "synthetic_flows"},
		rows: [][]any{{int64(1000), int64(125), int64(48), int64(2), int64(2e6), int64(1e6), 1.0, 4.0, 3.8, 4.24,
			int64(0)}}}
	v := variant.Variant{Estimator: "flow", Passes: 2}.OfWindows(48, 90)
	c := &content{estimate: Estimate{Variant: v}, answers: map[string]*answer{
		"headline": headline, "sampled_percentiles": percentiles,
		"percentiles_by_group": percentiles, "short": {},
		"scenario": {columns: []string{"rejects"}, rows: [][]any{{int64(0)}}}}}
	return c
}

// The report of an estimate from windows says, beside each percentile, what it was estimated from and what is
// not known.
func TestSampledInWords(t *testing.T) {
	c := sampledContent()
	for _, f := range c.figures()[:3] {
		if !strings.Contains(f.Note, "sampled, 48 windows, 12.5% of flows") || f.Label == "p99 slowdown" &&
			!strings.Contains(f.Note, "90% interval 3.80×") {
			t.Errorf("%s: %q", f.Label, f.Note)
		}
	}
	text := strings.Join(c.sentences(), "\n")
	want := "at least 4.00× as long as it would take alone in the network (90% interval " +
		"3.80× to 4.24×; sampled, 48 windows"
	if !strings.Contains(text, want) {
		t.Errorf("%q lacks %q", text, want)
	}
	w := c.warnings()
	if len(w) != 0 {
		t.Errorf("warnings %+v", w)
	}
	want = "48 windows of time, half of them at most 2 ms long, were drawn at random in 2 rounds"
	if !strings.Contains(text, want) {
		t.Errorf("%q lacks %q", text, want)
	}
}

// Without a variant, Choose returns the answer of the scenario.
func TestChoose(t *testing.T) {
	var files []queries.File
	variants := map[string]variant.Variant{}
	for name, table := range map[string]string{"exact": "slowdowns", "flow-2": "slowdowns",
		"flow-2-sampled-48": "windows"} {
		v, err := variant.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		variants[name] = v
		files = append(files, queries.File{Table: table, Scenario: "abcdef", Variant: v, Answer: name == "flow-2"})
	}
	for _, c := range []struct{ variant, prefer, want string }{
		{"", "", "flow-2"}, {"exact", "flow-2", "exact"}, {"", "exact", "exact"}, {"", "none", "flow-2"},
		{"flow-2-sampled-48", "", "flow-2-sampled-48"},
	} {
		got, err := Choose(files, "abcdef", "name", c.variant, c.prefer)
		want := (Estimate{"abcdef", variants[c.want], "name"})
		if err != nil || got != want {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	for scenario, want := range map[string]string{"abcdef": "it has exact, flow-2, flow-2-sampled-48",
		"other": "is not estimated"} {
		if _, err := Choose(files, scenario, "", "independent", ""); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}
