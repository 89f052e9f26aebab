package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A source is a scenario with its truth.
type source struct {
	name      string
	flags     []string     // of parsimon run
	truth     string       // exact, or a Parquet file
	published *percentiles // errors that the paper's authors published; nil: none
}

// source finds a scenario: numbers are those of the paper's evaluation, names those of the shared folder hard, both
// with FCTs of the paper's ns-3 or of a simulation of the whole network; FOLDER/NAME ships, and is simulated whole.
func (b *bench) source(name string) source {
	if strings.Contains(name, "/") {
		return source{name: name, flags: []string{name}, truth: "exact"}
	}
	files := func(dir, topology, truth string) source { // these truths have the paper's window
		return source{name: name, truth: filepath.Join(dir, truth),
			flags: []string{"--topology", topology, "--flows", filepath.Join(dir, "flows.parquet"), "--window", "18KB"}}
	}
	if _, err := strconv.Atoi(name); err != nil {
		dir, truth := b.sharedPath("reference", "hard", name), "exact.parquet"
		if _, err := os.Stat(filepath.Join(dir, truth)); err != nil {
			truth = "ns3.parquet"
		}
		return files(dir, filepath.Join(dir, "topology.json"), truth)
	}
	dir := b.sharedPath("reference", "scenarios", name)
	var about struct{ Topology string }
	text, err := os.ReadFile(filepath.Join(dir, "scenario.json"))
	b.fail(err)
	b.decode(string(text), &about)
	s := files(dir, b.sharedPath("reference", "topologies", about.Topology+".json"), "ns3.parquet")
	s.published = &percentiles{}
	baseline, err := os.ReadFile(b.sharedPath("reference", "scenarios", "baseline.csv"))
	b.fail(err)
	for i, x := range b.match(string(baseline), "^"+name+`,as published`+strings.Repeat(`,([^,\n]+)`, len(s.published))) {
		s.published[i] = b.parse(x)
	}
	return s
}

// groundTruths lists the scenarios of the paper's evaluation, by number.
func (b *bench) groundTruths() (names []string) {
	entries, err := os.ReadDir(b.sharedPath("reference", "scenarios"))
	b.fail(err)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return names
}

// shipped returns the names of the shipped scenarios in some folders.
func (b *bench) shipped(folders ...string) (names []string) {
	for _, folder := range folders {
		files, err := filepath.Glob("datasets/scenarios/" + folder + "/*.yaml")
		b.fail(err)
		for _, f := range files {
			names = append(names, folder+"/"+strings.TrimSuffix(filepath.Base(f), ".yaml"))
		}
	}
	return names
}

// accuracy compares estimators with the paper's ns-3.
func accuracy(ctx context.Context, b *bench) {
	b.compare(ctx, b.names([]string{"95"}, b.groundTruths()), "independent", "flow", "auto")
}

// ownAccuracy compares estimators with the simulation of the whole network on the shipped scenarios made for it
// (accuracy/*, all flows) and on the paper's microbenchmarks (parking-lot/*, their service main).
func ownAccuracy(ctx context.Context, b *bench) {
	names := b.names([]string{"parking-lot/short-correlated"}, b.shipped("accuracy", "parking-lot"))
	b.compare(ctx, names, "independent", "flow", "auto")
}

// constantsAccuracy does the same on the shipped scenarios with transport constants far from the default ones.
func constantsAccuracy(ctx context.Context, b *bench) {
	b.compare(ctx, b.names([]string{"constants/jumbo-9000"}, b.shipped("constants")), "flow", "auto")
}

// compare prints the errors of estimates of scenarios, each in several ways: of the slowdown percentiles of all flows,
// and of p99 by flow size.
func (b *bench) compare(ctx context.Context, names []string, ways ...string) {
	ways = b.ways(ways...)
	b.printf("Errors of p50 / p90 / p99 / p99.9 of slowdown, and of p99 by flow size, %s; – for 1,000 flows or fewer.",
		strings.Join(sizeBins, " / "))
	head := []string{"scenario", "busiest link", "mean of the top 10%", "published"}
	for _, way := range ways {
		head = append(head, way, "by size")
	}
	b.header(head...)
	var published tally
	tallies := make([]tally, len(ways))
	for _, name := range names {
		s, lake := b.source(name), b.lake()
		cells := []any{name, "", "", "–"}
		if s.published != nil {
			cells[3] = *s.published
			published.add(name, s.published.p99())
		}
		for i, way := range ways {
			e := b.run(ctx, lake, append(slices.Clone(s.flags), estimator(way)...)...)
			v, of := b.validate(ctx, lake, e, estimator(way), s.truth), b.loads(ctx, lake, e)
			shown := v["all"].errors
			for _, s := range question[serviceErrors](ctx, b, lake, "error_by_service", e) {
				if s.Service == "main" && s.Truth == "exact" {
					shown = percentiles{s.P50, s.P90, s.P99, s.P999}
				}
			}
			cells[1], cells[2] = share(of.Largest), share(of.Top10)
			cells = append(cells, shown, v.bins())
			tallies[i].add(name, shown.p99())
		}
		b.row(cells...)
	}
	b.printf("")
	b.verdict("published", published)
	for i, way := range ways {
		b.verdict(way, tallies[i])
	}
}

// verdict prints the mean and the largest error of p99.
func (b *bench) verdict(of string, p99 tally) {
	if mean, worst, name := p99.magnitudes(); name != "" {
		b.printf("- %s: mean |p99 error| %.1f%%, largest %.1f%% (%s)", of, 100*mean, 100*worst, name)
	}
}

// loads are the mean load of the 10% most loaded links of an estimate, and the largest load.
type loads struct {
	Top10   float64 `json:"top10_mean_load"`
	Largest float64 `json:"max_load"`
}

func (b *bench) loads(ctx context.Context, lake string, e estimate) loads {
	for _, l := range question[loads](ctx, b, lake, "load_top10", e) {
		return l
	}
	return loads{}
}

// serviceErrors are the errors of a service against a truth.
type serviceErrors struct {
	Service, Truth string
	P50            float64 `json:"p50_error"`
	P90            float64 `json:"p90_error"`
	P99            float64 `json:"p99_error"`
	P999           float64 `json:"p999_error"`
}

// largeExact compares the estimate of a stretch of 6,144 hosts with the simulation of the whole network.
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
	tenth := b.loads(ctx, lake, b.run(ctx, lake, scenario, "--max-load", "10%", "--estimator", "independent")).Largest
	b.header("transport", "busiest link", "mean of the top 10%", "p99 error, <10 KB / 10 KB-1 MB / >1 MB", "the paper's")
	for _, load := range targets {
		for _, transport := range b.names([]string{"dctcp"}, []string{"dctcp", "timely", "dcqcn", "hpcc", "swift"}) {
			e := b.run(ctx, lake, append([]string{scenario, "--transport", transport, "--cache", "off",
				"--max-load", fmt.Sprintf("%.3f%%", 10*float64(load)/(100*tenth))}, how...)...)
			b.validate(ctx, lake, e, how, "exact")
			var errors []string
			for _, r := range query[struct{ Error float64 }](ctx, b, lake, `
				SELECT (e.size_bytes >= 10000)::INT + (e.size_bytes > 1000000)::INT AS bin,
					quantile_cont(e.slowdown, 0.99) / quantile_cont(x.slowdown, 0.99) - 1 AS error
				FROM (FROM slowdowns_all WHERE `+e.where()+`) e
				JOIN (FROM exact_fcts WHERE variant = 'exact') x USING (scenario, flow_id)
				GROUP BY bin ORDER BY bin`) {
				errors = append(errors, fmt.Sprintf("%+.1f", 100*r.Error))
			}
			of := b.loads(ctx, lake, e)
			b.row(transport, share(of.Largest), share(of.Top10), strings.Join(errors, " / ")+"%",
				cmp.Or(paperTransportErrors[transport][load], "–"))
		}
	}
}

// ecmpTiers are the tiers whose cables have alternatives.
const ecmpTiers = "tor-fabric,fabric-spine"

// failures repeats the paper's failure experiment (appendix "Link failures"): errors of the estimate with one random
// ECMP cable down, against the simulation of the whole network.
func failures(ctx context.Context, b *bench) {
	lake, how := b.lake(), estimator(b.ways("flow")[0])
	b.header("draw", "cable down", "p50 / p90 / p99 / p99.9")
	base := b.run(ctx, lake, append(append([]string{"failures"}, how...), b.shortened()...)...)
	b.row("", "none", b.validate(ctx, lake, base, how, "exact")["all"].errors)
	var errors tally
	for draw := 1; draw <= b.count(10); draw++ {
		w, _ := b.whatIf(ctx, append([]string{base.Scenario, "--lake", lake, "--fail", "random:1",
			"--tier", ecmpTiers, "--draw", strconv.Itoa(draw)}, how...)...)
		p := b.validate(ctx, lake, w.Other, how, "exact")["all"].errors
		cable := strings.TrimSuffix(w.Name[strings.LastIndex(w.Name, ", ")+1:], " down")
		b.row(draw, strings.TrimSpace(cable), p)
		errors.add("", abs(p.p99()))
	}
	median, least, greatest := errors.spread()
	b.printf("\n|p99 error| with a cable down: %.1f%% to %.1f%%, median %.1f%% (the paper: 11%% to 14%%, median 12%%).",
		100*least, 100*greatest, 100*median)
}
