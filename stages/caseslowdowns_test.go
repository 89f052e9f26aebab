package stages

import (
	"errors"
	"math"
	"strings"
	"testing"

	"parsimon/schema/sizebin"
)

// The method's part of an interval follows from how far link cases disagree. It is 0 where every flow is ideal.
func TestMethodPart(t *testing.T) {
	const flows = 20_000
	slow := func(i int) float64 { return 1 + float64(i%100)/10 }
	agree, half, other := CaseSlowdowns{}, CaseSlowdowns{}, CaseSlowdowns{}
	for i := range flows {
		agree.count(500, slow(i))
		if i%2 == 0 {
			half.count(500, 1.2*slow(i))
		} else {
			other.count(500, 1.2*slow(i))
		}
	}
	var chunks captured
	if err := errors.Join(half.write(&chunks), other.write(&chunks)); err != nil {
		t.Fatal(err)
	}
	differ, err := ReadCaseSlowdowns(chunks.rewound())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		cases CaseSlowdowns
		off   float64
	}{{"agree", agree, 0}, {"differ by a fifth", differ, 0.2}} {
		x := NewIntervals(0, (flows-1)*1000, c.cases)
		if err := x.Read(made(t, slow, flows)); err != nil {
			t.Fatal(err)
		}
		rows := x.Rows()
		for _, r := range rows {
			m := r.Method
			if m == nil || math.Abs(m.Disagreement-c.off) > 2*intervalStep || m.WorkloadLo < r.Lo || m.WorkloadHi > r.Hi {
				t.Fatalf("%s: %+v %+v", c.name, r, m)
			}
			if want := methodFactor*c.off + methodBase*(1-1/r.Estimate); math.Abs(m.Error-want) > 3*methodFactor*intervalStep {
				t.Errorf("%s: %+v, want an error of %g", c.name, m, want)
			}
		}
		named := disagreements(rows)
		if (len(named) > 0) != (c.off > disagreement) || c.off > 0 && !strings.Contains(named[0].Text, "probably too low") {
			t.Errorf("%s: %+v", c.name, named)
		}
	}
	x := NewIntervals(0, (flows-1)*1000, nil)
	if err := x.Read(made(t, slow, flows)); err != nil {
		t.Fatal(err)
	}
	if rows := x.Rows(); rows[0].Method != nil || disagreements(rows) != nil {
		t.Errorf("without other cases: %+v", rows[0])
	}
	if m := methodError(1, 0); m != 0 {
		t.Errorf("ideal flows are off by %g", m)
	}
}

// A disagreement about few flows, or about a percentile that is not printed, is not named.
func TestDisagreements(t *testing.T) {
	row := func(bin string, flows int64, q, by float64) Interval {
		return Interval{SizeBin: bin, Flows: flows, Quantile: q, Estimate: 2, Method: &MethodPart{Disagreement: by}}
	}
	for _, c := range []struct {
		name string
		rows []Interval
		want string
	}{
		{"the worst", []Interval{row(sizebin.All, 9000, 0.5, 0.11), row("<10 KB", 9000, 0.99, -0.3)}, "p99 of all flows of <10 KB is estimated at 2.000"},
		{"few beyond", []Interval{row(sizebin.All, 900, 0.99, 0.5)}, ""},
		{"small bin", []Interval{row("<10 KB", 1000, 0.99, 0.5)}, ""},
		{"p50 of a bin", []Interval{row("<10 KB", 9000, 0.5, 0.5)}, ""},
		{"of a service", []Interval{{By: ByService, SizeBin: sizebin.All, Flows: 9000, Quantile: 0.5, Method: &MethodPart{Disagreement: 1}}}, ""},
	} {
		got := disagreements(c.rows)
		if len(got) != min(1, len(c.want)) || len(got) == 1 && !strings.HasPrefix(got[0].Text, c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
