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
	warmupVariant  = flag.String("warmup-variant", "exact", "variant of the whole estimate and of the windows")
	warmupTimes    = flag.String("warmup-times", "1ms,5ms,20ms", "warm-ups")
	warmupWindows  = flag.Int("warmup-windows", 8, "windows, evenly over the time")
	warmupSlots    = flag.Int("warmup-slots", 100, "slots of the workload, of which windows are some")
)

// TestWarmupOfLake prints how far windows are from the whole estimate, for the same flows: as they are, and without the
// flows that are in progress when a window begins.
func TestWarmupOfLake(t *testing.T) {
	if *warmupLake == "" {
		t.Skip("needs a lake with a whole estimate: -warmup-lake")
	}
	ctx := context.Background()
	variant, err := pipeline.ParseVariant(*warmupVariant)
	if err != nil {
		t.Fatal(err)
	}
	base, err := pipeline.Resume(ctx, *warmupLake, *warmupScenario, variant, pipeline.Settings{})
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
	var slots []int
	for i := range *warmupWindows {
		slots = append(slots, (2*i+1)*len(s.index.slots)/(2**warmupWindows))
	}
	whole, err := s.read(ctx, &round{slots: slots, run: base})
	if err != nil {
		t.Fatal(err)
	}
	longest := s.index.longestBytes
	fmt.Println("| warm-up | flows in progress | flows | p50 | p90 | p99 | p99.9 |\n|---|---|---|---|---|---|---|")
	for text := range strings.SplitSeq(*warmupTimes, ",") {
		warmup, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, enter := range []bool{false, true} {
			s.index.longestBytes = 0 // none is looked for
			if enter {
				s.index.longestBytes = longest
			}
			r, err := s.estimate(ctx, slots, int64(warmup), nil)
			if err != nil {
				t.Fatal(err)
			}
			part, err := s.read(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range s.index.order {
				if k.By == stages.ByNothing && s.index.totals[k] > 0 {
					fmt.Printf("| %v | %s | %s |%s\n", warmup, map[bool]string{false: "left out", true: "enter"}[enter], k.binName(),
						errorsOf(slots, part.found, whole.found, k))
				}
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
