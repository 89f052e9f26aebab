package pipeline

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
	"parsimon/schema/daily"
	"parsimon/simkernel/network"
	"parsimon/stages/estimators"
)

// A scenario whose simulation is a retransmission storm is removed unless a manifest names files of it.
// Without the exception, a failed run would remove an answer that another run has committed.
func TestStormLeavesNothing(t *testing.T) {
	topology, flows := fixture.Trace(t, 300)
	run := begin(t, topology, flows, options{Lake: t.TempDir(), Variant: flow, Partitions: 2})
	defer run.Close()
	storm := func() (left int) {
		if err := run.forgetUnborn(fmt.Errorf("x: %w", network.ErrStorm)); !errors.Is(err, network.ErrStorm) {
			t.Error(err)
		}
		ids, err := run.Lake.Scenarios()
		if err != nil {
			t.Error(err)
		}
		return len(ids)
	}
	if err := errors.Join(run.Estimate(t.Context()), run.MakeAnswer()); err != nil || storm() != 1 {
		t.Errorf("%v, or a scenario with an answer is gone", err)
	}
	run.Close()
	run = begin(t, topology, flows, options{Lake: t.TempDir(), Variant: flow})
	route := run.Plan().Find("route", 0)
	err := errors.Join(run.Generate(t.Context()), run.exec.RunStage(t.Context(), run.Plan(), route))
	if err != nil || storm() != 0 {
		t.Errorf("%v, or a scenario without an answer is left", err)
	}
}

// The rows are equal, bit for bit, for any number of workers and partitions, both in separate lakes and one
// after the other in the same lake. The short form compares two numbers each, of one estimator a day.
func TestSameRowsAtAnyParallelism(t *testing.T) {
	for i, v := range []Variant{independent, flow} {
		if daily.Skips(i, 2) {
			continue
		}
		t.Run(v.Estimator.String(), func(t *testing.T) { sameRows(t, v) })
	}
}

func sameRows(t *testing.T, v Variant) {
	topology, flows := fixture.Trace(t, 600)
	first := options{Lake: t.TempDir(), Variant: v, Workers: 1, Partitions: 1, Keep: true}
	estimate(t, topology, flows, first)
	want := digestOf(t, first.Lake, v.Estimator)
	others := []options{{Workers: 2, Partitions: 7}, {Workers: 8, Partitions: 64}, {}}
	if testing.Short() {
		others = others[:1]
	}
	for _, o := range others {
		o.Lake = t.TempDir()
		o.Variant = v
		o.Keep = true
		estimate(t, topology, flows, o)
		got := digestOf(t, o.Lake, v.Estimator)
		if got != want {
			t.Errorf("%d workers, %d partitions: %s, want %s", o.Workers, o.Partitions, got, want)
		}
	}
	first.Workers = 2
	first.Partitions = 5
	estimate(t, topology, flows, first)
	got := digestOf(t, first.Lake, v.Estimator)
	if got != want {
		t.Errorf("cut anew in the same lake: %s, want %s", got, want)
	}
}

// killedChild runs a child process that estimates a trace. The process is killed when a stage reports
// progress for the n-th time.
func killedChild(t *testing.T, dir, flows, stage string, after int, more ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childLake+"="+dir, childFlows+"="+flows, childStage+"="+stage,
		childAfter+"="+strconv.Itoa(after)), more...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("%s: the child was not killed: %v\n%s", stage, err, out)
	}
}

// If a run is killed in the middle of any stage, the same command continues it and produces the same rows.
// Stages whose tasks are files of flows are killed in a workload of two files. Half of the stages are killed
// today, and the others tomorrow. The short form kills one stage a day, and omits the workload of two files.
func TestKilledRunContinues(t *testing.T) {
	type kill struct {
		stage string
		after int
	}
	numbered := 0
	for _, c := range []struct {
		variant Variant
		flows   int
		kills   []kill
	}{
		// Two data files of flows.
		{independent, 33_000, []kill{{"generate", 1}, {"route", 1}, {"sample", 1}}},
		{independent, 3000, []kill{{"simulate", 4}}},
		{flow, 33_000, []kill{{"feedback", 1}}},
		{flow, 3000, []kill{{"simulate", 20}, {"replay", 3}, {"intervals", 1}}},
	} {
		today := daily.Today(2, c.kills...)
		if testing.Short() && c.flows > 3000 {
			continue
		}
		if testing.Short() {
			today = nil
			for _, k := range c.kills {
				if daily.Runs(numbered, 5) {
					today = append(today, k)
				}
				numbered++
			}
		}
		if len(today) == 0 {
			continue
		}
		topology, flows := fixture.Trace(t, c.flows)
		undisturbed := options{Lake: t.TempDir(), Variant: c.variant, Workers: 2, Partitions: 9}
		estimate(t, topology, flows, undisturbed)
		want := digestOf(t, undisturbed.Lake, c.variant.Estimator)
		for _, k := range today {
			killAndContinue(t, topology, flows, c.variant, k.stage, k.after, want)
		}
	}
}

func killAndContinue(t *testing.T, topology, flows string, v Variant, stage string, after int, want string) {
	t.Helper()
	o := options{Lake: t.TempDir(), Variant: v, Workers: 2, Partitions: 9}
	killedChild(t, o.Lake, flows, stage, after, childBy+"="+v.Estimator.String())
	state, status := stateOf(t, o.Lake)
	if state != StatePartial {
		t.Errorf("%s: status after the kill is %+v", stage, status.Scenarios)
	}
	run := estimate(t, topology, flows, o)
	got := digestOf(t, o.Lake, v.Estimator)
	if got != want {
		t.Errorf("killed in %s: %s, want %s", stage, got, want)
	}
	for _, r := range run.Executor().Reports {
		if r.Stage == stage {
			break
		}
		if r.Reused != r.Tasks {
			t.Errorf("killed in %s: %s was done again (%d of %d tasks kept)", stage, r.Stage, r.Reused, r.Tasks)
		}
	}
	if state, status := stateOf(t, o.Lake); state != StateComplete {
		t.Errorf("%s: status in the end is %+v", stage, status.Scenarios)
	}
	unfinished(t, o.Lake)
}

// Status finds damage to the lake and names the file. Running the scenario again repairs it.
func TestDamagedLakeIsRepaired(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	o := options{Lake: t.TempDir(), Partitions: 4}
	run := estimate(t, topology, flows, o)
	want := digestOf(t, o.Lake, estimators.Independent)
	victim := spoil(t, o.Lake, run.Variant().place(run.ID()), schema.DelayBuckets)
	state, status := stateOf(t, o.Lake)
	if state != StateDamaged || !strings.Contains(fmt.Sprint(status), victim) {
		t.Errorf("status does not name %s: %+v", victim, status)
	}
	estimate(t, topology, flows, o)
	got := digestOf(t, o.Lake, estimators.Independent)
	if got != want {
		t.Errorf("repaired: %s, want %s", got, want)
	}
}

// Single stages, run on the contents of the lake, produce the same results as a full run, and report what is
// missing.
func TestStagesOneByOne(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	whole := options{Lake: t.TempDir(), Partitions: 4}
	o := options{Lake: t.TempDir(), Partitions: 4}
	estimate(t, topology, flows, whole)
	run := begin(t, topology, flows, o)
	if err := run.Generate(t.Context()); err != nil {
		t.Fatal(err)
	}
	run.Close()
	stages := []string{"simulate", "route", "sample", "simulate", "simulate", "sample", "intervals"}
	for i, name := range stages {
		run := resume(t, o)
		err := run.RunStage(t.Context(), name)
		missing := i == 0 || i == 2
		if missing != (err != nil) ||
			err != nil && !strings.Contains(err.Error(), `is not complete: run "parsimon `) {
			t.Fatalf("%s: %v", name, err)
		}
		run.Close()
	}
	got := digestOf(t, o.Lake, estimators.Independent)
	want := digestOf(t, whole.Lake, estimators.Independent)
	if got != want {
		t.Errorf("stage by stage: %s, whole: %s", got, want)
	}
	state, status := stateOf(t, o.Lake)
	if state != StateComplete {
		t.Errorf("status %+v", status)
	}
	run = resume(t, o)
	defer run.Close()
	if err := run.RunStage(t.Context(), "replay"); err == nil ||
		!strings.Contains(err.Error(), "estimator independent without clustering has no stage replay") {
		t.Errorf("a stage of the other estimator: %v", err)
	}
}
