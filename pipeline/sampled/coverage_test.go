package sampled

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampling"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

var (
	coverageLake  = flag.String("coverage-lake", "", "measure coverage on the whole estimate that this lake holds")
	coverageOf    = flag.String("coverage-scenario", "", "scenario of the lake, with a whole estimate; two joined by +: the second one from 40% to 60% of the time, as of a failure")
	coverageSeeds = flag.Int("coverage-seeds", 200, "repetitions")
	coverageWarm  = flag.Duration("coverage-warmup", 0, "estimate all slots as windows with this warm-up; adds hidden scenarios to the lake")
	coverageLoad  = flag.Duration("coverage-load", 0, "time over which the load of a slot is taken")
	coverageSlots = flag.Int("coverage-slots", 400, "slots of the workload")
)

// known is a whole estimate as slots with exact answers, or with those of windows.
type known struct {
	index  *index
	counts map[int]counts // by slot
	longer map[int]counts // if cut flows were sustained
	whole  map[Key]*sampling.Counts

	windowError float64
	variant     pipeline.Variant // of the whole, and of windows
}

// TestCoverageOfLake prints the coverage tables. Windows are drawn from a workload whose every flow is
// known, so that the statistics are measured alone; or every slot is estimated as a window, with its errors.
func TestCoverageOfLake(t *testing.T) {
	if *coverageLake == "" {
		t.Skip("needs a lake with a whole estimate: -coverage-lake, -coverage-scenario")
	}
	k, err := readKnown(*coverageLake, strings.Split(*coverageOf, "+"), *coverageSlots)
	if err != nil {
		t.Fatal(err)
	}
	if *coverageWarm > 0 {
		if err := k.estimate(t.Context(), *coverageLake, *coverageOf, int64(*coverageWarm)); err != nil {
			t.Fatal(err)
		}
		k.printError()
	}
	fmt.Printf("%d flows, %d slots, %d repetitions\n", k.index.totals[all], len(k.index.slots), *coverageSeeds)
	fmt.Println("| group | percentile | windows | coverage | of all windows | mean half width | stops at | coverage there | of all windows |\n" +
		"|---|---|---|---|---|---|---|---|---|")
	for _, key := range k.index.order {
		if key.Bin != sizebin.Count || key.By == stages.ByVNet || k.index.totals[key] == 0 {
			continue
		}
		for _, q := range pipeline.Quantiles {
			for _, rounds := range []int{1, 3} {
				c := k.repeat(key, q, rounds, 0)
				fmt.Printf("| %s | %s | %.0f | %.1f%% | %.1f%% | %.1f%% |", groupName(key), percentileName(q), c.windows,
					100*c.covered, 100*c.pooled, 100*c.half)
				if rounds == 1 {
					fmt.Println(" | | |")
					continue
				}
				within := c.half // about half of the repetitions stop before the third round
				c = k.repeat(key, q, 5, within)
				fmt.Printf(" ±%.1f%%, %.0f windows | %.1f%% | %.1f%% |\n", 100*within, c.windows, 100*c.covered, 100*c.pooled)
			}
		}
	}
}

// coverage is what repeated sampling found, on average: intervals that hold the value of the whole; those whose
// sampling part holds that of all windows together, which leaves out the windows' own error; half widths; windows.
type coverage struct{ covered, pooled, half, windows float64 }

// repeat draws so many rounds, or until the interval is narrow, with every seed.
func (k *known) repeat(key Key, q float64, rounds int, within float64) (c coverage) {
	var pool sampling.Stratum
	pool.Slots, pool.Drawn = 1, []*sampling.Counts{k.whole[key]}
	truth, _ := sampling.Sample{pool}.Quantile(q, 0.95)
	pooled := together(k, k.counts, key, q)
	for seed := range *coverageSeeds {
		s := &sampler{index: k.index, design: sampling.NewDesign(k.index.slots, uint64(seed), int64(*coverageLoad)), counts: k.counts}
		s.longer, s.ask.Confidence, s.windowError = k.longer, 0.95, k.windowError
		s.drawn = s.design.First()
		var row Row
		for r := range rounds {
			if r > 0 {
				s.drawn = s.design.Next(s.drawn)
			}
			row, _ = s.row(key, q)
			if within > 0 && row.HalfWidth() <= within {
				break
			}
		}
		n := 0
		for _, d := range s.drawn {
			n += d
		}
		if row.Lo <= truth.Value && truth.Value <= row.Hi {
			c.covered += 1 / float64(*coverageSeeds)
		}
		if row.SamplingLo <= pooled && pooled <= row.SamplingHi {
			c.pooled += 1 / float64(*coverageSeeds)
		}
		if row.Estimate > 0 {
			c.half += row.halfWidth() / float64(*coverageSeeds)
		}
		c.windows += float64(n) / float64(*coverageSeeds)
	}
	return c
}

// readKnown reads whole estimates of the same flows.
func readKnown(dir string, scenarios []string, slots int) (*known, error) {
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil, err
	}
	k := &known{whole: map[Key]*sampling.Counts{}}
	for i, name := range scenarios {
		model, err := pipeline.OpenModel(l, name)
		if err != nil {
			return nil, err
		}
		v, err := pipeline.BestVariant(model)
		if err != nil {
			return nil, err
		}
		run := pipeline.ReadOnly(model, v, pipeline.Settings{})
		g, err := run.Generated()
		if err != nil {
			return nil, err
		}
		from, to := int64(0), int64(math.MaxInt64)
		if i > 0 {
			span := g.LastStartNS - g.FirstStartNS
			from, to = g.FirstStartNS+span*2/5, g.FirstStartNS+span*3/5
		}
		if k.variant = v; i == 0 {
			if k.index, err = readIndex(context.Background(), run); err != nil {
				return nil, err
			}
			k.index.cut(g.Flows / int64(slots))
			k.counts = map[int]counts{}
		}
		if err := k.read(run, from, to); err != nil {
			return nil, err
		}
	}
	for _, of := range k.counts {
		for key, c := range of {
			if k.whole[key] == nil {
				k.whole[key] = &sampling.Counts{}
			}
			k.whole[key].Merge(c)
		}
	}
	for _, c := range k.whole {
		c.Seal()
	}
	for _, of := range k.counts {
		for _, c := range of {
			c.Seal()
		}
	}
	k.longer = maps.Clone(k.counts)
	return k, nil
}

// estimate replaces the slots' answers by those of windows, in as few hidden scenarios as keeps windows apart.
func (k *known) estimate(ctx context.Context, dir, scenario string, warmupNS int64) error {
	base, err := pipeline.Resume(ctx, dir, scenario, k.variant, pipeline.Settings{})
	if err != nil {
		return err
	}
	defer base.Close()
	s := &sampler{base: base, index: k.index}
	k.windowError = windowError
	const scenarios = 30
	for first := range scenarios {
		var slots []int
		for n := first; n < len(k.index.slots); n += scenarios {
			slots = append(slots, n)
		}
		r, err := s.estimate(ctx, slots, warmupNS)
		if err != nil {
			return err
		}
		x, err := s.read(ctx, r)
		if err != nil {
			return err
		}
		for _, n := range slots {
			k.counts[n], k.longer[n] = x.found[n], x.sustained[n]
		}
	}
	return nil
}

// together is a percentile of the windows of all slots.
func together(k *known, of map[int]counts, key Key, q float64) float64 {
	s := &sampler{index: k.index, design: sampling.NewDesign(k.index.slots, 1, 0)}
	for _, stratum := range s.design.Strata {
		s.drawn = append(s.drawn, len(stratum))
	}
	e, _ := s.sampleFrom(key, of).Quantile(q, 0.95)
	return e.Value
}

// printError prints how far the windows of all slots together are from the whole, and how far if cut flows were
// sustained.
func (k *known) printError() {
	for _, key := range k.index.order {
		if key.By != stages.ByNothing || k.index.totals[key] == 0 {
			continue
		}
		fmt.Printf("All windows together, %s:", key.binName())
		for _, q := range pipeline.Quantiles {
			truth, _ := sampling.Sample{{Slots: 1, Drawn: []*sampling.Counts{k.whole[key]}}}.Quantile(q, 0.95)
			fmt.Printf(" %s %+.2f%% (%+.2f%%)", percentileName(q), 100*(together(k, k.counts, key, q)/truth.Value-1),
				100*(together(k, k.longer, key, q)/truth.Value-1))
		}
		fmt.Println()
	}
}

// read takes the slots that begin in a range of time from an estimate.
func (k *known) read(run *pipeline.Estimation, from, to int64) error {
	in, err := run.Read(schema.Slowdowns, []string{"service", "vnet", "size_bytes", "start_ns", "slowdown"}, nil)
	if err != nil {
		return err
	}
	slot := 0
	for n, x := range k.index.slots {
		if x.FromNS >= from && x.FromNS < to {
			k.counts[n] = counts{}
		}
	}
	return columns.Consume(in, func(rec arrow.Record) error {
		service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
		size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		for i, slowdown := range columns.Float64s(rec, "slowdown") {
			for k.index.slots[slot].ToNS <= start[i] {
				slot++
			}
			if x := k.index.slots[slot]; x.FromNS < from || x.FromNS >= to {
				continue
			}
			of, cell := k.counts[slot], sampling.CellOf(slowdown)
			for _, key := range k.index.groups(service.Value(i), vnet.Value(i), size[i]) {
				of.add(key, cell)
			}
		}
		return nil
	})
}
