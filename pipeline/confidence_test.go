package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parsimon/queries"
	"parsimon/schema/sizebin"
	"parsimon/stages"
	"parsimon/stages/topology"
)

// ask answers one line of a SELECT over a lake, values parted by spaces.
func ask(t *testing.T, lake, text string) string {
	t.Helper()
	db, err := queries.Open(t.Context(), lake, queries.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	rows, err := db.SQL(context.Background(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	values, err := rows.Next()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	line := fmt.Sprint(slices.Clone(values))
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	return line
}

// A run of either estimator says in tables, views and summary how far it can be trusted.
func TestConfidenceOfARun(t *testing.T) {
	topology, flows := trace(t, 6000)
	lake := t.TempDir()
	for _, o := range []Options{{Estimator: stages.Flow, Passes: 1}, {Estimator: stages.Flow}, {Estimator: stages.Independent}} {
		o.Lake = lake
		run := estimate(t, topology, flows, o)
		where := " WHERE variant = '" + run.Variant() + "'"
		// All flows and those of three services, in five bins or those that have flows, and two virtual networks.
		if got := ask(t, lake, "SELECT count(DISTINCT service), count(DISTINCT vnet), count(*) FILTER (WHERE service IS NULL AND vnet IS NULL AND size_bin = 'all') FROM confidence"+where); got != "[3 2 4]" {
			t.Errorf("%s: confidence has %s", run.Variant(), got)
		}
		for _, view := range []string{"slowdown_by_size", "slowdown_by_service", "slowdown_by_service_size", "slowdown_by_vnet"} {
			got := ask(t, lake, `SELECT count(*) > 1, bool_and(p50_slowdown BETWEEN p50_lo / 1.002 AND p50_hi * 1.002), bool_and(p90_slowdown BETWEEN p90_lo / 1.002 AND p90_hi * 1.002),
				bool_and(p999_hi <= max_slowdown * 1.004), bool_or(warning LIKE '%flows beyond it%') FROM `+view+where)
			if got != "[true true true true true]" {
				t.Errorf("%s: %s gives %s", run.Variant(), view, got)
			}
		}
		if got := ask(t, lake, "SELECT count(*) FROM warnings"+where+" AND kind = 'unsettled' AND warning LIKE 'one pass only%'"); got != map[bool]string{true: "[1]", false: "[0]"}[o.Passes == 1] {
			t.Errorf("%s: %s warnings of a single pass", run.Variant(), got)
		}
		var summary strings.Builder
		if err := run.WriteSummary(context.Background(), &summary); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"95% intervals of all flows: p50 ", "not the method's own error", "warning: the trace is short, all: ", "p99: only 60 flows beyond it; p99.9: only 6 flows beyond it"} {
			if !strings.Contains(summary.String(), want) {
				t.Errorf("%s: the summary lacks %q:\n%s", run.Variant(), want, summary.String())
			}
		}
		if strings.Contains(summary.String(), "p50_lo") || (o.Passes == 1) != strings.Contains(summary.String(), "warning: unsettled: one pass only") {
			t.Errorf("%s:\n%s", run.Variant(), summary.String())
		}
	}
	var bins []string
	for _, b := range sizebin.Bins() {
		bins = append(bins, fmt.Sprintf("%s %d %d", b.Name, b.MinBytes, b.MaxBytes))
	}
	if got := ask(t, lake, "SELECT string_agg(size_bin || ' ' || size_min_bytes || ' ' || size_max_bytes, ', ' ORDER BY bin) FROM size_bins WHERE size_bin <> '"+sizebin.All+"'"); got != "["+strings.Join(bins, ", ")+"]" {
		t.Errorf("size_bins has %s, the stages have %q", got, bins)
	}
	l, err := OpenLake(lake, false)
	if err != nil {
		t.Fatal(err)
	}
	status, err := ReadStatus(l, true)
	if err != nil || status.Scenarios[0].State != stateComplete {
		t.Errorf("status %+v, %v", status, err)
	}
	run, err := Resume("", Options{Lake: lake, Estimator: stages.Flow, Passes: 7, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.Intervals(context.Background()); err == nil || !strings.Contains(err.Error(), "stage sample") {
		t.Errorf("confidence in what was not estimated: %v", err)
	}
}

// Bursts from many hosts to one: the summary names the link that the tail rests on.
func TestFanInIsNamed(t *testing.T) {
	net, file := trace(t, 1)
	var b strings.Builder
	b.WriteString("flow_id,src,dst,size_bytes,start_ns\n")
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 4000 {
		src, dst := i%7, 7 // seven at a time, every 200 µs
		start := int64(1_000_000 + i/7*200_000)
		if i%7 == 6 {
			src, dst, start = rng.IntN(4), 4+rng.IntN(3), start+100_000 // and one on its own
		}
		fmt.Fprintf(&b, "%d,%d,%d,%d,%d\n", i, src, dst, 12_000, start)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	lake := t.TempDir()
	run := estimate(t, net, file, Options{Lake: lake, Estimator: stages.Flow})
	link := slices.IndexFunc(run.net.Links, func(l topology.Link) bool { return l.Dst == 7 })
	if got, want := ask(t, lake, "SELECT kind, link_id, measure > 0.5 FROM warnings WHERE kind = 'fan-in'"), fmt.Sprintf("[fan-in %d true]", link); got != want {
		t.Errorf("warnings has %s, want %s", got, want)
	}
	var summary strings.Builder
	if err := run.WriteSummary(context.Background(), &summary); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("warning: fan-in: link %d, ", link); !strings.Contains(summary.String(), want) {
		t.Errorf("the summary lacks %q:\n%s", want, summary.String())
	}
}
