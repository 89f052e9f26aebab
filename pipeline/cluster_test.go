package pipeline

import (
	"math"
	"strings"
	"testing"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/internal/rows"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/stages"
)

// Where every link is its own representative, clustering changes no row; with a wide limit fewer cases
// are simulated, every flow has its estimate, and the rows are the same however the links are cut.
func TestClusteredRuns(t *testing.T) {
	for _, v := range []Variant{independent, flowOf(1), flowOf(2)} {
		t.Run(v.String(), func(t *testing.T) { clusteredRuns(t, v) })
	}
}

func clusteredRuns(t *testing.T, v Variant) {
	by, file := v.Estimator, fixture.Services(t)
	run := func(cluster string, limit float64, workers, partitions int) (string, stages.SimulateStats) {
		t.Helper()
		o := options{Lake: t.TempDir(), Variant: v, Workers: workers, Partitions: partitions}
		variant := v.String()
		if cluster != "" {
			var err error
			if o.Cluster, err = stages.ParseClustering(cluster); err != nil {
				t.Fatal(err)
			}
			variant += "-cluster-" + o.Cluster.String()
			if math.IsNaN(limit) { // not even links of the very same flows
				o.Cluster.QuantileError, o.Cluster.LoadRelative = limit, limit
			}
		}
		s, err := scenario.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		r := estimateScenario(t, s, o)
		if r.Variant().String() != variant {
			t.Errorf("variant %s, want %s", r.Variant(), variant)
		}
		if state, status := stateOf(t, o.Lake); state != StateComplete {
			t.Errorf("status %+v", status)
		}
		text := rows.Text(t, o.Lake, schema.Slowdowns, r.ID(), variant)
		if by == stages.Flow {
			text += rows.Text(t, o.Lake, schema.HopContributions, r.ID(), variant)
		}
		everyHopOnce(t, r)
		return text, casesOf(t, r)
	}
	whole, plain := run("", 0, 0, 0)
	same, all := run("paper", math.NaN(), 0, 5) // every link is its own representative
	if same != whole || all.Cases != plain.Cases {
		t.Errorf("every link is its own representative: %d of %d cases, rows differ: %v", all.Cases, plain.Cases, same != whole)
	}
	wide, cases := run("50%", 0, 1, 1)
	most := all.Cases / 2
	if by == stages.Flow {
		most = all.Cases * 2 / 3
	}
	if cases.Cases == 0 || cases.Cases > most {
		t.Errorf("%d of %d cases", cases.Cases, all.Cases)
	}
	for _, cut := range [][2]int{{2, 9}, {8, 64}} {
		if again, _ := run("0.5", 0, cut[0], cut[1]); again != wide {
			t.Errorf("%d workers, %d partitions: other rows", cut[0], cut[1])
		}
	}
}

// everyHopOnce compares the number of rows of hop_contributions with that of hops.
func everyHopOnce(t *testing.T, r *Estimation) {
	t.Helper()
	count := func(table schema.Table) (n int64) {
		files, err := r.Files(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			n += f.Rows
		}
		return n
	}
	if got, want := count(schema.HopContributions), count(schema.Hops); got != want {
		t.Errorf("%d contributions of %d hops", got, want)
	}
}

// With passes until the percentiles settle, clusters are those of the first pass; more passes begin
// where fewer ended; stages one by one give the same.
func TestClusteredPasses(t *testing.T) {
	topology, flows := fixture.Trace(t, 4000)
	c, err := stages.ParseClustering("20%")
	if err != nil {
		t.Fatal(err)
	}
	o := options{Lake: t.TempDir(), Variant: flowOf(AutoPasses)}
	o.Cluster = c
	auto := estimate(t, topology, flows, o)
	passes, id := auto.Variant().Passes, auto.ID()
	of := func(passes int) options {
		o := options{Lake: o.Lake, Variant: flowOf(passes)}
		o.Cluster = c
		return o
	}
	for _, s := range estimate(t, topology, flows, of(passes)).Executor().Reports {
		if s.Reused != s.Tasks {
			t.Errorf("stage %s is done again", s.Stage)
		}
	}
	if n := rows.Files(t, o.Lake, schema.ImputedObservations); n > 0 {
		t.Errorf("%d files of %s stay", n, schema.ImputedObservations.Name)
	}
	single := of(passes)
	single.Lake = t.TempDir()
	stageByStage(t, topology, flows, single)
	variant := of(passes).String()
	if rows.Text(t, single.Lake, schema.Slowdowns, id, variant) != rows.Text(t, o.Lake, schema.Slowdowns, id, variant) {
		t.Error("stage by stage: other rows")
	}
	more, fresh := of(passes+1), of(passes+1)
	more.Partitions, fresh.Lake = 5, t.TempDir()
	estimate(t, topology, flows, more)
	estimate(t, topology, flows, fresh)
	if rows.Text(t, o.Lake, schema.Slowdowns, id, more.String()) != rows.Text(t, fresh.Lake, schema.Slowdowns, id, more.String()) {
		t.Error("one more pass is not what a run with as many gives")
	}
	plain := resume(t, options{Lake: single.Lake, Variant: flow})
	defer plain.Close()
	if err := plain.RunStage(t.Context(), "impute"); err == nil || !strings.Contains(err.Error(), "estimator flow without clustering has no stage impute") {
		t.Errorf("without clustering: %v", err)
	}
}

// stageByStage estimates a trace as the commands for single stages do.
func stageByStage(t *testing.T, topology, flows string, o options) {
	t.Helper()
	run := begin(t, topology, flows, o)
	if err := run.Generate(t.Context()); err != nil {
		t.Fatal(err)
	}
	run.Close()
	for _, step := range run.Plan().Steps()[1:] {
		one := o
		if step.Pass > 0 {
			one.Passes = step.Pass
		}
		run := resume(t, one)
		if err := run.RunStage(t.Context(), step.Stage); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		run.Close()
	}
}

// A clustered run killed in a pass is continued by the same command, to the same rows.
func TestKilledClusteredRunContinues(t *testing.T) {
	topology, flows := fixture.Trace(t, 8000)
	c, err := stages.ParseClustering("50%")
	if err != nil {
		t.Fatal(err)
	}
	o := options{Lake: t.TempDir(), Variant: flow, Workers: 2, Partitions: 9}
	o.Cluster = c
	estimate(t, topology, flows, o)
	want := digestOf(t, o.Lake, stages.Flow)
	for stage, after := range map[string]int{"cluster": 2, "simulate": 2, "impute": 2, "feedback": 1, "sender-feedback": 1} {
		o.Lake = t.TempDir()
		killedChild(t, o.Lake, flows, stage, after, childBy+"=flow", childCluster+"=50%")
		run := estimate(t, topology, flows, o)
		if got := digestOf(t, o.Lake, stages.Flow); got != want {
			t.Errorf("killed in %s: %s, want %s", stage, got, want)
		}
		if kept := run.Executor().Reports[0]; stage != "cluster" && kept.Reused != kept.Tasks {
			t.Errorf("killed in %s: %s was done again", stage, kept.Stage)
		}
	}
}
