package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A job is a command line that changes a lake, and the command lines that run before it.
type job struct {
	name   string
	before [][]string
	args   []string
}

var jobs = []job{
	{"run", nil, runOf("other.yaml")},
	{"run of another pass", nil, runOf("tiny.yaml", "--passes", "2")},
	{"run without a cache", nil, runOf("other.yaml", "--cache", "off")},
	{"what-if", nil, whatIfOf("--fail", "pod0-tor0:pod0-fabric0")},
	{"sweep", nil, []string{"sweep", "tiny", "--fail", "each:tor-fabric", "--passes", "1",
		"-q", "--lake", "lake"}},
	{"sweep of parameters", nil, []string{"sweep", "tiny.yaml", "--set", "workload.max_load=20%,30%",
		"--passes", "1", "-q", "--lake", "lake"}},
	{"ingest of a second day", nil, ingestOf("day0.log", "day1.log")},
	{"shard", [][]string{{"stage", "generate", "other.yaml", "-q", "--lake", "lake"}},
		[]string{"stage", "route", "--shard", "0/1", "-q", "--lake", "lake"}},
	{"rm", [][]string{runOf("other.yaml")}, []string{"rm", "other", "--lake", "lake"}},
	{"Beam job", nil, []string{beamProgram, "other.yaml", "--passes", "1", "--partitions", "4",
		"-q", "--lake", "lake"}},
}

// prepared is a world that is ready for the job, with the snapshots that readers see before and after the
// job.
type prepared struct {
	job
	world
	old, done snapshot
	took      time.Duration
	// staleViews is set if views may name removed files until the next command. If a removal has no space for
	// writing the views, it continues, because it frees space. It writes the views again at its end.
	staleViews bool
}

// prepare prepares a job. It does so once for all tests.
func prepare(t testing.TB, j job) prepared {
	t.Helper()
	once, _ := preparations.LoadOrStore(j.name,
		sync.OnceValues(func() (prepared, error) { return preparation(j) }))
	p, err := once.(func() (prepared, error))()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var preparations sync.Map // functions by the names of jobs

func preparation(j job) (p prepared, err error) {
	from, err := template()
	if err != nil {
		return p, err
	}
	dir := filepath.Join(worlds, strings.ReplaceAll(j.name, " ", "-"))
	p = prepared{job: j, world: world{dir}}
	if err := os.CopyFS(dir, os.DirFS(from.dir)); err != nil {
		return p, err
	}
	for _, args := range j.before {
		if err := p.do(nil, args...); err != nil {
			return p, err
		}
	}
	if p.old, err = p.look(); err != nil {
		return p, err
	}
	undisturbed := world{dir + "-done"}
	if err := os.CopyFS(undisturbed.dir, os.DirFS(dir)); err != nil {
		return p, err
	}
	began := time.Now()
	if err := undisturbed.do(nil, j.args...); err != nil {
		return p, err
	}
	p.took = time.Since(began)
	p.done, err = undisturbed.look()
	return p, err
}

// recovers checks a world after a fault. It returns an error if readers see a mixture, or if the same command
// does not complete, or leaves other rows or litter.
func (p prepared) recovers(w world) error {
	seen, err := w.look()
	if err != nil {
		return fmt.Errorf("readers after the fault: %w", err)
	}
	if err := seen.between(p.old, p.done); err != nil {
		return fmt.Errorf("readers after the fault: %w", err)
	}
	if err := w.viewsWork(); err != nil && !p.staleViews {
		return fmt.Errorf("views after the fault: %w", err)
	}
	err = w.do(nil, p.args...)
	if err != nil && (p.args[0] != "rm" || !strings.Contains(err.Error(), "no scenario")) {
		return fmt.Errorf("the same command: %w", err)
	}
	if seen, err = w.look(); err != nil {
		return fmt.Errorf("readers after the same command: %w", err)
	}
	if err := seen.same(p.done); err != nil {
		return fmt.Errorf("after the same command: %w", err)
	}
	if err := w.viewsWork(); err != nil {
		return fmt.Errorf("views after the same command: %w", err)
	}
	status, err := w.output(nil, "status", "--lake", "lake")
	if err != nil || strings.Contains(status, "left by a killed process") {
		return fmt.Errorf("status after the same command: %w\n%s", err, status)
	}
	return nil
}

// killed runs the job and kills it after some time. It reports whether the job was still running.
func (p prepared) killed(w world, after time.Duration) (bool, error) {
	c, err := w.command(context.Background(), nil, p.args...)
	if err != nil {
		return false, err
	}
	if err := c.Start(); err != nil {
		return false, err
	}
	timer := time.AfterFunc(after, func() { _ = c.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	err = c.Wait()
	return err != nil && strings.Contains(err.Error(), "killed"), nil
}

// killedKind is the name of this kind of fault in the table.
const killedKind = "kill -9 at a random moment"

// A command that is killed at a random moment leaves either the old or the new snapshot. Running the same
// command again completes it with the rows of an undisturbed run, and removes unfinished files.
func TestKilled(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, killedKind)
	if c.complete() {
		return
	}
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	some := slices.Clone(jobs)
	c.rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	if long {
		rounds = 200
	} else {
		some = slices.DeleteFunc(some, func(j job) bool { return j.args[0] == beamProgram })[:2]
	}
	all := make([]prepared, len(some))
	for i, j := range some {
		all[i] = prepare(t, j)
	}
	var atWork atomic.Int64
	c.rounds(rounds, func(r round) (string, error) {
		p := all[r.number%len(all)]
		w := copyOf(r, p.world)
		after := time.Duration(r.rng.Float64() * 1.05 * float64(p.took))
		killed, err := p.killed(w, after)
		if killed {
			atWork.Add(1)
		}
		if err == nil {
			err = p.recovers(w)
		}
		return fmt.Sprintf("%s killed after %v of %v", p.name, after, p.took), err
	})
	n := int(atWork.Load())
	if n < c.tried/3 {
		t.Errorf("only %d of %d were still at work", n, c.tried)
	}
}
