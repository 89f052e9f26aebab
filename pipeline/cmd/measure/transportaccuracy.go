package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// paperTransportErrors are the errors of Parsimon/ns-3 against ns-3 in the paper's table 4: p99 for <10 KB / 10 KB-1 MB
// / >1 MB, by load of the busiest link in percent.
var paperTransportErrors = map[string]map[int]string{
	"dctcp":  {45: "1.4 / 9.2 / 15.9%", 56: "2.8 / 9.2 / 14.6%", 67: "13.8 / 11.3 / 13.6%"},
	"timely": {45: "4.0 / 17.9 / 13.7%", 56: "8.1 / 20.0 / 11.3%", 67: "13.3 / 18.2 / 5.0%"},
	"dcqcn":  {45: "5.9 / 11.6 / 12.8%", 56: "7.6 / 14.6 / 12.2%", 67: "18.0 / 15.2 / 13.6%"},
}

// transportAccuracy compares the estimate of each transport with the simulation of the whole network in the paper's
// setting (§5.3: matrix A, Hadoop sizes, σ = 1, 2:1). The load is that of the link that turns out the most loaded:
// a few large flows move it far from what the matrix promises.
func transportAccuracy(ctx context.Context, b *bench) {
	targets, flows := []int{45, 56, 67}, 40000
	if b.short {
		targets, flows = targets[:1], 5000
	}
	scenario := b.file("transport-accuracy.yaml", fmt.Sprintf(`
topology: {name: small-2to1}
workload:
  max_load: 45%%
  flows_count: %d
  services:
    - {name: all, matrix: %q, sizes: %q, sigma: 1}
`, flows, b.sharedPath("reference", "matrices", "cluster_a_2_16.json"),
		b.sharedPath("reference", "sizes", "hadoop-all.txt")))
	lake, how := b.lake(), estimator(b.ways("flow")[0])
	// The flows of other loads differ in their start times only, so the load of the busiest link is in proportion.
	tenth := b.loads(ctx, lake, b.run(ctx, lake, scenario, "--max-load", "10%", "--estimator", "independent")).largest
	b.header("transport", "busiest link", "mean of the top 10%", "p99 error, <10 KB / 10 KB-1 MB / >1 MB", "the paper's")
	for _, load := range targets {
		for _, transport := range b.names([]string{"dctcp"}, []string{"dctcp", "timely", "dcqcn", "hpcc", "swift"}) {
			e := b.run(ctx, lake, append([]string{scenario, "--transport", transport, "--cache", "off",
				"--max-load", fmt.Sprintf("%.3f%%", 10*float64(load)/(100*tenth))}, how...)...)
			b.validate(ctx, lake, e, how, "exact")
			loads := b.loads(ctx, lake, e)
			paper := cmp.Or(paperTransportErrors[transport][load], "–")
			b.row(transport, share(loads.largest), share(loads.top10), b.threeBins(ctx, lake, e), paper)
		}
	}
}

// threeBins prints the p99 errors of the paper's three flow sizes.
func (b *bench) threeBins(ctx context.Context, lake string, e estimate) string {
	var text []string
	for _, r := range query[struct{ Error float64 }](ctx, b, lake, fmt.Sprintf(`
		SELECT (e.size_bytes >= 10000)::INT + (e.size_bytes > 1000000)::INT AS bin,
			quantile_cont(e.slowdown, 0.99) / quantile_cont(x.slowdown, 0.99) - 1 AS error
		FROM slowdowns_all e JOIN exact_fcts x USING (scenario, flow_id)
		WHERE e.Scenario = '%s' AND e.Variant = '%s' AND x.variant = 'exact'
		GROUP BY bin ORDER BY bin`, e.Scenario, e.Variant)) {
		text = append(text, fmt.Sprintf("%+.1f", 100*r.Error))
	}
	return strings.Join(text, " / ") + "%"
}
