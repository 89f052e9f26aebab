package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// durability compares the program with one that neither makes files durable nor computes nor verifies digests (tag
// careless of package pipeline/lake/disk), alternating. Both write manifests. The argument is the simulated time of the
// estimate whose slowdowns are queried.
func durability(ctx context.Context, b *bench) {
	careless := filepath.Join(b.tmp, "careless")
	b.execute(ctx, nil, "go", "build", "-buildvcs=false", "-tags", "careless", "-o", careless, "./pipeline/cmd/parsimon")
	programs := []string{b.program, careless}
	b.header("what", "processor time", "without", "difference", "elapsed", "without", "difference")
	b.alternate("`parsimon run small`", programs, func(program string, _ int) (float64, float64) {
		lake := b.lake()
		return b.timed(ctx, program, "run", "small", "--lake", lake, "--quiet")
	})
	for _, duration := range b.names([]string{"50ms"}, []string{"4s"}) {
		made := filepath.Join(b.tmp, "large")
		b.parsimon(ctx, "run", "small", "--duration", duration, "--passes", "1", "--lake", made)
		rows := queryRow[struct{ N float64 }](ctx, b, made, "SELECT count(*) AS n FROM slowdowns").N
		ask := func(program, lake string) (float64, float64) {
			return b.timed(ctx, program, "query", "--lake", lake, "--sql", "SELECT quantile_cont(slowdown, 0.99) FROM slowdowns")
		}
		what := fmt.Sprintf("a query over %.1f million rows", rows/1e6)
		b.alternate(what, programs, func(program string, _ int) (float64, float64) { return ask(program, made) })
		b.alternate(what+" of a copied lake", programs, func(program string, i int) (float64, float64) {
			lake := filepath.Join(b.tmp, fmt.Sprint("copy", i)) // whose files were never verified
			b.fail(os.RemoveAll(lake))
			b.fail(os.CopyFS(lake, os.DirFS(made)))
			return ask(program, lake)
		})
	}
}

// alternate prints a row of pairs of runs of two programs: medians, and those of the differences of pairs with their
// range.
func (b *bench) alternate(what string, programs []string, run func(program string, i int) (cpu, elapsed float64)) {
	var with, without, more [2]tally // of processor and elapsed time
	for pair := range b.count(5) {
		var took [2][2]float64
		for i := range programs {
			i = (i + pair) % 2 // neither is always the first
			took[i][0], took[i][1] = run(programs[i], i)
		}
		for k := range 2 {
			with[k].add("", took[0][k])
			without[k].add("", took[1][k])
			more[k].add("", took[0][k]-took[1][k])
		}
	}
	cells := []any{what}
	for k := range 2 {
		a, _, _ := with[k].spread()
		c, _, _ := without[k].spread()
		d, least, greatest := more[k].spread()
		cells = append(cells, fmt.Sprintf("%.2f s", a), fmt.Sprintf("%.2f s", c),
			fmt.Sprintf("**%+.2f s, %+.1f%%** (%+.2f to %+.2f s)", d, 100*d/c, least, greatest))
	}
	b.row(cells...)
}

// timed runs a program and returns the processor time and the time that it took, in seconds.
func (b *bench) timed(ctx context.Context, program string, args ...string) (processor, elapsed float64) {
	began := time.Now()
	_, processor = b.execute(ctx, nil, program, args...)
	return processor, time.Since(began).Seconds()
}
