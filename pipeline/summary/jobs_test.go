package summary_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/schema"
)

const twoJobs = `topology:
  clos: {pods: 1, racks_per_pod: 2, hosts_per_rack: 4, planes: 1, spines_per_plane: 1, host_bandwidth: 100Gbps,
    host_delay: 500ns, fabric_bandwidth: 100Gbps, fabric_delay: 500ns}
workload:
  max_load: 10%
  duration: 5ms
  services: [{name: web, sizes: webserver}]
  jobs:
    - {name: b, start: 1ms, hosts: random, training: {data: 2, pipeline: 2, micro_batches: 4,
        layers: [{count: 8, forward: 100us, backward: 200us, gradient: 2MB, activation: 1MB}]}}
    - {name: a, ranks: 4, hosts: racks, iterations: 3, steps: [{compute: 1ms}, {collective: all-reduce, size: 10MB}]}
transport: {payload: 9000, window: 300KB}
`

// Two jobs and a service share one fabric. The tables have the requested flows for any number of workers. The
// times of the iterations add up, also along the critical path. A job that runs alone is not slower.
func TestJobs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "two.yaml")
	if err := os.WriteFile(file, []byte(twoJobs), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(dir string, workers int, set ...scenario.Setting) (*pipeline.Estimation, []summary.JobResult) {
		s, err := scenario.LoadWith(file, set)
		if err != nil {
			t.Fatal(err)
		}
		e := estimates.Of(t, dir, s, pipeline.Variant{Auto: true},
			pipeline.Settings{Settings: engine.Settings{Workers: workers}})
		r, err := summary.Read(t.Context(), e, summary.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return e, r.Jobs
	}
	dir := t.TempDir()
	other := t.TempDir()
	e, all := run(dir, 1)
	run(other, 2)
	for _, table := range []schema.Table{schema.Flows, schema.Dependencies, schema.JobFlows, schema.ExactFCTs,
		schema.Slowdowns} {
		digest := "SELECT count(*) > 0, bit_xor(hash(t)) FROM " + table.Name + " AS t"
		one := estimates.Ask(t, dir, digest)
		two := estimates.Ask(t, other, digest)
		if one != two || !strings.HasPrefix(one, "[true") {
			t.Errorf("%s differs by workers: %s, %s", table.Name, one, two)
		}
	}
	if len(all) != 2 || all[0].Name != "a" || len(all[0].Iterations) != 3 || len(all[1].Iterations) != 1 {
		t.Fatalf("jobs %+v", all)
	}
	for _, j := range all {
		sum := int64(0)
		for _, ns := range j.Iterations {
			sum += ns
		}
		path := estimates.Ask(t, dir,
			fmt.Sprintf("SELECT sum(waited_ns + ideal_ns + delay_ns) FROM job_critical_path WHERE job = '%s'", j.Name))
		if sum != j.CompletionNS || path != fmt.Sprintf("[%d]", sum) {
			t.Errorf("job %+v: iterations of %d ns, critical path of %s", j, sum, path)
		}
	}
	wrong := `SELECT count(*) FILTER (j.flow_id IS NULL), count(*) FILTER (f.service <> j.job),
  (SELECT count(*) FROM (SELECT start_ns, lag(start_ns) OVER (ORDER BY file_row) AS before FROM (SELECT start_ns, row_number() OVER () AS file_row FROM flows)) WHERE start_ns < before)
FROM flows AS f LEFT JOIN job_flows AS j USING (flow_id) WHERE f.service <> 'web'`
	if got := estimates.Ask(t, dir, wrong); got != "[0 0 0]" {
		t.Errorf("flows of jobs without a part, of another service, out of order: %s", got)
	}
	// 4 ranks, 6 rounds, 3 iterations; 2 × 2 ranks: 8 micro-batches sent on, 4 layers a stage with 2 ranks
	// and 2 rounds
	want := "[72 16 32]"
	got := estimates.Ask(t, dir,
		`SELECT count(*) FILTER (kind = 'all-reduce'), count(*) FILTER (kind = 'activations'), count(*) FILTER (kind = 'gradients') FROM job_flows`)
	if got != want {
		t.Errorf("flows by kind: %s, want %s", got, want)
	}
	r, err := summary.Read(t.Context(), e, summary.Options{Text: true})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := r.Text().Write(&said, "text"); err != nil || !strings.Contains(said.String(), "\nJobs (") {
		t.Errorf("%v: %s", err, said.String())
	}
	_, alone := run(t.TempDir(), 2, scenario.Setting{Key: "workload.only", Value: "[a]"},
		scenario.Setting{Key: "workload.max_load", Value: "0.1%"})
	if len(alone) != 1 || alone[0].CompletionNS >= all[0].CompletionNS {
		t.Errorf("alone %+v, with another job %+v", alone, all[0])
	}
}
