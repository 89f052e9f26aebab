package main

import (
	"context"
	"strings"
)

// transportNetworks compares the estimates of transports other than DCTCP with the simulation of the whole network, on
// networks and workloads of several kinds. Some links of some of them are offered more than they can send.
func transportNetworks(ctx context.Context, b *bench) {
	names := b.names([]string{"mini-slow-40-2"},
		[]string{"mini-mix", "mini-slow-40-2", "fasthosts-60", "chain-60", "a2a-64k-4x", "slowplane-60", "incast-64k-30"})
	way := estimator(b.ways("flow")[0])
	b.printf("Errors of p50 / p90 / p99 / p99.9, and of p99 of the worst flow size.")
	b.header("scenario", "transport", "flow: error", "worst bin", "warnings", "interval holds", "default", "error",
		"worst bin", "warnings")
	var t, byDefault honestyTally
	for _, name := range names {
		g := b.groundTruth(name)
		for _, transport := range []string{"timely", "dcqcn", "hpcc", "swift"} {
			lake, source := b.lake(), []string{"--topology", g.topology, "--flows", g.flows, "--transport", transport}
			j := b.judge(ctx, lake, source, way, "exact")
			d := b.judge(ctx, lake, source, estimator("auto"), "exact")
			if b.err != nil {
				return
			}
			t.add(name+" "+transport, j)
			byDefault.add(name+" "+transport, d)
			b.row(name, transport, j.errors["all"].errors, percent(j.errors.worstBin()), strings.Join(j.warnings, ", "),
				marks(j.held, func(h heldInterval) bool { return h.Both }),
				d.Variant, d.errors["all"].errors, percent(d.errors.worstBin()), strings.Join(d.warnings, ", "))
		}
	}
	t.print(b, "flow")
	byDefault.print(b, "default")
}
