package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline/bundle"
	"parsimon/pipeline/internal/fixture"
	"parsimon/schema/daily"
)

// A colleague gets one file and runs it. The command says whether the rows are equal, also by its exit code,
// and a second export writes the same bytes.
func TestExportAndRunABundle(t *testing.T) {
	everyThirdDay(t, 0)
	r := copiedLake(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "bundle.tar.zst")
	again := filepath.Join(dir, "again")
	exported := must(t, "export", r.id, "--lake", r.lake, "-o", file)
	contains(t, exported, file, r.id, "variant flow-2", "digests of")
	must(t, "export", r.id+"@flow-2", "--lake", r.lake, "-o", again)
	one, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := os.ReadFile(again); err != nil || !bytes.Equal(one, two) {
		t.Errorf("%v: two exports differ: %d and %d bytes", err, len(one), len(two))
	}
	other := filepath.Join(dir, "other")
	text := must(t, "run", file, "--lake", other, "--workers", "1", "--cache", "off", "--quiet")
	contains(t, text, "scenario "+r.id, "Rows beside those of "+file, "slowdowns", "equal")
	if strings.Contains(text, "differs") {
		t.Error(text)
	}
	var answer struct {
		Variant string
		Bundle  struct {
			Equal  bool
			Tables []struct{ Table, Result string }
		}
	}
	out := must(t, "run", again, "--lake", other, "--quiet", "--format", "json")
	err = json.Unmarshal([]byte(out), &answer)
	if err != nil || !answer.Bundle.Equal || answer.Variant != "flow-2" || len(answer.Bundle.Tables) < 10 {
		t.Errorf("%v: %+v", err, answer)
	}
}

// A bundle states the whole scenario. With a flag that changes it, two different scenarios would be compared.
func TestFlagsThatDoNotGoWithABundle(t *testing.T) {
	r := copiedLake(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "bundle")
	lake := filepath.Join(dir, "lake")
	must(t, "export", r.id, "--lake", r.lake, "-o", file)
	for _, flag := range []string{
		"--fail=1:2", "--seed=3", "--estimator=exact", "--dry-run", "--within=2%", "--exact",
		"--transport=swift", "--topology=x", "--name=x",
	} {
		name, _, _ := strings.Cut(flag, "=")
		args := []string{"run", file, "--lake", lake, flag}
		mustFail(t, failure{exitUsage, name + " does not go with a bundle", args})
	}
	mustFail(t,
		failure{exitUsage, "--lake is required", []string{"run", file}},
		failure{exitUsage, "", []string{"export", "--lake", r.lake}},
		failure{exitFailed, "no scenario", []string{"export", "nothing", "--lake", r.lake, "-o", file + "2"}},
		failure{exitFailed, "nonsense", []string{"export", r.id + "@nonsense", "--lake", r.lake, "-o", file + "2"}},
		failure{exitFailed, "exact", []string{"export", r.id + "@exact", "--lake", r.lake, "-o", file + "2"}},
	)
	for _, path := range []string{lake, file + "2"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was made", path)
		}
	}
}

// The rows of another version may differ. A script can distinguish this from differences without an
// explanation. The short form has one bundle each day.
func TestExitCodesOfBundles(t *testing.T) {
	r := copiedLake(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "bundle")
	must(t, "export", r.id, "--lake", r.lake, "-o", file)
	rewrite := func(name string, change func(m *bundle.Manifest)) string {
		path := filepath.Join(dir, name)
		rewriteBundle(t, file, path, change)
		return path
	}
	differs := func(m *bundle.Manifest) { m.Tables[2].Digest = strings.Repeat("0", 32) }
	older := func(m *bundle.Manifest) { m.MadeBy.Method = 1 }
	for i, given := range []struct {
		name   string
		change func(m *bundle.Manifest)
		code   int
		want   string
	}{
		{"same", differs, exitFailed, "although the versions are equal"},
		{"older", func(m *bundle.Manifest) {
			differs(m)
			older(m)
		}, exitOther, "is of another version (method 1, here "},
		{"older, equal", older, exitOK, "rows may differ"},
	} {
		if daily.Skips(i, 3) {
			continue
		}
		path := rewrite(given.name, given.change)
		code, out, log := parsimon(t, "run", path, "--lake", r.lake)
		if code != given.code || !strings.Contains(log, given.want) {
			t.Errorf("%s: exit %d, want %d and %q\n%s", path, code, given.code, given.want, log)
		}
		contains(t, out, "Rows beside those of")
	}
	damaged := filepath.Join(dir, "damaged")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, map[string]string{damaged: string(whole[:len(whole)/2])})
	none := filepath.Join(dir, "none")
	mustFail(t, failure{exitFailed, damaged + ": ", []string{"run", damaged, "--lake", none}})
	if _, err := os.Stat(none); err == nil {
		t.Error("a damaged bundle made a lake")
	}
}

// A lake of an older schema is upgraded first, and an estimate of an older version of the method is made
// again. Otherwise, the bundle would have rows of an older version, and a repetition would report
// differences.
func TestOlderEstimatesAreNotExported(t *testing.T) {
	lake := unpack(t, "v15")
	file := filepath.Join(t.TempDir(), "bundle")
	args := []string{"export", "1094455c02fbb1e0", "--lake", lake, "-o", file}
	mustFail(t, failure{exitFailed, "upgrade it first (parsimon upgrade)", args})
	must(t, "upgrade", "--lake", lake)
	mustFail(t, failure{exitFailed, "of the method, and this program has version", args})
	if _, err := os.Stat(file); err == nil {
		t.Error("a file was written")
	}
}

// An interrupted export keeps the file of an earlier export, and leaves no other file.
func TestInterruptedExportLeavesTheOldFile(t *testing.T) {
	r := tinyLake(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "bundle")
	writeFiles(t, map[string]string{file: "an earlier bundle"})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, log bytes.Buffer
	code := newEnv(&out, &log).main(ctx, []string{"export", r.id, "--lake", r.lake, "-o", file})
	if code != exitInterrupt || out.Len() > 0 {
		t.Errorf("exit %d, want %d\n%s%s", code, exitInterrupt, &out, &log)
	}
	old, err := os.ReadFile(file)
	if err != nil || string(old) != "an earlier bundle" || len(files(t, dir)) != 1 {
		t.Errorf("%v: %q, files %q", err, old, files(t, dir))
	}
}

// A bundle contains the flows of an ingested workload, because the other lake has neither the logs nor the
// workload.
func TestABundleOfAnIngestedWorkload(t *testing.T) {
	dir := t.TempDir()
	writeRack(t, dir)
	writeFiles(t, map[string]string{filepath.Join(dir, "flows.csv"): "src,dst,size_bytes,start_ns,service\n" +
		"0,1,1000,0,web\n1,2,50000,500,db\n0,2,1000,900,web\n"})
	lake := filepath.Join(dir, "lake")
	other := filepath.Join(dir, "other")
	file := filepath.Join(dir, "bundle")
	must(t, "ingest", filepath.Join(dir, "flows.csv"), "--format", "csv", "--topology", dir, "--lake", lake,
		"--workload", "day", "--quiet")
	must(t, "run", "--workload", "day", "--lake", lake, "--quiet")
	must(t, "export", "day", "--lake", lake, "-o", file)
	contains(t, must(t, "run", file, "--lake", other, "--quiet"), "slowdowns", "equal")
}

// An estimate from windows of time depends on windows that a bundle does not have.
func TestEstimatesFromWindowsAreNotExported(t *testing.T) {
	long(t)
	dir := t.TempDir()
	lake := filepath.Join(dir, "lake")
	file := filepath.Join(dir, "bundle")
	flows := writeSteadyTrace(t, 20_000, 600)
	must(t, "run", "--topology", "small-2to1", "--flows", flows, "--name", "part", "--lake", lake,
		"--within", "20%", "--of", "p50", "--quiet")
	mustFail(t, failure{exitFailed, "--within", []string{"export", "part", "--lake", lake, "-o", file}})
	if _, err := os.Stat(file); err == nil {
		t.Error("a file was written")
	}
}

// rewriteBundle writes a bundle with a changed bundle.json.
func rewriteBundle(t *testing.T, from, to string, change func(m *bundle.Manifest)) {
	t.Helper()
	all := fixture.ReadArchive(t, from)
	if all[0].Header.Name != "bundle.json" {
		t.Fatalf("%s begins with %s", from, all[0].Header.Name)
	}
	var m bundle.Manifest
	if err := json.Unmarshal(all[0].Data, &m); err != nil {
		t.Fatal(err)
	}
	change(&m)
	var err error
	if all[0].Data, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, map[string]string{to: string(fixture.Archive(t, all, 1<<20))})
}
