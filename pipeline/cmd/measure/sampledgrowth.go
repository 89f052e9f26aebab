package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const (
	growthFlowsPerSecond = 6_810_000 // of scenario large
	plannedFlows         = 1e9
)

// A sampledAnswer is what run --within reports.
type sampledAnswer struct {
	Flows       float64
	Windows     int
	Share       float64 `json:"sampled_share"`
	Stopped     string
	Seconds     float64
	Percentiles []struct {
		Bin string  `json:"size_bin"`
		P99 float64 `json:"p99"`
		Lo  float64 `json:"p99_lo"`
		Hi  float64 `json:"p99_hi"`
	}

	cost spent
}

// p99 is the percentile of all flows with its interval.
func (a sampledAnswer) p99() string {
	for _, p := range a.Percentiles {
		if p.Bin == "all" {
			return fmt.Sprintf("%.3f (%.3f to %.3f)", p.P99, p.Lo, p.Hi)
		}
	}
	return "–"
}

// within asks for p99 within 2%.
func (b *bench) within(ctx context.Context, lake string, args ...string) (a sampledAnswer) {
	ask := []string{"run", "--lake", lake, "--within", "2%", "--of", "p99", "--format", "json"}
	text, cost := b.measured(ctx, append(ask, args...)...)
	b.decode(text, &a)
	a.cost = cost
	return a
}

// sampledGrowth asks for p99 within 2% of workloads of scenario large with more and more flows, whose flows are in the
// lake before, and extends the costs of the two largest to a day of 10⁹ flows.
func sampledGrowth(ctx context.Context, b *bench) {
	b.header("flows", "generate: time, s", "processor, s", "ask: time, s", "processor, s", "memory, GB", "windows",
		"share of flows", "p99", "stopped")
	var flows, generate, ask []float64
	for _, name := range b.names([]string{"3e6"}, []string{"1e7", "3.405e7", "1e8"}) {
		lake := b.lake()
		duration := strconv.FormatFloat(b.parse(name)/growthFlowsPerSecond*1e3, 'f', 0, 64) + "ms"
		_, made := b.measured(ctx, "stage", "generate", "large", "--duration", duration, "--lake", lake)
		a := b.within(ctx, lake, "large", "--duration", duration)
		b.row(si(a.Flows), decimal(made.seconds), decimal(made.processor), decimal(a.cost.seconds), decimal(a.cost.processor),
			fmt.Sprintf("%.2f", max(made.peak, a.cost.peak)/1e9), a.Windows, fmt.Sprintf("%.3g%%", 100*a.Share), a.p99(), a.Stopped)
		flows, generate, ask = append(flows, a.Flows), append(generate, made.processor), append(ask, a.cost.processor)
	}
	if n := len(flows); n > 1 && b.err == nil {
		planned := func(of []float64) float64 {
			return of[n-1] + (of[n-1]-of[n-2])/(flows[n-1]-flows[n-2])*(plannedFlows-flows[n-1])
		}
		b.printf("\nThe last two rows continued to %s flows: %.0f processor seconds to generate, %.0f to ask.", si(plannedFlows),
			planned(generate), planned(ask))
	}
}

// spent is what a process took.
type spent struct{ seconds, processor, peak float64 }

// measured runs a command of the program and returns what it took.
func (b *bench) measured(ctx context.Context, args ...string) (string, spent) {
	began := time.Now()
	text, processor := b.parsimon(ctx, args...)
	return text, spent{time.Since(began).Seconds(), processor, b.peak}
}
