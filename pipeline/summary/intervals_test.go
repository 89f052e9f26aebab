package summary

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/text"
	"parsimon/schema/sizebin"
	"parsimon/stages/estimators"
)

func TestMain(m *testing.M) {
	parquet.PoisonFreed = true // a reader of a released batch then finds wrong values
	os.Exit(m.Run())
}

func flow(passes int) pipeline.Variant {
	return pipeline.Variant{Estimator: estimators.Flow, Passes: passes}
}

// write writes the summary of an estimate for users.
func write(t *testing.T, w io.Writer, e *pipeline.Estimation) {
	t.Helper()
	r, err := Read(t.Context(), e, Options{Text: true})
	if err == nil {
		err = r.Text().Write(w, "text")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A run of either estimator reports its confidence intervals in tables, views and the summary.
func TestIntervalsOfARun(t *testing.T) {
	network, flows := fixture.Trace(t, 6000)
	var dir string
	for _, v := range []pipeline.Variant{flow(1), flow(pipeline.MaxPasses), {}} {
		dir = t.TempDir()
		run := estimates.Of(t, dir, estimates.Trace(t, network, flows), v, pipeline.Settings{})
		where := " WHERE variant = '" + v.String() + "'"
		// There are intervals for all flows and for three services, in five size bins or those with flows,
		// and for two virtual networks.
		got := estimates.Ask(t, dir, "SELECT count(DISTINCT service), count(DISTINCT vnet), count(*) FILTER "+
			"(WHERE service IS NULL AND vnet IS NULL AND size_bin = 'all') FROM intervals"+where)
		if got != "[3 2 4]" {
			t.Errorf("%s: intervals has %s", v, got)
		}
		for _, view := range []string{"slowdown_by_size", "slowdown_by_service", "slowdown_by",
			"slowdown_by_service_vnet"} {
			got := estimates.Ask(t, dir,
				`SELECT count(*) > 1, bool_and(p50_slowdown BETWEEN p50_lo / 1.002 AND p50_hi * 1.002), bool_and(p90_slowdown BETWEEN p90_lo / 1.002 AND p90_hi * 1.002),
				coalesce(bool_and(p999_hi <= max_slowdown * 1.6), true),
				bool_or(warning LIKE '%: few flows (%') FROM `+view+where)
			if got != "[true true true true true]" {
				t.Errorf("%s: %s gives %s", v, view, got)
			}
		}
		parts := "SELECT count(method_error), bool_and(lo <= workload_lo AND workload_hi <= hi AND method_error " +
			">= 0) FROM intervals" + where
		if got := estimates.Ask(t, dir, parts); (got == "[0 <nil>]") != (v.Estimator == estimators.Independent) ||
			strings.Contains(got, "false") {
			t.Errorf("%s: parts of intervals: %s", v, got)
		}
		onePass := v.Passes == 1
		if got := estimates.Ask(t, dir, "SELECT count(*) FROM warnings"+where+" AND kind = 'unsettled' AND "+
			"warning LIKE 'one pass only%'"); got != map[bool]string{true: "[1]", false: "[0]"}[onePass] {
			t.Errorf("%s: %s warnings of a single pass", v, got)
		}
		var summary strings.Builder
		write(t, &summary, run)
		for _, want := range []string{"95% intervals of all flows: p50 ",
			map[bool]string{true: "part due to the method (its own error): p50 ±",
				false: "not the method's own error"}[v.Estimator == estimators.Flow],
			"warning: few flows: the workload " +
				"is too short to be sure of ", "p99, p99.9 of all flows"} {
			if !strings.Contains(summary.String(), want) {
				t.Errorf("%s: the summary lacks %q:\n%s", v, want, summary.String())
			}
		}
		if strings.Contains(summary.String(), "p50_lo") ||
			onePass != strings.Contains(summary.String(), "warning: unsettled: one pass only") {
			t.Errorf("%s:\n%s", v, summary.String())
		}
	}
	var bins []string
	for _, b := range sizebin.Bins() {
		bins = append(bins, fmt.Sprintf("%s %d %d", b.Name, b.MinBytes, b.MaxBytes))
	}
	got := estimates.Ask(t, dir, "SELECT string_agg(size_bin || ' ' || size_min_bytes || ' ' || "+
		"size_max_bytes, ', ' ORDER BY bin) FROM size_bins WHERE size_bin <> '"+sizebin.All+"'")
	if got != "["+strings.Join(bins, ", ")+"]" {
		t.Errorf("size_bins has %s, the stages have %q", got, bins)
	}
	status, err := pipeline.ReadStatus(estimates.Open(t, dir), lake.ByContent)
	if err != nil || status.Scenarios[0].State != pipeline.StateComplete {
		t.Errorf("status %+v, %v", status, err)
	}
	run, err := pipeline.Resume(t.Context(), dir, "", flow(7), pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.RunStage(t.Context(), "intervals"); err == nil ||
		!strings.Contains(err.Error(), "stage sample") {
		t.Errorf("intervals of what was not estimated: %v", err)
	}
}

// Every host sends more than the capacity of its link. Each overloaded link has a row in the table. The
// summary has one line about the links, and one about the percentiles for which there are too few flows.
func TestOverloadIsNamed(t *testing.T) {
	network, file := overloaded(t)
	dir := t.TempDir()
	run := estimates.Of(t, dir, estimates.Trace(t, network, file), flow(pipeline.MaxPasses), pipeline.Settings{})
	uplinks := "SELECT count(*) FROM warnings JOIN links USING (scenario, link_id) WHERE kind = 'overload' AND " +
		"src_node < 8"
	got := estimates.Ask(t, dir, uplinks)
	if got != "[8]" {
		t.Errorf("%s overloaded uplinks of 8", got)
	}
	var summary strings.Builder
	write(t, &summary, run)
	overloaded := estimates.Ask(t, dir, "SELECT count(*) FROM warnings WHERE kind = 'overload'")
	if got := strings.Count(summary.String(), "warning: overload: "); got != 1 ||
		!strings.Contains(summary.String(), "(the largest of "+strings.Trim(overloaded, "[]")+
			"; parsimon query --lake ") {
		t.Errorf("the summary has %d lines about %s overloaded links:\n%s", got, overloaded, summary.String())
	}
	result, err := Read(t.Context(), run, Options{Services: true})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(result.Warnings, "\n")
	want := "few flows: the workload is too short to be sure of any percentile of 100 KB-1 MB; any percentile " +
		"of all flows. "
	if !strings.Contains(all, want) {
		t.Errorf("the result lacks %q:\n%s", want, all)
	}
}

// An interval of a damaged file with one end only is not shown.
func TestIntervalWithOneEnd(t *testing.T) {
	one := 1.0
	r := &Result{}
	r.intervals = []interval{
		{quantile: 0.5, sizeBin: sizebin.All, lo: &one},
		{quantile: 0.9, sizeBin: sizebin.All, workloadLo: &one},
	}
	var a text.Answer
	r.addIntervals(&a)
	var out strings.Builder
	if err := a.Write(&out, "text"); err != nil || strings.Contains(out.String(), "interval") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
