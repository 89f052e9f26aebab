package confidence

import (
	"math"
	"math/rand/v2"
	"testing"

	"parsimon/schema/sizebin"
)

// The upper bound of an interval allows for three events of congestion that the workload does not have.
// Without them, 20% of the intervals of p99 of a single queue were too low.
func TestUpperBoundAllowsForMoreEvents(t *testing.T) {
	const flows = 20_000
	bounds := func(event float64) (lo, hi float64) {
		x := New(0, int64(flows-1)*1000, nil)
		inCases := bursts(rand.New(rand.NewPCG(1, 11)), flows, 1)
		drawn := made(t, func(i int) float64 { return inCases[i*7919%flows] }, flows)
		err := x.ReadDrawn(drawn.Read(), func(row int64) int64 { return int64(math.Round(inCases[row] - 1)) })
		if err != nil {
			t.Fatal(err)
		}
		x.SetEvent(event)
		at := intervalOf(t, x.Rows(), ByNothing, "", sizebin.All, 0.9)
		return at.Lo, at.Hi
	}
	lo, hi := bounds(0)
	eventLo, eventHi := bounds(0.1)
	// Three events of 10% of the flows are three times the 10% beyond p90: from 1 in 10 to 4 in 10. The
	// slowdowns are 1 + 100 times exponential ones.
	moved := (eventHi - hi) / 100
	if eventLo != lo || math.Abs(moved-math.Log(4)) > 0.3 {
		t.Errorf("without events %v to %v, with them %v to %v, and the upper bound moves by %v", lo, hi, eventLo,
			eventHi, moved)
	}
}

// The mean size is weighted by size, because a large flow keeps a queue busy for longer. Three flows of 500
// bytes and one of 8,500 bytes have a mean of 2,500 bytes, and a weighted one of 7,300 bytes.
func TestMeanSizeByBytes(t *testing.T) {
	x := New(0, 4000, nil)
	for _, size := range []float64{500, 500, 500, 8500} {
		x.bytes += size
		x.squares += size * size
	}
	x.all.bins[sizebin.Count].flows = 4
	got := x.Traffic()
	if got.Flows != 4 || got.ByteMeanBytes != 7300 {
		t.Errorf("%+v", got)
	}
	read := New(0, 99_000, nil)
	err := read.ReadDrawn(made(t, func(int) float64 { return 1 }, 100).Read(), func(int64) int64 { return 0 })
	got = read.Traffic()
	if err != nil || got.Flows != 100 || got.ByteMeanBytes != 500 {
		t.Errorf("%+v, %v", got, err)
	}
}
