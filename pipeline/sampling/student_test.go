package sampling

import (
	"math"
	"testing"
)

// StudentT agrees with table 26.10 of Abramowitz and Stegun. Every interval is proportional to it.
func TestStudentT(t *testing.T) {
	for _, c := range []struct{ confidence, df, want float64 }{
		{0.95, 1, 12.706}, {0.95, 2, 4.303}, {0.95, 3, 3.182}, {0.95, 5, 2.571}, {0.95, 16, 2.120},
		{0.95, 30, 2.042},
		{0.99, 10, 3.169}, {0.9, 10, 1.812}, {0.95, 1e6, 1.960},
	} {
		got := StudentT(c.confidence, c.df)
		if math.Abs(got-c.want) > 0.002 {
			t.Errorf("t(%v, %v) = %.4f, want %.3f", c.confidence, c.df, got, c.want)
		}
	}
}
