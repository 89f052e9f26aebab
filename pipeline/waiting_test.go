package pipeline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
)

// slowCable is a change of a scenario that both a user and a sweep request.
func slowCable(t *testing.T) scenario.Changes {
	t.Helper()
	change, err := scenario.ParseChange("bandwidth", "0:8=5Gbps")
	if err != nil {
		t.Fatal(err)
	}
	return scenario.Changes{Do: []scenario.Change{change}}
}

// whileWaiting opens an estimate while its scenario is locked, calls meanwhile, and releases the lock. It
// returns the results of the opening.
func whileWaiting(t *testing.T, l *lake.Lake, id lake.ScenarioID,
	open func(wait time.Duration) (*Estimation, error), meanwhile func()) (e *Estimation, err error) {
	t.Helper()
	held, err := l.Lock(t.Context(), lake.Of(id))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e, err = open(time.Minute)
	}()
	select {
	case <-done:
		t.Fatalf("the lock was not waited for: %v", err)
	case <-time.After(700 * time.Millisecond): // after the first attempt, before the second
	}
	meanwhile()
	held.Close()
	<-done
	return e, err
}

// A sweep deletes the scenarios that it creates. If it checked before taking the lock whether a scenario
// exists, it would delete the what-if of a user for whose lock it waited.
func TestSweepKeepsWhatIfOfTheUserItWaitedFor(t *testing.T) {
	topology, flows := fixture.Trace(t, 300)
	base := estimate(t, topology, flows, options{Lake: t.TempDir(), Variant: flow, Partitions: 2})
	// The user's what-if is made in it, because this process holds the lock in the first lake.
	other := t.TempDir()
	if err := os.CopyFS(other, os.DirFS(base.Lake.Path())); err != nil {
		t.Fatal(err)
	}
	whatIf := func(dir string, o Settings) (*Estimation, error) {
		model, err := OpenModelIn(context.Background(), dir, "")
		if err != nil {
			return nil, err
		}
		return Derive(context.Background(), model, slowCable(t), flow, o)
	}
	user, err := whatIf(other, Settings{})
	if err == nil {
		err = errors.Join(user.Estimate(t.Context()), user.MakeAnswer())
	}
	if err != nil {
		t.Fatal(err)
	}
	user.Close()
	sweep, err := whileWaiting(t, base.Lake, user.ID(), func(wait time.Duration) (*Estimation, error) {
		return whatIf(base.Lake.Path(), Settings{Ephemeral: true, Wait: wait})
	}, func() { copyPlace(t, other, base.Lake.Path(), user.ID()) })
	if err != nil {
		t.Fatal(err)
	}
	defer sweep.Close()
	if err := errors.Join(sweep.Estimate(t.Context()), sweep.Forget()); err != nil {
		t.Fatal(err)
	}
	m, found, err := base.Lake.ReadManifest(lake.Place{Scenario: user.ID(), Variant: flow.Stored()})
	if err != nil || !found || len(lake.FilesOf(m.Files, schema.Slowdowns)) == 0 {
		t.Errorf("the sweep removed the what-if of the user: manifest %v, %v", found, err)
	}
}

// copyPlace copies the files of a scenario, except for its lock, from one lake to another.
func copyPlace(t *testing.T, from, to string, id lake.ScenarioID) {
	t.Helper()
	err := openLake(t, from).EachFile(lake.Of(id), func(f lake.FileUsage) error {
		if strings.HasSuffix(f.Path, "/lock") {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(from, f.Path))
		if err != nil {
			return err
		}
		file := filepath.Join(to, f.Path)
		return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644))
	})
	if err != nil {
		t.Error(err)
	}
}

// If a scenario is removed while a command waits for its lock, the command does not create it again from what
// it read before.
func TestRemovedScenarioIsNotResumed(t *testing.T) {
	topology, flows := fixture.Trace(t, 300)
	base := estimate(t, topology, flows, options{Lake: t.TempDir(), Variant: flow, Partitions: 2})
	_, err := whileWaiting(t, base.Lake, base.ID(), func(wait time.Duration) (*Estimation, error) {
		return Resume(context.Background(), base.Lake.Path(), "", flow, Settings{Wait: wait})
	}, func() {
		if err := os.RemoveAll(base.Lake.Path() + "/_state/scenario=" + string(base.ID())); err != nil {
			t.Error(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "was removed or changed while this command waited for it") {
		t.Errorf("error %v", err)
	}
	ids, err := base.Lake.Scenarios()
	if err != nil || len(ids) > 0 {
		t.Errorf("the lake has scenarios %v, %v", ids, err)
	}
}

// The answer of the last run is read under the lock. Otherwise a what-if that waited for a run would be
// compared with an estimate that is no longer the answer.
func TestAnswerIsReadUnderTheLock(t *testing.T) {
	topology, flows := fixture.Trace(t, 300)
	base := estimate(t, topology, flows, options{Lake: t.TempDir(), Variant: flow, Partitions: 2})
	exact := estimate(t, topology, flows, options{Lake: base.Lake.Path(), Variant: whole})
	if base.Lake.Answer(base.ID()) != exact.Variant().Stored() {
		t.Fatalf("answer %s", base.Lake.Answer(base.ID()))
	}
	auto := Variant{Auto: true}
	e, err := whileWaiting(t, base.Lake, base.ID(), func(wait time.Duration) (*Estimation, error) {
		return Resume(context.Background(), base.Lake.Path(), "", auto, Settings{Wait: wait})
	}, func() {
		path := base.Lake.Path() + "/" + lake.Of(base.ID()).StatePath("answer.json")
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if !e.Variant().Auto {
		t.Errorf("variant %s, and the answer was withdrawn before the lock was taken", e.Variant())
	}
}

// If a flow file is replaced after its digest was computed and before its last row was read, the run fails
// and leaves no scenario. The replaced file has the same size and time, as after rsync --times. Without the
// check, the rows of the new file would permanently become the answer for the old one.
func TestReplacedFlowFileIsRefused(t *testing.T) {
	topology, flows := fixture.Trace(t, 300)
	info, err := os.Stat(flows)
	if err != nil {
		t.Fatal(err)
	}
	run := begin(t, topology, flows, options{Lake: t.TempDir(), Variant: flow, Partitions: 2})
	defer run.Close()
	text, err := os.ReadFile(flows)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(",s0,"), []byte(",s1,"), 1)
	err = errors.Join(os.WriteFile(flows, text, 0o644), os.Chtimes(flows, info.ModTime(), info.ModTime()))
	if err != nil {
		t.Fatal(err)
	}
	var changed *scenario.ChangedError
	if err := run.Estimate(t.Context()); !errors.As(err, &changed) || changed.Path != flows {
		t.Errorf("error %v, want that %s was changed", err, flows)
	}
	if ids, err := run.Lake.Scenarios(); err != nil || len(ids) > 0 {
		t.Errorf("the lake has scenarios %v, %v", ids, err)
	}
}

// If a run must generate its flows again and fails, everything that was committed before stays, including
// slowdowns and the answer. An earlier version removed it.
func TestFailedRepairKeepsScenario(t *testing.T) {
	topology, flows := fixture.Trace(t, 300)
	o := options{Lake: t.TempDir(), Variant: flow, Partitions: 2}
	before := estimate(t, topology, flows, o)
	want := textOf(t, o.Lake, schema.Slowdowns, before.ID(), flow.String())
	spoil(t, o.Lake, lake.Of(before.ID()), schema.Flows)
	run := begin(t, topology, flows, o)
	run.source.write = func(context.Context, *engine.Attempt, *lake.FlowWriter) (*Generated, error) {
		return nil, errors.New("disk full")
	}
	if err := run.Estimate(t.Context()); err == nil {
		t.Error("no error")
	}
	run.Close()
	got := textOf(t, o.Lake, schema.Slowdowns, before.ID(), flow.String())
	if got != want {
		t.Error("other slowdowns")
	}
	estimate(t, topology, flows, o)
	state, _ := stateOf(t, o.Lake)
	if state != StateComplete {
		t.Errorf("state %s after the same run again", state)
	}
}
