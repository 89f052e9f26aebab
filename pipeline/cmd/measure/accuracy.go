package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A groundTruth is a scenario of the shared folder: flows with their FCTs in the paper's ns-3, or in the simulation of
// the whole network.
type groundTruth struct {
	topology, flows, fcts string
	published             *percentiles // nil: none
}

// groundTruth finds a scenario: numbers are those of the paper's evaluation, names those of the folder hard.
func (b *bench) groundTruth(name string) groundTruth {
	if _, err := strconv.Atoi(name); err != nil {
		dir := b.sharedPath("reference", "hard", name)
		fcts := filepath.Join(dir, "exact.parquet")
		if _, err := os.Stat(fcts); err != nil {
			fcts = filepath.Join(dir, "ns3.parquet")
		}
		return groundTruth{topology: filepath.Join(dir, "topology.json"), flows: filepath.Join(dir, "flows.parquet"), fcts: fcts}
	}
	dir := b.sharedPath("reference", "scenarios", name)
	var about struct{ Topology string }
	text, err := os.ReadFile(filepath.Join(dir, "scenario.json"))
	b.fail(err)
	b.decode(string(text), &about)
	g := groundTruth{
		topology: b.sharedPath("reference", "topologies", about.Topology+".json"),
		flows:    filepath.Join(dir, "flows.parquet"), fcts: filepath.Join(dir, "ns3.parquet"),
		published: &percentiles{},
	}
	baseline, err := os.ReadFile(b.sharedPath("reference", "scenarios", "baseline.csv"))
	b.fail(err)
	for i, x := range b.match(string(baseline), "^"+name+`,as published`+strings.Repeat(`,([^,\n]+)`, len(g.published))) {
		g.published[i] = b.parse(x)
	}
	return g
}

// groundTruths lists the scenarios of the shared folder, by number.
func (b *bench) groundTruths() (names []string) {
	entries, err := os.ReadDir(b.sharedPath("reference", "scenarios"))
	b.fail(err)
	var numbers []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		names = append(names, strconv.Itoa(n))
	}
	return names
}

// accuracy compares estimators with the paper's ns-3: errors of the slowdown percentiles of all flows, and of p99 of
// the flow size where it is worst.
func accuracy(ctx context.Context, b *bench) {
	againstNS3(ctx, b, b.names([]string{"95"}, b.groundTruths()), b.ways("independent", "flow", "auto"))
}

func againstNS3(ctx context.Context, b *bench, names, ways []string) {
	head := []string{"scenario", "load of top 10%", "published: p50 / p90 / p99 / p99.9"}
	for _, way := range ways {
		head = append(head, way, "worst bin")
	}
	b.header(head...)
	var published tally
	tallies := make([]tally, len(ways))
	for _, name := range names {
		g, lake := b.groundTruth(name), b.lake()
		cells := []any{name, "", "–"}
		if g.published != nil {
			cells[2] = *g.published
			published.add(name, g.published.p99())
		}
		for i, way := range ways {
			e := b.run(ctx, lake, append([]string{"--topology", g.topology, "--flows", g.flows}, estimator(way)...)...)
			v := b.validate(ctx, lake, e, estimator(way), g.fcts)
			cells[1] = share(b.loads(ctx, lake, e).top10)
			cells = append(cells, v["all"].errors, percent(v.worstBin()))
			tallies[i].add(name, v["all"].errors.p99())
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
	top10, largest float64
}

func (b *bench) loads(ctx context.Context, lake string, e estimate) loads {
	r := queryRow[struct {
		Top10 float64 `json:"top10_mean_load"`
		Max   float64 `json:"max_load"`
	}](ctx, b, lake, fmt.Sprintf("SELECT * FROM load_top10 WHERE scenario = '%s' AND variant = '%s'",
		e.Scenario, e.Variant))
	return loads{r.Top10, r.Max}
}
