package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

const (
	coverageHours   = 24
	coverageHourMS  = 50
	coverageBurst   = 15                   // the hour with the greatest load
	coverageFailure = "280:291"            // a cable of the busiest rack, down from 40% to 60% of the day
	coverageLoad    = "24ms"               // see loadWarmups of pipeline/sampled
	coverageWarm    = "2ms"                // what runs of small choose
	coverageGo      = "./pipeline/sampled" // with the tests that repeat the drawing
)

// coverage measures how often intervals of estimates from windows hold the value of the whole: windows are drawn from
// estimates of the whole of a small day, with a daily rhythm, a burst hour and a failure in the middle, and from the
// synthetic workloads of the tests of pipeline/sampling.
func coverage(ctx context.Context, b *bench) {
	lake := b.lake()
	day := b.coverageDay(ctx)
	args := []string{"--topology", "small-2to1", "--flows", day}
	whole := b.run(ctx, lake, args...)
	failed := b.run(ctx, lake, append(args, "--fail", coverageFailure)...)
	repetitions := b.names([]string{"20"}, []string{"200"})[0]
	b.printf("A day of %d hours of %d ms on topology small-2to1: %.0f flows of three services, cable %s down from 40%% to 60%% of it; "+
		"400 slots, %s repetitions. \"stops at\": rounds are drawn until the half width is at most that of the third round, five at "+
		"most.", coverageHours, coverageHourMS, whole.Flows, coverageFailure, repetitions)
	b.coverageOfLake(ctx, lake, whole.Scenario+"+"+failed.Scenario, repetitions, 400)
	b.coverageOfWindows(ctx, repetitions)
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

// coverageOfWindows measures the whole way: every slot of scenario small is estimated as a window, with what is carried
// into it and what is cut off, and the intervals are held against the estimate of the whole.
func (b *bench) coverageOfWindows(ctx context.Context, repetitions string) {
	duration, slots := "2s", 1000
	if b.short {
		duration, slots = "500ms", 250
	}
	lake := b.lake()
	whole := b.run(ctx, lake, "small", "--duration", duration)
	b.printf("\nScenario small for %s, %.0f flows: all %d slots are estimated as windows with a warm-up of %s, so that their own "+
		"errors count; intervals include what flows that outlast their window add.", duration, whole.Flows, slots, coverageWarm)
	b.coverageOfLake(ctx, lake, whole.Scenario, repetitions, slots, "-coverage-warmup", coverageWarm)
}

// lines prints the lines of a text that begin with a prefix.
func (b *bench) lines(text, prefix string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			b.printf("%s", strings.TrimSuffix(line, "\n"))
		}
	}
}

// coverageColumns is the head of the flow files of a coverageDay.
const coverageColumns = "src,dst,size_bytes,start_ns,service,vnet\n"

// coverageDay writes the flows of a day.
func (b *bench) coverageDay(ctx context.Context) string {
	var all strings.Builder
	all.WriteString(coverageColumns)
	for hour := range coverageHours {
		all.WriteString(b.coverageHour(ctx, hour, coverageHourMS))
	}
	return b.file("day.csv", all.String())
}

// coverageHour generates an hour of a day with loads of a sine from 25% to 65% and a burst hour of 80%, as CSV without
// a head.
func (b *bench) coverageHour(ctx context.Context, hour, hourMS int) string {
	load := 45 - 20*math.Cos(2*math.Pi*float64(hour)/coverageHours)
	if hour == coverageBurst {
		load = 80
	}
	scenario := fmt.Sprintf("name: hour%d\nseed: %d\ntopology: {name: small-2to1}\nworkload:\n  max_load: %.0f%%\n  duration: %dms\n  services:\n",
		hour, hour+1, load, hourMS)
	for _, s := range [][4]string{
		{"w0", "storage", "database", "cachefollower"}, {"w1", "frontend", "webserver", "webserver"},
		{"w2", "analytics", "hadoop", "hadoop"},
	} {
		scenario += fmt.Sprintf("    - {name: %s, vnet: %s, matrix: %s, sizes: %s, sigma: 2, share: 1}\n", s[0], s[1], s[2], s[3])
	}
	lake := b.tmp + "/hour"
	b.fail(os.RemoveAll(lake))
	id, _ := b.parsimon(ctx, "stage", "generate", b.file("hour.yaml", scenario), "--lake", lake)
	b.parsimon(ctx, "stage", "route", "--lake", lake, "--scenario", strings.TrimSpace(id)) // queries see the flows after it
	text, _ := b.parsimon(ctx, "query", "--lake", lake, "--format", "csv", "--sql", "SELECT src, dst, size_bytes, start_ns + "+
		strconv.Itoa(hour*hourMS*1e6)+" AS start_ns, service, vnet FROM flows ORDER BY start_ns, flow_id")
	_, rows, _ := strings.Cut(text, "\n")
	return rows
}
