package sampled

import (
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// readRounds reads table sampled_intervals: the estimates with the sampling part of their intervals, by round and by
// group and quantile.
func readRounds(t *testing.T, dir string, r *Result) map[int32]map[string][5]float64 {
	t.Helper()
	l, err := lake.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := l.ReadManifest(lake.Place{Scenario: lake.ScenarioID(r.ScenarioID), Variant: r.Variant})
	if err != nil {
		t.Fatal(err)
	}
	all := map[int32]map[string][5]float64{}
	in := l.Read(schema.SampledIntervals, lake.FilesOf(m.Files, schema.SampledIntervals), nil, nil)
	err = columns.ForEach(in, func(rec arrow.Record) error {
		text := func(name string, i int) string { return columns.Named(rec, name).ValueStr(i) } // "(null)" for null
		number := func(name string) []float64 { return columns.Float64s(rec, name) }
		for i, round := range columns.Int32s(rec, "round") {
			if all[round] == nil {
				all[round] = map[string][5]float64{}
			}
			key := fmt.Sprint(text("service", i), text("vnet", i), " ", text("size_bin", i), " ", number("quantile")[i])
			if _, twice := all[round][key]; twice {
				t.Errorf("round %d has two rows of %s", round, key)
			}
			all[round][key] = [5]float64{number("estimate")[i], number("sampling_lo")[i], number("sampling_hi")[i],
				number("lo")[i], number("hi")[i]}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Table sampled_intervals has the answer after every round: its last round is the answer, and an earlier one the answer
// of a run that stopped there. Intervals close.
func TestRounds(t *testing.T) {
	flows, dir := writeTrace(t, 60_000), t.TempDir()
	ask := Ask{Within: 0.5, Of: []float64{0.9}, Confidence: 0.95}
	coarse := runAsk(t, dir, flows, ask)
	first := readRounds(t, dir, coarse)
	ask.Within = 0.005
	fine := runAsk(t, dir, flows, ask)
	rounds := readRounds(t, dir, fine)
	if coarse.Stopped != Precise || fine.Stopped != Precise || len(first) != 1 || len(rounds) < 2 {
		t.Fatalf("%s after %d rounds, %s after %d", coarse.Stopped, len(first), fine.Stopped, len(rounds))
	}
	last := rounds[int32(len(rounds))]
	if len(last) != len(fine.Rows) {
		t.Errorf("%d rows after the last round, the answer has %d", len(last), len(fine.Rows))
	}
	for key, x := range rounds[1] {
		if same := first[1][key]; x != same {
			t.Errorf("%s: %v after the first round, a run that stopped there has %v", key, x, same)
		}
	}
	if len(rounds[1]) < 12 {
		t.Errorf("%d rows after the first round, want those of all flows and of two services", len(rounds[1]))
	}
	key := "(null)(null) all 0.9"
	width := func(x [5]float64) float64 { return (x[2] - x[1]) / x[0] }
	if !(width(last[key]) < width(rounds[1][key])) || math.IsNaN(width(last[key])) {
		t.Errorf("p90: %v after the first round, %v after the last", rounds[1][key], last[key])
	}
}
