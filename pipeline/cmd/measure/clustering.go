package main

import (
	"context"
	"fmt"
)

// clustering measures what --cluster saves and costs on the shared scenarios: the share of the link cases and of the
// packet-hops that is simulated, processor time, and errors against ns-3.
func clustering(ctx context.Context, b *bench) {
	ways := b.ways("independent", "independent --cluster=paper", "independent --cluster=10%")
	b.header("scenario", "how", "cases", "packet-hops", "processor, s", "p50 / p90 / p99 / p99.9")
	errors, cases := make([]tally, len(ways)), make([]tally, len(ways))
	for _, name := range b.names([]string{"95"}, b.groundTruths()) {
		g, lake := b.groundTruth(name), b.lake()
		source := []string{"--topology", g.topology, "--flows", g.flows}
		// Generated and routed before, so that times are of estimates.
		b.parsimon(ctx, append([]string{"stage", "generate", "--lake", lake}, source...)...)
		b.parsimon(ctx, "stage", "route", "--lake", lake)
		for i, way := range ways {
			e := b.run(ctx, lake, append(append(source, "--cache", "off"), estimator(way)...)...)
			p := b.validate(ctx, lake, e, estimator(way), g.fcts)["all"].errors
			simulated := queryRow[struct{ Cases, Packets float64 }](ctx, b, lake, fmt.Sprintf(`
				SELECT count(*) FILTER (packets_sent > 0) / count(*) AS cases,
					(sum(packets) FILTER (packets_sent > 0) / sum(packets))::DOUBLE AS packets
				FROM link_stats_all WHERE variant = '%s' AND flows > 0`, e.Variant))
			b.row(name, "`"+way+"`", share(simulated.Cases), share(simulated.Packets), decimal(e.processor), p)
			errors[i].add(name, p.p99())
			cases[i].add(name, simulated.Cases)
		}
	}
	b.printf("")
	for i, way := range ways {
		mean, _, _ := cases[i].magnitudes()
		b.verdict(fmt.Sprintf("`%s`, %s of the cases", way, share(mean)), errors[i])
	}
}
