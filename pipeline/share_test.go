package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/rs/zerolog"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
)

// Shares divide the tasks: each belongs to one of them, whatever the number of shares, and no share
// has much more to do than another.
func TestSharesDivideTasks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 5, 64, 200} {
		for _, count := range []int{1, 2, 4, 7, 300} {
			tasks := make([]task, n)
			var total, longest int64
			for i := range tasks {
				tasks[i].Cost = rng.Int64N(1000)
				total += tasks[i].Cost
				longest = max(longest, tasks[i].Cost)
			}
			loads := make([]int64, count)
			done := make([]int, n)
			for i := range count {
				for at, mine := range (Share{i, count}).choice()(tasks) {
					if mine {
						done[at]++
						loads[i] += tasks[at].Cost
					}
				}
			}
			if slices.ContainsFunc(done, func(times int) bool { return times != 1 }) {
				t.Errorf("%d tasks in %d shares are done so often: %v", n, count, done)
			}
			// Graham's bound of longest-first lists is 4/3 of the best there is, and this twice that.
			if most := slices.Max(loads); most > total/int64(count)+longest {
				t.Errorf("%d tasks in %d shares: the largest has %d of %d, the longest task %d", n, count, most, total, longest)
			}
		}
	}
	equal := takes(tasksOf(0, 0, 0, 0, 0, 0), 3)
	slices.Sort(equal)
	if !slices.Equal(equal, []int{0, 0, 1, 1, 2, 2}) {
		t.Errorf("tasks that cost nothing: %v", equal)
	}
}

func TestParseShare(t *testing.T) {
	for _, text := range []string{"0/1", "3/4", "99998/99999"} {
		if s, err := ParseShare(text); err != nil || s.String() != text {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "1", "4/4", "-1/4", "0/0", "1/x", "0/100000", "1/2/3"} {
		if s, err := ParseShare(text); err == nil {
			t.Errorf("%q is taken for %v", text, s)
		}
	}
}

// Attempts at the same tasks that write different bytes, all at once: in the end every record is about
// the files that stand there, and nothing else is left.
func TestDoubledAttempts(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLake(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	s, plan := fakeStage(), tasksOf(5, 9, 7, 1, 3)
	for round := range 20 {
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for attempt := range errs {
			wg.Go(func() {
				h := &Hand{&Run{lake: l, spec: spec{ScenarioID: "cafe"}, workers: 2, log: zerolog.Nop(), progress: silent{}}}
				errs[attempt] = h.with(func(r *Run) error {
					r.choose = everyTask
					return r.perform(context.Background(), s, plan, "x", func() (work, error) {
						return func(_ context.Context, n int, _ task) ([]part, int64, any, error) {
							return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
								rec := randomBatch(schema.Nodes, rand.New(rand.NewPCG(uint64(attempt), uint64(n))), 10+attempt)
								defer rec.Release()
								return 1, nil, out[0].Write(rec)
							})
						}, nil
					})
				})
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		_, records, err := s.complete(l)
		if err != nil {
			t.Fatal(err)
		}
		for n, rec := range records {
			for _, p := range rec.Parts {
				if err := l.check(p); err != nil {
					t.Errorf("round %d, task %d: %v", round, n, err)
				}
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "nodes", "*", "*"))
		if err != nil || len(files) != len(plan) {
			t.Errorf("round %d: files %v, %v", round, files, err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, tmpDir)); err == nil && len(left) > 0 {
			t.Errorf("round %d: %d files left in %s", round, len(left), tmpDir)
		}
		if err := errors.Join(l.removeTable(schema.Nodes, s.place), os.RemoveAll(filepath.Join(dir, stateDir))); err != nil {
			t.Fatal(err)
		}
	}
}

// Attempts that come late: they read a table that is let go and write another that is let go in its turn,
// while others are done with both. None of them fails, every record that says that files are there tells the truth, and
// when all have ended nothing is left once somebody tidies up.
func TestLateAttempts(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLake(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	at := place{"cafe", "flow-1"}
	first, second := stage{"simulate", at, []schema.Table{schema.HopObservations}}, stage{"feedback", at, []schema.Table{schema.Feedback}}
	plan := tasksOf(5, 9, 7, 1, 3)
	with := func(do func(r *Run) error) error {
		h := &Hand{&Run{lake: l, spec: spec{ScenarioID: "cafe"}, workers: 2, log: zerolog.Nop(), progress: silent{}}}
		return h.with(func(r *Run) error {
			r.choose = everyTask
			return do(r)
		})
	}
	perform := func(r *Run, s stage, t schema.Table, read []part) error {
		return r.perform(context.Background(), s, plan, "x", func() (work, error) {
			return func(_ context.Context, n int, _ task) ([]part, int64, any, error) {
				return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
					time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
					err := columns.Consume(r.lake.read(schema.HopObservations, read, nil, nil), func(arrow.Record) error { return nil })
					if err != nil {
						return 0, nil, err
					}
					rec := randomBatch(t, rand.New(rand.NewPCG(1, uint64(n))), 10)
					defer rec.Release()
					return 1, nil, out[0].Write(rec)
				})
			}, nil
		})
	}
	truthful := func(when string, s stage, files int) {
		t.Helper()
		_, records, err := s.complete(l)
		if err != nil {
			t.Fatal(err)
		}
		for n, rec := range records {
			for _, p := range rec.Parts {
				if err := l.check(p); !p.Gone && err != nil {
					t.Errorf("%s, %s, task %d: %v", when, s.name, n, err)
				}
			}
		}
		if have := filesOf(t, dir, s.tables[0]); files >= 0 && have != files {
			t.Errorf("%s, %s: %d files, want %d", when, s.name, have, files)
		}
	}
	for round := range 30 {
		if err := with(func(r *Run) error { return perform(r, first, schema.HopObservations, nil) }); err != nil {
			t.Fatal(err)
		}
		truthful("first", first, len(plan))
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for attempt := range errs {
			wg.Go(func() {
				time.Sleep(time.Duration(attempt/2) * 4 * time.Millisecond)
				errs[attempt] = with(func(r *Run) error {
					if attempt == 7 { // of the first stage, when it may be gone
						return perform(r, first, schema.HopObservations, nil)
					}
					_, waits, err := r.inputs(first)
					if err != nil {
						return err
					}
					if err := perform(r, second, schema.Feedback, partsOf(waits, schema.HopObservations)); err != nil {
						return err
					}
					return errors.Join(r.tidy(first, schema.HopObservations), r.tidy(second, schema.Feedback))
				})
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		truthful("late", first, -1)
		truthful("late", second, -1)
		err := with(func(r *Run) error {
			return errors.Join(r.tidy(first, schema.HopObservations), r.tidy(second, schema.Feedback))
		})
		if err != nil {
			t.Fatal(err)
		}
		truthful("tidy", first, 0)
		truthful("tidy", second, 0)
		if err := os.RemoveAll(filepath.Join(dir, stateDir)); err != nil {
			t.Fatal(err)
		}
	}
}

// An attempt that puts its file in place after its table was let go, or that writes its record just when
// the file goes, leaves a record that tells the truth.
func TestLateCommit(t *testing.T) {
	for _, fileGoes := range []bool{false, true} {
		dir := t.TempDir()
		l, err := OpenLake(dir, true)
		if err != nil {
			t.Fatal(err)
		}
		s := stage{"feedback", place{"cafe", "flow-1"}, []schema.Table{schema.Feedback}}
		h := &Hand{&Run{lake: l, spec: spec{ScenarioID: "cafe"}, workers: 1, log: zerolog.Nop(), progress: silent{}}}
		if err := h.with(func(r *Run) error {
			r.choose = everyTask
			commit := func() (part, error) {
				rec := randomBatch(schema.Feedback, rand.New(rand.NewPCG(1, 1)), 10)
				defer rec.Release()
				return r.lake.writePart(schema.Feedback, s.place.file(schema.Feedback, 0), rec)
			}
			p, err := commit()
			if err != nil {
				return err
			}
			if err := errors.Join(r.plan(s, stagePlan{Stage: s.name, Method: methodVersion, Tasks: tasksOf(1)}), r.record(s, 0, &taskRecord{Parts: []part{p}})); err != nil {
				return err
			}
			if p, err = commit(); err != nil { // late
				return err
			}
			if fileGoes {
				err = r.tidy(s, schema.Feedback)
			}
			return errors.Join(err, r.record(s, 0, &taskRecord{Parts: []part{p}}))
		}); err != nil {
			t.Fatal(err)
		}
		_, done, err := s.complete(l)
		if err != nil {
			t.Fatal(err)
		}
		if p := done[0].Parts[0]; p.Gone != fileGoes || !p.Gone && l.check(p) != nil {
			t.Errorf("the file goes %v: the record says %+v", fileGoes, p)
		}
	}
}

// Shares that come and go never find the scenario taken.
func TestSharesComeAndGo(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				l, err := OpenLake(dir, true)
				if err != nil {
					t.Error(err)
					return
				}
				unlock, err := l.lockShared("cafe")
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.writeState(filepath.Join(dir, stateDir, "observed"), 1); err != nil {
					t.Error(err)
				}
				unlock()
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(filepath.Join(dir, tmpDir)); err == nil && len(left) > 0 {
		t.Errorf("%d files left in %s", len(left), tmpDir)
	}
}

// A share neither works beside a run on its own, nor with another plan than the shares before it; and
// a damaged file is one process's to make again.
func TestSharesKeepToThePlan(t *testing.T) {
	dir := t.TempDir()
	s := fakeStage()
	share := func(text string, plan []task) ([]int, error) {
		t.Helper()
		l, err := OpenLake(dir, true)
		if err != nil {
			t.Fatal(err)
		}
		of, err := ParseShare(text)
		if err != nil {
			t.Fatal(err)
		}
		h := &Hand{&Run{lake: l, spec: spec{ScenarioID: "cafe"}, workers: 1, share: of, log: zerolog.Nop(), progress: silent{}}}
		var did []int
		err = h.with(func(r *Run) error {
			r.choose = of.choice()
			rec := &recorder{run: r, s: s, fail: -1}
			err := r.perform(context.Background(), s, plan, "x", rec.newWork)
			did = rec.did
			return err
		})
		slices.Sort(did)
		return did, err
	}
	plan := tasksOf(5, 9, 7, 1)
	alone := testRun(t, dir)
	if _, err := share("0/2", plan); !errors.Is(err, ErrBusy) {
		t.Errorf("beside a run on its own: %v", err)
	}
	alone.unlock()
	first, err := share("0/2", plan)
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLake(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.complete(l); err == nil || !strings.Contains(err.Error(), "--shard 1/2\" first") {
		t.Errorf("one of two shares is done: %v", err)
	}
	if _, err := share("1/2", tasksOf(5, 9)); err == nil || !strings.Contains(err.Error(), "another plan") {
		t.Errorf("a share with another plan: %v", err)
	}
	second, err := share("1/2", plan)
	if err != nil || len(first)+len(second) != 4 {
		t.Errorf("shares %v and %v, %v", first, second, err)
	}
	_, records, err := s.complete(l)
	if err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(dir, filepath.FromSlash(records[second[0]].Parts[0].Path))
	data, err := os.ReadFile(victim)
	if err != nil {
		t.Fatal(err)
	}
	data[10] ^= 1
	if err := os.WriteFile(victim, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if did, err := share("0/2", plan); err != nil || len(did) != 0 {
		t.Errorf("damage to another's file: did %v, %v", did, err)
	}
	if did, err := share("1/2", plan); err != nil || !slices.Equal(did, second[:1]) {
		t.Errorf("damage: did %v, %v", did, err)
	}
}

// runChildShare does one share of one step, as parsimon STAGE --shard I/N does.
func runChildShare(lake string) error {
	share, err := ParseShare(os.Getenv(childShare))
	if err != nil {
		return err
	}
	by, err := stages.ParseEstimator(os.Getenv(childBy))
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(os.Getenv(childStep))
	if err != nil {
		return err
	}
	after, err := strconv.Atoi(os.Getenv(childAfter))
	if err != nil {
		return err
	}
	run, err := Resume("", Options{Lake: lake, Estimator: by, Passes: 2, Workers: 1, Partitions: 12, Share: share, Log: zerolog.Nop(), Progress: &killer{stage: os.Getenv(childStage), after: int64(after)}})
	if err != nil {
		return err
	}
	defer run.Close()
	steps, err := run.Steps()
	if err != nil {
		return err
	}
	return run.Step(context.Background(), steps[at])
}

// Four processes at once do every stage, one of them killed in the middle of each and started again,
// and one doubled: the same rows as from one process.
func TestArrayJobs(t *testing.T) {
	topology, flows := trace(t, 150_000)
	for _, by := range []stages.Estimator{stages.Independent, stages.Flow} {
		t.Run(by.String(), func(t *testing.T) { testArrayJobs(t, topology, flows, by) })
	}
}

func testArrayJobs(t *testing.T, topology, flows string, by stages.Estimator) {
	alone, lake := t.TempDir(), t.TempDir()
	estimate(t, topology, flows, Options{Lake: alone, Estimator: by, Passes: 2, Workers: 2})
	s, err := TraceScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	run, err := Begin(s, Options{Lake: lake, Estimator: by, Passes: 2, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Generate(context.Background()); err != nil {
		t.Fatal(err)
	}
	run.Close()
	steps, err := run.Steps()
	if err != nil {
		t.Fatal(err)
	}
	child := func(at int, share string, after int) (out string, killed bool) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childLake+"="+lake, childStep+"="+strconv.Itoa(at), childShare+"="+share, childBy+"="+by.String(),
			childStage+"="+steps[at].Stage, childAfter+"="+strconv.Itoa(after))
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
	kills := 0
	for at, step := range steps {
		if step.Stage == "intervals" { // one task
			run, err := Resume("", Options{Lake: lake, Estimator: by, Passes: 2, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Step(context.Background(), step); err != nil {
				t.Fatal(err)
			}
			run.Close()
			continue
		}
		var wg sync.WaitGroup
		for _, share := range []string{"0/4", "1/4", "2/4", "2/4", "3/4"} {
			wg.Go(func() {
				after := 0
				if share == "0/4" {
					after = 1
				}
				out, killed := child(at, share, after)
				if killed != (after > 0) || out != "" {
					t.Errorf("%s %s: killed %v, %s", step, share, killed, out)
				}
				if killed {
					kills++
				}
			})
		}
		wg.Wait()
		out, _ := child(at+1, "3/4", 0)
		if want := fmt.Sprintf("stage %s of scenario", step.Stage); !strings.Contains(out, want) || !strings.Contains(out, "--shard 0/4\" first") {
			t.Errorf("the step after %s, with a share missing: %q", step, out)
		}
		passing := func() int {
			return filesOf(t, lake, schema.HopObservations) + filesOf(t, lake, schema.Feedback) + filesOf(t, lake, schema.SenderFeedback)
		}
		before := passing()
		if out, _ := child(at, "0/4", 0); out != "" {
			t.Fatalf("%s 0/4 again: %s", step, out)
		}
		switch after := passing(); { // the share that finds a stage complete lets go of what it was the last to read
		case step == Step{"feedback", 1} && after >= before:
			t.Errorf("%s leaves %d files that only passes need, of %d", step, after, before)
		case step == Step{"sample", 0} && after > 0:
			t.Errorf("%s leaves %d files that only passes need", step, after)
		}
		if out, _ := child(at, "1/4", 0); out != "" { // done is done, also where the files are gone
			t.Errorf("%s 1/4 again: %s", step, out)
		}
	}
	if kills != len(steps)-1 {
		t.Errorf("%d of %d steps were killed", kills, len(steps)-1)
	}
	if got, want := digestOf(t, lake, by), digestOf(t, alone, by); got != want {
		t.Errorf("in shares %s, alone %s", got, want)
	}
	l, err := OpenLake(lake, false)
	if err != nil {
		t.Fatal(err)
	}
	status, err := ReadStatus(l, true)
	if err != nil || status.Scenarios[0].State != stateComplete {
		t.Errorf("status %+v, %v", status, err)
	}
	if left, err := os.ReadDir(filepath.Join(lake, tmpDir)); err == nil && len(left) > 0 {
		t.Errorf("%d files left in %s", len(left), tmpDir)
	}
}
