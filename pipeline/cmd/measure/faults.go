package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
)

// faults runs the tests of package pipeline/faults with all rounds, for at most PARSIMON_FAULTS_TIME (3h), and counts
// what was tried. Rounds that the file PARSIMON_FAULTS_TABLE has of earlier runs are added.
func faults(ctx context.Context, b *bench) {
	file := cmp.Or(os.Getenv("PARSIMON_FAULTS_TABLE"), filepath.Join(b.tmp, "faults.tsv"))
	env := []string{"PARSIMON_FAULTS_TABLE=" + file}
	if !b.short {
		env = append(env, "PARSIMON_LONG=1")
	}
	limit := cmp.Or(os.Getenv("PARSIMON_FAULTS_TIME"), "3h")
	b.execute(ctx, env, "go", "test", "-count", "1", "-timeout", limit, "./pipeline/faults")
	text, err := os.ReadFile(file)
	b.fail(err)
	type row struct {
		tried, failed float64
		seeds         []string
	}
	var kinds []string
	of := map[string]*row{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) != 4 {
			continue
		}
		r := of[cells[0]]
		if r == nil {
			r = new(row)
			of[cells[0]] = r
			kinds = append(kinds, cells[0])
		}
		r.tried += b.parse(cells[1])
		r.failed += b.parse(cells[2])
		r.seeds = append(r.seeds, cells[3])
	}
	b.header("fault", "tried", "survived", "failed", "seeds")
	for _, kind := range kinds {
		r := of[kind]
		b.row(kind, int(r.tried), int(r.tried-r.failed), int(r.failed), strings.Join(r.seeds, ", "))
	}
}
