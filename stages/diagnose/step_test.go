package diagnose_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel/network"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
	"parsimon/stages/moves"
	"parsimon/stages/step"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// diagnosed runs an estimate of random flows, and returns its intervals step, all tables and the kinds of
// its warnings.
func diagnosed(t *testing.T, m *step.Model, e estimators.Name, flows []workload.Row) (*step.Step,
	*method.Tables, []string) {
	t.Helper()
	found, err := method.Run(t.Context(), m, method.Estimate{Estimator: e, Partitions: 3}, flows)
	if err != nil {
		t.Fatal(err)
	}
	type warning struct {
		Kind string `col:"kind"`
	}
	var kinds []string
	err = columns.Each(found.Table(schema.Warnings).Read(), func(w *warning) error {
		kinds = append(kinds, w.Kind)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found.Writer(schema.Warnings), found, kinds
}

// The step reads the flows twice, which is its cost, and only link cases of limited buffers need the queues
// of links. A small buffer causes a warning in all estimates by link cases, and in no other.
func TestStepOfEveryEstimator(t *testing.T) {
	n := methodtest.Clos(t)
	flows := methodtest.RandomRows(n, rand.New(rand.NewPCG(2, 3)), 1500)
	for _, limited := range []bool{false, true} {
		for _, e := range []estimators.Name{estimators.Flow, estimators.Independent, estimators.Exact} {
			m := methodtest.DCTCP(t, n)
			if limited {
				m.Buffers = network.BufferParams{SwitchBytes: 20_000, Alpha: 1}
			}
			s, found, kinds := diagnosed(t, m, e, flows)
			rows, cost, err := s.Cut.Size(found)
			if err != nil || rows != (step.Range{Hi: 1500}) || cost != 3000 {
				t.Errorf("%s: rows %+v cost %d, %v", e, rows, cost, err)
			}
			reads := map[string]bool{}
			for _, o := range s.Reads {
				reads[o.Table.Name] = true
				if !o.Step.WritesTable(o.Table) {
					t.Errorf("%s: %s is not what its step writes", e, o.Table.Name)
				}
			}
			cases := e != estimators.Exact
			if reads["hops"] != (e == estimators.Independent || limited && cases) {
				t.Errorf("%s reads %v", e, reads)
			}
			if reads["link_stats"] != (limited && cases) || reads["case_slowdowns"] != (e == estimators.Flow) {
				t.Errorf("%s reads %v", e, reads)
			}
			warned := 0
			for _, k := range kinds {
				if k == "buffers" {
					warned++
				}
			}
			if (warned > 0) != (limited && cases) {
				t.Errorf("%s, limited buffers %v: %d warnings of %v", e, limited, warned, kinds)
			}
		}
	}
}

// An event after the last flow has finished changes nothing, and the estimate has a remark. Between the last
// start and that time, it changes something.
func TestRemarkAboutLateEvents(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	for fromNS, want := range map[int64]bool{3677: false, 3678: true} {
		m := methodtest.DCTCP(t, n)
		m.Moves = &moves.Moves{Events: []moves.Event{{Cable: [2]int32{0, 4}, Kind: moves.Delay, DelayNS: 2000,
			FromNS: fromNS}}}
		_, _, kinds := diagnosed(t, m, estimators.Exact, []workload.Row{{ID: 1, Dst: 3, SizeBytes: 1000}})
		if slices.Contains(kinds, "flows") != want {
			t.Errorf("from %d ns on: %v", fromNS, kinds)
		}
	}
}
