package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
)

// number matches the part of a file name that differs between files of one kind.
var number = regexp.MustCompile(`[0-9]+(~[0-9]+)?`)

// fileKinds returns the files of a lake by kind: the table, or the name of the state file.
func (w world) fileKinds(t *testing.T) map[string][]string {
	t.Helper()
	kinds := map[string][]string{}
	err := filepath.WalkDir(w.path("lake"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil || info.Size() == 0 { // lock files
			return err
		}
		path, err = filepath.Rel(w.path("lake"), path)
		top, _, _ := strings.Cut(path, "/")
		kind := top + " " + filepath.Ext(path)
		if top == "_state" {
			kind = "_state " + number.ReplaceAllString(filepath.Base(path), "N")
		}
		kinds[kind] = append(kinds[kind], path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// A damage is a change to the bytes of one file.
type damage struct {
	world
	path   string // relative to the lake
	before []byte
	info   os.FileInfo
	what   string
}

// damaged flips a byte of a file, or truncates the file.
func damaged(w world, path string, rng *mathrand.Rand) (*damage, error) {
	d := &damage{world: w, path: path}
	file := w.path("lake/" + path)
	var err error
	if d.info, err = os.Stat(file); err != nil {
		return nil, err
	}
	if d.before, err = os.ReadFile(file); err != nil {
		return nil, err
	}
	data := bytes.Clone(d.before)
	at := rng.IntN(len(d.before))
	if rng.IntN(4) == 0 {
		data, d.what = data[:at], fmt.Sprintf("%s cut to %d of %d bytes", path, at, len(data))
	} else {
		mask := byte(1 + rng.IntN(255))
		data[at] ^= mask
		d.what = fmt.Sprintf("%s: byte %d of %d changed by %#x", path, at, len(data), mask)
	}
	return d, errors.Join(os.WriteFile(file, data, 0o644), os.Chtimes(file, d.info.ModTime(), d.info.ModTime()))
}

// touch changes the time of the file, like a program that modifies it.
func (d *damage) touch() error {
	now := time.Now()
	return os.Chtimes(d.world.path("lake/"+d.path), now, now)
}

// undo restores the bytes and the time.
func (d *damage) undo() error {
	file := d.world.path("lake/" + d.path)
	return errors.Join(os.WriteFile(file, d.before, 0o644), os.Chtimes(file, d.info.ModTime(), d.info.ModTime()))
}

// harmless reports whether a state file still has the same meaning. White space and the case of names do not
// matter.
func (d *damage) harmless() bool {
	type sealed struct {
		XXH3  string
		State any
	}
	var was, is sealed
	data, err := os.ReadFile(d.world.path("lake/" + d.path))
	return err == nil && json.Unmarshal(d.before, &was) == nil && json.Unmarshal(data, &is) == nil &&
		reflect.DeepEqual(was, is)
}

// statusNames returns an error if status does not report damage that did not change the time of the file.
// Changed bytes of the cache, of the views and their digest, and of records of tasks change no answer. A task
// without a record runs again.
func (d *damage) statusNames() error {
	l, err := lake.Open(d.world.path("lake"), false)
	if err != nil {
		return err
	}
	status, err := pipeline.ReadStatus(l, lake.ByContent)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%+v", status)
	partial := slices.ContainsFunc(status.Scenarios, func(s pipeline.ScenarioStatus) bool {
		return s.State != pipeline.StateComplete
	})
	switch top, rest, _ := strings.Cut(d.path, "/"); {
	case top == "_cache" || !strings.Contains(d.path, "/") || d.path == "_state/views":
		return nil
	case top == "_state" && d.harmless():
		return nil
	case top == "_state" && strings.Contains(rest, "/task-"):
		if strings.Contains(rest, "/task-") && !partial {
			return errors.New("status treats the scenario as complete")
		}
		return nil
	}
	if !strings.Contains(text, d.path) {
		return fmt.Errorf("status does not name the file: %s", text)
	}
	return nil
}

// readersNotice returns an error if readers see other rows, or an error that does not name the file.
func (d *damage) readersNotice(want snapshot) error {
	if err := d.touch(); err != nil {
		return err
	}
	seen, err := d.world.look()
	if err != nil {
		if !strings.Contains(err.Error(), d.path) {
			return fmt.Errorf("readers: the error does not name the file: %w", err)
		}
		return nil
	}
	return seen.same(want)
}

// commandsRepair returns an error if commands fail without naming the file, or leave other rows.
func (d *damage) commandsRepair(t testing.TB, want snapshot) error {
	w := copyOf(t, d.world)
	for _, args := range [][]string{runOf("tiny.yaml"), runOf("other.yaml", "--keep"), ingestOf("day0.log")} {
		if err := w.do(nil, args...); err != nil {
			if !strings.Contains(err.Error(), d.path) {
				return fmt.Errorf("the error does not name the file: %w", err)
			}
			return nil
		}
	}
	seen, err := w.look()
	if err != nil {
		return err
	}
	return seen.same(want)
}

// bytesKind is the name of this kind of fault in the table.
const bytesKind = "flipped and cut bytes"

// If a byte of any file is changed or missing, status finds it even if the time of the file did not change.
// Readers either report an error that names the file, or see the same rows. Commands repair what they can
// recompute.
func TestDamagedBytes(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, bytesKind)
	if c.complete() {
		return
	}
	w := newWorld(t)
	if err := w.do(nil, runOf("other.yaml", "--keep")...); err != nil {
		t.Fatal(err)
	}
	want, err := w.look()
	if err != nil {
		t.Fatal(err)
	}
	kinds := w.fileKinds(t)
	names := slices.Sorted(maps.Keys(kinds))
	if len(names) < 25 {
		t.Errorf("only %d kinds of files: %v", len(names), names)
	}
	c.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	rounds := len(names) // each kind of file once
	if testing.Short() {
		rounds /= 4
	}
	repairs := 1
	if long {
		rounds = 1000
		repairs = 100
	}
	worlds := make(chan world, workers) // worlds of the rounds that run at once
	for range workers {
		worlds <- copyOf(t, w)
	}
	c.rounds(rounds, func(r round) (string, error) {
		w := <-worlds
		defer func() { worlds <- w }()
		files := kinds[names[r.number%len(names)]]
		d, err := damaged(w, files[r.rng.IntN(len(files))], r.rng)
		if err != nil {
			return "", err
		}
		err = errors.Join(d.statusNames(), d.readersNotice(want))
		if r.number%(rounds/repairs) == 0 {
			err = errors.Join(err, d.commandsRepair(r, want))
		}
		return d.what, errors.Join(err, d.undo())
	})
}
