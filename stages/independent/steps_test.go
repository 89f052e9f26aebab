package independent_test

import (
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// The steps are those of the package comment. With clusters, a step chooses representatives before the link
// cases, and draws follow all of them. Status, repair and the number of tasks of a run follow from them.
func TestStepsOfClusters(t *testing.T) {
	for share, want := range map[float64]string{
		0: "route simulate sample intervals", 0.1: "route cluster simulate draw sample intervals",
	} {
		e := estimators.Independent.Estimator()
		if !e.Clusters || e.WholeNetwork || e.Passes != 0 {
			t.Errorf("%+v", e)
		}
		flows := &step.Step{Name: "generate", Writes: []schema.Table{schema.Flows}}
		m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
		seen := map[*step.Step]bool{flows: true}
		var names []string
		for _, s := range e.Plan(m, step.Options{ClusterError: share}, flows) {
			names = append(names, s.Name)
			for _, o := range s.Reads {
				if !seen[o.Step] || !o.Step.WritesTable(o.Table) {
					t.Errorf("%s reads %s before it is written", s.Name, o.Table.Name)
				}
			}
			seen[s] = true
		}
		got := strings.Join(names, " ")
		if got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}

// Three packets of 838.4 ns meet at one link, whose bucket has delays of zero, one and two packets. Each flow
// draws one of these, also with clusters. If another link had a delay, a flow could be later.
func TestThreeFlowsOnOneLink(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	for _, share := range []float64{0, 0.1} {
		var flows []workload.Row
		for i := range int64(300) { // a burst of three each millisecond
			flows = append(flows, workload.Row{ID: i, Src: int32(i % 3), Dst: 3, SizeBytes: 1000,
				StartNS: i / 3 * 1e6})
		}
		e := method.Estimate{Estimator: estimators.Independent, Options: step.Options{ClusterError: share}}
		found, err := method.Run(t.Context(), m, e, flows)
		if err != nil {
			t.Fatal(err)
		}
		late := map[int64]int{}
		err = columns.Each(found.Table(schema.Slowdowns).Read(), func(r *tables.SlowdownRow) error {
			late[(r.FCTNS-r.IdealNS)/10]++
			return nil
		})
		if err != nil || len(late) != 3 {
			t.Fatalf("%v, %v", late, err)
		}
		for _, tens := range []int64{0, 83, 167} {
			if late[tens] < 70 || late[tens] > 130 {
				t.Errorf("delays, in 10 ns: %v", late)
			}
		}
		var kinds []string
		texts := ""
		for _, rec := range found.Table(schema.Warnings).Records {
			for i := range int(rec.NumRows()) {
				kinds = append(kinds, columns.Named(rec, "kind").ValueStr(i))
				texts += columns.Named(rec, "warning").ValueStr(i)
			}
		}
		if slices.Contains(kinds, "loaded twice") || slices.Contains(kinds, "clusters") != (share > 0) {
			t.Errorf("warnings %v", kinds)
		}
		if strings.Contains(texts, "2 of 4 links draw the delays of other links") != (share > 0) {
			t.Errorf("the three uplinks are one cluster: %s", texts)
		}
		// With clusters, nothing shows how much percentiles change with other traffic.
		for _, rec := range found.Table(schema.Intervals).Records {
			lo := columns.Named(rec, "lo")
			if share > 0 && lo.NullN() != lo.Len() || share == 0 && lo.IsNull(0) {
				t.Errorf("clusters of %v: %d of %d intervals are not known", share, lo.NullN(), lo.Len())
			}
		}
	}
}
