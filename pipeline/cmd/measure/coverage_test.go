package main

import (
	"testing"

	"parsimon/schema/sizebin"
)

// Intervals of independent must contain the percentiles of other traffic of the same kind. Intervals from the
// drawn delays alone, which are independent of each other, contained them in a quarter of the cases. make
// independent-coverage measures all kinds.
func TestIntervalsOfIndependentCoverOtherDraws(t *testing.T) {
	draws := 12
	if testing.Short() {
		draws = 6
	}
	counts, err := coverageOf(t.Context(), t.TempDir(), "few-sizes", draws)
	if err != nil {
		t.Fatal(err)
	}
	var all *coverageCount
	for _, q := range []float64{0.5, 0.9, 0.99} {
		c := counts[intervalCell{sizebin.All, q}]
		if c == nil || c.intervals < draws-1 {
			t.Fatalf("quantile %g: %+v of %d draws", q, c, draws)
		}
		all = all.plus(c)
	}
	if all.hits*10 < all.intervals*8 {
		t.Errorf("%d of %d intervals contain the mean of the draws", all.hits, all.intervals)
	}
	if all.hitsDrawn >= all.hits {
		t.Errorf("intervals by the drawn delays alone contain it as often: %d of %d", all.hitsDrawn, all.intervals)
	}
}
