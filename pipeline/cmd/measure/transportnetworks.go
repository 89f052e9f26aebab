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
	b.header("scenario", "transport", "error", "worst bin", "warnings", "interval holds")
	var t honestyTally
	for _, name := range names {
		g := b.groundTruth(name)
		for _, transport := range []string{"timely", "dcqcn", "hpcc", "swift"} {
			lake, how := b.lake(), append([]string{"--transport", transport}, way...)
			e := b.run(ctx, lake, append([]string{"--topology", g.topology, "--flows", g.flows}, how...)...)
			v := b.validate(ctx, lake, e, way, "exact")
			kinds, held := b.warningKinds(ctx, lake, e), b.heldIntervals(ctx, lake, e)
			if b.err != nil {
				return
			}
			t.add(name+" "+transport, v, kinds, held)
			b.row(name, transport, v["all"].errors, percent(v.worstBin()), strings.Join(kinds, ", "),
				marks(held, func(h heldInterval) bool { return h.Both }))
		}
	}
	t.print(b)
}
