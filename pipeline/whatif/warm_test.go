package whatif

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/rows"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/workload"
)

func warmScenario(t *testing.T) *scenario.Scenario {
	t.Helper()
	return sixteenHosts(t, 10_000, "dctcp")
}

// warmly makes a warm what-if in a new lake, with a base whose observations were removed.
func warmly(t *testing.T, c scenario.Changes, o Settings) (*Answer, Settings) {
	t.Helper()
	return warmlyWith(t, warmScenario(t), c, o)
}

func warmlyWith(t *testing.T, of *scenario.Scenario, c scenario.Changes, o Settings) (*Answer, Settings) {
	t.Helper()
	o.Lake, o.Variant, o.Warm = t.TempDir(), pipeline.Variant{Estimator: stages.Flow, Passes: 2}, true
	base := estimate(t, of, o)
	w, err := WhatIf(t.Context(), base, c, o, CompareOptions{Links: 1})
	if err != nil {
		t.Fatal(err)
	}
	return w, o
}

// A warm estimate is close to a cold one, is not taken for one, and says what it is. It does not depend on workers and
// partitions.
func TestWarmWhatIf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change scenario.Changes
		within float64
	}{
		{"a cable down", scenario.Changes{Fail: []string{"pod0-fabric0:plane0-spine0"}}, 0.05},
		{"a rack's cable down", scenario.Changes{Fail: []string{"pod0-tor0:pod0-fabric0"}}, 0.05},
		{"slower cables", scenario.Changes{Bandwidth: []scenario.BandwidthChange{{Selector: "fabric-spine", BPS: 10e9}}}, 0.05},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, o := warmly(t, c.change, Settings{})
			if want := "flow-2-warm-" + w.Base.Scenario + "-3"; w.Other.Variant != want || w.Base.Variant != "flow-2" || !w.Warm {
				t.Fatalf("%+v and %+v are compared, want variant %s", w.Base, w.Other, want)
			}
			var text bytes.Buffer
			if err := w.Write(&text); err != nil || !strings.Contains(text.String(), "other is a warm estimate") {
				t.Errorf("%v, in\n%s", err, &text)
			}
			if got := rows.Ask(t, o.Lake, "SELECT variant, kind FROM warnings WHERE kind = 'warm'"); got != "["+w.Other.Variant+" warm]" {
				t.Errorf("warnings: %s", got)
			}
			warm := estimates.Open(t, o.Lake, w.Other.Scenario, w.changed.Variant())
			partitioned := Settings{}
			partitioned.Workers, partitioned.Partitions = 1, 5
			again, p := warmly(t, c.change, partitioned)
			other := estimates.Open(t, p.Lake, again.Other.Scenario, again.changed.Variant())
			for _, table := range []schema.Table{schema.Slowdowns, schema.HopContributions, schema.LinkStats} {
				if tableRows(t, warm, table) != tableRows(t, other, table) {
					t.Errorf("table %s depends on workers and partitions", table.Name)
				}
			}
			o.Warm = false
			cold, err := WhatIf(t.Context(), w.Base.Scenario, c.change, o, CompareOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if cold.Other.Scenario != w.Other.Scenario || cold.Other.Variant != "flow-2" || cold.Warm {
				t.Errorf("a cold what-if is %+v", cold.Other)
			}
			for i, r := range cold.Rows {
				// p99.9 is of ten flows.
				if off := w.Rows[i].Other/r.Other - 1; math.Abs(off) > c.within && r.Quantile < 0.999 {
					t.Errorf("p%g is %.3f, cold %.3f (%+.1f%%)", 100*r.Quantile, w.Rows[i].Other, r.Other, 100*off)
				}
			}
		})
	}
}

// With DCQCN it also starts from the base's queues.
func TestWarmQueues(t *testing.T) {
	t.Parallel()
	change := scenario.Changes{Fail: []string{"pod0-fabric0:plane0-spine0"}}
	w, o := warmlyWith(t, sixteenHosts(t, 10_000, "dcqcn"), change, Settings{})
	o.Warm = false
	cold, err := WhatIf(t.Context(), w.Base.Scenario, change, o, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range cold.Rows {
		if off := w.Rows[i].Other/r.Other - 1; math.Abs(off) > 0.05 && r.Quantile < 0.999 {
			t.Errorf("p%g is %.3f, cold %.3f (%+.1f%%)", 100*r.Quantile, w.Rows[i].Other, r.Other, 100*off)
		}
	}
}

// An added cable has no observations of its own to start from.
func TestWarmAddedCable(t *testing.T) {
	t.Parallel()
	w, _ := warmly(t, scenario.Changes{Add: []scenario.CableAddition{{Ends: "pod0-tor0:plane0-spine0", BPS: 40e9, DelayNS: 1000}}}, Settings{})
	if w.Both != 10000 || w.Rows[0].Other < 1 {
		t.Errorf("%+v", w.Comparison)
	}
}

// A warm estimate can be compared with the base that it starts from, as its answer says, and with no other estimate.
func TestWarmCompared(t *testing.T) {
	t.Parallel()
	w, o := warmly(t, scenario.Changes{Bandwidth: []scenario.BandwidthChange{{Selector: "fabric-spine", BPS: 80e9}}}, Settings{})
	var text bytes.Buffer
	if err := w.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Side{w.Base, w.Other} {
		if !strings.Contains(text.String(), "@"+s.Variant+" ") {
			t.Errorf("no %s in\n%s", s.Variant, &text)
		}
	}
	l := w.changed.Lake
	c, err := Compare(t.Context(), l, Side{Scenario: w.Base.Scenario}, Side{Scenario: w.Other.Scenario}, CompareOptions{})
	if err != nil || c.Base != w.Base || c.Other != w.Other || !c.Warm {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Compare(t.Context(), l, w.Other, w.Base, CompareOptions{}); !errors.Is(err, ErrDifferentWays) {
		t.Errorf("the other way round: %v", err)
	}
	o.Variant.Passes = 1
	estimate(t, warmScenario(t), o)
	_, err = Compare(t.Context(), l, Side{w.Base.Scenario, o.Variant.String()}, w.Other, CompareOptions{})
	if !errors.Is(err, ErrDifferentWays) {
		t.Errorf("from another number of passes: %v", err)
	}
}

// What cannot start from the base's observations is refused.
func TestWarmRefusals(t *testing.T) {
	t.Parallel()
	o := Settings{Lake: t.TempDir(), Variant: pipeline.Variant{Estimator: stages.Flow, Passes: 2}, Warm: true}
	base := estimate(t, warmScenario(t), o)
	_, err := WhatIf(t.Context(), base, scenario.Changes{FlowChanges: workload.FlowChanges{Scale: map[string]float64{"all": 1.5}}}, o, CompareOptions{})
	if err == nil || !strings.Contains(err.Error(), "needs the base's flows") {
		t.Errorf("other flows: %v", err)
	}
	o.Variant = pipeline.Variant{Estimator: stages.Independent}
	_, err = WhatIf(t.Context(), base, scenario.Changes{Fail: []string{"pod0-fabric0:plane0-spine0"}}, o, CompareOptions{})
	if err == nil || !strings.Contains(err.Error(), "estimator flow") {
		t.Errorf("estimator independent: %v", err)
	}
}
