package windows

import (
	"errors"
	"math"
	"testing"

	"parsimon/stages/workload"
)

// Flows that are active at the beginning of a part start at different times in the first eighth of the
// warm-up, with their remaining bytes. Flows that have ended by then do not start.
func TestCarriedFlowsBeginApart(t *testing.T) {
	const bps, warmupNS = 8_000_000_000 * 1.048, int64(2_000_000) // a byte of payload per ns
	hosts := map[int32]int64{}
	c := carrier{selection: Selection{WarmupNS: warmupNS}, parts: [][2]int64{{1_000_000, 6_000_000}}}
	for i := range int32(200) {
		hosts[i] = bps
	}
	c.fluid = star(hosts)
	for i := range int32(100) {
		bytes := 5e6
		if i%2 == 1 {
			bytes = 1_100_000 // has ended at 1,120,000 ns
		}
		c.fluid.add(0, carried{Row: workload.Row{ID: int64(i), Src: i, Dst: 100 + i}, remaining: bytes})
	}
	if err := c.begin(1_000_000); err != nil {
		t.Fatal(err)
	}
	c.drain(1_250_000)
	short := 0
	mean := 0.0
	for _, x := range c.held {
		if x.StartNS < 1_000_000 || x.StartNS > 1_250_000 {
			t.Errorf("flow %d begins at %d ns", x.ID, x.StartNS)
		}
		want := 5e6
		if x.ID%2 == 1 {
			short = short + 1
			want = 1.1e6
		}
		want -= float64(x.StartNS)
		if math.Abs(float64(x.SizeBytes)-want) > 2.1*float64(fluidStepNS) {
			t.Errorf("flow %d has %.0f bytes at %d ns, want about %.0f", x.ID, float64(x.SizeBytes), x.StartNS, want)
		}
		mean += float64(x.StartNS) / float64(len(c.held))
	}
	n := len(c.held)
	if n-short != 50 || short < 15 || short > 35 || math.Abs(mean-1.105e6) > 0.02e6 {
		t.Errorf("%d flows begin, %d of them short, on average at %.0f ns", n, short, mean)
	}
}

// Large flows are followed in long steps, without small ones, until shortly before a part. They then have
// about the same remaining bytes as with all flows and short steps.
func TestFlowsFarBeforeAPart(t *testing.T) {
	const bps = 8_000_000_000 * 1.048 // a byte of payload per ns
	hosts := map[int32]int64{}
	for i := range int32(12) {
		hosts[i] = bps
	}
	c := carrier{selection: Selection{WarmupNS: 800_000, LongestBytes: 6_400_000},
		parts: [][2]int64{{100_000_000, 103_000_000}}, longestNS: 6_400_000, fluid: star(hosts)}
	for i := range int32(8) { // they share the sender until 101.2 ms
		if err := c.add(workload.Row{ID: int64(i), Src: 1, Dst: 2 + i, SizeBytes: 6_400_000,
			StartNS: 50_000_000}); err != nil {
			t.Fatal(err)
		}
	}
	small := workload.Row{ID: 8, Src: 1, Dst: 2, SizeBytes: 90_000, StartNS: 50_000_000}
	near := workload.Row{ID: 9, Src: 10, Dst: 11, SizeBytes: 90_000, StartNS: 99_990_000}
	if err := errors.Join(c.add(small), c.add(near), c.begin(100_000_000)); err != nil {
		t.Fatal(err)
	}
	flows := 0
	c.fluid.each(func(x *carried) {
		flows++
		if x.ID < 8 && math.Abs(x.remaining-162_500) > 15_000 {
			t.Errorf("flow %d has %.0f bytes, want 150,000 to 175,000", x.ID, x.remaining)
		}
	})
	if flows != 9 || c.fluid.stepNS != fluidStepNS {
		t.Errorf("%d flows in steps of %d ns, want 9 of %d", flows, c.fluid.stepNS, fluidStepNS)
	}
}
