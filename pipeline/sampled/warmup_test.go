package sampled

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/sampling"
	"parsimon/schema"
	"parsimon/schema/columns"
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
	s.design = sampling.NewDesign(s.index.slots, 1)
	drawn := s.design.First()
	for range *warmupRounds - 1 {
		drawn = s.design.Next(drawn)
	}
	slots := s.design.Drawn(drawn)
	whole, err := slowdownsOf(s, base, slots)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("| warm-up | cool-down | p50 | p90 | p99 | p99.9 | flows |\n|---|---|---|---|---|---|---|")
	for text := range strings.SplitSeq(*warmupTimes, ",") {
		var c [2]time.Duration
		for i, word := range strings.SplitN(text, "+", 2) {
			if c[i], err = time.ParseDuration(word); err != nil {
				t.Fatal(err)
			}
		}
		w := s.windowsOf(slots, int64(c[0]))
		w.CooldownNS = int64(c[1])
		r, err := s.estimateWindows(ctx, slots, w, nil)
		if err != nil {
			t.Fatal(err)
		}
		part, err := slowdownsOf(s, r.run, slots)
		if err != nil {
			t.Fatal(err)
		}
		var pairs []checkPair
		for i := range part {
			pairs = append(pairs, checkPair{part[i], whole[i]})
		}
		fmt.Printf("| %v | %v |", c[0], c[1])
		flows := int64(0)
		for _, m := range methodErrors(pairs, 0.95) {
			fmt.Printf(" %+.2f%% (%+.2f to %+.2f) |", 100*m.Error, 100*m.ErrorLo, 100*m.ErrorHi)
			flows = m.Flows
		}
		fmt.Printf(" %d |\n", flows)
	}
}

// slowdownsOf are an estimate's slowdowns of some slots, each on its own.
func slowdownsOf(s *sampler, run *pipeline.Estimation, slots []int) ([]sampling.Counts, error) {
	in, err := run.Read(schema.Slowdowns, []string{"start_ns", "slowdown"}, nil)
	if err != nil {
		return nil, err
	}
	at := map[int]int{}
	for i, n := range slots {
		at[n] = i
	}
	out := make([]sampling.Counts, len(slots))
	err = columns.Consume(in, func(rec arrow.Record) error {
		start := columns.Int64s(rec, "start_ns")
		for i, slowdown := range columns.Float64s(rec, "slowdown") {
			if n, ok := s.slotOf(start[i], slots); ok {
				out[at[n]].Add(sampling.CellOf(slowdown))
			}
		}
		return nil
	})
	for i := range out {
		out[i].Seal()
	}
	return out, err
}
