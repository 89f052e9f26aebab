package main

import (
	"context"
	"strconv"
	"strings"
)

const (
	coverageLoad = "24ms"               // see loadWarmups of pipeline/sampled
	coverageWarm = "2ms"                // what runs of small choose
	coverageGo   = "./pipeline/sampled" // with the tests that repeat the drawing
)

// coverage measures how often intervals of estimates from windows hold the value of the whole: every slot of scenario
// small is estimated as a window, with what is carried into it and what is cut off, and the intervals are held against
// the estimate of the whole. The same of the synthetic workloads of the tests of pipeline/sampling follows.
func coverage(ctx context.Context, b *bench) {
	repetitions := b.names([]string{"20"}, []string{"200"})[0]
	duration, slots := "2s", 1000
	if b.short {
		duration, slots = "500ms", 250
	}
	lake := b.lake()
	whole := b.run(ctx, lake, "small", "--duration", duration)
	b.printf("Scenario small for %s, %.0f flows: all %d slots are estimated as windows with a warm-up of %s, so that their own "+
		"errors count; intervals include what flows that outlast their window add. %s repetitions. \"stops at\": rounds are drawn "+
		"until the half width is at most that of the third round, five at most.", duration, whole.Flows, slots, coverageWarm,
		repetitions)
	b.coverageOfLake(ctx, lake, whole.Scenario, repetitions, slots, "-coverage-warmup", coverageWarm)
	b.printf("\nThe statistics on synthetic workloads (200 repetitions), and changes from common windows:\n\n```")
	text, _ := b.execute(ctx, []string{"PARSIMON_LONG=1"}, "go", "test", "-count", "1",
		"-v", "-run", "TestCoverage|TestCompareCoverage", "./pipeline/sampling")
	for line := range strings.Lines(text) {
		if _, found, ok := strings.Cut(strings.TrimSpace(line), "_test.go:"); ok {
			_, figures, _ := strings.Cut(found, ": ")
			b.printf("%s", figures)
		}
	}
	b.printf("```")
}

// coverageOfLake prints the table of a lake.
func (b *bench) coverageOfLake(ctx context.Context, lake, scenario, repetitions string, slots int, flags ...string) {
	args := append([]string{"test", "-count", "1", "-timeout", "120m", "-v", "-run", "CoverageOfLake", coverageGo,
		"-coverage-lake", lake, "-coverage-scenario", scenario, "-coverage-seeds", repetitions,
		"-coverage-load", coverageLoad, "-coverage-slots", strconv.Itoa(slots)}, flags...)
	text, _ := b.execute(ctx, []string{"PARSIMON_LONG=1"}, "go", args...)
	b.lines(text, "All windows")
	b.printf("")
	b.lines(text, "|")
}

// lines prints the lines of a text that begin with a prefix.
func (b *bench) lines(text, prefix string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			b.printf("%s", strings.TrimSuffix(line, "\n"))
		}
	}
}
