package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
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
	dir string
}

// A baseline has the tests of an unchanged package, the fastest first.
type baseline struct {
	dir   string // of the package
	tests []unitTest
}

// A unitTest is one test or example, as it runs alone.
type unitTest struct {
	name    string
	seconds float64
	covered map[string][]span // by file, as go's coverage profile names it
}

// A span is a range of lines that a test runs.
type span struct{ first, last int }

func newTester() (*tester, error) {
	dir, err := os.MkdirTemp("", "mutation")
	return &tester{dir: dir}, err
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
		if len(base.testsOf(s)) > 0 {
			seen = append(seen, s)
		}
	}
	built, err := t.buildVariants(ctx, base, seen)
	if err != nil {
		return nil, err
	}
	for _, s := range seen {
		if n, ok := built.numbers[s]; ok {
			verdicts[s], err = base.run(ctx, built.binary, n, base.testsOf(s))
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

// judge builds the package's tests with one file changed, and runs them.
func (t *tester) judge(ctx context.Context, s site, base *baseline) (verdict, error) {
	overlay, err := t.mutate(s)
	if err != nil {
		return invalid, err
	}
	binary := filepath.Join(t.dir, "mutant.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, s.pkg)
	if err := build.Run(); err != nil {
		return invalid, ctx.Err()
	}
	return base.run(ctx, binary, 0, base.testsOf(s))
}

// run runs tests with a variant of the package, until one fails. The fastest tests run first, in groups that
// grow: most mutants are killed by the first group, and a process for each test would take longer.
func (b *baseline) run(ctx context.Context, binary string, variant int, tests []unitTest) (verdict, error) {
	for most := 1.0; len(tests) > 0; most *= 2 {
		var names []string
		seconds := 0.0
		for _, t := range tests {
			if len(names) > 0 && seconds+t.seconds > most {
				break
			}
			names = append(names, t.name)
			seconds += t.seconds
		}
		tests = tests[len(names):]
		verdict, err := b.runGroup(ctx, binary, variant, names, seconds)
		if err != nil || verdict != alive {
			return verdict, err
		}
	}
	return alive, nil
}

// runGroup runs tests that take some seconds. A mutant may take ten times as long.
func (b *baseline) runGroup(
	ctx context.Context, binary string, variant int, names []string, seconds float64,
) (verdict, error) {
	limit := time.Duration((15 + 10*seconds) * float64(time.Second))
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	test := exec.CommandContext(timed, binary, "-test.short", "-test.failfast", "-test.run",
		"^("+strings.Join(names, "|")+")$")
	test.Dir = b.dir
	test.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variantVariable, variant))
	err := test.Run()
	switch {
	case ctx.Err() != nil:
		return invalid, ctx.Err()
	case err == nil:
		return alive, nil
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

// baseline runs each test of an unchanged package once, alone, to learn which lines it runs and how long it
// takes. They must pass.
func (t *tester) baseline(ctx context.Context, pkg string) (*baseline, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		return nil, err
	}
	b := &baseline{dir: strings.TrimSpace(string(dir))}
	binary := filepath.Join(t.dir, "baseline.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-cover", "-vet=off", "-o", binary, pkg)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests of %s do not compile:\n%s", pkg, out)
	}
	list := exec.CommandContext(ctx, binary, "-test.list", "^(Test|Example|Fuzz)")
	list.Dir = b.dir
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("the tests of %s cannot be listed: %w", pkg, err)
	}
	for _, name := range strings.Fields(string(names)) {
		test, err := t.runAlone(ctx, binary, b.dir, name)
		if err != nil {
			return nil, err
		}
		b.tests = append(b.tests, test)
	}
	slices.SortStableFunc(b.tests, func(x, y unitTest) int { return cmp.Compare(x.seconds, y.seconds) })
	b.printTimes(pkg)
	return b, nil
}

// runAlone runs one test of an unchanged package.
func (t *tester) runAlone(ctx context.Context, binary, dir, name string) (unitTest, error) {
	profile := filepath.Join(t.dir, "cover.out")
	test := exec.CommandContext(ctx, binary, "-test.short", "-test.coverprofile", profile, "-test.run",
		"^"+name+"$")
	test.Dir = dir
	began := time.Now()
	if out, err := test.CombinedOutput(); err != nil {
		return unitTest{}, fmt.Errorf("%s of the unchanged package in %s fails:\n%s", name, dir, out)
	}
	u := unitTest{name: name, seconds: time.Since(began).Seconds()}
	text, err := os.ReadFile(profile)
	if err != nil {
		return u, err
	}
	u.covered, err = parseProfile(string(text))
	return u, err
}

// printTimes prints how long the tests of a package take, and the slowest three.
func (b *baseline) printTimes(pkg string) {
	seconds := 0.0
	for _, u := range b.tests {
		seconds += u.seconds
	}
	fmt.Fprintf(os.Stderr, "%s: %d tests, %.1f s", pkg, len(b.tests), seconds)
	for _, u := range b.tests[max(0, len(b.tests)-3):] {
		fmt.Fprintf(os.Stderr, ", %s %.1f", u.name, u.seconds)
	}
	fmt.Fprintln(os.Stderr)
}

// testsOf returns the tests that run the line of a site. It returns those that run its function if it is the
// case of a switch, and all tests if it is outside of functions.
func (b *baseline) testsOf(s site) []unitTest {
	if s.declared {
		return b.tests
	}
	var of []unitTest
	file := path.Join(s.pkg, filepath.Base(s.file))
	for _, u := range b.tests {
		if u.runs(file, s.counted) {
			of = append(of, u)
		}
	}
	return of
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

// runs reports whether a test runs one of these lines.
func (u *unitTest) runs(file string, lines span) bool {
	return slices.ContainsFunc(u.covered[file], func(s span) bool {
		return s.first <= lines.last && lines.first <= s.last
	})
}
