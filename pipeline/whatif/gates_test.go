package whatif

import (
	"errors"
	"math"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/stages/estimators"
)

// The value of a gate is that of the comparison row that groups flows by the columns of the gate's filter.
func TestComparisonValue(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Independent})
	changes := do(t, "bandwidth=host-tor=5G")
	w, err := WhatIf(t.Context(), base, changes, o, CompareOptions{By: []string{"service", "size_bin"}})
	if err != nil {
		t.Fatal(err)
	}
	value := func(text string) (float64, error) {
		g, err := gate.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Judge(t.Context(), []gate.Gate{g}); err != nil && !errors.As(err, new(*gate.Error)) {
			return 0, err
		}
		return *w.Gates[0].Value, nil
	}
	names := map[float64]string{0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p999"}
	for i := 1; i < len(w.Rows); i += 7 {
		r := w.Rows[i]
		filter := ""
		for i, column := range []string{"service", "vnet", "size_bin"} {
			if r.Group[i] != "all" {
				filter += column + `="` + r.Group[i] + `" `
			}
		}
		for metric, want := range map[string]float64{"slowdown": r.Other, "change": r.Change, "fct_ms": r.OtherFCT,
			"fct_change": r.FCTChange} {
			text := filter + names[r.Quantile] + "_" + metric + " > 0"
			if got, err := value(text); err != nil || math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: value %v, %v, want %v", text, got, err, want)
			}
		}
	}
	if _, err := value("service=none p99_slowdown > 1"); err == nil ||
		!strings.Contains(err.Error(), `"none"; there are `) {
		t.Errorf("a gate on no flows: %v", err)
	}
	worse, err := gate.Parse("p50_change > 0%")
	if err != nil {
		t.Fatal(err)
	}
	var failed *gate.Error
	err = w.Judge(t.Context(), []gate.Gate{worse})
	if !errors.As(err, &failed) || len(w.Gates) != 1 || !w.Gates[0].Failed {
		t.Errorf("half of the bandwidth does not fail the gate: %+v, %v", w.Gates, err)
	}
}

// A service named like all flows forms a separate group.
func TestGroupOfAServiceNamedAll(t *testing.T) {
	got := groupOf([4]bool{true, true}, [4]string{"all", "blue", "<10 KB", "4"})
	want := [4]string{"(all)", "blue", "all", "all"}
	if got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
