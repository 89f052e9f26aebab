package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// busy is the exit code of a command if another process works on the same scenario or workload.
const busy = 4

// together lists the commands of which every pair runs at once. Those from readingFrom on change nothing.
var together = []job{
	{"run", nil, runOf("other.yaml")},
	{"run of another pass", nil, runOf("tiny.yaml", "--passes", "2")},
	{"what-if", nil, whatIfOf("--fail", "pod0-tor0:pod0-fabric0")},
	{"sweep", nil, []string{"sweep", "tiny", "--fail", "each:tor-fabric", "--passes", "1",
		"-q", "--lake", "lake"}},
	{"ingest of a second day", nil, ingestOf("day0.log", "day1.log")},
	{"rm of a workload", nil, []string{"rm", "--workload", "days", "--lake", "lake"}},
	{"query", nil, []string{"query", "--lake", "lake",
		"--sql", "SELECT count(*), sum(slowdown) FROM slowdowns"}},
	{"question", nil, []string{"query", "slowdown_by_size", "--lake", "lake"}},
	{"status", nil, []string{"status", "--lake", "lake"}},
	{"du", nil, []string{"du", "--lake", "lake"}},
	{"report", nil, []string{"report", "tiny", "--lake", "lake", "-o", "report.html", "-q"}},
}

const readingFrom = 6

// allowed returns an error if a command that runs beside others may not end in this way.
func allowed(j job, err error) error {
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) && exit.ExitCode() == busy {
		return nil
	}
	if strings.Contains(err.Error(), `no workload "days"`) || strings.Contains(err.Error(), "no scenario") {
		return nil // removed in the meantime
	}
	return fmt.Errorf("%s: %w", j.name, err)
}

// readerPause is the time between two looks of a reader. It is long enough for the commands to use the
// processor.
const readerPause = 5 * time.Millisecond

// atOnce runs commands at once, with readers throughout. It returns an error if a reader sees a state that
// none of the commands alone leaves.
func (w world) atOnce(jobs []job, units map[string]map[string]bool) error {
	errs := make([]error, len(jobs))
	var running, reading sync.WaitGroup
	for i, j := range jobs {
		running.Add(1)
		go func() {
			defer running.Done()
			c, err := w.command(context.Background(), nil, j.args...)
			if err == nil {
				var log bytes.Buffer
				c.Stderr = &log
				if err = c.Run(); err != nil {
					err = fmt.Errorf("%w\n%s", err, log.String())
				}
			}
			errs[i] = allowed(j, err)
		}()
	}
	done := make(chan struct{})
	var readErr error
	reading.Add(1)
	go func() {
		defer reading.Done()
		for {
			seen, err := w.look()
			if err == nil {
				err = seen.known(units)
			}
			if readErr = errors.Join(readErr, err); err != nil {
				return
			}
			select {
			case <-done:
				return
			case <-time.After(readerPause):
			}
		}
	}()
	running.Wait()
	close(done)
	reading.Wait()
	if readErr != nil {
		readErr = fmt.Errorf("readers: %w", readErr)
	}
	return errors.Join(append(errs, readErr)...)
}

// units returns the states in which readers may find each place, as text of its tables.
func (s snapshot) units() map[string]string {
	texts := map[string]string{}
	for key := range s {
		unit, _, _ := strings.Cut(key, "; ")
		texts[unit] = fmt.Sprint(s.of(unit))
	}
	return texts
}

// known returns an error if a place is in a state that it has neither before nor after any of the commands.
func (s snapshot) known(units map[string]map[string]bool) error {
	for unit, text := range s.units() {
		if !units[unit][text] {
			return fmt.Errorf("%s is %s\nknown are %v", unit, text, units[unit])
		}
	}
	return nil
}

// some draws n of the jobs.
func (c *campaign) some(jobs []job, n int) []job {
	drawn := slices.Clone(jobs)
	c.rng.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn[:n]
}

// togetherKind is the name of this kind of fault in the table.
const togetherKind = "pairs of commands at once, with readers"

// Every pair of commands runs at once, with readers throughout. Each command completes or reports that the
// other one is working. Readers see only states that the commands alone leave. Afterwards, running the
// commands that write one after the other leaves the same rows as in an undisturbed lake.
func TestTogether(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, togetherKind)
	if c.complete() {
		return
	}
	rounds := 1
	pairs := [][2]job{}
	some := slices.Clone(together)
	if !long { // two that write, and one that only reads
		some = append(c.some(some[:readingFrom], 2), c.some(some[readingFrom:], 1)...)
	}
	for i, a := range some {
		for _, b := range some[i:] {
			pairs = append(pairs, [2]job{a, b})
		}
	}
	c.rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	if long {
		rounds = 20
	} else {
		pairs = pairs[:3]
	}
	units := map[string]map[string]bool{}
	add := func(s snapshot) {
		for unit, text := range s.units() {
			if units[unit] == nil {
				units[unit] = map[string]bool{}
			}
			units[unit][text] = true
		}
	}
	base := newWorld(t)
	for _, j := range some { // the result of each alone, then of all one after the other
		for _, w := range []world{copyOf(t, base), base} {
			if w == base && j.name == "rm of a workload" {
				continue
			}
			before, err := w.look()
			if err == nil {
				err = w.do(nil, j.args...)
			}
			if err != nil {
				t.Fatal(err)
			}
			after, err := w.look()
			if err != nil {
				t.Fatal(err)
			}
			add(before)
			add(after)
		}
	}
	c.rounds(rounds*len(pairs), func(r round) (string, error) {
		pair := pairs[r.number%len(pairs)]
		w := newWorld(r)
		err := w.atOnce(pair[:], units)
		for _, j := range pair {
			if slices.ContainsFunc(together[:readingFrom], func(writes job) bool { return writes.name == j.name }) {
				err = errors.Join(err, allowed(j, w.do(nil, j.args...)))
			}
		}
		seen, lookErr := w.look()
		if err = errors.Join(err, lookErr); lookErr == nil {
			err = errors.Join(err, seen.known(units))
		}
		return pair[0].name + " and " + pair[1].name, err
	})
}
