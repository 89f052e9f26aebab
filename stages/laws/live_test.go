package laws

import (
	"math/rand/v2"
	"testing"

	"parsimon/simkernel"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
)

// contradicted returns the maximum shares of flows that may contradict each law by more than MaterialShare.
// Estimates by link cases are not simulations of one network. The shares were measured (1.0% and 0.02% too
// early, none too late) and rounded up.
func contradicted(by estimators.Name) (early, late float64) {
	switch by {
	case estimators.Exact:
		return 0, 0
	case estimators.Flow:
		return 0.001, 0
	}
	return 0.015, 0
}

// Each estimator obeys the laws as far as it did when its accuracy was measured. Without this test, a change
// of the method that violates them would be noticed only where frozen results are compared.
func TestEveryEstimatorKeepsTheLaws(t *testing.T) {
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	rows := methodtest.RandomRows(n, rand.New(rand.NewPCG(2, 3)), 6000)
	for _, name := range estimators.All() {
		found, err := method.Run(t.Context(), m, method.Estimate{Estimator: name}, rows)
		if err != nil {
			t.Fatal(err)
		}
		slowdowns, err := found.Slowdowns()
		if err != nil {
			t.Fatal(err)
		}
		var flows []Flow
		for _, s := range slowdowns {
			path, err := m.Router.Path(s.FlowID, s.Src, s.Dst, nil)
			if err != nil {
				t.Fatal(err)
			}
			flows = append(flows, Flow{Row: s.FlowRow, StartNS: s.StartNS, FCTNS: s.FCTNS, SizeBytes: s.SizeBytes,
				Path: path})
		}
		c := New(n, simkernel.DefaultParams())
		if err := c.Begin(flows); err != nil {
			t.Fatal(err)
		}
		got := c.Report()
		mostEarly, mostLate := contradicted(name)
		early := float64(got.Early.Flows) / float64(got.Flows)
		late := float64(got.Late.Flows) / float64(got.Flows)
		t.Logf("%s: %.4f of the flows too early, %.4f too late; at worst %.3f and %.3f of the FCT", name, early,
			late, got.Early.WorstShare, got.Late.WorstShare)
		if got.Flows != int64(len(rows)) || early > mostEarly || late > mostLate {
			t.Errorf("%s: %+v, want at most %g of the flows too early and %g too late", name, got, mostEarly, mostLate)
		}
	}
}
