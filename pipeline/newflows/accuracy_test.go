package newflows

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/topology/topologytest"
)

// Answers about flows of the workload itself, one draw for each, against the flows' own slowdowns, as a table
// (make question-accuracy).
func TestQuestionAccuracy(t *testing.T) {
	if os.Getenv("PARSIMON_LONG") == "" {
		t.Skip("long: make question-accuracy runs it")
	}
	const asked = 400 // of each range of sizes
	trace := estimates.Trace(t, topologytest.SharedReference(t, "topologies", "cluster_4_to_1.json"),
		filepath.Join(topologytest.SharedReference(t, "scenarios", "47"), "flows.parquet"))
	table := "\n| estimator | flow sizes | p50 | p90 | p99 | mean distance of logarithms |\n|---|---|---|---|---|---|\n"
	for _, v := range []pipeline.Variant{{}, {Estimator: stages.Flow, Passes: pipeline.MaxPasses}} {
		run := estimates.Of(t, t.TempDir(), trace, v, pipeline.Settings{})
		var flows []Question
		var own []float64
		read(t, run, schema.Slowdowns, func(v *struct {
			Src       []int32   `col:"src"`
			Dst       []int32   `col:"dst"`
			SizeBytes []int64   `col:"size_bytes"`
			Slowdown  []float64 `col:"slowdown"`
		}) error {
			for i := range v.Src {
				flows = append(flows, Question{Src: v.Src[i], Dst: v.Dst[i], SizeBytes: v.SizeBytes[i], N: 1})
			}
			own = append(own, v.Slowdown...)
			return nil
		})
		for _, bin := range []struct {
			name     string
			from, to int64
		}{
			{"<10 KB", 0, 10_000}, {"10-100 KB", 10_000, 100_000}, {"100 KB-1 MB", 100_000, 1_000_001},
			{">1 MB", 1_000_001, math.MaxInt64},
		} {
			var of []int
			for i, f := range flows {
				if f.SizeBytes >= bin.from && f.SizeBytes < bin.to {
					of = append(of, i)
				}
			}
			var truth, answers []float64
			for _, i := range of {
				truth = append(truth, own[i])
			}
			for k, at := range rand.New(rand.NewPCG(1, 1)).Perm(len(of))[:min(asked, len(of))] {
				flows[of[at]].Seed = uint64(k)
				a, err := Ask(t.Context(), run, flows[of[at]])
				if err != nil {
					t.Fatal(err)
				}
				answers = append(answers, a.Quantiles[0].Slowdown)
			}
			slices.Sort(truth)
			slices.Sort(answers)
			at := func(of []float64, p float64) float64 { return of[int(p*float64(len(of)-1))] }
			table += fmt.Sprintf("| %s | %s |", v, bin.name)
			for _, p := range []float64{0.5, 0.9, 0.99} {
				table += fmt.Sprintf(" %+.0f%% |", 100*(at(answers, p)/at(truth, p)-1))
			}
			sum := 0.0
			for p := 0.005; p < 1; p += 0.01 {
				sum += math.Abs(math.Log(at(answers, p)/at(truth, p))) / 100
			}
			table += fmt.Sprintf(" %.3f |\n", sum)
		}
	}
	t.Log(strings.TrimSuffix(table, "\n"))
}
