package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// exactNS3 compares the simulation of the whole network with the paper's ns-3 on networks of several kinds, once for
// each of some seeds of ECMP: ns-3 hashes flows to paths in its own way, so its answer is one draw.
func exactNS3(ctx context.Context, b *bench) {
	seeds := b.count(5)
	b.printf("Errors of p50 / p90 / p99 / p99.9 of slowdown, and of p99 of the worst flow size over 1,000 flows: the mean over %d "+
		"ECMP seeds, the least and the greatest of p99, and the median of the worst flow sizes.", seeds)
	b.header("scenario", "transport", "mean error", "p99, least to greatest", "worst bin")
	for _, name := range b.names([]string{"mini-mix"},
		[]string{"mini-star", "mini-mix", "mini-slow-40-2", "a2a-64k-4x", "fasthosts-60", "incast-64k-30"}) {
		dir := b.sharedPath("reference", "hard", name)
		for _, transport := range []string{"dctcp", "dcqcn", "timely"} {
			truth := filepath.Join(dir, "ns3.parquet")
			if transport != "dctcp" {
				truth = filepath.Join(dir, "ns3_"+transport+".parquet")
			}
			if _, err := os.Stat(truth); err == nil { // not all transports were run everywhere
				b.row(append([]any{name, transport}, b.overSeeds(ctx, dir, transport, truth, seeds)...)...)
			}
		}
	}
}

// overSeeds returns the cells of errors of whole-network simulations of a scenario of the shared folder.
func (b *bench) overSeeds(ctx context.Context, dir, transport, truth string, seeds int) []any {
	var mean percentiles
	var p99, worst tally
	for seed := range seeds {
		lake, whole := b.lake(), estimator("exact")
		e := b.run(ctx, lake, append([]string{"--topology", filepath.Join(dir, "topology.json"),
			"--flows", filepath.Join(dir, "flows.parquet"), "--transport", transport, "--seed", strconv.Itoa(seed + 1)}, whole...)...)
		v := b.validate(ctx, lake, e, whole, truth)
		if b.err != nil {
			return nil
		}
		for i, x := range v["all"].errors {
			mean[i] += x / float64(seeds)
		}
		p99.add("", v["all"].errors.p99())
		worst.add("", v.worstBin())
	}
	_, least, greatest := p99.spread()
	bins, _, _ := worst.spread()
	return []any{mean, fmt.Sprintf("%s to %s", percent(least), percent(greatest)), percent(bins)}
}
