package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
)

// The estimates of TestArrayJobs have two passes.
const arrayPasses = 2

// arrayVariant returns the variant of an estimate by shards. For the stages of pass n, it is the variant with
// n passes.
func arrayVariant(by estimators.Name, pass int) Variant {
	if by == estimators.Independent {
		return independent
	}
	if pass == 0 {
		pass = arrayPasses
	}
	return flowOf(pass)
}

// runChildShard runs one shard of one stage in a child process.
func runChildShard(dir string) error {
	by, err := estimators.Parse(os.Getenv(childBy))
	if err != nil {
		return err
	}
	after, err := strconv.Atoi(os.Getenv(childAfter))
	if err != nil {
		return err
	}
	return runShard(dir, by, os.Getenv(childStep), os.Getenv(childShard), after)
}

// runShard runs one shard of one stage, like parsimon STAGE --shard I/N. If after is set, the process kills
// itself when it reports progress for the after-th time.
func runShard(dir string, by estimators.Name, step, of string, after int) error {
	shard, err := engine.ParseShard(of)
	if err != nil {
		return err
	}
	name, number, _ := strings.Cut(step, " ")
	pass := 0
	if number != "" {
		if pass, err = strconv.Atoi(number); err != nil {
			return err
		}
	}
	o := options{Workers: 1, Partitions: 12, Shard: shard, Progress: &killer{stage: name, after: int64(after)}}
	settings, done, err := o.settings()
	if err != nil {
		return err
	}
	defer done()
	run, err := Resume(context.Background(), dir, "", arrayVariant(by, pass), settings)
	if err != nil {
		return err
	}
	defer run.Close()
	return run.RunStage(context.Background(), name)
}

// Four processes run every stage at once. In each stage, one of them is killed and restarted, and one runs
// twice. The rows are the same as those of a single process. In the short form, a single process runs all
// stages but one each day.
func TestArrayJobs(t *testing.T) {
	testArrayJobs(t, estimators.Flow)
}

// arrayJob is an estimate whose work is divided among several processes.
type arrayJob struct {
	*testing.T
	lake  string
	by    estimators.Name
	kills atomic.Int64
}

// lastReader maps a step to the temporary tables that no later step reads.
var lastReader = map[string][]schema.Table{
	"simulate 2": {schema.Feedback},
	"replay":     {schema.SenderFeedback},
	"sample":     {schema.HopObservations},
}

// shard runs one shard of a stage and returns its error as text.
func (t *arrayJob) shard(step, shard string) string {
	if err := runShard(t.lake, t.by, step, shard, 0); err != nil {
		return err.Error()
	}
	return ""
}

// process runs one shard of a stage in a separate process. If after is set, the process is killed when it
// reports progress for the after-th time.
func (t *arrayJob) process(step string, shard string, after int) (out string, killed bool) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childLake+"="+t.lake, childStep+"="+step, childShard+"="+shard,
		childBy+"="+t.by.String(), childAfter+"="+strconv.Itoa(after))
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return string(text), true
	}
	if err != nil {
		text = append(text, err.Error()...)
	}
	return string(text), false
}

// step runs all shards of a step. next is the step after it.
func (t *arrayJob) step(step, next string) {
	var wg sync.WaitGroup
	for _, shard := range []string{"0/4", "1/4", "2/4", "2/4", "3/4"} {
		wg.Go(func() {
			after := 0
			if shard == "0/4" {
				after = 1
			}
			out, killed := t.process(step, shard, after)
			if killed != (after > 0) || out != "" {
				t.Errorf("%s %s: killed %v, %s", step, shard, killed, out)
			}
			if killed {
				t.kills.Add(1)
			}
		})
	}
	wg.Wait()
	out := t.shard(next, "3/4")
	name, _, _ := strings.Cut(step, " ")
	want := fmt.Sprintf("stage %s of scenario", name)
	if !strings.Contains(out, want) || !strings.Contains(out, "--shard 0/4\" first") {
		t.Errorf("the step after %s, with a shard missing: %q", step, out)
	}
	var last []schema.Table
	if t.by == estimators.Flow {
		last = lastReader[step]
	}
	n := dataFiles(t, t.lake, last...)
	if (n > 0) != (len(last) > 0) {
		t.Errorf("%s, with a shard missing: %d files of what it is the last to read", step, n)
	}
	if out := t.shard(step, "0/4"); out != "" {
		t.Fatalf("%s 0/4 again: %s", step, out)
	}
	// The shard that completes a stage collects the tables that no later stage reads.
	if n := dataFiles(t, t.lake, last...); n > 0 {
		t.Errorf("%s leaves %d temporary files", step, n)
	}
	// A complete step stays complete, also after its files are collected.
	if out := t.shard(step, "1/4"); out != "" {
		t.Errorf("%s 1/4 again: %s", step, out)
	}
}

func testArrayJobs(tt *testing.T, by estimators.Name) {
	n := 33_000 // two files of flows
	if testing.Short() {
		n = 1000
	}
	topology, flows := fixture.Trace(tt, n)
	t := &arrayJob{T: tt, lake: tt.TempDir(), by: by}
	alone := options{Lake: t.TempDir(), Variant: arrayVariant(by, 0), Workers: 2, Partitions: 12}
	estimate(t, topology, flows, alone)
	o := options{Lake: t.lake, Variant: alone.Variant}
	run := begin(t, topology, flows, o)
	if err := run.Generate(t.Context()); err != nil {
		t.Fatal(err)
	}
	run.Close()
	var steps []string
	for _, s := range run.Plan() {
		steps = append(steps, s.String())
	}
	if steps[0] != "generate" || steps[len(steps)-1] != "intervals" {
		t.Fatalf("steps %v", steps)
	}
	divided := 0
	for at, step := range steps[1 : len(steps)-1] {
		if daily.Skips(at, len(steps)-2) {
			if out := t.shard(step, "0/1"); out != "" {
				t.Fatalf("%s: %s", step, out)
			}
			continue
		}
		divided++
		t.step(step, steps[at+2])
	}
	run = resume(t, o) // intervals is a single task
	if err := run.RunStage(t.Context(), "intervals"); err != nil {
		t.Fatal(err)
	}
	run.Close()
	if int(t.kills.Load()) != divided {
		t.Errorf("%d of %d steps were killed", t.kills.Load(), divided)
	}
	got := digestOf(t, t.lake, by)
	want := digestOf(t, alone.Lake, by)
	if got != want {
		t.Errorf("in shards %s, alone %s", got, want)
	}
	state, status := stateOf(t, t.lake)
	if state != StateComplete {
		t.Errorf("status %+v", status)
	}
	unfinished(t, t.lake)
}
