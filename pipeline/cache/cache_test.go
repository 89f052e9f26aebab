package cache

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parsimon/stages"
)

// casesOf adds up what the stages that run link cases did for a run's estimate.
func casesOf(t *testing.T, r *Run) stages.SimulateStats {
	t.Helper()
	all, err := r.casesDone()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A run that finds its link cases in a cache has the rows of one that simulates them, whatever state
// the cache is in.
func TestCacheChangesNoRow(t *testing.T) {
	for _, by := range []stages.Estimator{stages.Independent, stages.Flow} {
		t.Run(by.String(), func(t *testing.T) { cacheChangesNoRow(t, by) })
	}
}

func cacheChangesNoRow(t *testing.T, by stages.Estimator) {
	topology, flows := trace(t, 2500)
	lake := t.TempDir()
	estimate(t, topology, flows, Options{Lake: lake, Estimator: by})
	want := digestOf(t, lake, by)
	cache := filepath.Join(t.TempDir(), "cache")
	check := func(what string) stages.SimulateStats {
		t.Helper()
		o := Options{Lake: t.TempDir(), Estimator: by, Cache: cache, Workers: 3, Partitions: 7}
		run := estimate(t, topology, flows, o)
		if got := digestOf(t, o.Lake, by); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
		return casesOf(t, run)
	}
	first := check("empty cache")
	if again := check("full cache"); again.CachedCases == 0 || again.PacketHops > first.PacketHops/20 {
		t.Errorf("with a full cache: %+v", again)
	}
	packs := func() []string {
		found, err := filepath.Glob(filepath.Join(cache, "*"+packSuffix))
		if err != nil || len(found) == 0 {
			t.Fatalf("packs %v, %v", found, err)
		}
		return found
	}
	change := func(what string, how func(data []byte) []byte) {
		t.Helper()
		for _, p := range packs() {
			data, err := os.ReadFile(p)
			if err == nil {
				err = os.WriteFile(p, how(data), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if s := check(what); s.PacketHops == 0 {
			t.Errorf("%s: nothing was simulated again", what)
		}
	}
	change("flipped bytes in results", func(data []byte) []byte {
		for i := 0; i < len(data)*3/4; i += 301 {
			data[i] ^= 0x10
		}
		return data
	})
	if s := check("mended"); s.PacketHops > first.PacketHops/20 {
		t.Errorf("after mending: %+v", s)
	}
	change("cut short", func(data []byte) []byte { return data[:len(data)-7] })
	change("flipped bytes in the index", func(data []byte) []byte {
		data[len(data)-len(packMagic)-20] ^= 1
		return data
	})
	change("not a pack", func([]byte) []byte { return bytes.Repeat([]byte("x"), 100) })

	var wg sync.WaitGroup
	lakes := []string{t.TempDir(), t.TempDir()}
	shared := filepath.Join(t.TempDir(), "shared")
	for _, l := range lakes {
		wg.Go(func() { estimate(t, topology, flows, Options{Lake: l, Estimator: by, Cache: shared, Workers: 1}) })
	}
	wg.Wait()
	for _, l := range lakes {
		if got := digestOf(t, l, by); got != want {
			t.Errorf("two at once: %s, want %s", got, want)
		}
	}
}

// A run that is killed leaves a cache that others can use, and pruning takes away what it was writing.
func TestCacheOfKilledRun(t *testing.T) {
	topology, flows := trace(t, 2500)
	want := t.TempDir()
	estimate(t, topology, flows, Options{Lake: want, Estimator: stages.Flow})
	cache, lake := t.TempDir(), t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childLake+"="+lake, childFlows+"="+flows, childStage+"=senders", childAfter+"=3", childBy+"=flow", childCache+"="+cache)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("the child was not killed\n%s", out)
	}
	temps := func() int {
		found, err := filepath.Glob(filepath.Join(cache, packTemp+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if temps() != 1 {
		t.Errorf("the killed run has left %d unfinished packs", temps())
	}
	estimate(t, topology, flows, Options{Lake: lake, Estimator: stages.Flow, Cache: cache, Workers: 2, Partitions: 9})
	if got, want := digestOf(t, lake, stages.Flow), digestOf(t, want, stages.Flow); got != want {
		t.Errorf("killed and continued: %s, want %s", got, want)
	}
	if _, err := PruneCache(cache, 1<<40); err != nil || temps() != 0 {
		t.Errorf("after pruning %d unfinished packs, %v", temps(), err)
	}
}

// Pruning takes the packs that were of no use for longest, and what is not whole; one being written
// stays.
func TestPruneCache(t *testing.T) {
	dir := t.TempDir()
	key := func(i int) stages.CaseKey { return stages.CaseKey{byte(i)} }
	for i := range 4 {
		c, err := OpenCache(dir, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		c.Store(key(i), bytes.Repeat([]byte{byte(i)}, 1000))
		c.Close()
	}
	names, err := packNames(dir)
	if err != nil || len(names) != 4 {
		t.Fatalf("packs %v, %v", names, err)
	}
	for i, n := range names { // pack 0 was used last
		at := time.Unix(int64(1000+(i+3)%4), 0)
		if err := os.Chtimes(filepath.Join(dir, n), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ffff"+packSuffix), []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	open, err := OpenCache(dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	open.Store(key(9), []byte("being written"))
	report, err := PruneCache(dir, 2500)
	if err != nil || report.Packs != 2 || report.RemovedPacks != 3 {
		t.Fatalf("%+v, %v", report, err)
	}
	open.Close()
	c, err := OpenCache(dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var found []int
	for i := range 10 {
		if _, ok := c.Lookup(key(i), nil); ok {
			found = append(found, i)
		}
	}
	if fmt.Sprint(found) != "[0 3 9]" {
		t.Errorf("found %v", found)
	}
}
