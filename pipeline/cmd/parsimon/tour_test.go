package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// The tour is the first thing that a newcomer sees: without this test it could skip a step of the method or
// an estimator. Each flow has one row in hops for each link of its path, one draw for each of these rows, and
// one slowdown. The SQL that the tour prints answers with the percentiles of the tour.
func TestTourShowsEveryStep(t *testing.T) {
	everyThirdDay(t, 1)
	dir := t.TempDir()
	args := []string{"tour", "small", "--duration", "2ms", "--lake", dir, "--quiet"}
	var tour struct {
		Estimates []struct {
			Estimator string
			Scenario  string `json:"scenario_id"`
			Stages    []struct {
				Stage, Table string
				Pass         int
				Rows         int64
				CPUSeconds   float64 `json:"cpu_seconds"`
			}
			Percentiles []struct {
				SizeBin string `json:"size_bin"`
				Flows   int64
				P99     float64 `json:"p99"`
			}
		}
	}
	code, stdout, stderr := parsimon(t, append(args, "--format", "json")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &tour); err != nil {
		t.Fatal(err)
	}
	if len(tour.Estimates) != 3 || tour.Estimates[0].Estimator != "independent" {
		t.Fatalf("estimates %v, want independent and two others", tour.Estimates)
	}
	// Two passes with exactly equal times are one pass that is reported twice.
	passes := map[int]float64{}
	for _, s := range tour.Estimates[1].Stages {
		if s.Stage == "simulate" {
			passes[s.Pass] = s.CPUSeconds
		}
	}
	if len(passes) != 2 || passes[1] == passes[2] {
		t.Errorf("processor time of the passes of %s: %v", tour.Estimates[1].Estimator, passes)
	}
	rows := map[string]int64{}
	for _, s := range tour.Estimates[0].Stages {
		rows[s.Table] = s.Rows
	}
	if rows["flows"] == 0 || rows["slowdowns"] != rows["flows"] {
		t.Errorf("%d slowdowns of %d flows", rows["slowdowns"], rows["flows"])
	}
	if rows["flow_paths"] != rows["flows"] {
		t.Errorf("%d paths of %d flows", rows["flow_paths"], rows["flows"])
	}
	if rows["hop_contributions"] == 0 || rows["hop_contributions"] >= rows["hops"] {
		t.Errorf("%d of %d hops add a delay", rows["hop_contributions"], rows["hops"])
	}
	for _, e := range tour.Estimates {
		last := e.Percentiles[len(e.Percentiles)-1]
		if last.SizeBin != "all" || last.Flows != rows["flows"] {
			t.Errorf("%s: %d flows in size bin %s, want %d in all", e.Estimator, last.Flows, last.SizeBin,
				rows["flows"])
		}
	}
	code, people, stderr := parsimon(t, args...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	_, query, found := strings.Cut(people, "--sql \"")
	if !found {
		t.Fatalf("no query in the answer:\n%s", people)
	}
	query = query[:strings.LastIndex(query, "\"")]
	code, answer, stderr := parsimon(t, "query", "--lake", dir, "--format", "json", "--sql", query)
	var got []struct {
		Variant string
		SizeBin string `json:"size_bin"`
		Flows   int64
		P99     float64 `json:"p99_slowdown"`
	}
	if err := json.Unmarshal([]byte(answer), &got); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v, answer %q, error %q", code, err, answer, stderr)
	}
	computed := map[string]float64{}
	for _, g := range got {
		computed[fmt.Sprintf("%s %s %d", strings.TrimSuffix(g.Variant, "-2"), g.SizeBin, g.Flows)] = g.P99
	}
	shown := 0
	for _, e := range tour.Estimates {
		for _, p := range e.Percentiles {
			shown++
			p99 := computed[fmt.Sprintf("%s %s %d", e.Estimator, p.SizeBin, p.Flows)]
			if math.Abs(p99/p.P99-1) > 1e-9 {
				t.Errorf("%s, %s: p99 %v, by SQL %v", e.Estimator, p.SizeBin, p.P99, p99)
			}
		}
	}
	if shown != len(got) {
		t.Errorf("the tour shows %d rows, the SQL %d", shown, len(got))
	}
}
