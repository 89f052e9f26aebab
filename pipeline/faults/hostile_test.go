package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
)

// outside is a directory beside the lake that no command may change.
const outside = "outside"

// seal writes a state file with the correct digest, as an attacker can.
func (w world) seal(path, state string) error {
	var compact json.RawMessage
	if err := json.Unmarshal([]byte(state), &compact); err != nil {
		return err
	}
	text := fmt.Sprintf(`{"xxh3":"%016x","state":%s}`, xxh3.Hash([]byte(state)), state)
	return os.WriteFile(w.path("lake/"+path), []byte(text), 0o644)
}

// change replaces text in the state of a state file and updates its digest.
func (w world) change(path, from, to string) error {
	data, err := os.ReadFile(w.path("lake/" + path))
	if err != nil {
		return err
	}
	var s struct{ State any }
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	compact, err := json.Marshal(s.State)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(compact), from, to, 1)
	if changed == string(compact) {
		return fmt.Errorf("%s has no %s", path, from)
	}
	return w.seal(path, changed)
}

// one returns the only lake-relative path that matches a pattern.
func (w world) one(pattern string) (string, error) {
	found, err := filepath.Glob(w.path("lake/" + pattern))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("%s: %v, %w", pattern, found, err)
	}
	return filepath.Rel(w.path("lake"), found[0])
}

// link replaces a path of the lake with a symbolic link to the directory outside.
func (w world) link(path string) error {
	at := w.path("lake/" + path)
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	return os.Symlink(w.path(outside), at)
}

// pipe replaces a path of the lake with a named pipe.
func (w world) pipe(path string) error {
	at := w.path("lake/" + path)
	if err := os.Remove(at); err != nil {
		return err
	}
	return syscall.Mkfifo(at, 0o644)
}

// A trap is a change that an attacker could have made to a lake.
type trap struct {
	name string
	set  func(w world, state string) error // state is the lake-relative state directory of scenario tiny
}

var traps = []trap{
	{"spec with a path as its id", func(w world, state string) error {
		id := strings.TrimPrefix(filepath.Base(state), "scenario=")
		return w.change(state+"/spec.json", `"scenario_id":"`+id+`"`, `"scenario_id":"x/../../../`+outside+`"`)
	}},
	{"workload with a path as its id", func(w world, _ string) error {
		return w.change("_state/workload=days/workload.json", `"id":"days"`, `"id":"../../../`+outside+`"`)
	}},
	{"manifest that names a file outside", func(w world, state string) error {
		return w.change(state+"/manifest.json", `"path":"`, `"path":"../`+outside+`/`)
	}},
	{"manifest of another scenario", func(w world, state string) error {
		id := strings.TrimPrefix(filepath.Base(state), "scenario=")
		return w.change(state+"/manifest.json", `"scenario":"`+id+`"`, `"scenario":"0123456789abcdef"`)
	}},
	{"record that names a file outside", func(w world, state string) error {
		return w.change(state+"/generate/task-00000.json", `"path":"`, `"path":"../`+outside+`/`)
	}},
	{"record copied over another", func(w world, state string) error {
		data, err := os.ReadFile(w.path("lake/" + state + "/variant=flow-1/simulate/task-00000.json"))
		if err != nil {
			return err
		}
		return os.WriteFile(w.path("lake/"+state+"/variant=flow-1/simulate/task-00001.json"), data, 0o644)
	}},
	{"table that is a link", func(w world, _ string) error { return w.link("slowdowns") }},
	{"unfinished files that are a link", func(w world, _ string) error { return w.link("_tmp") }},
	{"state that is a link", func(w world, state string) error { return w.link(state) }},
	{"cache that is a link", func(w world, _ string) error { return w.link("_cache") }},
	{"views that are a link", func(w world, _ string) error {
		_ = os.Remove(w.path("lake/parsimon.duckdb"))
		return os.Symlink(w.path(outside+"/kept.txt"), w.path("lake/parsimon.duckdb"))
	}},
	{"spec that is a pipe", func(w world, state string) error { return w.pipe(state + "/spec.json") }},
	{"manifest that is a pipe", func(w world, state string) error { return w.pipe(state + "/manifest.json") }},
	{"digest of the views that is a pipe", func(w world, _ string) error { return w.pipe("_state/views") }},
	{"lock that is a pipe", func(w world, state string) error { return w.pipe(state + "/lock") }},
	{"data file that is a pipe", func(w world, _ string) error {
		path, err := w.one("slowdowns/*/*/part-*")
		if err != nil {
			return err
		}
		return w.pipe(path)
	}},
	{"pack that is a pipe", func(w world, _ string) error {
		path, err := w.one("_cache/*.pack")
		if err != nil {
			return err
		}
		return w.pipe(path)
	}},
	{"manifest of another schema version", func(w world, state string) error {
		return w.change(state+"/manifest.json", `"schema_version":`, `"schema_version":9`)
	}},
	{"workload of another schema version", func(w world, _ string) error {
		return w.change("_state/workload=days/manifest.json", `"schema_version":`, `"schema_version":9`)
	}},
	{"name with terminal escapes", func(w world, state string) error {
		return w.change(state+"/spec.json", `"name":"tiny"`, `"name":"\u001b]0;x\u0007"`)
	}},
}

// bystanders returns the content of the directory outside, and a list of the other files beside the lake.
func (w world) bystanders() string {
	var b strings.Builder
	_ = filepath.WalkDir(w.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == w.path("lake") {
			return filepath.SkipDir
		}
		if e.Type().IsRegular() {
			data, err := os.ReadFile(path)
			fmt.Fprintln(&b, path, string(data), err)
		}
		return nil
	})
	return b.String()
}

// ends runs a command. The command must end by itself, must not crash, and must not print control characters.
func (w world) ends(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := w.command(ctx, nil, args...)
	if err != nil {
		return err
	}
	out, _ := c.CombinedOutput() // it may reject the lake
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%v hangs", args)
	case strings.Contains(string(out), "goroutine ") || strings.Contains(string(out), "panic:"):
		return fmt.Errorf("%v crashes: %s", args, out)
	case strings.ContainsAny(string(out), "\x1b\a"):
		return fmt.Errorf("%v writes control characters: %q", args, out)
	}
	return nil
}

// hostileKind is the name of this kind of fault in the table.
const hostileKind = "lakes made to escape, mislead or block"

// strangersCommands are the command lines that read a lake from an untrusted source.
var strangersCommands = [][]string{
	{"status", "--lake", "lake"}, {"du", "--lake", "lake"},
	{"query", "slowdown_by_size", "--lake", "lake"},
	runOf("tiny.yaml"), whatIfOf("--fail", "pod0-tor0:pod0-fabric0"),
	{"stage", "route", "-q", "--lake", "lake"}, {"stage", "sample", "--passes", "1", "-q", "--lake", "lake"},
	ingestOf("day0.log"),
	{"rm", "tiny", "--lake", "lake"}, {"rm", "--workload", "days", "--lake", "lake"},
}

// A lake from an untrusted source is only data. Regardless of its content, no command changes a file
// beside the lake, hangs, crashes, or sends control sequences to the terminal.
func TestHostileLakes(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, hostileKind)
	type attack struct {
		trap
		args []string
	}
	parts := uint64(6) // one of this number of attacks runs
	if testing.Short() {
		parts = 24
	}
	var attacks []attack
	for i, trap := range traps {
		for j, args := range strangersCommands {
			if long || (uint64(i+j)+c.seed%parts)%parts == 0 {
				attacks = append(attacks, attack{trap, args})
			}
		}
	}
	c.rounds(len(attacks), func(r round) (string, error) {
		a := attacks[r.number]
		return a.name + ", " + a.args[0], a.trap.attack(newWorld(r), a.args)
	})
}

// attack sets the trap and runs a command.
func (a trap) attack(w world, args []string) error {
	if err := os.Mkdir(w.path(outside), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"kept.txt", "part-00000.parquet", "x.pack"} {
		if err := os.WriteFile(w.path(outside+"/"+name), []byte("kept"), 0o644); err != nil {
			return err
		}
	}
	spec, err := w.one("_state/scenario=*/spec.json")
	if err != nil {
		return err
	}
	if err := a.set(w, filepath.Dir(spec)); err != nil {
		return fmt.Errorf("set the trap: %w", err)
	}
	before := w.bystanders()
	if err := w.ends(args); err != nil {
		return err
	}
	after := w.bystanders()
	if after != before {
		return fmt.Errorf("%v changes files outside: %s\nbefore: %s", args, after, before)
	}
	return nil
}

// Parent folders of a lake whose names look like hive partitions do not change an answer.
func TestFoldersAboveALake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	query := []string{"query", "--lake", "lake", "--format", "csv", "--sql",
		"SELECT scenario, variant, count(*) FROM slowdowns GROUP BY ALL"}
	want, err := w.output(nil, query...)
	if err != nil {
		t.Fatal(err)
	}
	above := filepath.Join(w.dir, "scenario=x", "variant=y")
	if err := os.MkdirAll(above, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.path("lake"), filepath.Join(above, "lake")); err != nil {
		t.Fatal(err)
	}
	if got, err := (world{above}).output(nil, query...); err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
