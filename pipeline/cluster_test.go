package pipeline

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"parsimon/schema"
	"parsimon/stages"
)

// Where every link is its own representative, clustering changes no row; with a wide limit fewer cases
// are simulated, every flow has its estimate, and the rows are the same however the links are cut.
func TestClusteredRuns(t *testing.T) {
	for _, by := range []stages.Estimator{stages.Independent, stages.Flow} {
		t.Run(by.String(), func(t *testing.T) { clusteredRuns(t, by) })
	}
}

func clusteredRuns(t *testing.T, by stages.Estimator) {
	file := whatIfFile(t)
	run := func(cluster string, limit float64, workers, partitions int) (string, stages.SimulateStats) {
		t.Helper()
		o := Options{Lake: t.TempDir(), Estimator: by, Passes: 2, Workers: workers, Partitions: partitions, Log: zerolog.Nop()}
		variant := "independent"
		if by == stages.Flow {
			variant = "flow-2"
		}
		if cluster != "" {
			var err error
			if o.Cluster, err = stages.ParseClustering(cluster); err != nil {
				t.Fatal(err)
			}
			variant += clusteredVariant + o.Cluster.String()
			if math.IsNaN(limit) { // not even links of the very same flows
				o.Cluster.QuantileError, o.Cluster.LoadRelative = limit, limit
			}
		}
		id := estimated(t, file, o)
		r, err := Resume(id, o)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if r.Variant() != variant {
			t.Errorf("variant %s, want %s", r.Variant(), variant)
		}
		status, err := ReadStatus(r.lake, true)
		if err != nil || status.Scenarios[0].State != stateComplete {
			t.Errorf("status %+v, %v", status, err)
		}
		if _, err := r.Ask(t.Context(), Question{Src: 0, Dst: 15, SizeBytes: 20_000, N: 100, Seed: 1}); err != nil {
			t.Error(err)
		}
		rows := tableRows(t, o.Lake, schema.Slowdowns, id, variant)
		if by == stages.Flow {
			rows += tableRows(t, o.Lake, schema.HopContributions, id, variant)
		}
		everyHopOnce(t, r)
		return rows, casesOf(t, r)
	}
	whole, all := run("", 0, 0, 0)
	if same, cases := run("paper", math.NaN(), 0, 5); same != whole || cases.Cases != all.Cases {
		t.Errorf("every link answers for itself: %d of %d cases, rows differ: %v", cases.Cases, all.Cases, same != whole)
	}
	wide, cases := run("50%", 0, 1, 1)
	if cases.Cases == 0 || by == stages.Independent && cases.Cases*2 > all.Cases || by == stages.Flow && cases.Cases*3 > all.Cases*2 {
		t.Errorf("%d of %d cases", cases.Cases, all.Cases)
	}
	for _, cut := range [][2]int{{2, 9}, {8, 64}} {
		if again, _ := run("0.5", 0, cut[0], cut[1]); again != wide {
			t.Errorf("%d workers, %d partitions: other rows", cut[0], cut[1])
		}
	}
}

// everyHopOnce holds hop_contributions against the hops.
func everyHopOnce(t *testing.T, r *Run) {
	t.Helper()
	hops, _, err := r.routed()
	if err != nil {
		t.Fatal(err)
	}
	rows := func(parts []part) (n int64) {
		for _, p := range parts {
			n += p.Rows
		}
		return n
	}
	from := r.sampleStage()
	if r.estimator == stages.Independent {
		from = r.contributionsStage()
	}
	_, done, err := from.complete(r.lake)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rows(partsOf(done, schema.HopContributions)), rows(hops); got != want {
		t.Errorf("%d contributions of %d hops", got, want)
	}
}

// With passes until the percentiles stop moving, clusters are those of the first pass; more passes begin
// where fewer ended; stages one by one give the same.
func TestClusteredPasses(t *testing.T) {
	topology, flows := trace(t, 4000)
	c, err := stages.ParseClustering("20%")
	if err != nil {
		t.Fatal(err)
	}
	lake := t.TempDir()
	auto := estimate(t, topology, flows, Options{Lake: lake, Passes: AutoPasses, Estimator: stages.Flow, Cluster: c})
	again := estimate(t, topology, flows, Options{Lake: lake, Passes: auto.passes, Estimator: stages.Flow, Cluster: c})
	for _, s := range again.reports {
		if s.Reused != s.Tasks {
			t.Errorf("stage %s is done again", s.Stage)
		}
	}
	if n := filesOf(t, lake, schema.ImputedObservations); n > 0 {
		t.Errorf("%d files of %s stay that nobody needs", n, schema.ImputedObservations.Name)
	}
	want := tableRows(t, lake, schema.Slowdowns, auto.ScenarioID(), auto.Variant())
	s, err := TraceScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Lake: t.TempDir(), Passes: auto.passes, Estimator: stages.Flow, Cluster: c, Log: zerolog.Nop()}
	run, err := Begin(s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.Generate(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps, err := run.Steps()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if err := run.Step(t.Context(), step); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	if tableRows(t, o.Lake, schema.Slowdowns, run.ScenarioID(), run.Variant()) != want {
		t.Error("step by step: other rows")
	}
	more := estimate(t, topology, flows, Options{Lake: lake, Passes: auto.passes + 1, Partitions: 5, Estimator: stages.Flow, Cluster: c})
	fresh := t.TempDir()
	estimate(t, topology, flows, Options{Lake: fresh, Passes: auto.passes + 1, Estimator: stages.Flow, Cluster: c})
	if tableRows(t, lake, schema.Slowdowns, more.ScenarioID(), more.Variant()) != tableRows(t, fresh, schema.Slowdowns, more.ScenarioID(), more.Variant()) {
		t.Error("one more pass is not what a run with as many gives")
	}
	plain, err := Resume("", Options{Lake: o.Lake, Estimator: stages.Flow, Log: zerolog.Nop(), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Impute(t.Context()); err == nil {
		t.Error("without clustering there is something to lend")
	}
}

// A clustered run killed in a pass is continued by the same command, to the same rows.
func TestKilledClusteredRunContinues(t *testing.T) {
	topology, flows := trace(t, 8000)
	c, err := stages.ParseClustering("50%")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Lake: t.TempDir(), Estimator: stages.Flow, Cluster: c, Workers: 2, Partitions: 9}
	estimate(t, topology, flows, o)
	want := digestOf(t, o.Lake, stages.Flow)
	for stage, after := range map[string]int{"cluster": 2, "simulate": 2, "impute": 2, "feedback": 1, "sender-feedback": 1} {
		o.Lake = t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childLake+"="+o.Lake, childFlows+"="+flows, childStage+"="+stage, childAfter+"="+strconv.Itoa(after), childBy+"=flow", childCluster+"=50%")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("%s: the child was not killed: %v\n%s", stage, err, out)
		}
		run := estimate(t, topology, flows, o)
		if got := digestOf(t, o.Lake, stages.Flow); got != want {
			t.Errorf("killed in %s: %s, want %s", stage, got, want)
		}
		if kept := run.reports[0]; stage != "cluster" && kept.Reused != kept.Tasks {
			t.Errorf("killed in %s: %s was done again", stage, kept.Stage)
		}
	}
}
