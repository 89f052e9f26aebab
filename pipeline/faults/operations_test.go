package faults

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
)

// operationJobs are the jobs whose operations fail. They operate on new, shared, replaced and removed files.
var operationJobs = []string{"run", "what-if", "ingest of a second day", "rm"}

// operations runs the job on a copy of its world and returns its file operations in order.
func (p prepared) operations(t testing.TB) []string {
	t.Helper()
	w := copyOf(t, p.world)
	log := w.path("operations.log")
	if err := w.do([]string{"PARSIMON_FAULT_LOG=" + log}, p.args...); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// numbers matches the parts of an operation's path that differ between operations of one kind.
var numbers = regexp.MustCompile(`[0-9a-f]{16}|[0-9]+|[A-Z2-7]{26}`)

// kinds returns the number, counted from 1, of one operation of each kind. pick chooses among operations of
// the same kind.
func kinds(operations []string, pick func(n int) int) []int {
	of := map[string][]int{}
	for i, op := range operations {
		kind := numbers.ReplaceAllString(op, "N")
		of[kind] = append(of[kind], i+1)
	}
	var chosen []int
	for _, op := range operations {
		kind := numbers.ReplaceAllString(op, "N")
		all := of[kind]
		if len(all) > 0 {
			chosen = append(chosen, all[pick(len(all))])
			of[kind] = nil
		}
	}
	return chosen
}

// fails runs the job with a fault at one operation. It returns an error if the job reports success although
// readers do not see its result.
func (p prepared) fails(w world, fault string) error {
	err := w.do([]string{"PARSIMON_FAULT=" + fault}, p.args...)
	if err != nil {
		text := err.Error()
		if !strings.HasPrefix(fault, "crash") &&
			(strings.Contains(text, "goroutine ") || strings.Contains(text, "panic")) {
			return fmt.Errorf("the program crashed: %w", err)
		}
		return nil
	}
	seen, err := w.look()
	if err != nil {
		return err
	}
	if err := seen.same(p.done); err != nil {
		return fmt.Errorf("the command succeeded: %w", err)
	}
	return nil
}

// operationFaults are the faults, their names in the table, and the relevant operations. Crashes are injected
// only at operations that change something, because a crash at any other operation has the same result as a
// crash at the next change. A full disk only affects operations that need space (package disk).
var operationFaults = []struct {
	fault, kind string
	verbs       []string // nil: all
}{
	{"crash", "crash before every kind of change to the disk",
		[]string{"create", "mkdir", "write", "rename", "link", "remove", "removeall"}},
	{"EIO", "EIO at every kind of file operation", nil},
	{"ENOSPC", "ENOSPC at every kind of file operation", []string{"create", "lock", "mkdir", "link", "write",
		"sync"}},
}

// Every kind of file operation of a command fails, one after the other, by a crash, by an I/O error and by a
// full disk. The command either fails, or succeeds and has done its work. Readers see what was committed
// before or what the command commits. Running the same command again completes it.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	for _, f := range operationFaults {
		t.Run(f.fault, func(t *testing.T) {
			t.Parallel()
			c := newCampaign(t, f.kind)
			if c.complete() {
				return
			}
			all := c.operations(f.verbs)
			c.rounds(len(all), func(r round) (string, error) {
				o := all[r.number]
				o.staleViews = f.fault == "ENOSPC" && o.name == "rm" // the disk stays full
				w := copyOf(r, o.world)
				err := o.fails(w, fmt.Sprintf("%s:%d", f.fault, o.n))
				if err == nil {
					err = o.recovers(w)
				}
				return fmt.Sprintf("%s, operation %d: %s", o.name, o.n, o.what), err
			})
		})
	}
}

// An I/O error while a committed file is read is not treated as damage. The command fails, and no file is
// discarded. A what-if cannot generate the flows of its base again, and a run whose records cannot be read
// does not commit without them.
func TestReadErrorIsNoDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ job, prefix, suffix string }{
		{"what-if", "open links/", ""},
		{"run", "open _state/", "/route/task-00000.json"},
	} {
		p := prepare(t, jobs[slices.IndexFunc(jobs, func(j job) bool { return j.name == c.job })])
		last := 0 // counted from 1; only operations before the commit, because later ones only report
		for i, op := range p.operations(t) {
			if strings.HasPrefix(op, "rename _state/") && strings.HasSuffix(op, "/manifest.json") {
				break
			}
			if strings.HasPrefix(op, c.prefix) && strings.HasSuffix(op, c.suffix) {
				last = i + 1
			}
		}
		w := copyOf(t, p.world)
		err := w.do([]string{fmt.Sprintf("PARSIMON_FAULT=EIO:%d", last)}, p.args...)
		if err == nil || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("%s, operation %d: error %v", c.job, last, err)
		}
		if err := p.recovers(w); err != nil {
			t.Errorf("%s, operation %d: %v", c.job, last, err)
		}
	}
}

// An operation is one file operation of a job.
type operation struct {
	prepared
	n    int // counted from 1
	what string
}

// operations returns one operation of each kind for all jobs, in random order, or only a few of them. It
// returns those with the given verbs, or all if none are given.
func (c *campaign) operations(verbs []string) (all []operation) {
	c.t.Helper()
	some := slices.Clone(operationJobs)
	if !long {
		some = some[int(c.seed)%len(some):][:1]
	}
	for _, j := range jobs {
		if !slices.Contains(some, j.name) {
			continue
		}
		p := prepare(c.t, j)
		operations := p.operations(c.t)
		for _, n := range kinds(operations, c.rng.IntN) {
			verb, _, _ := strings.Cut(operations[n-1], " ")
			if verbs == nil || slices.Contains(verbs, verb) {
				all = append(all, operation{p, n, operations[n-1]})
			}
		}
	}
	c.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if !long {
		all = all[:min(3, len(all))]
	}
	return all
}

// durableKind is the name of this kind of fault in the table.
const durableKind = "order of writes, fsync and renames"

// Before a manifest is renamed to its final path, the manifest, the files that it names and their directories
// are durable. A power failure requires this order, whereas a killed process does not.
func TestCommitIsDurable(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, durableKind)
	some := slices.DeleteFunc(slices.Clone(jobs),
		func(j job) bool { return !slices.Contains(operationJobs, j.name) })
	if !long {
		some = some[:1]
	}
	c.rounds(len(some), func(r round) (string, error) {
		j := some[r.number]
		return j.name, durable(prepare(t, j).operations(r))
	})
}

// durable returns an error if a manifest is renamed to its final path before the files that it may name are
// durable. Each data file of its place that was installed before, except files of temporary tables, must be
// synced after it was installed, and so must the directories above it. The manifest must be synced before the
// rename, and its directory after the rename. If a manifest is removed, the removal must be durable before
// its files are removed.
func durable(operations []string) error {
	pending := map[string]bool{} // installed files and directories that are not durable
	manifests := 0
	lastCreated := ""
	synced := ""
	for i, op := range operations {
		verb, path, _ := strings.Cut(op, " ")
		table, _, _ := strings.Cut(path, "/")
		switch {
		case verb == "create":
			lastCreated = path
		case verb == "sync":
			delete(pending, path)
			synced = path
		case (verb == "rename" || verb == "link") && !strings.HasPrefix(table, "_") &&
			strings.HasSuffix(path, ".parquet") &&
			!slices.ContainsFunc(schema.Tables(), func(t schema.Table) bool { return t.Name == table && t.Temporary }):
			pending[path] = true
			for dir := path; strings.Contains(dir, "/"); {
				dir = dir[:strings.LastIndex(dir, "/")]
				pending[dir] = true
			}
		case verb == "rename" && strings.HasSuffix(path, "/manifest.json"):
			manifests++
			if synced != lastCreated {
				return fmt.Errorf("operation %d: %s is installed and was not synchronised", i+1, path)
			}
			owner := regexp.MustCompile(`(scenario|workload)=[^/]+`).FindString(path)
			variant := regexp.MustCompile(`/variant=[^/]+`).FindString(path)
			for file := range pending {
				if strings.HasSuffix(file, ".parquet") && strings.Contains(file, owner+variant+"/part-") {
					return fmt.Errorf("operation %d: %s is installed before %s is durable", i+1, path, file)
				}
			}
			dir := path[:strings.LastIndex(path, "/")]
			if !slices.Contains(operations[i:min(len(operations), i+6)], "sync "+dir) {
				return fmt.Errorf("operation %d: the directory of %s is not synchronised", i+1, path)
			}
		case verb == "remove" && strings.HasSuffix(path, "/manifest.json"):
			manifests++
			if !slices.Contains(operations[i:min(len(operations), i+2)],
				"sync "+strings.TrimSuffix(path, "/manifest.json")) {
				return fmt.Errorf("operation %d: the directory of %s is not synchronised", i+1, path)
			}
		}
	}
	if manifests == 0 {
		return fmt.Errorf("no manifest among %d operations", len(operations))
	}
	return nil
}
