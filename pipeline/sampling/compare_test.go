package sampling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/variant"
	"parsimon/stages/estimators"
)

// begin opens the scenario of a trace on topology small-2to1 for an estimate.
func begin(t *testing.T, dir, flows string) *pipeline.Estimation {
	t.Helper()
	s, err := scenario.FromFiles("small-2to1", flows)
	if err != nil {
		t.Fatal(err)
	}
	v := pipeline.Variant{Estimator: estimators.Exact}
	e, err := pipeline.Begin(context.Background(), dir, s, v, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// slow opens the scenario of base with links of the given rate to the hosts.
func slow(t *testing.T, dir string, base *pipeline.Estimation, bps int64) *pipeline.Estimation {
	t.Helper()
	change, err := scenario.ParseChange("bandwidth", fmt.Sprintf("tor-host=%dbps", bps))
	if err != nil {
		t.Fatal(err)
	}
	c := scenario.Changes{Do: []scenario.Change{change}}
	variant := pipeline.Variant{Estimator: estimators.Exact}
	e, err := pipeline.Derive(context.Background(), base.Model, c, variant, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Generate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return e
}

// Both sides of a comparison have the same windows, and the interval of a change is at most half as wide as
// that of the percentile. Without common windows a comparison would need several times as many of them.
func TestCompare(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	flows := cut(t, writeTrace(t, 20_000))
	trace := begin(t, dir, flows)
	if err := trace.Generate(ctx); err != nil {
		t.Fatal(err)
	}
	base := slow(t, dir, trace, 5e8)
	other := slow(t, dir, trace, 4.5e8)
	ask := Ask{Within: 0.2, Of: []float64{0.9}, Confidence: 0.95}
	r, err := Compare(ctx, base, other, ask)
	if err != nil {
		t.Fatal(err)
	}
	remark := "flows: " + flows + " does not end with a line end"
	if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], remark) {
		t.Errorf("warnings %q, want %q", r.Warnings, remark)
	}
	var text strings.Builder
	if err := r.Text().Write(&text, "text"); err != nil || !strings.Contains(text.String(), "warning: "+remark) {
		t.Errorf("no warning %q (%v) in\n%s", remark, err, text.String())
	}
	i := slices.IndexFunc(r.Changes, func(x Change) bool {
		return x.Group == "all" && x.SizeBin == "all" && x.Quantile == 0.9
	})
	x := r.Changes[i]
	alone, err := Run(ctx, base, ask)
	if err != nil {
		t.Fatal(err)
	}
	i = slices.IndexFunc(alone.Rows, func(x Row) bool { return x.Key == all && x.Quantile == 0.9 })
	own := 2 * alone.Rows[i].halfWidth()
	if r.Stopped != Precise || !(x.Change > 0 && x.Lo <= x.Change && x.Change <= x.Hi) || x.Hi-x.Lo > own/2 {
		t.Errorf("%s: %+v; p90 of the base alone is known to ±%g%%", r.Stopped, x, 50*own)
	}
	from := map[int64]int{}
	for _, side := range []Side{r.Base, r.Other} {
		place := lake.Place{Scenario: lake.ScenarioID(side.ScenarioID), Variant: parseVariant(t, side.Variant)}
		m, _, err := base.Lake.ReadManifest(place)
		if err != nil {
			t.Fatal(err)
		}
		files := slices.DeleteFunc(m.Files, func(f lake.DataFile) bool {
			table, err := f.Table()
			return err != nil || table.Name != schema.Windows.Name
		})
		err = columns.ForEach(base.Lake.Read(schema.Windows, files, nil), func(rec arrow.Record) error {
			for _, ns := range columns.Int64s(rec, "from_ns") {
				from[ns]++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(from) != r.Windows {
		t.Errorf("%d different windows in the tables of both sides, want the same %d", len(from), r.Windows)
	}
}

func parseVariant(t *testing.T, name string) variant.Variant {
	t.Helper()
	v, err := variant.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
