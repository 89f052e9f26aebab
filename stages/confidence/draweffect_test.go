package confidence

import (
	"math"
	"testing"

	"parsimon/schema/sizebin"
)

// effectsOf returns the effects of draws for flows of 500 bytes.
func effectsOf(t *testing.T, flows int, drawn, own func(i int) float64) []DrawEffect {
	t.Helper()
	x := New(0, int64(flows)*1000, nil)
	err := x.ReadDrawn(made(t, drawn, flows).Read(), func(row int64) int64 {
		return int64(math.Round(own(int(row)) - 1))
	})
	if err != nil {
		t.Fatal(err)
	}
	return x.DrawEffects()
}

// Draws that give 2% of the flows ten times their own slowdown change p99, but not the median. An effect that
// is missed here would not be named in warning "mixed sizes".
func TestEffectsOfDraws(t *testing.T) {
	own := func(i int) float64 { return float64(101 + i%100) }
	drawn := func(i int) float64 {
		if i%50 == 0 {
			return 10 * own(i)
		}
		return own(i)
	}
	found := map[string]DrawEffect{}
	for _, e := range effectsOf(t, 5000, drawn, own) {
		found[e.Name()] = e
	}
	for _, name := range []string{"p99 of all flows", "p99 of flows of " + sizebin.Bins()[0].Name} {
		e := found[name]
		if !within(e.Own, 199, 0.5) || !within(e.Drawn, 1010, 2) || !within(e.Relative(), 1010.0/199-1, 0.02) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for name, e := range found {
		if e.Quantile == 0.5 || e.Quantile == 0.999 { // only five flows are beyond p99.9
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// Draws of the same distribution have no effect beyond chance, and slowdowns that are not drawn have none.
func TestNoEffectOfDraws(t *testing.T) {
	own := func(i int) float64 { return float64(101 + i*7919%5000) }
	drawn := func(i int) float64 { return own(i*31%5000 + 1) }
	found := effectsOf(t, 5000, drawn, own)
	if len(found) != 0 {
		t.Errorf("the same distribution: %+v", found)
	}
	x := New(0, 5000*1000, nil)
	if err := x.Read(made(t, own, 5000).Read()); err != nil {
		t.Fatal(err)
	}
	found = x.DrawEffects()
	if found != nil {
		t.Errorf("not drawn: %+v", found)
	}
}

// An effect must be larger than chance. With 1,000 flows, three standard deviations of the draws are a factor
// of 1.37 in the odds of p90: 130 flows beyond it instead of 100 are chance, 160 are not.
func TestEffectsBeyondChance(t *testing.T) {
	for beyond, want := range map[int]bool{130: false, 160: true, 75: false, 60: true} {
		drawn := func(i int) float64 {
			if i < 101 {
				return 1001
			}
			return 101
		}
		own := func(i int) float64 {
			if i < beyond {
				return 2001
			}
			return 101
		}
		found := false
		for _, e := range effectsOf(t, 1000, drawn, own) {
			found = found || e.Quantile == 0.9 && e.SizeBin == sizebin.All
		}
		if found != want {
			t.Errorf("%d flows beyond p90: %v", beyond, found)
		}
	}
}
