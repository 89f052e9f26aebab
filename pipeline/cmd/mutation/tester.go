package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A verdict is the result of the tests for a mutant.
type verdict int

const (
	killed  verdict = iota
	alive           // the tests pass
	unseen          // the tests never run its line
	invalid         // it does not compile
)

func (v verdict) String() string {
	return [...]string{"killed", "alive", "alive, not run by the tests", "invalid"}[v]
}

// count counts the mutants of a package.
type count struct{ killed, alive, invalid int }

// score returns the share of valid mutants that were killed, or 1 if there are none.
func (c count) score() float64 {
	if c.killed+c.alive == 0 {
		return 1
	}
	return float64(c.killed) / float64(c.killed+c.alive)
}

// A tester tests mutants, one after the other. Its directory has the changed files.
type tester struct {
	dir      string
	packages map[string]*baseline
}

// A baseline has the results of the tests for an unchanged package.
type baseline struct {
	seconds float64
	covered map[string][]span // by file, as go's coverage profile names it
}

// A span is a range of lines that the tests run.
type span struct{ first, last int }

func newTester() (*tester, error) {
	dir, err := os.MkdirTemp("", "mutation")
	return &tester{dir: dir, packages: map[string]*baseline{}}, err
}

func (t *tester) close() { os.RemoveAll(t.dir) }

// try tests mutants, prints those that are alive, and counts them by package.
func (t *tester) try(ctx context.Context, sample []site) (map[string]*count, error) {
	of := map[string][]site{}
	for _, s := range sample {
		of[s.pkg] = append(of[s.pkg], s)
	}
	counts := map[string]*count{}
	for _, pkg := range sortedKeys(of) {
		verdicts, err := t.verdicts(ctx, pkg, of[pkg])
		if err != nil {
			return nil, err
		}
		c := &count{}
		counts[pkg] = c
		for _, s := range of[pkg] {
			switch v := verdicts[s]; v {
			case killed:
				c.killed++
			case alive, unseen:
				c.alive++
				fmt.Printf("%s: %s\n", s, v)
			case invalid:
				c.invalid++
			}
		}
	}
	return counts, nil
}

// verdicts tests the mutants of a package.
func (t *tester) verdicts(ctx context.Context, pkg string, sample []site) (map[site]verdict, error) {
	base, err := t.baseline(ctx, pkg)
	if err != nil {
		return nil, err
	}
	var seen []site
	verdicts := map[site]verdict{}
	for _, s := range sample {
		verdicts[s] = unseen
		if s.declared || base.covers(path.Join(s.pkg, filepath.Base(s.file)), s.line) {
			seen = append(seen, s)
		}
	}
	built, err := t.buildVariants(ctx, seen)
	if err != nil {
		return nil, err
	}
	for _, s := range seen {
		if n, ok := built.numbers[s]; ok {
			verdicts[s], err = built.judge(ctx, n)
		} else if built.invalid[s] {
			verdicts[s] = invalid
		} else {
			verdicts[s], err = t.judge(ctx, s, base)
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", s, verdicts[s])
	}
	return verdicts, nil
}

// judge runs the package's tests with one file changed.
func (t *tester) judge(ctx context.Context, s site, base *baseline) (verdict, error) {
	overlay, err := t.mutate(s)
	if err != nil {
		return invalid, err
	}
	// The time includes compiling. A mutant may take ten times as long as the unchanged package, and a minute
	// more.
	limit := time.Duration((60 + 10*base.seconds) * float64(time.Second))
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	test := exec.CommandContext(timed, "go", "test", "-short", "-failfast", "-vet=off", "-overlay", overlay,
		"-timeout", limit.String(), s.pkg)
	out, err := test.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return invalid, ctx.Err()
	case err == nil:
		return alive, nil
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return invalid, nil
	}
	return killed, nil
}

// mutate writes the changed file and an overlay that replaces the original with it. It returns the overlay.
func (t *tester) mutate(s site) (string, error) {
	source, err := os.ReadFile(s.file)
	if err != nil {
		return "", err
	}
	if !bytes.HasPrefix(source[s.offset:], []byte(s.text)) {
		return "", fmt.Errorf("%s changed while its mutants were tried", s.file)
	}
	changed := string(source[:s.offset]) + s.other + string(source[s.offset+len(s.text):])
	return t.overlay(map[string]string{s.file: changed})
}

// overlay writes files and an overlay that puts them into the package. It returns the
// overlay.
func (t *tester) overlay(files map[string]string) (string, error) {
	replaced := map[string]string{}
	for _, file := range sortedKeys(files) {
		changed := filepath.Join(t.dir, filepath.Base(file)) // the compiler's messages have this name
		if err := os.WriteFile(changed, []byte(files[file]), 0o600); err != nil {
			return "", err
		}
		replaced[file] = changed
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err != nil {
		return "", err
	}
	name := filepath.Join(t.dir, "overlay.json")
	return name, os.WriteFile(name, overlay, 0o600)
}

// baseline runs the tests of an unchanged package once. They must pass.
func (t *tester) baseline(ctx context.Context, pkg string) (*baseline, error) {
	b := t.packages[pkg]
	if b != nil {
		return b, nil
	}
	profile := filepath.Join(t.dir, "cover.out")
	began := time.Now()
	test := exec.CommandContext(ctx, "go", "test", "-short", "-vet=off", "-count", "1", "-coverprofile",
		profile, pkg)
	if out, err := test.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests of the unchanged package %s fail:\n%s", pkg, out)
	}
	b = &baseline{seconds: time.Since(began).Seconds()}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	b.covered, err = parseProfile(string(text))
	t.packages[pkg] = b
	return b, err
}

// parseProfile reads the lines that tests run from a coverage profile, whose lines are
// FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT.
func parseProfile(text string) (map[string][]span, error) {
	covered := map[string][]span{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] == "0" {
			continue
		}
		colon := strings.LastIndexByte(fields[0], ':')
		from, to, found := strings.Cut(fields[0][colon+1:], ",")
		first, err := lineOf(from)
		last, errTo := lineOf(to)
		if err = errors.Join(err, errTo); err != nil || !found {
			return nil, fmt.Errorf("coverage profile: %q: %w", line, err)
		}
		file := fields[0][:colon]
		covered[file] = append(covered[file], span{first, last})
	}
	return covered, nil
}

// lineOf returns the line of a position LINE.COLUMN.
func lineOf(position string) (int, error) {
	line, _, _ := strings.Cut(position, ".")
	return strconv.Atoi(line)
}

// covers reports whether the tests run a line of a function.
func (b *baseline) covers(file string, line int) bool {
	for _, s := range b.covered[file] {
		if s.first <= line && line <= s.last {
			return true
		}
	}
	return false
}
