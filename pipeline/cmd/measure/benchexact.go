package main

import (
	"context"
	"fmt"
)

// benchExact compares what estimates by link cases, in two passes, cost with the simulation of the whole network,
// alternating, and with what a run chooses by default.
func benchExact(ctx context.Context, b *bench) {
	b.printf("Medians of whole runs, cache off. Ratios are of the same round: median, least and greatest.")
	b.header("scenario", "packet-hops", "`flow`", "`exact`", "default", "`flow` / `exact`", "processor, `flow` / `exact`")
	ways := []string{"flow", "exact", "auto"}
	for _, name := range b.names([]string{"mini-mix"},
		[]string{"chain-60", "slowplane-60", "ft8-ws-60", "95", "47", "7", "1001", "incast-64k-30"}) {
		g := b.groundTruth(name)
		seconds, variants := make([]tally, len(ways)), make([]string, len(ways))
		var hops float64
		var ratio, processor tally
		for range b.count(3) {
			cpu := make([]float64, len(ways))
			for i, way := range ways {
				lake := b.lake()
				e := b.run(ctx, lake, append([]string{"--topology", g.topology, "--flows", g.flows, "--cache", "off"}, estimator(way)...)...)
				seconds[i].add("", e.Seconds)
				variants[i], cpu[i] = e.Variant, e.processor
				hops = b.packetHops(ctx, lake, e)
			}
			if b.err != nil {
				return
			}
			last := len(seconds[0].values) - 1
			ratio.add("", seconds[0].values[last]/seconds[1].values[last])
			processor.add("", cpu[0]/cpu[1])
		}
		cells := []any{name, si(hops)}
		for i := range ways {
			median, _, _ := seconds[i].spread()
			cell := decimal(median) + " s"
			if ways[i] == "auto" {
				cell += " (" + variants[i] + ")"
			}
			cells = append(cells, cell)
		}
		for _, t := range []*tally{&ratio, &processor} {
			median, least, greatest := t.spread()
			cells = append(cells, fmt.Sprintf("%.1f (%.1f to %.1f)", median, least, greatest))
		}
		b.row(cells...)
	}
}

// packetHops returns the packets that the links of an estimate carry, together.
func (b *bench) packetHops(ctx context.Context, lake string, e estimate) float64 {
	return queryRow[struct{ Packets float64 }](ctx, b, lake, fmt.Sprintf(
		"SELECT sum(packets)::DOUBLE AS packets FROM link_stats_all WHERE scenario = '%s' AND variant = '%s'", e.Scenario, e.Variant)).Packets
}
