package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"parsimon/pipeline"
	lakes "parsimon/pipeline/lake"
	"parsimon/pipeline/sampled"
	"parsimon/pipeline/scenario"
	"parsimon/stages"
)

// generateTrace generates a trace of flows over 600 ms into a lake and returns its scenario, held.
func generateTrace(t *testing.T, dir string, flows int, v pipeline.Variant) *pipeline.Estimation {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	text := []byte("src,dst,size_bytes,start_ns,service\n")
	for range flows {
		src := random.IntN(32)
		service := map[bool]string{true: "storage", false: "web"}[src < 16] // half of the hosts
		text = fmt.Appendf(text, "%d,%d,%d,%d,%s\n", src, (src+1+random.IntN(31))%32, 1000+random.IntN(9000), random.Int64N(600e6),
			service)
	}
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scenario.FromFiles("small-2to1", path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := pipeline.Begin(t.Context(), dir, s, v, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Generate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// Windows on Prism give the rows of every table, and the answer, of a local run: a round is a job, and a more precise
// question takes over the rounds of a less precise one. Where windows would be most of the workload, the whole is a job.
func TestWindowsOnPrism(t *testing.T) {
	for name, c := range map[string]struct {
		flows  int
		within []string
		how    pipeline.Variant
		by     string
	}{
		"rounds": {40_000, []string{"30%", "4%"}, pipeline.Variant{Estimator: stages.Independent}, ""},
		"flow":   {20_000, []string{"30%"}, pipeline.Variant{Estimator: stages.Flow, Passes: 2}, ""},
		"exact":  {20_000, []string{"30%"}, pipeline.Variant{Estimator: stages.WholeNetwork}, ""},
		"whole":  {2_000, []string{"1%"}, pipeline.Variant{Estimator: stages.Independent}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			there, here := t.TempDir(), t.TempDir()
			e := generateTrace(t, there, c.flows, c.how)
			id := string(e.ID())
			e.Close()
			local := generateTrace(t, here, c.flows, c.how)
			defer local.Close()
			rounds := map[int]bool{} // by windows
			for _, within := range c.within {
				ask, err := sampled.AskText{Within: within, Of: []string{"p99"}, By: c.by, Confidence: "95%"}.Parse()
				if err != nil {
					t.Fatal(err)
				}
				want, err := sampled.Run(t.Context(), local, ask, nil)
				if err != nil {
					t.Fatal(err)
				}
				out, err := beamJob(t, "--scenario", id[:6], "--lake", there, "--estimator", c.how.Estimator.String(),
					"--passes", "2", "--within", within, "--of", "p99", "--by", c.by)
				if err != nil {
					t.Fatal(err)
				}
				if all := want.Percentiles[len(want.Percentiles)-1]; !strings.Contains(out, fmt.Sprintf("%.3f (%.3f to %.3f)", all.P99, *all.P99Lo, *all.P99Hi)) ||
					!strings.Contains(out, want.Variant) {
					t.Errorf("the answer is not that of a local run, p99 %v:\n%s", all.P99, out)
				}
				if whole := want.Stopped == sampled.Whole; whole != (name == "whole") {
					t.Errorf("within %s: stopped as %s", within, want.Stopped)
				}
				sameRows(t, "within "+within, there, digests(t, here))
				rounds[want.Windows] = true
			}
			if len(rounds) != len(c.within) {
				t.Errorf("numbers of windows %v: a more precise question took no more", rounds)
			}
		})
	}
}

// What a job of windows cannot do is reported before it begins.
func TestWindowsErrors(t *testing.T) {
	file, lake := tinyScenario(t), t.TempDir()
	for want, args := range map[string][]string{
		"--by goes with --within": {"--by", "service"},
		"--of \"p98\"":            {"--within", "2%", "--of", "p98"},
		"--within \"wide\"":       {"--within", "wide"},
	} {
		if _, err := beamJob(t, append(args, file, "--lake", lake)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	*jobopts.Async = true
	defer func() { *jobopts.Async = false }()
	if _, err := beamJob(t, file, "--lake", lake, "--within", "2%"); err == nil || !strings.Contains(err.Error(), "--async") {
		t.Errorf("--async: %v", err)
	}
}

// Windows of a round are estimated by the workers of the job, and not where the command runs.
func TestWindowsAreJobs(t *testing.T) {
	lake := t.TempDir()
	e := generateTrace(t, lake, 20_000, pipeline.Variant{Estimator: stages.Independent})
	defer e.Close()
	ask, err := sampled.AskText{Within: "30%", Of: []string{"p99"}, Confidence: "95%"}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	f := flags{runner: "prism"}
	var ids []string
	result, err := sampled.Run(t.Context(), e, ask, func(ctx context.Context, id lakes.ScenarioID) error {
		ids = append(ids, string(id))
		return f.complete(ctx, Job{Lake: lake, Scenario: string(id), Estimator: "independent", Passes: pipeline.MaxPasses}, e.Log)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) < 2 {
		t.Errorf("%d jobs, want those of the first round and of the warm-up's test", len(ids))
	}
	for _, s := range result.Stages {
		if s.Stage != pipeline.CombineStage("", "").Name && s.Stage != "generate" && s.Reused < s.Tasks {
			t.Errorf("stage %s: %d of %d tasks done again", s.Stage, s.Tasks-s.Reused, s.Tasks)
		}
	}
}
