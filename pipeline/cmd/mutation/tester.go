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
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A verdict is the result of the tests for a mutant.
type verdict int

const (
	killed    verdict = iota
	alive             // the tests pass
	unseen            // the tests never run its line
	invalid           // it does not compile
	undecided         // the tests did not end, perhaps because the machine is busy
)

var verdictWords = [...]string{"killed", "alive", "unseen", "invalid", "undecided"}

func (v verdict) String() string {
	if v == unseen {
		return "alive, not run by the tests"
	}
	return verdictWords[v]
}

// word returns the name of a verdict in records.
func (v verdict) word() string { return verdictWords[v] }

// verdictOf returns the verdict that has a name.
func verdictOf(word string) (verdict, error) {
	i := slices.Index(verdictWords[:], word)
	if i < 0 {
		return undecided, fmt.Errorf("no verdict: %q", word)
	}
	return verdict(i), nil
}

// count counts the mutants of a package.
type count struct{ killed, alive, invalid, undecided int }

// score returns the share of valid mutants that were killed, or 1 if there are none.
func (c count) score() float64 {
	if c.killed+c.alive == 0 {
		return 1
	}
	return float64(c.killed) / float64(c.killed+c.alive)
}

// A tester tests mutants, one after the other. Its directory has the changed files.
type tester struct {
	dir    string
	record *record
}

// A baseline has the tests of an unchanged package, the fastest first.
type baseline struct {
	dir    string // of the package
	binary string
	tests  []unitTest
}

// A unitTest is one test or example, as it runs alone.
type unitTest struct {
	name    string
	seconds float64           // of processor time
	covered map[string][]span // by file, as go's coverage profile names it
}

// A span is a range of lines that a test runs.
type span struct{ first, last int }

func newTester(verdicts *record) (*tester, error) {
	dir, err := os.MkdirTemp("", "mutation")
	return &tester{dir: dir, record: verdicts}, err
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
			case undecided:
				c.undecided++
				fmt.Printf("%s: %s\n", s, v)
			}
		}
	}
	return counts, nil
}

// verdicts tests the mutants of a package that have no verdict in the record.
func (t *tester) verdicts(ctx context.Context, pkg string, sample []site) (map[site]verdict, error) {
	verdicts := map[site]verdict{}
	var open []site
	for _, s := range sample {
		v, known, err := t.record.find(s)
		if err != nil {
			return nil, err
		}
		if known {
			verdicts[s] = v
		} else {
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		return verdicts, nil
	}
	base, err := t.baseline(ctx, pkg)
	if err != nil {
		return nil, err
	}
	seen := slices.DeleteFunc(slices.Clone(open), func(s site) bool { return len(base.testsOf(s)) == 0 })
	built, err := t.buildVariants(ctx, seen)
	if err != nil {
		return nil, err
	}
	for _, s := range open {
		verdicts[s], err = t.verdict(ctx, s, base, built)
		if err == nil {
			err = t.record.add(s, verdicts[s])
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", s, verdicts[s])
	}
	return verdicts, nil
}

// verdict tests one mutant, with the binary that has most of them if it is there.
func (t *tester) verdict(ctx context.Context, s site, base *baseline, built *variants) (verdict, error) {
	tests := base.testsOf(s)
	n, there := built.numbers[s]
	switch {
	case len(tests) == 0:
		return unseen, nil
	case there:
		v, failed, err := base.run(ctx, built.binary, n, tests)
		if err == nil && v == killed {
			err = built.check(ctx, base, failed)
		}
		return v, err
	case built.invalid[s]:
		return invalid, nil
	}
	return t.judge(ctx, s, base)
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
	v, _, err := base.run(ctx, binary, 0, base.testsOf(s))
	return v, err
}

// run runs tests with a variant of the package, until one fails. The fastest tests run first, in groups that
// grow: most mutants are killed by the first group, and a process for each test would take longer. It returns
// the tests of which one or more failed.
func (b *baseline) run(
	ctx context.Context, binary string, variant int, tests []unitTest,
) (v verdict, failed []unitTest, err error) {
	for most := 1.0; len(tests) > 0; most *= 2 {
		seconds := tests[0].seconds
		n := 1
		for n < len(tests) && seconds+tests[n].seconds <= most {
			seconds += tests[n].seconds
			n++
		}
		v, failed, err := b.runGroup(ctx, binary, variant, tests[:n])
		if err != nil || v != alive {
			return v, failed, err
		}
		tests = tests[n:]
	}
	return alive, nil, nil
}

// failedTest finds the names of failed tests in their output.
var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// runGroup runs tests in one process. It returns those that failed, or all if the output names none.
func (b *baseline) runGroup(
	ctx context.Context, binary string, variant int, tests []unitTest,
) (v verdict, failed []unitTest, err error) {
	var names []string
	seconds := 0.0
	for _, t := range tests {
		names = append(names, t.name)
		seconds += t.seconds
	}
	l := limitsFor(seconds)
	v, out, err := b.runLimited(ctx, l, binary, variant, names)
	if err == nil && v == undecided {
		l.wall /= 10
		without, _, err := b.runLimited(ctx, l, b.binary, 0, names)
		if err != nil {
			return undecided, nil, err
		}
		if without == alive {
			v = killed
		}
	}
	for _, at := range failedTest.FindAllSubmatch(out, -1) {
		i := slices.Index(names, string(at[1]))
		if i >= 0 {
			failed = append(failed, tests[i])
		}
	}
	if failed == nil {
		failed = tests
	}
	return v, failed, err
}

// runLimited runs tests in one process within limits, and returns their output.
func (b *baseline) runLimited(
	ctx context.Context, l limits, binary string, variant int, names []string,
) (v verdict, out []byte, err error) {
	timed, cancel := context.WithTimeout(ctx, l.wall)
	defer cancel()
	test := l.command(timed, binary, "-test.short", "-test.failfast", "-test.run",
		"^("+strings.Join(names, "|")+")$")
	test.Dir = b.dir
	test.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variantVariable, variant))
	out, err = test.CombinedOutput()
	if ctx.Err() != nil {
		return undecided, nil, ctx.Err()
	}
	v, err = l.verdict(test, err)
	return v, out, err
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
	binary := filepath.Join(t.dir, "baseline.test")
	b := &baseline{dir: strings.TrimSpace(string(dir)), binary: binary}
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
	if out, err := test.CombinedOutput(); err != nil {
		return unitTest{}, fmt.Errorf("%s of the unchanged package in %s fails:\n%s", name, dir, out)
	}
	u := unitTest{name: name, seconds: processorTime(test).Seconds()}
	text, err := os.ReadFile(profile)
	if err != nil {
		return u, err
	}
	u.covered, err = parseProfile(string(text))
	return u, err
}

// printTimes prints the processor time that the tests of a package take, and the slowest three.
func (b *baseline) printTimes(pkg string) {
	seconds := 0.0
	for _, u := range b.tests {
		seconds += u.seconds
	}
	fmt.Fprintf(os.Stderr, "%s: %d tests, %.1f processor seconds", pkg, len(b.tests), seconds)
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
