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
	name   string
	flags  []string // of parsimon run
	truth  string   // exact, or a Parquet file
	beside string   // published errors
}

// sources finds scenarios: numbers are those of the paper's evaluation, names those of the shared folder hard, both
// with FCTs of the paper's ns-3 or of a simulation of the whole network; FOLDER/NAME ships, and is simulated whole.
func (b *bench) sources(names []string) (all []source) {
	for _, name := range names {
		if strings.Contains(name, "/") {
			all = append(all, source{name: name, flags: []string{name}, truth: "exact"})
			continue
		}
		var dir, topology, truth, beside string
		if _, err := strconv.Atoi(name); err != nil {
			dir, truth = b.sharedPath("reference", "hard", name), "exact.parquet"
			if _, err := os.Stat(filepath.Join(dir, truth)); err != nil {
				truth = "ns3.parquet"
			}
			topology = filepath.Join(dir, "topology.json")
		} else {
			dir, truth = b.sharedPath("reference", "scenarios", name), "ns3.parquet"
			var about struct{ Topology string }
			text, err := os.ReadFile(filepath.Join(dir, "scenario.json"))
			b.fail(err)
			b.decode(string(text), &about)
			topology = b.sharedPath("reference", "topologies", about.Topology+".json")
			baseline, err := os.ReadFile(b.sharedPath("reference", "scenarios", "baseline.csv"))
			b.fail(err)
			var published percentiles
			for i, x := range b.match(string(baseline), "^"+name+`,as published`+strings.Repeat(`,([^,\n]+)`, len(published))) {
				published[i] = b.parse(x)
			}
			beside = published.String()
		}
		all = append(all, source{name: name, truth: filepath.Join(dir, truth), beside: beside, // with the paper's window
			flags: []string{"--topology", topology, "--flows", filepath.Join(dir, "flows.parquet"), "--window", "18KB"}})
	}
	return all
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

// shipped lists the shipped scenarios in some folders.
func shipped(folders ...string) func(*bench) []string {
	return func(b *bench) (names []string) {
		for _, folder := range folders {
			files, err := filepath.Glob("datasets/scenarios/" + folder + "/*.yaml")
			b.fail(err)
			for _, f := range files {
				names = append(names, folder+"/"+strings.TrimSuffix(filepath.Base(f), ".yaml"))
			}
		}
		return names
	}
}

// compared is the measurement that compares estimates of scenarios with their truths; short names one of them.
func compared(short string, long func(*bench) []string, ways ...string) func(context.Context, *bench) {
	return func(ctx context.Context, b *bench) {
		b.compare(ctx, b.sources(b.names([]string{short}, long(b))), ways...)
	}
}

// otherKinds are networks and traffic of other kinds than the paper's, and some of the paper's scenarios.
func otherKinds(*bench) []string {
	return []string{"mini-star", "mini-mix", "mini-slow-40-2", "a2a-64k-4x", "chain-60", "fasthosts-60", "ft8-ws-60",
		"incast-64k-30", "onefast-60", "sigma3-60", "slowplane-60", "wan-100us",
		"7", "47", "65", "95", "121", "145", "1001", "1003"}
}

// transportAccuracy compares the estimate of each transport with the simulation of the whole network in the setting of
// the paper's table 4 (§5.3: matrix A, Hadoop sizes, σ = 1, 2:1).
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
	// A few large flows move the load of the busiest link far from what the matrix promises. The flows of other loads
	// differ in their start times only, so that it is in proportion.
	lake := b.lake()
	tenth := b.loads(ctx, lake, b.run(ctx, lake, scenario, "--max-load", "10%", "--estimator", "independent")).Largest
	var all []source
	for _, load := range targets {
		for _, transport := range b.names([]string{"dctcp"}, []string{"dctcp", "timely", "dcqcn", "hpcc", "swift"}) {
			all = append(all, source{name: transport, truth: "exact", flags: []string{scenario, "--transport", transport,
				"--cache", "off", "--max-load", fmt.Sprintf("%.3f%%", 10*float64(load)/(100*tenth))}})
		}
	}
	b.compare(ctx, all, "flow")
}

// compare prints the errors of estimates of scenarios, each in several ways: of the slowdown percentiles of all flows,
// and of p99 by flow size; and what each estimate says of itself.
func (b *bench) compare(ctx context.Context, from []source, ways ...string) {
	ways = b.ways(ways...)
	b.printf("Errors of p50 / p90 / p99 / p99.9 of slowdown, and of p99 by flow size, %s; – for 1,000 flows or fewer. "+
		"The intervals of these four percentiles of all flows hold the truth or do not.", strings.Join(sizeBins, " / "))
	head := []string{"scenario", "busiest link", "mean of the top 10%", "published"}
	for _, way := range ways {
		head = append(head, way, "by size", "warnings", "interval holds")
	}
	b.header(head...)
	tallies := make([]tally, len(ways))
	for _, s := range from {
		lake, cells := b.lake(), []any{s.name, "", "", cmp.Or(s.beside, "–")}
		for i, way := range ways {
			flags := estimator(way)
			e := b.run(ctx, lake, slices.Concat(s.flags, flags)...)
			j, of := b.judge(ctx, lake, e, flags, s.truth), b.loads(ctx, lake, e)
			cells[1], cells[2] = share(of.Largest), share(of.Top10)
			shown := j.errors.String()
			if way == "auto" {
				shown = e.Variant + ": " + shown
			}
			cells = append(cells, shown, j.bySize.bins(), strings.Join(j.warnings, ", "), j.marks())
			tallies[i].add(s.name, j)
		}
		b.row(cells...)
	}
	for i, way := range ways {
		tallies[i].print(b, way)
	}
}
