package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// faults runs the tests of package pipeline/faults with all rounds, for about PARSIMON_FAULTS_TIME (3h), and counts
// what was tried. A run goes on with the rounds that the file PARSIMON_FAULTS_TABLE lacks.
func faults(ctx context.Context, b *bench) {
	file, err := filepath.Abs(cmp.Or(os.Getenv("PARSIMON_FAULTS_TABLE"), filepath.Join(b.tmp, "faults.tsv")))
	b.fail(err)
	limit, err := time.ParseDuration(cmp.Or(os.Getenv("PARSIMON_FAULTS_TIME"), "3h"))
	b.fail(err)
	if b.err != nil {
		return
	}
	// The tests end by themselves; the timeout leaves time to prepare them and for the last rounds.
	test := exec.CommandContext(ctx, "go", "test", "-count", "1", "-parallel", "1",
		"-timeout", (limit + 30*time.Minute).String(), "-v", "./pipeline/faults")
	test.Env = append(os.Environ(), "PARSIMON_FAULTS_TABLE="+file, "PARSIMON_FAULTS_TIME="+limit.String())
	if !b.short {
		test.Env = append(test.Env, "PARSIMON_LONG=1")
	}
	test.Stdout, test.Stderr = os.Stderr, os.Stderr // what failed
	failure := test.Run()
	text, err := os.ReadFile(file)
	b.fail(err)
	b.header("fault", "planned", "tried", "survived", "failed", "seed")
	for _, k := range roundsOf(b, string(text)) {
		b.row(k.kind, k.planned, len(k.failed), len(k.failed)-k.failures(), k.failures(), k.seed)
	}
	b.fail(failure)
}

// faultRounds are the rounds of one kind of fault.
type faultRounds struct {
	kind, seed, planned string
	failed              map[string]bool // by the number of the round
}

func (k faultRounds) failures() (n int) {
	for _, failed := range k.failed {
		if failed {
			n++
		}
	}
	return n
}

// roundsOf reads the lines that the tests write: kind, seed, round, planned rounds, 0 or 1 if the round failed, and
// what it was. The last line of a round counts.
func roundsOf(b *bench, table string) (kinds []faultRounds) {
	for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) != 6 {
			b.fail(fmt.Errorf("line %q of the table of rounds", line))
			return nil
		}
		i := slices.IndexFunc(kinds, func(k faultRounds) bool { return k.kind == cells[0] })
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, faultRounds{cells[0], cells[1], cells[3], map[string]bool{}})
		}
		kinds[i].failed[cells[2]] = cells[4] != "0"
	}
	return kinds
}
