package main

import (
	"context"
	"fmt"
	"strings"
)

// large estimates the paper's headline scenario, 6,144 hosts: time, memory and disk.
func large(ctx context.Context, b *bench) {
	b.header("arrivals", "how", "flows", "packet-hops", "time, s", "processor, s", "packet-hops a second and core",
		"critical path, s", "memory, GB", "bytes a flow: tables + cache")
	var stages string
	for _, duration := range b.names([]string{"0.02s"}, []string{"1s", "5s"}) {
		for _, way := range b.ways("independent", "flow --passes 1", "flow") {
			e := b.run(ctx, b.lake(), append([]string{"large", "--duration", duration}, estimator(way)...)...)
			b.row(duration, "`"+way+"`", si(e.flows), si(e.packetHops), decimal(e.seconds), decimal(e.cpu), si(e.packetHops/e.cpu),
				decimal(e.critical), decimal(e.peakMB/1000), disk(e))
			stages += fmt.Sprintf("\n%s, %s:\n\n```\n%s\n```\n", duration, way, e.stages)
		}
	}
	b.printf("%s", stages)
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
		b.row(way, si(e.flows), v["all"].errors, v.bins())
	}
}

func decimal(x float64) string { return fmt.Sprintf("%.1f", x) }

func disk(e estimate) string { return fmt.Sprintf("%.0f + %.0f", e.tables, e.cache) }

// si prints a number with three digits and a prefix.
func si(x float64) string {
	prefixes := []string{"", " k", " M", " G", " T"}
	i := 0
	for ; x >= 1000 && i < len(prefixes)-1; i++ {
		x /= 1000
	}
	return fmt.Sprintf("%.3g%s", x, prefixes[i])
}
