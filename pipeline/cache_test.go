package pipeline

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"parsimon/pipeline/internal/fixture"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
)

// A run that finds its link cases in a cache has the same rows as a run that simulates them, in any state of
// the cache. In the short form, the cache is damaged in one way, and one estimator runs each day.
func TestCacheChangesNoRow(t *testing.T) {
	for i, v := range []Variant{independent, flow} {
		if daily.Skips(i, 2) {
			continue
		}
		t.Run(v.Estimator.String(), func(t *testing.T) { cacheChangesNoRow(t, v) })
	}
}

func cacheChangesNoRow(t *testing.T, v Variant) {
	topology, flows := fixture.Trace(t, 1200)
	plain := options{Lake: t.TempDir(), Variant: v, Partitions: 3}
	estimate(t, topology, flows, plain)
	want := digestOf(t, plain.Lake, v.Estimator)
	dir := filepath.Join(t.TempDir(), "cache")
	check := func(what string) linksim.Stats {
		t.Helper()
		o := options{Lake: t.TempDir(), Variant: v, Cache: dir, Workers: 3, Partitions: 5}
		run := estimate(t, topology, flows, o)
		got := digestOf(t, o.Lake, v.Estimator)
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
		return casesOf(t, run)
	}
	first := check("empty cache")
	again := check("full cache")
	if again.CachedCases == 0 || again.PacketHops > first.PacketHops/20 {
		t.Errorf("with a full cache: %+v", again)
	}
	if v.Estimator == estimators.Flow { // the steps after this one are the same
		return
	}
	change := func(what string, how func(data []byte) []byte) {
		t.Helper()
		packs, err := filepath.Glob(filepath.Join(dir, "*.pack"))
		if err != nil || len(packs) == 0 {
			t.Fatalf("packs %v, %v", packs, err)
		}
		for _, p := range packs {
			data, err := os.ReadFile(p)
			if err == nil {
				err = os.WriteFile(p, how(data), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s := check(what)
		if s.PacketHops == 0 {
			t.Errorf("%s: nothing was simulated again", what)
		}
	}
	change("flipped bytes in results", func(data []byte) []byte {
		for i := 301; i < len(data)*3/4; i += 301 {
			data[i] ^= 0x10
		}
		return data
	})
	s := check("repaired")
	if s.PacketHops > first.PacketHops/20 {
		t.Errorf("after repair: %+v", s)
	}
	if !testing.Short() {
		change("cut short", func(data []byte) []byte { return data[:len(data)-7] })
		change("flipped bytes in the index", func(data []byte) []byte {
			data[len(data)-41] ^= 1 // in front of the 37-byte trailer
			return data
		})
		change("not a pack", func([]byte) []byte { return bytes.Repeat([]byte("x"), 100) })
	}
	twoAtOnce(t, topology, flows, v, want)
}

// twoAtOnce runs two estimates that share a cache at the same time.
func twoAtOnce(t *testing.T, topology, flows string, v Variant, want string) {
	var wg sync.WaitGroup
	dirs := []string{t.TempDir(), t.TempDir()}
	shared := filepath.Join(t.TempDir(), "shared")
	for _, dir := range dirs {
		wg.Go(func() {
			o := options{Lake: dir, Variant: v, Cache: shared, Workers: 1, Partitions: 4}
			s, err := paperScenario(topology, flows)
			if err != nil {
				t.Error(err)
				return
			}
			settings, done, err := o.settings()
			if err != nil {
				t.Error(err)
				return
			}
			defer done()
			run, err := Begin(t.Context(), dir, s, v, settings)
			if err != nil {
				t.Error(err)
				return
			}
			defer run.Close()
			if err := run.Estimate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, dir := range dirs {
		got := digestOf(t, dir, v.Estimator)
		if got != want {
			t.Errorf("two at once: %s, want %s", got, want)
		}
	}
}

// A killed run leaves a cache that other runs can use.
func TestCacheOfKilledRun(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	want := options{Lake: t.TempDir(), Variant: flow, Partitions: 4}
	estimate(t, topology, flows, want)
	o := options{Lake: t.TempDir(), Variant: flow, Cache: t.TempDir(), Workers: 2, Partitions: 4}
	killedChild(t, o.Lake, flows, "replay", 3, childBy+"=flow", childCache+"="+o.Cache)
	if left, err := filepath.Glob(filepath.Join(o.Cache, "*.pack")); err != nil || len(left) != 1 {
		t.Errorf("the killed run has left %q, %v", left, err)
	}
	estimate(t, topology, flows, o)
	if got, want := digestOf(t, o.Lake, estimators.Flow), digestOf(t, want.Lake, estimators.Flow); got != want {
		t.Errorf("killed and continued: %s, want %s", got, want)
	}
}
