package confidence

import (
	"errors"
	"math"
	"testing"

	"parsimon/stages/tables"
)

// The method's part of an interval follows from the disagreement of link cases. It is 0 if every flow is
// ideal.
func TestMethodPart(t *testing.T) {
	const flows = 20_000
	slow := func(i int) float64 { return 1 + float64(i%100)/10 }
	agree := CaseSlowdowns{}
	half := CaseSlowdowns{}
	other := CaseSlowdowns{}
	for i := range flows {
		agree.Count(500, slow(i))
		if i%2 == 0 {
			half.Count(500, 1.2*slow(i))
		} else {
			other.Count(500, 1.2*slow(i))
		}
	}
	var chunks tables.Memory
	if err := errors.Join(half.Write(&chunks), other.Write(&chunks)); err != nil {
		t.Fatal(err)
	}
	differ, err := ReadCaseSlowdowns(chunks.Read())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		cases CaseSlowdowns
		off   float64
	}{{"agree", agree, 0}, {"differ by a fifth", differ, 0.2}} {
		x := New(0, (flows-1)*1000, c.cases)
		if err := x.Read(made(t, slow, flows).Read()); err != nil {
			t.Fatal(err)
		}
		rows := x.Rows()
		for _, r := range rows {
			m := r.Method
			if m == nil || math.Abs(m.Disagreement-c.off) > 2*intervalStep || m.WorkloadLo < r.Lo ||
				m.WorkloadHi > r.Hi {
				t.Fatalf("%s: %+v %+v", c.name, r, m)
			}
			want := methodFactor*c.off + methodBase*(1-1/r.Estimate)
			if math.Abs(m.Error-want) > 3*methodFactor*intervalStep {
				t.Errorf("%s: %+v, want an error of %g", c.name, m, want)
			}
		}
	}
	x := New(0, (flows-1)*1000, nil)
	if err := x.Read(made(t, slow, flows).Read()); err != nil {
		t.Fatal(err)
	}
	rows := x.Rows()
	if rows[0].Method != nil {
		t.Errorf("without other cases: %+v", rows[0])
	}
	m := methodError(1, 0)
	if m != 0 {
		t.Errorf("ideal flows are off by %g", m)
	}
}
