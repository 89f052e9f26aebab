package scenario

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/tree"
)

const tinyJobs = `name: tiny
seed: 7
topology:
  clos: {pods: 1, racks_per_pod: 3, hosts_per_rack: 2, planes: 1, spines_per_plane: 1,
         host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  jobs:
    - name: a
      hosts: [1, pod0-rack2-host0]
      iterations: 2
      start: 1ms
      steps: [{compute: 1us}, {collective: all-reduce, size: 1MB}]
    - name: b
      ranks: 2
      hosts: contiguous
      training: {data: 2, layers: [{forward: 1us, backward: 2us, gradient: 1MB}]}
`

// Ranks are placed on hosts that no earlier job has, regardless of which jobs run.
func TestJobsArePlaced(t *testing.T) {
	load := func(old, by string) *Scenario {
		return mustLoad(t, tinyFiles(t, strings.Replace(tinyJobs, old, by, 1)))
	}
	for placement, want := range map[string][]int32{"contiguous": {0, 2}, "strided": {0, 3}, "racks": {0, 2},
		"[5, 0]": {5, 0}, "random": nil} {
		s := load("contiguous", placement)
		n, err := s.Network()
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Jobs(n)
		if err != nil || len(run) != 2 {
			t.Fatalf("%s: %d jobs, %v", placement, len(run), err)
		}
		a := run[0]
		b := run[1]
		if a.StartNS != 1e6 || a.Iterations != 2 || len(a.Steps) != 2 ||
			a.Steps[1].Collective.Algorithm != "ring" ||
			!slices.Equal(a.Hosts, []int32{1, 4}) || b.Training.Gradients != "ring" || !b.Training.Overlap {
			t.Errorf("%+v, %+v", a, b)
		}
		if want != nil && !slices.Equal(b.Hosts, want) || len(b.Hosts) != 2 || slices.Contains(b.Hosts, 1) {
			t.Errorf("%s: hosts %v, want %v", placement, b.Hosts, want)
		}
		s = load("  jobs:", "  only: [b]\n  jobs:")
		if run, err = s.Jobs(n); err != nil || len(run) != 1 || run[0].ID != 1 {
			t.Errorf("only b: %+v, %v", run, err)
		}
	}
	same := scenarioID(t, load("size: 1MB", "size: 1000KB, algorithm: ring"))
	other := scenarioID(t, load("1MB", "2MB"))
	id := scenarioID(t, load("", ""))
	if same != id || other == id {
		t.Errorf("ids %s, %s of the same and %s of another job", id, same, other)
	}
}

// Errors of a job name its line and key.
func TestJobErrorsNameThePlace(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"name: b", "name: a", "tiny.yaml:13: workload.jobs[1]: needs a name that no other job has"},
		{"hosts: contiguous", "hosts: near",
			`tiny.yaml:15: workload.jobs[1].hosts: is "near", want contiguous, strided`},
		{"hosts: contiguous", "hosts: [0, 0]", "workload.jobs[1].hosts[1]: host pod0-rack0-host0 has a rank " +
			"already"},
		{"hosts: contiguous", "hosts: [6]", `workload.jobs[1].hosts[0]: "6": node 6 is not a host`},
		{"hosts: contiguous", "hosts: [2]", "workload.jobs[1]: has 2 ranks and a list of 1 hosts"},
		{"ranks: 2", "ranks: 5", "workload.jobs[1]: has 5 ranks, and 4 hosts of the topology have no rank of an " +
			"earlier job"},
		{"ranks: 2", "ranks: 3", "workload.jobs[1]: data 2 × tensor 1 × pipeline 1 is 2 ranks, and the job has 3"},
		{"collective: all-reduce", "collective: some-reduce",
			`workload.jobs[0]: step 1: collective "some-reduce", want all-reduce,`},
		{", size: 1MB", "", "workload.jobs[0].steps[1]: has no size"},
		{"compute: 1us", "compute: 0", "workload.jobs[0].steps[0].compute: is 0, must be 1 to"},
		{"layers:", "huh: 1, layers:", "workload.jobs[1].training.huh: is an unknown key (keys: data, expert, " +
			"gradients, layers,"},
		{"  jobs:", "  only: [c]\n  jobs:", `tiny.yaml:7: workload.only: no job is named "c"`},
		{"  jobs:", "  max_load: 10%\n  jobs:", "workload: has no services, and so max_load, duration and " +
			"flows_count have no"},
		{"  jobs:", "  max_load: 10%\n  duration: 1ms\n  services: [{name: a, sizes: 1KB}]\n  jobs:",
			"workload.jobs[0]: is named like a service"},
	} {
		text := strings.Replace(tinyJobs, c.old, c.new, 1)
		if text == tinyJobs {
			t.Fatalf("%q is not in the scenario", c.old)
		}
		s, err := Load(tinyFiles(t, text))
		if err == nil {
			_, err = s.ID()
		}
		var at *tree.FieldError
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &at) || at.Line < 1 {
			t.Errorf("%q → %q: error %v, want %q", c.old, c.new, err, c.want)
		}
	}
	s := mustLoad(t, tinyFiles(t, tinyJobs))
	if s.SetAll([]Setting{{"workload.only", "[b, c]"}}) == nil ||
		s.SetAll([]Setting{{"workload.duration", "1ms"}}) == nil ||
		s.SetAll([]Setting{{"workload.max_load", "50%"}}) == nil {
		t.Error("a job that there is not, a duration, or a load of jobs")
	}
}
