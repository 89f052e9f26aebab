package flow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/simkernel/network"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// Three packets of 838.4 ns meet at the link to host 3: one passes, one waits for one, and one for two. All
// other links are idle. If a pass, the feedback or the replay counted a wait twice or lost it, these delays
// would differ.
func TestThreeFlowsOnOneLink(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	flows := []workload.Row{
		{ID: 1, Src: 0, Dst: 3, SizeBytes: 1000}, {ID: 2, Src: 1, Dst: 3, SizeBytes: 1000},
		{ID: 3, Src: 2, Dst: 3, SizeBytes: 1000},
	}
	for _, passes := range []int{1, 2} {
		e := method.Estimate{Estimator: estimators.Flow, Options: step.Options{Passes: passes}}
		found, err := method.Run(t.Context(), m, e, flows)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := found.Slowdowns()
		if err != nil {
			t.Fatal(err)
		}
		var late []int64
		for _, r := range rows {
			if r.IdealNS != 3677 { // 2 × (1,000 + 838.4)
				t.Errorf("ideal FCT %d ns", r.IdealNS)
			}
			late = append(late, r.FCTNS-r.IdealNS)
		}
		slices.Sort(late)
		if late[0] != 0 || late[1] != 838 || late[2] != 1676 && late[2] != 1677 { // 1,676.8
			t.Errorf("%d passes: delays of %v ns", passes, late)
		}
	}
}

// The steps are those of the package comment. Status, repair and the number of tasks of a run follow from
// them.
func TestStepsOfPasses(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	m.Buffers = network.BufferParams{SwitchBytes: 400_000, Alpha: 1}
	e := estimators.Flow.Estimator()
	if e.Passes != 2 {
		t.Errorf("%d passes", e.Passes)
	}
	for passes, want := range map[int]string{
		1: "route simulate-1 sender-feedback replay sample intervals",
		2: "route simulate-1 feedback-1 simulate-2 sender-feedback replay sample intervals",
		0: "route simulate-1 feedback-1 simulate-2 sender-feedback replay sample intervals",
	} {
		e := estimators.Flow.Estimator()
		flows := &step.Step{Name: "generate", Writes: []schema.Table{schema.Flows}}
		var names []string
		seen := map[*step.Step]bool{flows: true}
		for _, s := range e.Plan(m, step.Options{Passes: passes}, flows) {
			name := s.Name
			if s.Pass > 0 {
				name = fmt.Sprintf("%s-%d", name, s.Pass)
			}
			names = append(names, name)
			for _, o := range s.Reads {
				if !seen[o.Step] || !o.Step.WritesTable(o.Table) {
					t.Errorf("%s reads %s before it is written", name, o.Table.Name)
				}
			}
			seen[s] = true
		}
		got := strings.Join(names, " ")
		if got != want {
			t.Errorf("%d passes: %s, want %s", passes, got, want)
		}
	}
}

// An estimate of one pass has a warning. Loads and transports that link cases do not suit cause warnings.
func TestWarningsOfPasses(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	flows := []workload.Row{{ID: 1, Src: 0, Dst: 3, SizeBytes: 1000},
		{ID: 2, Src: 1, Dst: 3, SizeBytes: 1000, StartNS: 1e6}}
	for passes, want := range map[int][]string{1: {"unsettled"}, 2: nil} {
		e := method.Estimate{Estimator: estimators.Flow, Options: step.Options{Passes: passes}}
		found, err := method.Run(t.Context(), m, e, flows)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, rec := range found.Table(schema.Warnings).Records {
			for i := range int(rec.NumRows()) {
				kinds = append(kinds, rec.Column(rec.Schema().FieldIndices("kind")[0]).ValueStr(i))
			}
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("%d passes: warnings %v, want %v", passes, kinds, want)
		}
	}
}
