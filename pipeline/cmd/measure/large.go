package main

import (
	"context"
	"fmt"
	"strings"
)

// large estimates the paper's headline scenario, 6,144 hosts: time, memory and disk.
func large(ctx context.Context, b *bench) {
	b.header(costs("arrivals", "how")...)
	var stages [][]any
	for _, duration := range b.names([]string{"0.02s"}, []string{"1s", "5s"}) {
		for _, way := range b.ways("independent", "flow --passes 1", "flow") {
			lake := b.lake()
			e := b.run(ctx, lake, append([]string{"large", "--duration", duration}, estimator(way)...)...)
			b.row(b.cost(ctx, lake, e, duration, "`"+way+"`")...)
			for _, s := range e.Stages {
				stages = append(stages, []any{duration, "`" + way + "`", s.Stage,
					decimal(s.Seconds), decimal(s.CPU), decimal(s.Critical)})
			}
		}
	}
	b.table("By stage.", []string{"arrivals", "how", "stage", "time, s", "processor, s", "critical path, s"}, stages)
}

// costs are the head of a table of cost.
func costs(first ...string) []string {
	return append(first, "flows", "packet-hops", "time, s", "processor, s", "processor ns a packet-hop",
		"critical path, s", "memory, GB", "bytes a flow: tables + cache")
}

// cost is the row of an estimate that has its lake for itself.
func (b *bench) cost(ctx context.Context, lake string, e estimate, first ...any) []any {
	var disk struct {
		Bytes float64
		Cache float64 `json:"cache_bytes"`
	}
	text, _ := b.parsimon(ctx, "du", "--lake", lake, "--format", "json")
	b.decode(text, &disk)
	var critical, peak float64
	for _, s := range e.Stages {
		critical, peak = critical+s.Critical, max(peak, s.Peak)
	}
	return append(first, si(e.Flows), si(e.Cases.PacketHops), decimal(e.Seconds), decimal(e.processor),
		decimal(1e9*e.processor/e.Cases.PacketHops), decimal(critical), fmt.Sprintf("%.2f", peak/1e9),
		fmt.Sprintf("%.0f + %.0f", disk.Bytes/e.Flows, disk.Cache/e.Flows))
}

// largeExact compares the estimate of a stretch of it with the simulation of the whole network.
func largeExact(ctx context.Context, b *bench) {
	duration := "0.2s"
	if b.short {
		duration = "0.002s"
	}
	lake := b.lake()
	b.header("how", "flows", "p50 / p90 / p99 / p99.9", "p99 by size: "+strings.Join(sizeBins, " / "))
	for _, way := range b.ways("flow") {
		e := b.run(ctx, lake, append([]string{"large", "--duration", duration}, estimator(way)...)...)
		v := b.validate(ctx, lake, e, estimator(way), "exact")
		b.row(way, si(e.Flows), v["all"].errors, v.bins())
	}
}

func decimal(x float64) string { return fmt.Sprintf("%.1f", x) }

// si prints a number with three digits and a prefix.
func si(x float64) string {
	prefixes := []string{"", " k", " M", " G", " T"}
	i := 0
	for ; x >= 1000 && i < len(prefixes)-1; i++ {
		x /= 1000
	}
	return fmt.Sprintf("%.3g%s", x, prefixes[i])
}
