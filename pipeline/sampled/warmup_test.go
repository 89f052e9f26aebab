package sampled

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/sampling"
	"parsimon/stages"
)

var (
	warmupLake     = flag.String("warmup-lake", "", "measure the effect of warm-ups on the whole estimate that this lake holds; adds hidden scenarios to it")
	warmupScenario = flag.String("warmup-scenario", "", "scenario of the lake")
	warmupRounds   = flag.Int("warmup-rounds", 2, "rounds of windows")
	warmupTimes    = flag.String("warmup-times", "1ms+2ms,2ms+8ms,8ms+32ms", "warm-ups and cool-downs")
	warmupSlots    = flag.Int("warmup-slots", 1000, "slots of the workload")
)

// TestWarmupOfLake prints the warm-up table of README.md: how far estimates of windows are from the whole estimate,
// for the same flows.
func TestWarmupOfLake(t *testing.T) {
	if *warmupLake == "" {
		t.Skip("needs a lake with a whole estimate: -warmup-lake")
	}
	ctx := context.Background()
	base, err := pipeline.Resume(ctx, *warmupLake, *warmupScenario, pipeline.Variant{Estimator: 1, Passes: 3}, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	g, err := base.Generated()
	if err != nil {
		t.Fatal(err)
	}
	s := &sampler{base: base}
	if s.index, err = readIndex(ctx, base); err != nil {
		t.Fatal(err)
	}
	s.index.cut(g.Flows / int64(*warmupSlots))
	s.design = sampling.NewDesign(s.index.slots, 1, 0)
	drawn := s.design.First()
	for range *warmupRounds - 1 {
		drawn = s.design.Next(drawn)
	}
	slots := s.design.Drawn(drawn)
	whole, err := s.read(ctx, &round{slots: slots, run: base})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("| warm-up | cool-down | flows | | p50 | p90 | p99 | p99.9 |\n|---|---|---|---|---|---|---|---|")
	for text := range strings.SplitSeq(*warmupTimes, ",") {
		var c [2]time.Duration
		for i, word := range strings.SplitN(text, "+", 2) {
			if c[i], err = time.ParseDuration(word); err != nil {
				t.Fatal(err)
			}
		}
		r, err := s.estimate(ctx, slots, int64(c[0]), nil)
		if err != nil {
			t.Fatal(err)
		}
		part, err := s.read(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range s.index.order {
			if k.By == stages.ByNothing && s.index.totals[k] > 0 {
				fmt.Printf("| %v | %v | %s | simulated |%s\n", c[0], c[1], k.binName(), errorsOf(slots, part.found, whole.found, k))
				fmt.Printf("| %v | %v | %s | sustained |%s\n", c[0], c[1], k.binName(), errorsOf(slots, part.sustained, whole.found, k))
			}
		}
	}
}

// errorsOf are the errors of a group's percentiles, as cells of a table.
func errorsOf(slots []int, part, whole map[int]counts, k Key) string {
	var pairs []checkPair
	for _, n := range slots {
		if part[n][k] != nil {
			pairs = append(pairs, checkPair{*part[n][k], *whole[n][k]})
		}
	}
	text := ""
	for _, m := range methodErrors(pairs, 0.95) {
		text += fmt.Sprintf(" %+.2f%% (%+.2f to %+.2f) |", 100*m.Error, 100*m.ErrorLo, 100*m.ErrorHi)
	}
	return text
}
