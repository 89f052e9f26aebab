package whatif

import (
	"context"
	"math"
	"testing"

	"parsimon/pipeline"
	"parsimon/schema/daily"
	"parsimon/simkernel"
	"parsimon/stages/estimators"
)

// Estimator flow is compared with a simulation of the whole network, for every transport that link cases
// model, on a small network. Percentiles of slowdown must be within 10%.
// datasets/results/transport-accuracy.md has the results for the paper's setting.
func TestTransportsEstimate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, kind := range daily.Today(3, simkernel.PacedTransports()...) {
		s := sixteenHosts(t, 8_000, kind.String())
		run, err := pipeline.Begin(t.Context(), t.TempDir(), s, pipeline.Variant{Estimator: estimators.Flow},
			pipeline.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if err := run.Estimate(ctx); err != nil {
			t.Fatal(err)
		}
		if err := run.Exact(ctx); err != nil {
			t.Fatal(err)
		}
		v, err := Validate(ctx, run, "")
		run.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range v.Rows {
			if row.Name == "all" && row.Quantile < 0.999 {
				t.Logf("%s: p%g %.3f, truth %.3f: %+.1f%%", kind, 100*row.Quantile, row.Estimate, row.True, 100*row.Error)
				if math.Abs(row.Error) > 0.1 {
					t.Errorf("%s: p%g %.3f, truth %.3f: %+.1f%%", kind, 100*row.Quantile, row.Estimate, row.True,
						100*row.Error)
				}
			}
		}
	}
}
